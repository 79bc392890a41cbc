"""Trains a row of a leaderboard with another library, ``python -m headrace.train.leaderboard.peers``.

It reads one line of JSON from standard input, trains, and writes the fields ``step``, ``return`` and ``time`` of a
run's metrics into ``metrics.jsonl``. The output of the library goes to a log file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

Request = dict[str, Any]
LINES = 0.2  # seconds between two lines of metrics
SB3 = "stable-baselines3"


def is_installed(who: str) -> bool:
    """Returns whether a library is known and installed."""
    return who in PROGRAMS and importlib.util.find_spec(who.replace("-", "_")) is not None


def main() -> int:
    """Trains according to the request on standard input; returns the exit status."""
    request: Request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    PROGRAMS[request["who"]](request)
    return 0


def _end_with_input() -> None:
    """Ends this process when standard input ends, as the process that started it has ended."""
    while os.read(0, 1):  # reads the descriptor, as the interpreter's shutdown waits for the lock of sys.stdin
        pass
    os._exit(1)


def train_sb3(request: Request) -> None:
    """Trains with stable-baselines3, then plays episodes without exploration.

    Args:
        request: ``task``, ``algo``, ``num_envs``, ``settings``, ``seed``, ``total_steps``, ``minutes``, ``goal``,
            ``episodes`` (of the mean return, and at the end), ``folder`` and ``threads``.
    """
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

    torch.set_num_threads(request["threads"])
    settings, task = dict(request["settings"]), request["task"]
    normalise = settings.pop("normalize", False)
    atari = task.startswith("ALE/")
    if atari:
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)

    def environments(count: int) -> Any:
        if not atari:
            return make_vec_env(task, count, seed=request["seed"], vec_env_cls=DummyVecEnv)
        options = {"frameskip": 1, "repeat_action_probability": 0.0}
        return VecFrameStack(make_atari_env(task, count, seed=request["seed"], env_kwargs=options), 4)

    class Metrics(BaseCallback):
        """A callback that writes lines of metrics, and ends training at the goal or after ``minutes``."""

        def __init__(self, file: Path):
            super().__init__()
            self._file, self._told = file.open("w"), 0.0
            self._returns: deque[float] = deque(maxlen=request["episodes"])
            self._began = time.perf_counter()

        def _on_step(self) -> bool:
            ends = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            self._returns.extend(float(each) for each in ends)
            seconds = time.perf_counter() - self._began
            mean = sum(self._returns) / len(self._returns) if self._returns else None
            # as in a run of Headrace, a mean of fewer episodes does not count
            solved = mean is not None and len(self._returns) == request["episodes"] and mean >= request["goal"]
            over = solved or seconds >= 60 * request["minutes"]
            if over or seconds - self._told >= LINES:
                self._told = seconds
                line = {"step": self.num_timesteps, "return": mean, "time": {"seconds": seconds}}
                print(json.dumps(line), file=self._file, flush=True)
            return not over

    folder = Path(request["folder"])
    venv = environments(request["num_envs"])
    if normalise:
        venv = VecNormalize(venv, gamma=settings.get("gamma", 0.99))
    policy = settings.pop("policy", "CnnPolicy" if atari else "MlpPolicy")
    model = getattr(sb3, request["algo"])(policy, venv, seed=request["seed"], device="cpu", **settings)
    model.learn(request["total_steps"], callback=Metrics(folder / "metrics.jsonl"))
    games = environments(1)
    if normalise:
        games = VecNormalize(games, training=False, norm_reward=False)
        games.obs_rms = venv.obs_rms
    mean, _ = evaluate_policy(model, games, n_eval_episodes=request["episodes"])
    (folder / "greedy.json").write_text(json.dumps(float(mean)) + "\n")  # type: ignore[arg-type]


PROGRAMS: dict[str, Callable[[Request], None]] = {SB3: train_sb3}
"""library → the function that trains with it"""

if __name__ == "__main__":
    sys.exit(main())

"""SAC on pictures of dm_control's robots, beside stable-baselines3's: equal seconds, then the same games of both.

Three pictures of 48 x 48 pixels are an observation, and eight of dm_control's steps are one, as is usual for pictures,
so that an episode has 125. Both step Headrace's environments, which draw them; ours draws and steps in a sampler's
process while it learns. Each has its own defaults of SAC; stable-baselines3's replay has room for what the seconds
fill. Neither imports nor the games that judge count.

    python benchmarks/pixels_learning.py [--tasks CartpoleBalance-v1 …] [--seconds 600]
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import OURS, RESULTS, earlier, heading, in_child, tell

PEER = "stable-baselines3"
SIZE = 48
PICTURES = {"from_pixels": True, "frame_stack": 3, "render_width": SIZE, "render_height": SIZE}
PICTURES |= {"frame_skip": 8, "max_episode_steps": 125}
SEED = 7000  # of the games that judge


@dataclass
class PixelsArgs:
    """SAC on pictures beside stable-baselines3's."""

    tasks: tuple[str, ...] = ("CartpoleBalance-v1",)
    """of dm_control"""
    seconds: float = 600.0
    """of training"""
    games: int = 10
    """that judge, side by side"""
    seed: int = 1
    """of training"""
    side: str = ""
    """train and judge one of them in this process, and print the result"""
    out: Path = RESULTS
    """folder for the JSON file"""


Act = Callable[[np.ndarray], np.ndarray]


def ours(task: str, args: PixelsArgs) -> tuple[int, int, Act]:
    """Returns the steps and updates that were made, and what acts."""

    class Until(headrace.train.Callback):
        """Ends the run after so many seconds."""

        def on_update(self, training: Any) -> None:
            if training.seconds >= args.seconds:
                training.stop()

    quiet: dict[str, Any] = {"quiet": True, "video": False, "viewer": False, "evaluate_episodes": 0}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        headrace.train(task, algo="sac", seed=args.seed, env_options=PICTURES, run_dir=run, callback=Until(), **quiet)
        agent = headrace.load(run, which="newest")
        last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return last["step"], last["updates"], agent.act


def theirs(task: str, args: PixelsArgs) -> tuple[int, int, Act]:
    """The same of stable-baselines3."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.callbacks import BaseCallback

    from headrace.adapters.sb3 import make_vec_env

    class Until(BaseCallback):
        """Ends the run after so many seconds."""

        def _on_training_start(self) -> None:
            self.began = time.perf_counter()

        def _on_step(self) -> bool:
            return time.perf_counter() - self.began < args.seconds

    env = make_vec_env(task, 1, seed=args.seed, **PICTURES)
    model = SAC("CnnPolicy", env, seed=args.seed, device="cpu", buffer_size=20_000)
    model.learn(10**9, callback=Until())
    return model.num_timesteps, model._n_updates, lambda seen: model.predict(seen, deterministic=True)[0]


def judged(act: Act, task: str, games: int) -> list[float]:
    """Returns the returns of first episodes."""
    with headrace.make(task, num_envs=games, seed=SEED, **PICTURES) as pool:
        seen, total, going = pool.reset()[0], np.zeros(games), np.ones(games, bool)
        while going.any():
            seen, reward, terminated, truncated, _ = pool.step(act(seen))
            total += reward * going
            going &= ~(terminated | truncated)
    return total.tolist()


def measured(task: str, args: PixelsArgs) -> dict[str, Any]:
    """Trains one side in this process; returns its steps, updates and the returns of its games."""
    steps, updates, act = (ours if args.side == OURS else theirs)(task, args)
    returns = judged(act, task, args.games)
    return {"steps": steps, "updates": updates, "mean": round(statistics.fmean(returns), 1), "returns": returns}


def main() -> None:
    args = tyro.cli(PixelsArgs)
    if args.side:
        print(json.dumps(measured(args.tasks[0], args)))
        return
    runs: dict[str, dict[str, Any]] = earlier(args.out, "pixels_learning") or {}
    sizes = [f"--seconds={args.seconds}", f"--games={args.games}", f"--seed={args.seed}"]
    for task in args.tasks:
        runs[task] = {side: in_child(__file__, "--tasks", task, f"--side={side}", *sizes) for side in (OURS, PEER)}
        title = f"SAC on pictures: mean return after {args.seconds:.0f} s"
        rows = [
            {"task": name}
            | {side: one["mean"] for side, one in sides.items()}
            | {f"updates of {side}": one["updates"] for side, one in sides.items()}
            | {f"steps of {side}": one["steps"] for side, one in sides.items()}
            for name, sides in runs.items()
        ]
        settings = {name: getattr(args, name) for name in ("seconds", "games", "seed")} | PICTURES
        tell(args.out, heading("pixels_learning", title) | {"settings": settings, "rows": rows, "runs": runs})


if __name__ == "__main__":
    main()

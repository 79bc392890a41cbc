"""One library's training on Pendulum, with the same settings as the others': when it has come how far.

The child of `learner_peers.py`, in the interpreter that has the library; it needs nothing of Headrace for the others.
It prints, as JSON, ``[steps, seconds, processor seconds]`` from the beginning of training, compilation included and
imports left out, whenever the library has learnt from some more steps.

    python benchmarks/peer_marks.py LIBRARY ALGORITHM STEPS CORES [FOLDER OF LEANRL]
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

TASK = "Pendulum-v1"
ENVS, STEPS, EPOCHS, MINIBATCH = 16, 128, 10, 256
"""PPO's environments, steps of a rollout, passes over it, and samples of an update; two networks of 64 × 64"""
STARTS, BATCH = 1000, 256
"""SAC's steps without learning, and transitions of an update, of which each step has one; networks of 256 × 256"""
WORKERS = "TORCHINDUCTOR_COMPILE_THREADS"  # with 1 the compiler's time is that of processes that are waited for


def processor_seconds() -> float:
    """Those of this process and of the children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


class Marks:
    """How far training is, at times at least ``every`` steps apart."""

    def __init__(self, every: int):
        self.every, self.marks = every, list[tuple[int, float, float]]()
        self._wall, self._cpu = time.perf_counter(), processor_seconds()

    def at(self, step: int) -> None:
        if step - (self.marks[-1][0] if self.marks else 0) >= self.every:
            self.marks.append((step, time.perf_counter() - self._wall, processor_seconds() - self._cpu))


def headrace(algo: str, total: int) -> Marks:
    """Ours: its loop without workers."""
    import torch

    from headrace.train.runners.assembly import make_trainer
    from headrace.train.runs.folder import RunFolder
    from off_policy_runs import SYNCHRONOUS, settings
    from plain_ppo import Settings
    from ppo_speed import ours

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        marks, folder = Marks(every(algo)), Path(name) / "run"
        if algo == "ppo":
            trainer, _ = ours(TASK, Settings(ENVS, STEPS, EPOCHS, MINIBATCH), folder)
        else:
            config = settings(TASK, algo, SYNCHRONOUS, total_steps=total, learning_starts=STARTS, minibatch_size=BATCH)
            trainer = make_trainer(config, RunFolder.create(folder, config))
        while trainer.step < total:
            trainer.iterate()
            marks.at(trainer.step)
        trainer.close()
    return marks


def like_stable_baselines(module: str, algo: str, total: int) -> Marks:
    """stable-baselines3, or sbx, which has its interface."""
    library: Any = __import__(module)
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    marks = Marks(every(algo))

    class Told(BaseCallback):
        def _on_rollout_start(self) -> None:
            marks.at(self.num_timesteps)

        def _on_step(self) -> bool:
            return True

    if algo == "ppo":
        how: dict[str, Any] = {"n_steps": STEPS, "batch_size": MINIBATCH, "n_epochs": EPOCHS, "ent_coef": 0.0}
        model = library.PPO("MlpPolicy", make_vec_env(TASK, ENVS), **how)
    else:
        model = library.SAC("MlpPolicy", make_vec_env(TASK, 1), learning_starts=STARTS, batch_size=BATCH)
    model.learn(total, callback=Told())
    return marks


def leanrl(folder: str, algo: str, total: int) -> Marks:
    """LeanRL's compiled script, which tells its logger how far it is; without normalising wrappers, as the others."""
    import gymnasium
    import tensordict  # noqa: F401  # before the clock begins
    import torchrl.data  # noqa: F401

    for wrapper in ("NormalizeObservation", "NormalizeReward", "TransformObservation", "TransformReward"):
        setattr(gymnasium.wrappers, wrapper, lambda env, *_, **__: env)
    script = {"ppo": "ppo_continuous_action_torchcompile.py", "sac": "sac_continuous_action_torchcompile.py"}[algo]
    path, marks = Path(folder) / script, Marks(every(algo))
    logger: Any = types.ModuleType("wandb")
    logger.init = lambda **_: None
    logger.log = lambda _, step: marks.at(step)
    sys.modules["wandb"] = logger
    how: dict[str, int]
    if algo == "ppo":
        how = {"num-envs": ENVS, "num-steps": STEPS, "update-epochs": EPOCHS}
        how["num-minibatches"] = ENVS * STEPS // MINIBATCH
    else:
        how = {"learning-starts": STARTS, "batch-size": BATCH}
    sys.argv = [str(path), "--env-id", TASK, "--compile", "--no-cuda", "--total-timesteps", str(total)]
    sys.argv += [text for name, value in how.items() for text in (f"--{name}", str(value))]
    runpy.run_path(str(path), run_name="__main__")
    return marks


def every(algo: str) -> int:
    """Steps from one mark to the next."""
    return 10 * ENVS * STEPS if algo == "ppo" else 100


def main() -> None:
    library, algo, total, cores, *folder = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-int(cores) :])  # before a library counts them
    if library == "headrace":
        marks = headrace(algo, int(total))
    elif library == "LeanRL":
        os.environ[WORKERS] = "1"
        with tempfile.TemporaryDirectory() as cache:  # compiled anew
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            marks = leanrl(folder[0], algo, int(total))
    else:
        marks = like_stable_baselines({"sbx": "sbx"}.get(library, "stable_baselines3"), algo, int(total))
    print(json.dumps(marks.marks))


if __name__ == "__main__":
    main()

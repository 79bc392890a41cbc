"""Seconds until a task is solved, over several seeds, beside stable-baselines3 with settings tuned for it.

CartPole-v1 (mean return of the last 100 episodes at least 475), Acrobot-v1 (-100), Pendulum-v1 (-200),
MountainCarContinuous-v0 (90) and LunarLander-v3 (200). Ours run with the defaults of ``headrace train TASK``;
stable-baselines3's with those of rl-baselines3-zoo (2.x, ``hyperparams/ppo.yml``). Clocks start when training does:
neither's imports nor its construction counts. Runs take turns, one at a time; nothing else may run meanwhile. Writes
the curves as JSON and a picture.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import nn

from common import OURS, RESULTS, heading, tell
from headrace.train import train
from headrace.train.runs.metrics import read_metrics

GOALS = {
    "CartPole-v1": 475.0, "Acrobot-v1": -100.0, "Pendulum-v1": -200.0, "MountainCarContinuous-v0": 90.0,
    "LunarLander-v3": 200.0,
}  # fmt: skip
PEER = "stable-baselines3"
ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
        "learning_rate": lambda left: left * 1e-3, "clip_range": lambda left: left * 0.2, "steps": 100_000,
    },
    "Acrobot-v1": {
        "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4,
        "normalise": True, "steps": 1_000_000,
    },
    "Pendulum-v1": {
        "n_envs": 4, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10,
        "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4, "steps": 100_000,
    },
    "MountainCarContinuous-v0": {
        "n_envs": 1, "n_steps": 8, "batch_size": 256, "gae_lambda": 0.9, "gamma": 0.9999, "n_epochs": 10,
        "ent_coef": 0.00429, "learning_rate": 7.77e-05, "clip_range": 0.1, "max_grad_norm": 5, "vf_coef": 0.19,
        "use_sde": True, "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False}, "normalise": True,
        "steps": 20_000,
    },
    "LunarLander-v3": {
        "n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
        "ent_coef": 0.01, "steps": 1_000_000,
    },
}  # fmt: skip
"""rl-baselines3-zoo's settings; ``steps`` is its budget, of which we allow three times"""


@dataclass
class LearningArgs:
    """Seconds until solved, ours beside stable-baselines3's."""

    seeds: int = 3
    """runs of each"""
    tasks: tuple[str, ...] = tuple(GOALS)
    """which tasks"""
    peer: bool = True
    """run stable-baselines3 as well"""
    out: Path = RESULTS
    """folder for the JSON file and the picture"""


@dataclass
class Outcome:
    """One run: whether it was solved, after how many seconds and steps, and its curve."""

    seed: int
    solved: bool
    seconds: float
    steps: int
    curve: list[tuple[int, float, float]]
    """(steps, seconds, mean return of the last 100 episodes)"""


def ours(task: str, seed: int) -> Outcome:
    """Train with our defaults."""
    with tempfile.TemporaryDirectory() as made:
        quiet: dict[str, Any] = {"quiet": True, "video": False, "viewer": False}
        result = train(
            task, seed=seed, stop_at_return=GOALS[task], log_steps=2_000, run_dir=Path(made) / "run", **quiet
        )
        lines = read_metrics(result.run_dir / "metrics.jsonl")
    curve = [(line["step"], line["time"]["seconds"], line["return"]) for line in lines if line["return"] is not None]
    return Outcome(seed, result.reason == "solved", round(result.seconds, 2), result.steps, curve)


def stable_baselines(task: str, seed: int) -> Outcome:
    """Train with the zoo's settings until solved, or three times the zoo's budget."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    class Watch(BaseCallback):
        """Notes the curve, and ends the run once the last 100 episodes reach the goal."""

        def _on_training_start(self) -> None:
            self.began = time.perf_counter()
            self.returns: deque[float] = deque(maxlen=100)
            self.curve: list[tuple[int, float, float]] = []
            self.solved = False

        def _on_step(self) -> bool:
            ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            if ended:
                self.returns.extend(ended)
                mean = statistics.fmean(self.returns)
                self.curve.append((self.num_timesteps, round(time.perf_counter() - self.began, 3), mean))
                self.solved = len(self.returns) == 100 and mean >= GOALS[task]
            return not self.solved

    settings = dict(ZOO[task])
    steps, normalise = 3 * settings.pop("steps"), settings.pop("normalise", False)
    torch.set_num_threads(1)  # faster for networks this small
    envs = make_vec_env(task, settings.pop("n_envs"), seed=seed)
    if normalise:
        envs = VecNormalize(envs, gamma=settings["gamma"])
    settings["policy_kwargs"] = {"activation_fn": nn.Tanh, **settings.get("policy_kwargs", {})}
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    watch = Watch()
    began = time.perf_counter()
    model.learn(steps, callback=watch)
    seconds = time.perf_counter() - began
    return Outcome(
        seed, watch.solved, round(seconds, 2), model.num_timesteps, watch.curve[:: max(1, len(watch.curve) // 200)]
    )


Runs = dict[str, dict[str, list[dict[str, Any]]]]
"""task → contender → outcomes"""


def median_seconds(runs: list[dict[str, Any]]) -> float | None:
    """Median time to solve; None if most runs did not."""
    middle = sorted(run["seconds"] if run["solved"] else float("inf") for run in runs)[len(runs) // 2]
    return middle if middle < float("inf") else None


def picture(results: Runs, path: Path) -> None:
    """Mean return over seconds of training: one panel a task, one line a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(results), 3.4), layout="constrained")
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for panel, (task, contenders) in zip(panels, results.items(), strict=True):
        for name, colour in ((OURS, "tab:blue"), (PEER, "tab:orange")):
            for i, outcome in enumerate(contenders.get(name, [])):
                _, seconds, returns = zip(*outcome["curve"], strict=True)
                panel.plot(seconds, returns, color=colour, alpha=0.8, label=name if i == 0 else None)
        panel.axhline(GOALS[task], color="grey", linestyle=":")
        panel.set(title=task, xlabel="seconds of training (log)", xscale="log")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("mean return, last 100 episodes")
    panels[0].legend()
    figure.savefig(path, dpi=110)


def row(task: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Median seconds of each contender, and how many of its runs solved the task."""
    cells: dict[str, str] = {"task (mean return wanted)": f"{task} ({GOALS[task]:g})"}
    for name, outcomes in runs.items():
        median, solved = median_seconds(outcomes), sum(outcome["solved"] for outcome in outcomes)
        cells[name] = f"{'-' if median is None else f'{median:.1f} s'} ({solved} of {len(outcomes)} solved)"
    return cells


def ratios(results: Runs) -> list[float]:
    """How many times sooner ours solves, of each task that both solve."""
    both = [(median_seconds(runs[OURS]), median_seconds(runs.get(PEER, runs[OURS]))) for runs in results.values()]
    return [theirs / mine for mine, theirs in both if mine and theirs]


def main() -> None:
    args = tyro.cli(LearningArgs)
    logging.disable(logging.WARNING)
    contenders: dict[str, Callable[[str, int], Outcome]] = {OURS: ours}
    contenders |= {PEER: stable_baselines} if args.peer else {}
    ours("CartPole-v1", 99)  # compiles kernels, warms caches
    runs: Runs = {task: {name: [] for name in contenders} for task in args.tasks}
    for task in args.tasks:
        for seed in range(1, args.seeds + 1):
            for name, run in contenders.items():
                runs[task][name].append(asdict(run(task, seed)))
    record = heading("ppo_learning", "PPO: seconds until solved") | {"goals": GOALS, "ratios": {PEER: ratios(runs)}}
    tell(args.out, record | {"runs": runs, "rows": [row(*each) for each in runs.items()]})
    picture(runs, args.out / "ppo_learning.png")


if __name__ == "__main__":
    main()

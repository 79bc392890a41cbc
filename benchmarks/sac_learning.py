"""Seconds until SAC reaches a return, with workers, in one process, and beside stable-baselines3.

Everybody's weights are copied about once a second of training and judged afterwards, off the clock: the mean return
of so many episodes without exploration. The clock begins when training does, for our workers when their processes are
started. Runs take turns, one at a time; nothing else may run meanwhile. ``equal`` has the same networks, batches, rates
and updates a step for all; ``tuned`` is what ``headrace train TASK --algo sac`` does.
"""

from __future__ import annotations

import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS, machine
from headrace.train.agent import Agent
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config, make_config
from headrace.train.dashboard import Dashboard
from headrace.train.evaluate import play_episodes, playing_pool
from headrace.train.run import RunFolder
from headrace.train.trainer import Trainer
from headrace.train.workers.off_policy import OffPolicyTrainer

GOALS = {"Pendulum-v1": -200.0, "HalfCheetah-v5": 2000.0, "Hopper-v5": 1000.0}
STEPS = {"Pendulum-v1": 20_000, "HalfCheetah-v5": 60_000, "Hopper-v5": 60_000}
EQUAL: dict[str, Any] = {
    "hidden": (256, 256), "activation": "relu", "minibatch_size": 256, "gamma": 0.99, "target_rate": 0.005,
    "learning_rate": 3e-4, "critic_learning_rate": 3e-4, "anneal_learning_rate": False, "replay_ratio": 1.0,
    "learning_starts": 1000, "matmul_precision": "medium",
}  # fmt: skip
"""the defaults of stable-baselines3's SAC, but for its learning_starts of 100, and the processor's bfloat16 units"""
PENDULUM: dict[str, Any] = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
"""rl-baselines3-zoo's settings for Pendulum-v1"""


@dataclass
class LearningArgs:
    """Seconds until a return, beside stable-baselines3's SAC."""

    seeds: int = 5
    """runs of each"""
    tasks: tuple[str, ...] = ("Pendulum-v1", "HalfCheetah-v5")
    """which tasks"""
    contenders: tuple[str, ...] = ("tuned", "equal", "one process", "stable-baselines3")
    """who runs; what the JSON file says of others stays"""
    every: float = 1.0
    """seconds between two copies of the weights"""
    episodes: int = 5
    """episodes in which weights are judged"""
    steps: int = 0
    """agent steps of a run; 0 for those of the published figures"""
    out: Path = RESULTS
    """folder for the JSON file"""


@dataclass
class Outcome:
    """One run: its curve, and the first seconds and steps at which it had the return."""

    seed: int
    seconds: float
    steps: int
    updates: int
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    """(steps, seconds, mean return without exploration)"""

    def reached(self, goal: float) -> tuple[float, int] | None:
        """Seconds and steps after which the return was first at least this."""
        return next(((seconds, step) for step, seconds, mean in self.curve if mean >= goal), None)


class Copies(Dashboard):
    """Copies of a trainer's weights, a moment apart."""

    def __init__(self, every: float):
        super().__init__(quiet=True)
        self.every, self.taken = every, list[tuple[int, float, torch.Tensor]]()

    def update(self, trainer: Any, force: bool = False) -> None:
        if not self.taken or trainer.seconds - self.taken[-1][1] >= self.every or force:
            self.taken.append((trainer.step, trainer.seconds, trainer.policies[0].acting.clone()))


def ours(config: Config, args: LearningArgs) -> Outcome:
    """Train with our own, with or without workers."""
    copies = Copies(args.every)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", config)
        trainer = OffPolicyTrainer(config, run) if config.samplers > 0 else Trainer(config, run)
        try:
            trainer.train(copies)
            policy: Any = trainer.policies[0]
            updates = int((config.replay_ratio or 0) * (trainer.step - config.learning_starts))
            if isinstance(trainer, OffPolicyTrainer):
                updates = trainer.updates
            outcome = Outcome(config.seed, round(trainer.seconds, 2), trainer.step, updates)
            with playing_pool(config, num_envs=args.episodes, seed=9000) as pool:
                agent = Agent(config, pool.spec, Checkpoint(policy.model(), {}, {}, {}))
                acting: Any = agent.policies[0]
                for step, seconds, weights in copies.taken:
                    acting.acting.copy_(weights)
                    played = play_episodes(agent, pool, 1)
                    assert played is not None
                    outcome.curve.append((step, round(seconds, 2), round(played.mean_return, 2)))
        finally:
            trainer.close()
    return outcome


def settings(task: str, contender: str, seed: int, args: LearningArgs) -> Config:
    """Our settings as one of the contenders."""
    equal = EQUAL | (PENDULUM if task == "Pendulum-v1" else {})
    how: dict[str, dict[str, Any]] = {
        "tuned": {},
        "equal": equal | {"num_envs": 1, "samplers": 1},
        "one process": equal | {"num_envs": 1, "num_steps": 1, "samplers": 0},
    }
    common = {"seed": seed, "total_steps": args.steps or STEPS[task], "stop_at_return": None, "tensorboard": False}
    config = make_config(task, algo="sac", evaluate_episodes=0, checkpoint_seconds=1e9, **(how[contender] | common))
    return config if config.samplers >= 0 else make_config(**{**asdict(config), "samplers": 1}, defaults=False)


def stable_baselines(task: str, seed: int, args: LearningArgs) -> Outcome:
    """Train with stable-baselines3's SAC, which takes turns between one environment and one update."""
    import gymnasium as gym
    from stable_baselines3 import SAC
    from stable_baselines3.common.callbacks import BaseCallback

    taken: list[tuple[int, float, dict[str, torch.Tensor]]] = []

    class Copy(BaseCallback):
        """Copies the actor, a moment apart."""

        def _on_training_start(self) -> None:
            self.began = time.perf_counter()

        def _on_step(self) -> bool:
            now = time.perf_counter() - self.began
            if not taken or now - taken[-1][1] >= args.every:
                state = {name: tensor.clone() for name, tensor in self.model.policy.state_dict().items()}
                taken.append((self.num_timesteps, now, state))
            return True

    torch.set_num_threads(2)
    rate: dict[str, Any] = {"learning_rate": 1e-3} if task == "Pendulum-v1" else {}
    model = SAC("MlpPolicy", gym.make(task), seed=seed, device="cpu", learning_starts=1000, **rate)
    watch = Copy()
    model.learn(args.steps or STEPS[task], callback=watch)
    seconds = time.perf_counter() - watch.began
    outcome = Outcome(seed, round(seconds, 2), model.num_timesteps, model._n_updates)
    for step, moment, state in taken:
        model.policy.load_state_dict(state)
        outcome.curve.append((step, round(moment, 2), round(judged(model, task, args.episodes), 2)))
    return outcome


def judged(model: Any, task: str, episodes: int) -> float:
    """Mean return of a model of stable-baselines3 without exploration, all episodes side by side."""
    import gymnasium as gym

    envs = gym.make_vec(task, episodes, vectorization_mode="sync")
    obs, _ = envs.reset(seed=9000)
    returns, left = np.zeros(episodes), np.ones(episodes, bool)
    while left.any():
        actions, _ = model.predict(obs, deterministic=True)
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        returns += rewards * left
        left &= ~(terminated | truncated)
    envs.close()
    return float(returns.mean())


def main() -> None:
    args = tyro.cli(LearningArgs)
    logging.disable(logging.WARNING)
    path = args.out / "sac_learning.json"
    known = json.loads(path.read_text())["runs"] if path.exists() else {}
    results: dict[str, dict[str, list[Outcome]]] = {
        task: {name: [Outcome(**one) for one in outcomes] for name, outcomes in contenders.items()}
        for task, contenders in known.items()
    }
    for task in args.tasks:
        runs = results.setdefault(task, {})
        runs |= {name: [] for name in args.contenders}
        for seed in range(1, args.seeds + 1):
            for name in args.contenders:
                run: Callable[[], Outcome] = (
                    (lambda t=task, s=seed: stable_baselines(t, s, args))
                    if name == "stable-baselines3"
                    else (lambda t=task, s=seed, n=name: ours(settings(t, n, s, args), args))
                )
                runs[name].append(run())
                show(task, name, runs[name][-1])
    args.out.mkdir(parents=True, exist_ok=True)
    record = {
        "name": "sac_learning",
        "title": "SAC: seconds to a return",
        "command": "python benchmarks/sac_learning.py",
        "machine": machine(),
        "goals": GOALS,
        "runs": {t: {n: [asdict(one) for one in o] for n, o in r.items()} for t, r in results.items()},
    }
    path.write_text(json.dumps(record) + "\n")
    summarise(results)


def show(task: str, name: str, outcome: Outcome) -> None:
    """A line a run."""
    reached = outcome.reached(GOALS[task])
    when = f"{reached[0]:.1f} s, {reached[1]:,} steps" if reached else "never"
    last = outcome.curve[-1][2]
    Console(highlight=False).print(
        f"{task}, {name}, seed {outcome.seed}: {GOALS[task]:g} after {when}; in the end {last:.0f} "
        f"after {outcome.seconds:.1f} s, {outcome.steps:,} steps, {outcome.updates:,} updates",
        soft_wrap=True,
    )


def summarise(results: dict[str, dict[str, list[Outcome]]]) -> None:
    """A row a contender."""
    table = Table("task", "contender", "reached", "seconds, median", "steps, median", "return at the end", "updates/s")
    for task, contenders in results.items():
        for name, outcomes in contenders.items():
            found = [outcome.reached(GOALS[task]) for outcome in outcomes]
            there = [each for each in found if each is not None]
            seconds = sorted(each[0] if each else float("inf") for each in found)[len(found) // 2]
            table.add_row(
                task,
                name,
                f"{len(there)} of {len(found)}",
                f"{seconds:.1f}",
                f"{statistics.median(step for _, step in there):,.0f}" if there else "-",
                f"{statistics.median(o.curve[-1][2] for o in outcomes):,.0f}",
                f"{statistics.median(o.updates / o.seconds for o in outcomes):,.0f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()

"""Runs of off-policy algorithms, ours and stable-baselines3's, with copies of their weights to be judged afterwards.

The clock begins when training does, for our workers when their processes are started, and stands still while weights
are judged: without exploration, by the mean return of some episodes.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.machine import cpu_model
from headrace.pool.registry import build_task
from headrace.train.launch.checks import resolved
from headrace.train.logging.dashboard import Dashboard, Progress
from headrace.train.play.agent import Agent
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

PEER = "stable-baselines3"
DEFAULT = "headrace train"
"""Headrace with the settings of its own that ``headrace train TASK --algo ALGO`` has"""
EQUAL, SYNCHRONOUS = "equal", "one process"
"""Headrace with stable-baselines3's settings, with workers and without"""
SEED = 9000  # of the episodes that judge
COARSE = 0.02  # of the seconds so far, that judgements are apart at least

SHARED: dict[str, Any] = {
    "hidden": (256, 256), "activation": "relu", "minibatch_size": 256, "gamma": 0.99, "target_rate": 0.005,
    "anneal_learning_rate": False, "replay_ratio": 1.0, "learning_starts": 1000, "adam_epsilon": 1e-8,
    "matmul_precision": "medium", "num_envs": 1, "num_steps": 1,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "sac": {"learning_rate": 3e-4, "critic_learning_rate": 3e-4},
    "td3": {"learning_rate": 1e-3, "critic_learning_rate": 1e-3, "exploration_noise": 0.1},
}
"""algorithm → what, with `SHARED`, stable-baselines3 is given too, in `PEERS`"""
PEERS: dict[str, dict[str, Any]] = {
    "sac": {"learning_starts": 1000},
    "td3": {"learning_starts": 1000, "policy_kwargs": {"net_arch": [256, 256]}},
}
"""algorithm → what makes stable-baselines3's default settings ours"""
PENDULUM: dict[str, Any] = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
"""rl-baselines3-zoo's settings for Pendulum-v1"""


@dataclass
class Outcome:
    """One run: its curve, and how long it took."""

    seed: int
    seconds: float = 0.0
    steps: int = 0
    updates: int = 0
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    """(agent steps, seconds, mean return without exploration)"""
    cpu: str = field(default_factory=cpu_model)
    """that it ran on: a file's runs may have been made on several days"""

    def reached(self, goal: float) -> tuple[float, int] | None:
        """Seconds and steps after which the return was first at least this."""
        return next(((seconds, step) for step, seconds, mean in self.curve if mean >= goal), None)


@dataclass
class Judging:
    """When weights are judged, and when a run may end before its last step.

    Attributes:
        seconds, steps: from one judgement to the next, at least so many of each; and no less than `COARSE` of all.
        episodes: of one judgement.
        goal: the return that ends a run; None for no such.
    """

    seconds: float
    steps: int
    episodes: int
    goal: float | None = None

    def due(self, curve: list[tuple[int, float, float]], step: int, seconds: float) -> bool:
        """Whether it is time again."""
        last = curve[-1] if curve else (0, 0.0, 0.0)
        return step - last[0] >= self.steps and seconds - last[1] >= max(self.seconds, COARSE * seconds)

    def satisfied(self, curve: list[tuple[int, float, float]]) -> bool:
        """Whether the run may end."""
        return self.goal is not None and bool(curve) and curve[-1][2] >= self.goal


class _Copies(Dashboard):
    """Copies of a trainer's weights, whenever they are to be judged."""

    def __init__(self, judging: Judging, trainer: Any):
        super().__init__(quiet=True)
        self.judging, self.trainer, self.taken = judging, trainer, list[tuple[int, float, torch.Tensor]]()

    def update(self, progress: Callable[[], Progress], force: bool = False) -> None:
        trainer = self.trainer
        marks = [(step, seconds, 0.0) for step, seconds, _ in self.taken]
        if force or self.judging.due(marks, trainer.step, trainer.seconds):
            self.taken.append((trainer.step, trainer.seconds, trainer.policies[0].actor_parameters.clone()))


def beside(trainer: Any, turns: Callable[[], None]) -> None:
    """Train until ``turns``, which another thread takes meanwhile, interrupts the run; then close it."""
    thread = threading.Thread(target=turns)
    try:
        thread.start()
        trainer.train(Dashboard(quiet=True))
        thread.join()
    finally:
        trainer.close()


def settings(task: str, algo: str, who: str, **common: Any) -> Config:
    """Ours, as a run of a contender begins with them."""
    how: dict[str, Any] = {"stop_at_return": None, "tensorboard": False, "evaluate_episodes": 0, "viewer": False}
    if who != DEFAULT:
        how |= SHARED | OWN[algo] | (PENDULUM if task == "Pendulum-v1" else {})
    how |= {"samplers": 0} if who == SYNCHRONOUS else {}
    return resolved(make_config(task, algo=algo, checkpoint_seconds=1e9, **(how | common)))


def ours(config: Config, judging: Judging) -> Outcome:
    """Train with our own, with or without workers."""
    outcome = Outcome(config.seed)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", config)
        trainer: Any = make_trainer(config, run)
        copies = _Copies(judging, trainer)
        try:
            trainer.train(copies)
            outcome.seconds, outcome.steps = round(trainer.seconds, 2), trainer.step
            outcome.updates = int((config.replay_ratio or 0) * (trainer.step - config.learning_starts))
            if config.samplers:
                outcome.updates = trainer.learner.updater.updates
            policy: Any = trainer.policies[0]
            spec = build_task(config.task, **config.env_options).spec
            agent = Agent(config, spec, Checkpoint(policy.model(), {}, {}, {}))
            policy: Any = agent.policies[0]
            with closing(judges(config.task, judging)) as envs:
                for step, seconds, weights in copies.taken:
                    policy.actor_parameters.copy_(weights)
                    mean = judged(lambda obs: agent.act(obs, True), envs)
                    outcome.curve.append((step, round(seconds, 2), round(mean, 2)))
                    if judging.satisfied(outcome.curve):
                        break
        finally:
            trainer.close()
    return outcome


def stable_baselines(task: str, algo: str, seed: int, steps: int, judging: Judging, threads: int) -> Outcome:
    """Train with stable-baselines3's, which takes turns between one environment and one update."""
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.noise import NormalActionNoise

    outcome = Outcome(seed)

    class Judge(BaseCallback):
        """Judges whenever it is time, and does not count how long that takes."""

        def _on_training_start(self) -> None:
            self.began = time.perf_counter()

        def _on_step(self) -> bool:
            now = time.perf_counter()
            if judging.due(outcome.curve, self.num_timesteps, now - self.began):
                note(self.num_timesteps, now - self.began)
                self.began += time.perf_counter() - now
            return not judging.satisfied(outcome.curve)

    def note(step: int, seconds: float) -> None:
        mean = judged(lambda obs: model.predict(obs, deterministic=True)[0], envs)
        outcome.curve.append((step, round(seconds, 2), round(mean, 2)))

    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    rate: dict[str, Any] = {"learning_rate": PENDULUM["learning_rate"]} if task == "Pendulum-v1" else {}
    options = PEERS[algo] | rate
    if algo == "td3":
        size = gym.make(task).action_space.shape
        assert size is not None
        options["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, OWN[algo]["exploration_noise"]))
    maker = getattr(stable_baselines3, algo.upper())
    model = maker("MlpPolicy", gym.make(task), seed=seed, device="cpu", **options)
    judge = Judge()
    envs = judges(task, judging)
    model.learn(steps, callback=judge)
    outcome.seconds = round(time.perf_counter() - judge.began, 2)
    outcome.steps, outcome.updates = model.num_timesteps, model._n_updates
    if outcome.curve and outcome.curve[-1][0] < outcome.steps:
        note(outcome.steps, outcome.seconds)
    envs.close()
    return outcome


def judges(task: str, judging: Judging) -> Any:
    """Gymnasium's environments, in which everybody's weights are judged."""
    return gym.make_vec(task, judging.episodes, vectorization_mode="sync")


def judged(act: Callable[[np.ndarray], np.ndarray], envs: Any) -> float:
    """Mean return of an episode of each environment, which always begin alike."""
    obs, _ = envs.reset(seed=SEED)
    returns, left = np.zeros(envs.num_envs), np.ones(envs.num_envs, bool)
    while left.any():
        obs, rewards, terminated, truncated, _ = envs.step(act(obs))
        returns += rewards * left
        left &= ~(terminated | truncated)
    return float(returns.mean())


def known(runs: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, dict[str, list[Outcome]]]:
    """Outcomes of an earlier record, by case and contender."""
    return {case: {who: [Outcome(**one) for one in o] for who, o in each.items()} for case, each in runs.items()}


def put(outcomes: list[Outcome], outcome: Outcome) -> None:
    """Add a run, in the place of an earlier one of its seed."""
    outcomes[:] = sorted([o for o in outcomes if o.seed != outcome.seed] + [outcome], key=lambda o: o.seed)


def plain(runs: dict[str, dict[str, list[Outcome]]]) -> dict[str, Any]:
    """Runs as they are recorded."""
    return {case: {name: [asdict(one) for one in o] for name, o in each.items()} for case, each in runs.items()}

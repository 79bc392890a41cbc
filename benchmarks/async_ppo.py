"""PPO with workers beside PPO in one process: Pong-v5 in steps a second, CartPole-v1 in seconds until it is solved.

For Pong, both have the task's settings, in bfloat16, and take turns in one process; counted are steps learnt from.
While one has its turn, the other's sampler waits for a free slot, and the rollout that it has ready by then is
learnt from before the clock starts. For CartPole, whole runs take turns, each until a mean return of 475; the clock
begins when training does, and ``first_step`` says when the first sampler was under way. What workers can gain is the
share of time that is not learning, where there is a core for it; the file says how old rollouts were.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.table import Table

from common import RESULTS, Case, Report, alternate, wide_console
from common import Args as Turns
from headrace.train.config.settings import Config, make_config
from headrace.train.logging.dashboard import Dashboard
from headrace.train.logging.progress import Progress
from headrace.train.runners.on_policy import OnPolicyTrainer
from headrace.train.runners.synchronous import Trainer
from headrace.train.runs.folder import RunFolder

COMMON: dict[str, Any] = {"evaluate_episodes": 0, "viewer": False, "tensorboard": False, "video": False}
CONTENDERS: dict[str, dict[str, Any]] = {
    "headrace": {"samplers": 1},
    "headrace, 2 slots": {"samplers": 1, "rollout_slots": 2},
    "in one process": {"samplers": 0},
}
GOAL = 475.0


@dataclass
class AsyncArgs:
    """PPO with workers beside PPO without."""

    repeats: int = 5
    """turns of each on Pong"""
    seconds: float = 15.0
    """length of one turn"""
    seeds: int = 5
    """runs of each on CartPole"""
    quick: bool = False
    """only show that it runs"""
    out: Path = RESULTS
    """folder for the JSON file"""

    def __post_init__(self) -> None:
        if self.quick:
            self.repeats, self.seconds, self.seeds = 1, 1.0, 1


@dataclass
class Outcome:
    """One run: whether it was solved, seconds and steps until then, seconds until its first step."""

    seed: int
    solved: bool
    seconds: float
    steps: int
    first_step: float
    staleness: dict[str, float]


def pong(args: AsyncArgs, stack: ExitStack) -> tuple[Case, dict[str, list[dict[str, float]]]]:
    """Steps a second that are learnt from, and how old rollouts were at the end of each turn."""
    ages: dict[str, list[dict[str, float]]] = {}
    contenders: dict[str, Callable[[float], float]] = {}
    for name, how in CONTENDERS.items():
        config = make_config("Pong-v5", bf16=True, stop_at_return=None, total_steps=10**9, **COMMON, **how)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        run = RunFolder.create(Path(folder) / "run", config)
        if config.samplers:
            contenders[name] = with_workers(OnPolicyTrainer(config, run), ages.setdefault(name, []), stack)
        else:
            contenders[name] = in_one_process(Trainer(config, run), stack)
    rates = alternate(contenders, Turns(args.repeats, args.seconds))
    envs = make_config("Pong-v5").num_envs
    return Case(f"Pong-v5 N={envs}", rates, frame_skip=4), {name: found[1:] for name, found in ages.items()}


def in_one_process(trainer: Trainer, stack: ExitStack) -> Callable[[float], float]:
    """A contender that takes turns."""
    stack.callback(trainer.close)

    def run(seconds: float) -> float:
        began, before = time.perf_counter(), trainer.step
        while (spent := time.perf_counter() - began) < seconds:
            trainer.iterate()
        return (trainer.step - before) / spent

    return run


def with_workers(trainer: OnPolicyTrainer, ages: list[dict[str, float]], stack: ExitStack) -> Callable[[float], float]:
    """A contender whose sampler works beside the learner, and waits for it while others have their turn."""
    stack.callback(trainer.close)
    stack.enter_context(trainer.supervisor)
    trainer._start()

    def learn() -> None:
        while not trainer.learner.learn():
            time.sleep(1e-4)

    def run(seconds: float) -> float:
        for _ in range(trainer.rollouts.waiting + 1):
            learn()
        began, before = time.perf_counter(), trainer.learner.steps
        while (spent := time.perf_counter() - began) < seconds:
            learn()
        ages.append(trainer.learner.staleness())
        return (trainer.learner.steps - before) / spent

    return run


class Watch(Dashboard):
    """Notes when a run took its first step."""

    first: float | None = None

    def update(self, progress: Callable[[], Progress], force: bool = False) -> None:
        if self.first is None and (now := progress()).step:
            self.first = now.seconds


def cartpole(config: Config) -> Outcome:
    """One run until it is solved."""
    watch = Watch(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", config)
        trainer = OnPolicyTrainer(config, run) if config.samplers else Trainer(config, run)
        try:
            solved = trainer.train(watch) == "solved"
            staleness = trainer.learner.staleness() if isinstance(trainer, OnPolicyTrainer) else {}
            first = round(watch.first or 0.0, 2)
            return Outcome(config.seed, solved, round(trainer.seconds, 2), trainer.step, first, staleness)
        finally:
            trainer.close()


def show(runs: Mapping[str, list[Outcome]]) -> None:
    """CartPole's runs as a table."""
    table = Table(title=f"CartPole-v1 until {GOAL:g}: medians", title_justify="left")
    for column in ("", "solved", "seconds", "until the first step", "steps", "versions behind"):
        table.add_column(column, justify="right" if column else "left")
    for name, outcomes in runs.items():
        solved = sum(one.solved for one in outcomes)
        medians = [
            statistics.median(numbers)
            for numbers in zip(*((one.seconds, one.first_step, one.steps) for one in outcomes), strict=True)
        ]
        behind = statistics.median(one.staleness.get("versions", 0.0) for one in outcomes)
        seconds, first, steps = medians
        table.add_row(
            name, f"{solved} of {len(outcomes)}", f"{seconds:.2f}", f"{first:.2f}", f"{steps:,.0f}", f"{behind:.2f}"
        )
    wide_console().print(table)


def main() -> None:
    args = tyro.cli(AsyncArgs)
    runs: dict[str, list[Outcome]] = {name: [] for name in CONTENDERS}
    for seed in range(1, args.seeds + 1):
        for name, how in list(CONTENDERS.items())[:: 1 if seed % 2 else -1]:
            runs[name].append(cartpole(make_config("CartPole-v1", seed=seed, stop_at_return=GOAL, **COMMON, **how)))
    with ExitStack() as stack:
        case, ages = pong(args, stack)
    settings = {"repeats": args.repeats, "seconds": args.seconds, "seeds": args.seeds, "contenders": CONTENDERS}
    extra = {
        "staleness": ages,
        "cartpole": {name: [asdict(one) for one in outcomes] for name, outcomes in runs.items()},
    }
    Report("async_ppo", "PPO with workers", settings, [case], extra).write(args.out)
    show(runs)


if __name__ == "__main__":
    main()

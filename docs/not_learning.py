"""Trains the mistakes of ``not-learning.md`` beside what mends them, and writes its table; it takes some minutes.

    python docs/not_learning.py            # all
    python docs/not_learning.py discount   # some of its rows

A pair differs in the settings that are named. Each has three seeds; a row has the last mean return of every seed, and
the median of the figure that shows the mistake, from the last line of ``metrics.jsonl``.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import headrace
from headrace.train.runs.metrics import read_metrics

PAGE = Path(__file__).parent / "not-learning.md"
MARKED = re.compile(r"(<!-- docs/not_learning.py -->).*?(<!-- / -->)", re.DOTALL)
SEEDS = (1, 2, 3)
HEAD = ("| mistake | task | setting | return of three seeds | in the log |", "|---|---|---|---|---|")


def larger(step: Any) -> Any:
    """Rewards a hundred times as large."""
    return step.reward * 100


@dataclass(frozen=True)
class Case:
    """A task, the settings of both runs, those that differ, and the figure of the log that shows it."""

    task: str
    wrong: dict[str, Any]
    right: dict[str, Any]
    both: dict[str, Any] = field(default_factory=dict)
    shown: str = "loss/entropy"


CASES = {
    "reward scale": Case(
        "Pendulum-v1", {"normalise_rewards": False}, {"normalise_rewards": True},
        {"reward": larger, "total_steps": 200_000}, "loss/value_loss",
    ),
    "discount": Case("Acrobot-v1", {"gamma": 0.8}, {"gamma": 0.99}, {"total_steps": 100_000}),
    "observations": Case(
        "MountainCar-v0", {"normalise_observations": False}, {"normalise_observations": True}, {"total_steps": 400_000},
    ),
    "environments": Case("CartPole-v1", {"num_envs": 1024}, {"num_envs": 16}, {"total_steps": 150_000}, "iteration"),
    "entropy": Case("CartPole-v1", {"entropy_coef": 1.0}, {"entropy_coef": 0.0}, {"total_steps": 100_000}),
    "time limit": Case(
        "MountainCar-v0", {"env_options": {"max_episode_steps": 80}}, {"env_options": {"max_episode_steps": 200}},
        {"total_steps": 400_000}, "length",
    ),
    "exploration": Case(
        "MountainCarContinuous-v0", {"log_std_init": -1.0}, {"log_std_init": 1.0}, {"total_steps": 200_000},
    ),
    "rare rewards": Case(
        "FrozenLake8x8-v1", {"curiosity": 0.0}, {"curiosity": 0.05},
        {"env_options": {"is_slippery": False}, "total_steps": 200_000, "entropy_coef": 0.01},
    ),
    "learning rate": Case(
        "CartPole-v1", {"learning_rate": 0.1}, {"learning_rate": 0.002}, {"total_steps": 100_000}, "loss/approx_kl",
    ),
    "steps": Case("Pendulum-v1", {"total_steps": 50_000}, {"total_steps": 300_000}),
    "seeds": Case("CartPole-v1", {"algo": "a2c"}, {"algo": "ppo"}, {"total_steps": 100_000}),
}  # fmt: skip


def trained(case: Case, settings: dict[str, Any], seed: int, folder: Path) -> tuple[float | None, float | None]:
    """The last mean return of a run, and its figure."""
    quiet = {"quiet": True, "video": False, "viewer": False, "tensorboard": False, "stop_at_return": None}
    result = headrace.train(case.task, run_dir=folder, seed=seed, **case.both, **settings, **quiet)
    found: Any = read_metrics(folder / "metrics.jsonl")[-1]
    for part in case.shown.split("/"):
        found = found[part]
    return result.mean_return, found


def words(value: Any) -> str:
    """A setting's value, or a figure, as it stands in the table."""
    if isinstance(value, dict):
        return " ".join(f"{name}={words(each)}" for name, each in value.items())
    if isinstance(value, bool | str):
        return str(value)
    return "none" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def told(settings: dict[str, Any]) -> str:
    """The settings that differ, as they stand in the table."""
    return ", ".join(f"`{key}` {words(value)}" for key, value in settings.items())


def rows(name: str) -> list[str]:
    """The two rows of a case."""
    case, found = CASES[name], []
    for settings in (case.wrong, case.right):
        with tempfile.TemporaryDirectory() as folder:
            runs = [trained(case, settings, seed, Path(folder) / str(seed)) for seed in SEEDS]
        returns = ", ".join(words(earned) for earned, _ in runs)
        figures = [figure for _, figure in runs if figure is not None]
        shown = words(statistics.median(figures)) if figures else "none"
        found.append(f"| {name} | {case.task} | {told(settings)} | {returns} | `{case.shown}` {shown} |")
        print(found[-1], flush=True)
    return found


def with_rows(text: str, found: list[str]) -> str:
    """The page with new rows of some cases, and those that it had of others."""
    known: dict[str, list[str]] = {}
    for row in [*(line for line in text.splitlines() if line.startswith("| ") and " | `" in line), *found]:
        name = row[2:].partition(" | ")[0]
        known.setdefault(name, []).append(row)
    table = [*HEAD, *(row for name in CASES for row in known.get(name, [])[-2:])]
    return MARKED.sub(lambda mark: "\n".join((mark[1], "", *table, "", mark[2])), text)


def main() -> None:
    """Train what is named, or all, and write their rows into the page."""
    found = [row for name in sys.argv[1:] or CASES for row in rows(name)]
    PAGE.write_text(with_rows(PAGE.read_text(), found))


if __name__ == "__main__":
    main()

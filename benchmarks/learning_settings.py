"""Steps until a task is solved with what the algorithms' presets begin with: a recurrent network, and A2C.

The figures that stand there beside the settings: each case with its defaults, and beside it without what these bring
(for ``gru`` rewards that are not normalised, for ``a2c`` PPO's settings), until the last 100 episodes reach the goal
or the steps are over. Runs are deterministic: a seed takes as many steps anywhere. Writes JSON.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS, heading, write
from headrace.train.config.settings import Config, make_config
from headrace.train.logging.dashboard import Dashboard
from headrace.train.runners.synchronous import Trainer
from headrace.train.runs.folder import RunFolder

STEPS = {"CartPole-v1": 400_000, "Acrobot-v1": 300_000}
PLAIN_STEPS = {"CartPole-v1": 200_000, "Acrobot-v1": 300_000}
CASES: dict[str, dict[str, Any]] = {"gru": {"network": "gru"}, "a2c": {"algo": "a2c"}}


@dataclass
class SettingsArgs:
    """Steps until solved, with the settings of recurrent networks and A2C, and without."""

    seeds: int = 3
    """runs of each"""
    cases: tuple[str, ...] = tuple(CASES)
    """gru, a2c"""
    tasks: tuple[str, ...] = tuple(STEPS)
    """which tasks"""
    plain: bool = False
    """run each without its settings, too"""
    out: Path | None = RESULTS
    """folder for the JSON file; None writes none"""


@dataclass
class Outcome:
    """One run: whether it was solved, after how many steps, and the mean return then."""

    seed: int
    solved: bool
    steps: int
    mean_return: float | None


def without(case: str, config: Config) -> dict[str, Any]:
    """What takes a case's own settings back."""
    if case == "gru":
        return {"normalise_rewards": False}
    ppo = make_config(config.task)
    return {name: getattr(ppo, name) for name in ("num_envs", "num_steps", "learning_rate", "anneal_learning_rate")}


def measure(case: str, task: str, seed: int, plain: bool) -> Outcome:
    """One run to its end."""
    chosen = CASES[case]
    if plain:
        chosen = chosen | without(case, make_config(task, **chosen))
    steps = (PLAIN_STEPS if plain else STEPS)[task]
    config = make_config(
        task, seed=seed, total_steps=steps, deterministic=True, tensorboard=False, video=False, **chosen
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, RunFolder.create(Path(folder) / "run", config))
        try:
            reason = trainer.train(Dashboard(quiet=True))
            return Outcome(seed, reason == "solved", trainer.step, trainer.tracker.mean_return())
        finally:
            trainer.close()


def row(name: str, outcomes: list[Outcome]) -> list[str]:
    """Least and most steps of those that were solved, and the returns of the others."""
    solved = [outcome.steps for outcome in outcomes if outcome.solved]
    steps = f"{min(solved):,} … {max(solved):,}" if solved else "-"
    rest = ", ".join(f"{o.mean_return:.0f} after {o.steps:,}" for o in outcomes if not o.solved and o.mean_return)
    return [name, f"{len(solved)} of {len(outcomes)}", steps, rest or "-"]


def main(args: SettingsArgs) -> None:
    console, found = Console(), dict[str, list[Outcome]]()
    table = Table("case", "solved", "after steps", "mean return of others")
    for case in args.cases:
        for task in args.tasks:
            for plain in (False, True) if args.plain else (False,):
                name = f"{task}, {case}{', without its settings' if plain else ''}"
                found[name] = [measure(case, task, seed, plain) for seed in range(1, args.seeds + 1)]
                table.add_row(*row(name, found[name]))
    console.print(table)
    if args.out is not None:
        record = heading("learning_settings", "Recurrent networks and A2C: steps until solved") | {
            "runs": {name: [asdict(outcome) for outcome in outcomes] for name, outcomes in found.items()},
        }
        write(args.out, record)


if __name__ == "__main__":
    main(tyro.cli(SettingsArgs))

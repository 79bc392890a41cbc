"""Trained policies in each physics: returns of a hundred games of each, from the same initial states.

    python benchmarks/physics_returns.py runs/leaderboard/hopper/seed-1 runs/leaderboard/ant/seed-1

After some tens of steps two simulations with contacts differ visibly, so games are compared as what they are, samples
of one distribution: by the difference of the means beside its standard error. A policy that had learnt to use what one
physics does wrong would earn less in the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from common import Args, heading, write
from headrace.pool.executors.mujoco.lanes import LANES, LANES32, MUJOCO
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import play_episodes, playing_pool
from headrace.train.runs.folder import RunFolder


@dataclass
class ReturnsArgs(Args):
    """Returns of trained policies in each physics."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """run folders"""
    games: int = 100
    """games of each run in each physics, rounded down to as many for each environment"""
    num_envs: int = 20
    """environments that play them"""


def returns(run_dir: Path, physics: str, args: ReturnsArgs) -> np.ndarray:
    """Returns of a run's best policy, float64[games]."""
    run, config = RunFolder.open(run_dir)
    changes: dict[str, Any] = {"num_envs": args.num_envs, "seed": 1000, "physics": physics}
    with playing_pool(config, **changes) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run))
        played = play_episodes(agent, pool, args.games // args.num_envs)
    assert played is not None
    return np.array(played.returns)


def compared(run_dir: Path, args: ReturnsArgs) -> dict[str, Any]:
    """A row of the table."""
    row: dict[str, Any] = {"task": RunFolder.open(run_dir)[1].task}
    theirs = returns(run_dir, MUJOCO, args)
    row["games"] = len(theirs)
    row[MUJOCO] = shown(theirs)
    for physics in (LANES, LANES32):
        ours = returns(run_dir, physics, args)
        error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
        row[physics] = shown(ours)
        row[f"{physics} apart, in standard errors"] = round(float((ours.mean() - theirs.mean()) / error), 2)
    return row


def shown(values: np.ndarray) -> str:
    """The mean, and its standard error."""
    return f"{values.mean():,.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def main() -> None:
    args = tyro.cli(ReturnsArgs)
    record = heading("physics_returns", "Trained policies in each physics")
    record |= {"settings": {"num_envs": args.num_envs}, "rows": []}
    for run_dir in args.runs:
        record["rows"].append(compared(run_dir, args))
        print(record["rows"][-1], flush=True)
    write(args.out, record)


if __name__ == "__main__":
    main()

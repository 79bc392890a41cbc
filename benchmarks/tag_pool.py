"""Tag on the grid and in the plane, beside WarpDrive's own CPU classes.

WarpDrive's package brings its games as Python classes too, which it compares its GPU
versions with; they are what a machine without a GPU would run. They are installed apart,
because the package asks for CUDA libraries that these classes do not need, and brings
folders of common names:

    pip install --no-deps --target build/peers/warpdrive rl-warp-drive==2.7.1

Equal rules and sizes for all: partial observations, random actions that change with every
step, resets included. An environment step moves all agents of one environment. Ours runs
on two threads; a class of theirs is one environment in one process on one core. What we want is a
thousand times the figures that were taken as the mark before anything was built; what the
class does here and now, where it is installed, stands beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, random_steps, stepping

MARK, LEAST = "the mark", 1000.0
ACTION_SETS = 8
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Game:
    """One setting: our task and options, WarpDrive's class and its keyword arguments, and the mark (env steps/s)."""

    name: str
    task: str
    num_envs: int
    agents: int
    options: dict[str, Any]
    module: str
    keywords: dict[str, Any]
    mark: float


def grid(agents: int, num_envs: int, mark: float) -> Game:
    return Game(
        f"grid, {agents} agents x {num_envs}", "TagGridWorld-v0", num_envs, agents,
        {"num_taggers": agents - 1}, "tag_gridworld.tag_gridworld:TagGridWorld",
        {"num_taggers": agents - 1, "use_full_observation": False}, mark,
    )  # fmt: skip


GAMES = (
    grid(5, 2000, 10_700.0),
    grid(1000, 100, 84.0),
    Game(
        "plane, 110 agents x 100", "TagContinuous-v0", 100, 110, {}, "tag_continuous.tag_continuous:TagContinuous",
        {"num_taggers": 10, "num_runners": 100, "use_full_observation": False}, 18.0,
    ),
)  # fmt: skip


@dataclass
class TagArgs(Args):
    """Tag beside WarpDrive's CPU classes."""

    num_threads: int = 2
    """threads of our pool"""
    warpdrive: Path = ROOT / "build" / "peers" / "warpdrive"
    """where rl-warp-drive was installed to"""


def theirs(game: Game, folder: Path) -> Contender:
    """WarpDrive's class: one environment in this process, reset when it is over."""
    sys.modules.setdefault("gym", gymnasium)  # whose spaces are all that is used
    sys.path.insert(0, str(folder))
    module, _, name = game.module.partition(":")
    env = getattr(__import__(f"example_envs.{module}", fromlist=[name]), name)(**game.keywords)
    env.reset()
    levels = [np.arange(5)] if "Grid" in game.task else [env.acceleration_actions, env.turn_actions]
    rng = np.random.default_rng(0)
    shape = (ACTION_SETS, game.agents, len(levels))
    drawn = rng.integers(0, [len(level) for level in levels], shape)
    actions = [dict(enumerate(a[:, 0] if len(levels) == 1 else a)) for a in drawn]

    def step(action: dict[int, Any]) -> None:
        *_, done, _ = env.step(action)
        if done["__all__"]:
            env.reset()

    return stepping(step, actions, 1)


def comparisons(args: TagArgs) -> Iterator[Comparison]:
    """One for each setting."""
    for game in GAMES:
        pool = headrace.make(game.task, num_envs=game.num_envs, num_threads=args.num_threads, seed=0, **game.options)
        ours = random_steps(pool, game.num_envs, ACTION_SETS)
        peers = {"WarpDrive's class": theirs(game, args.warpdrive)} if args.warpdrive.is_dir() else {}
        marks = {MARK: lambda seconds, mark=game.mark: mark}
        wanted = {MARK: LEAST} if "grid" in game.name else {}
        yield Comparison(game.name, ours, peers | marks, wanted=wanted, unit="env steps/s")


if __name__ == "__main__":
    chosen = tyro.cli(TagArgs)
    measure("tag_pool", "Tag, partial observations", comparisons(chosen), chosen)

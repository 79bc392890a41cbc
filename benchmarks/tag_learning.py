"""Whether Tag is learnt, on the grid and in the plane, by playing the checkpoints of training runs.

On the grid the settings are WarpDrive's (its ``tag_gridworld.yaml``: 4 taggers, cells 0 to 100, 100 steps, A2C, one
policy for all agents), but for what `CHANGED` lists with its reasons; the taggers' mean return must end at `LEVEL` or
above with every seed. In the plane taggers and runners have a policy each, and checkpoints of both play each other
and random opponents: what was learnt must help against a random opponent, for both.

A run is made in stages, each of which ends with a checkpoint, so that the same seed gives the same checkpoints.
What counts is how these play afterwards: whole episodes, actions sampled as in training.
"""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import RESULTS, earlier, heading, tell
from headrace.train import train
from headrace.train.play.agent import Agent
from headrace.train.runs.checkpoint import load
from headrace.train.runs.folder import RunFolder

IMAGES = Path(__file__).parent.parent / "docs" / "images"
LEVEL = 3.0
"""the taggers' mean return that every seed must end with on the grid; random play has about -0.8"""

TAGGERS_GAIN, RUNNERS_GAIN = 5.0, 1.0
"""what the last checkpoint in the plane must earn more against random opponents than a random player does"""
SEED = 1000
"""of the matches"""

GRID: dict[str, Any] = {
    "algo": "a2c",
    "policies": {"all": {"agents": ["tagger", "runner"]}},
    "hidden": (32, 32),
    "activation": "relu",
    "gamma": 0.98,
    "learning_rate": 1e-3,
    "anneal_learning_rate": False,
    "schedules": {"learning_rate": [[0, 1e-3], [9_000_000, 1e-3], [15_000_000, 1e-4]]},
    "entropy_coef": 0.05,
    "value_coef": 1.0,
    "max_grad_norm": 3.0,
    "num_envs": 64,
    "num_steps": 10,
    "gae_lambda": 0.95,
    "normalise_advantages": True,
    "normalise_observations": True,
    "env_options": {"num_taggers": 4, "grid_length": 100, "tag_penalty": 5.0, "random_start": True},
}
CHANGED = {
    "random_start": "WarpDrive's taggers start in the middle and its runner in the corner, 100 moves apart, in an "
    "episode of 100 steps: nobody is ever caught, and no reward tells of it",
    "num_envs, num_steps": "64 x 10 for 2,000 x 100: a CPU makes more of many small updates",
    "normalise_advantages": "WarpDrive takes them as they are; tags are so rare at first that its entropy bonus "
    "outweighs them",
    "normalise_observations, gae_lambda": "WarpDrive has neither; both save time",
    "learning_rate": "falls from 9 million steps on, so that the race of taggers and runner, who both learn, "
    "comes to rest",
    "shared": "WarpDrive's actor and critic are one perceptron with two heads, ours are two",
}
"""what is unlike WarpDrive on the grid, and why"""
PLANE: dict[str, Any] = {
    "algo": "ppo",
    "hidden": (64, 64),
    "gamma": 0.98,
    "gae_lambda": 0.95,
    "learning_rate": 2e-3,
    "anneal_learning_rate": False,
    "schedules": {"learning_rate": [[0, 2e-3], [300_000, 2e-3], [600_000, 2e-4]]},
    "entropy_coef": 0.005,
    "num_envs": 32,
    "num_steps": 20,
    "minibatch_size": 640,
    "epochs": 1,
    "normalise_observations": True,
    "env_options": {"num_taggers": 5, "num_runners": 20, "max_episode_steps": 200},
}
"""smaller than WarpDrive's game (10 taggers, 100 runners, 500 steps), for a CPU"""


@dataclass(frozen=True)
class TagArgs:
    """Learn Tag, and let checkpoints play each other."""

    games: tuple[Literal["grid", "plane"], ...] = ("grid", "plane")
    """which to play; what the JSON file says of the other stays"""
    seeds: int = 3
    """runs of each game"""
    grid_steps: int = 15_000_000
    """environment steps of a run on the grid"""
    grid_stages: int = 15
    """checkpoints of such a run"""
    plane_steps: int = 600_000
    """environment steps of a run in the plane"""
    plane_stages: int = 5
    """checkpoints of such a run, each of which meets all others"""
    episodes: int = 256
    """episodes in a match on the grid; in the plane, with five times the agents, a quarter of them"""
    quick: bool = False
    """only to see that it runs: one seed, few steps, results in a temporary folder, nothing asked of them"""
    out: Path = RESULTS
    """folder for the JSON file"""


Player = Callable[[Any], np.ndarray]
"""observations of everybody → actions of everybody [N, agents, …], of which a match takes those of one type"""


# -- training and playing ----------------------------------------------------------------------------


def stages(
    task: str, settings: dict[str, Any], seed: int, steps: int, count: int, folder: Path
) -> Iterator[tuple[Path, int, float]]:
    """Train for so many environment steps; ``count`` times on the way: a checkpoint, steps and seconds so far."""
    for stage in range(1, count + 1):
        result = train(
            task,
            total_steps=steps * stage // count,
            seed=seed,
            run_dir=folder,
            resume=True,
            quiet=True,
            checkpoint_seconds=1e9,
            keep_checkpoints=count,
            log_steps=100_000,
            tensorboard=False,
            video=False,
            **settings,
        )
        yield max((folder / "checkpoints").glob("step-*")), result.steps, result.seconds


def trained(folder: Path, checkpoint: Path, pool: headrace.Pool) -> Player:
    """The policies of a checkpoint, which draw their actions as they did in training."""
    _, config = RunFolder.open(folder)
    agent = Agent(config, pool.spec, load(checkpoint))
    return lambda observations: agent.act(observations, deterministic=False)


def random_player(pool: headrace.Pool) -> Player:
    """Uniformly random actions."""
    space = pool.spec.agents[0].action
    choices = space.nvec if isinstance(space, gym.spaces.MultiDiscrete) else space.n  # type: ignore[attr-defined]
    shape, generator = (pool.num_envs, pool.spec.num_agents, *(space.shape or ())), np.random.default_rng(1)
    return lambda observations: generator.integers(0, choices, shape)


def play(pool: headrace.Pool, taggers: Player, runners: Player) -> tuple[float, float]:
    """One episode in every environment of the pool, from the same starts in every match.

    Returns:
        mean returns of taggers and of runners, over episodes and agents.
    """
    count = pool.spec.agents[0].count
    observations, _ = pool.reset(seed=SEED)
    earned, playing = np.zeros((pool.num_envs, pool.spec.num_agents)), np.ones(pool.num_envs, bool)
    while playing.any():
        actions = runners(observations)
        if taggers is not runners:
            actions[:, :count] = taggers(observations)[:, :count]
        observations, reward, terminated, truncated, _ = pool.step(actions)
        earned += reward * playing[:, None]
        playing &= ~(terminated | truncated)
    return round(float(earned[:, :count].mean()), 3), round(float(earned[:, count:].mean()), 3)


def match_pool(task: str, settings: dict[str, Any], episodes: int) -> headrace.Pool:
    return headrace.make(task, num_envs=episodes, seed=SEED, **settings["env_options"])


# -- the two games -----------------------------------------------------------------------------------


def learn_grid(seed: int, args: TagArgs) -> dict[str, Any]:
    """One run on the grid, and how its checkpoints play; the first line of the curve is random play."""
    task, curve = "TagGridWorld-v0", []
    with tempfile.TemporaryDirectory() as made, match_pool(task, GRID, args.episodes) as pool:
        folder, chance = Path(made) / "run", random_player(pool)

        def add(step: int, seconds: float, player: Player) -> None:
            taggers, runner = play(pool, player, player)
            alone, _ = play(pool, player, chance)
            curve.append(
                {
                    "step": step,
                    "seconds": round(seconds, 1),
                    "taggers": taggers,
                    "runner": runner,
                    "taggers_against_random": alone,
                }
            )
            say("grid", seed, step, seconds, f"taggers {taggers:+.2f}, against a random runner {alone:+.2f}")

        add(0, 0.0, chance)
        for checkpoint, step, seconds in stages(task, GRID, seed, args.grid_steps, args.grid_stages, folder):
            add(step, seconds, trained(folder, checkpoint, pool))
    reached = next((line["seconds"] for line in curve if line["taggers"] >= LEVEL), None)
    return {"seconds_to_level": reached, "curve": curve}


def learn_plane(seed: int, args: TagArgs) -> dict[str, Any]:
    """One run in the plane, and the tournament of its checkpoints.

    Returns:
        step and seconds of every checkpoint, and mean returns [taggers, runners] of every match, where number 0
        plays at random and number i is checkpoint i.
    """
    task, clock = "TagContinuous-v0", [(0, 0.0)]
    with tempfile.TemporaryDirectory() as made, match_pool(task, PLANE, max(args.episodes // 4, 1)) as pool:
        folder, players = Path(made) / "run", [random_player(pool)]
        for checkpoint, step, seconds in stages(task, PLANE, seed, args.plane_steps, args.plane_stages, folder):
            clock.append((step, round(seconds, 1)))
            players.append(trained(folder, checkpoint, pool))
            chase, flight = play(pool, players[-1], players[0])[0], play(pool, players[0], players[-1])[1]
            say("plane", seed, step, seconds, f"against random: taggers {chase:+.2f}, runners {flight:+.2f}")
        matches = np.array([[play(pool, taggers, runners) for runners in players] for taggers in players])
    return {"checkpoints": clock, "taggers": matches[..., 0].tolist(), "runners": matches[..., 1].tolist()}


def say(game: str, seed: int, step: int, seconds: float, what: str) -> None:
    print(f"{game}, seed {seed}: {step:>10,} steps, {seconds:4.0f} s   {what}", flush=True)


# -- what is asked, and what is shown ----------------------------------------------------------------


def verdicts(record: dict[str, Any]) -> dict[str, bool]:
    """What must hold, for every seed."""
    curves = [run["curve"] for run in record["grid"].values()]
    taggers, runners = ([np.array(run[side]) for run in record["plane"].values()] for side in ("taggers", "runners"))
    return {
        f"grid: taggers end at {LEVEL:+g} or above": all(curve[-1]["taggers"] >= LEVEL for curve in curves),
        f"plane: taggers earn {TAGGERS_GAIN:g} more than at random, from random runners": all(
            earned[-1, 0] - earned[0, 0] >= TAGGERS_GAIN for earned in taggers
        ),
        f"plane: runners earn {RUNNERS_GAIN:g} more than at random, from random taggers": all(
            earned[0, -1] - earned[0, 0] >= RUNNERS_GAIN for earned in runners
        ),
    }


def picture(record: dict[str, Any], path: Path) -> None:
    """The grid's curves, and what taggers earn in the plane, checkpoint against checkpoint."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    curves, board = figure.subplots(1, 2, width_ratios=[1.25, 1])
    for colour, (seed, run) in zip(itertools.cycle(("tab:blue", "tab:orange", "tab:green")), record["grid"].items()):
        steps = [line["step"] / 1e6 for line in run["curve"]]
        curves.plot(steps, [line["taggers"] for line in run["curve"]], color=colour, label=f"seed {seed}")
        alone = [line["taggers_against_random"] for line in run["curve"]]
        curves.plot(steps, alone, color=colour, linestyle=":", alpha=0.7)
    curves.plot([], [], color="grey", linestyle=":", label="against a random runner")
    curves.axhline(LEVEL, color="grey", linewidth=0.8)
    curves.set(title="Tag on the grid", xlabel="million environment steps", ylabel="taggers' mean return")
    curves.legend()
    curves.grid(alpha=0.3)
    earned = np.mean([run["taggers"] for run in record["plane"].values()], 0)
    board.imshow(earned, cmap="viridis")
    for (i, j), value in np.ndenumerate(earned):
        dark = value < (earned.min() + earned.max()) / 2
        board.text(j, i, f"{value:.0f}", ha="center", va="center", color="white" if dark else "black")
    places, labels = range(len(earned)), ["random", *map(str, range(1, len(earned)))]
    board.set_xticks(places, labels)
    board.set_yticks(places, labels)
    board.set(title="Tag in the plane: taggers' mean return", xlabel="runners", ylabel="taggers")
    figure.savefig(path, dpi=100)


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Each side's mean returns in each game, with a figure a seed."""
    curves = [run["curve"] for run in record["grid"].values()]
    reached = [run["seconds_to_level"] for run in record["grid"].values()]
    when = ", ".join("never" if seconds is None else f"{seconds:.0f} s" for seconds in reached)
    grid = [(curve[0]["taggers"], curve[-1]["taggers"], curve[-1]["seconds"]) for curve in curves]
    planes = [(run["taggers"], run["runners"], run["checkpoints"][-1][1]) for run in record["plane"].values()]
    return [
        row(f"grid: taggers against runners of the same run ({LEVEL:+g} after: {when})", grid),
        row("plane: taggers against random runners", [(chase[0][0], chase[-1][0], s) for chase, _, s in planes]),
        row("plane: runners against random taggers", [(flight[0][0], flight[0][-1], s) for _, flight, s in planes]),
    ]


def row(name: str, figures: list[tuple[float, float, float]]) -> dict[str, Any]:
    """Mean returns at random and learnt, and seconds of training, of every seed."""
    chance, learnt, seconds = zip(*figures, strict=True)
    return {
        "mean return": name,
        "at random": ", ".join(dict.fromkeys(f"{value:+.2f}" for value in chance)),
        "learnt": ", ".join(f"{value:+.2f}" for value in learnt),
        "seconds": ", ".join(f"{value:.0f}" for value in seconds),
    }


def main() -> int:
    args = tyro.cli(TagArgs)
    logging.disable(logging.WARNING)
    if args.quick:
        out = args.out if args.out != RESULTS else Path(tempfile.mkdtemp())
        short = {"grid_steps": 60_000, "grid_stages": 2, "plane_steps": 20_000, "plane_stages": 2, "episodes": 16}
        args = replace(args, seeds=1, out=out, **short)
    learn, name = {"grid": learn_grid, "plane": learn_plane}, "tag_learning"
    record: dict[str, Any] = heading(name, "Tag: what is learnt") | {
        "settings": {"grid": GRID, "plane": PLANE, "unlike_warpdrive": CHANGED, "episodes": args.episodes},
        "level": LEVEL,
    }
    for game in learn:
        record[game] = earlier(args.out, name, game) or {}
        if game in args.games:
            record[game] = {str(seed): learn[game](seed, args) for seed in range(1, args.seeds + 1)}
    if all(record[game] for game in learn):
        record |= {"passed": verdicts(record), "rows": rows(record)}
        args.out.mkdir(parents=True, exist_ok=True)
        picture(record, (args.out if args.quick else IMAGES) / "tag_learning.png")
    tell(args.out, record)
    return 0 if args.quick or all(record.get("passed", {}).values()) else 1


if __name__ == "__main__":
    sys.exit(main())

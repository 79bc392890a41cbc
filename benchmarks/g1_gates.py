"""Whether a G1 that the plain command has trained walks by the six gates of nanoG1.

The gates are those that nanoG1 (https://github.com/kingjulio8238/nanoG1, RESULTS.md) asks of its own policy: at most
one fall in 24 games of 20 seconds, four for each of six commands, and a mean of exp(-error²/0.25) of the velocity of at
least 0.9; then, walking at 0.5 m/s for 40 seconds, bounds for changes of actions, for wobbling, for turning, and for
the speeds of the legs' joints. Games are played without noise, on double-precision physics, and start as those of
training do. Each seed is a run of the recipe in a process of its own; rows of other seeds stay in the file.

    python benchmarks/g1_gates.py [--seeds 301 302 303] [--run FOLDER]
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import RESULTS, earlier, heading, tell
from walkers import WalkersArgs, in_process

NAME = "g1_gates"
TASK = "G1Nano-v0"
COMMANDS = {
    "forwards": (0.8, 0.0, 0.0), "backwards": (-0.5, 0.0, 0.0), "turning left": (0.3, 0.0, 1.0),
    "turning right": (0.3, 0.0, -1.0), "sideways": (0.0, 0.4, 0.0), "standing": (0.0, 0.0, 0.0),
}  # fmt: skip
GAMES, STEPS = 4, 1000  # of each command; of each game
STRAIGHT, STRAIGHT_STEPS = (0.5, 0.0, 0.0), 2000
GYRO, LEG_SPEEDS = slice(3, 6), slice(41, 53)  # in an observation
# name → the bound; the first is at least, all others at most
GATES = {"tracking": 0.9, "falls": 1, "action change": 0.21, "wobble": 0.21, "turning": 0.2, "leg speed": 1.22}


@dataclass(frozen=True)
class GatesArgs:
    """Training and games of a humanoid."""

    seeds: tuple[int, ...] = (301, 302, 303)
    """a run of each"""
    run: Path | None = None
    """judge this run instead"""
    out: Path = RESULTS
    """folder for the JSON file"""


def play(agent: Any, commands: np.ndarray, steps: int) -> tuple[np.ndarray, ...]:
    """Plays a game for each command [n, 3].

    Returns tracking of the velocity, ends, actions and observations after the step, each with axes [steps, n].
    """
    number, seen = len(commands), ([], [], [], [])
    options: dict[str, Any] = {"hold": True, "noise": 0.0, "push": 0.0, "max_episode_steps": steps + 1}
    with headrace.make(TASK, num_envs=number, seed=7, **options) as pool:
        obs, _ = pool.reset()
        for _ in range(steps):
            pool._executor.state_arrays()["command"][:number] = commands
            action = agent.act(obs)
            obs, _, terminated, _, info = pool.step(action)
            for kept, new in zip(seen, (info["reward_terms"][:, 0], terminated, action, obs), strict=True):
                kept.append(np.array(new))
    return tuple(np.array(kept) for kept in seen)


def measure(run: Path) -> dict[str, float]:
    """The six figures of a run's last weights, and the tracking of each command."""
    agent = headrace.load(run, which="newest")
    tracking, ends, _, _ = play(agent, np.repeat(np.array([*COMMANDS.values()]), GAMES, 0), STEPS)
    _, fell, actions, obs = play(agent, np.array([STRAIGHT]), STRAIGHT_STEPS)
    walked = ~fell
    change, together = np.diff(actions, axis=0), walked[1:] & walked[:-1]
    gyro = obs[..., GYRO][walked]
    kept = np.where(ends, 0.0, tracking)
    seen = {
        "tracking": kept.mean(),
        "falls": int(ends.sum()),
        "action change": _rms(change[together]),
        "wobble": np.sqrt((gyro[:, :2] ** 2).sum(1).mean()),
        "turning": _rms(gyro[:, 2]),
        "leg speed": _rms(obs[..., LEG_SPEEDS][walked]),
        **dict(zip(COMMANDS, kept.mean(0).reshape(-1, GAMES).mean(1), strict=True)),
    }
    return {name: round(float(value), 3) for name, value in seen.items()}


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


def passed(seen: dict[str, float]) -> int:
    """How many of the six gates these figures pass."""
    below = sum(seen[name] <= bound for name, bound in GATES.items() if name != "tracking")
    return below + (seen["tracking"] >= GATES["tracking"])


def main() -> None:
    args = tyro.cli(GatesArgs, description=__doc__)
    if args.run is not None:
        seen = measure(args.run)
        print(seen | {"gates": passed(seen)})
        return
    rows: list[dict[str, Any]] = [row for row in earlier(args.out, NAME, "rows") or [] if row["seed"] not in args.seeds]
    with tempfile.TemporaryDirectory() as made:
        for seed in args.seeds:
            run = Path(made) / str(seed)
            took = in_process(WalkersArgs(task=TASK), seed, run)
            seen = measure(run)
            rows.append({"seed": seed, **took, **seen, "gates": passed(seen)})
            print(rows[-1], flush=True)
    tell(
        args.out,
        heading(NAME, "The G1 after the plain command, by nanoG1's six gates") | {"gates": GATES, "rows": rows},
    )


if __name__ == "__main__":
    main()

"""CrossQ at its published settings after 100,000 steps, one update for each, and what an update costs at two widths.

The authors' critics are 2,048 wide; one core takes hours for that, so ``--width 256`` is what is run by default. Runs
that the folder holds are not made again: only games are played.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

import headrace
from common import RESULTS, heading, tell
from headrace.train import train
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.collect.policies import make_policy
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.storage.transitions import Transitions

CROSSQ = f"{Path(__file__).parents[1]}/examples/algorithms/crossq.py:CrossQ"
PUBLISHED_WIDTH = 2048
STEPS = 100_000


@dataclass
class CrossQArgs:
    """CrossQ's returns after 100,000 steps."""

    tasks: tuple[str, ...] = ("HalfCheetah-v5", "Hopper-v5")
    """names of the tasks"""
    width: int = 256
    """of the critics' two layers"""
    games: int = 10
    """played without exploration by the last weights"""
    runs: Path = Path("runs/crossq_published")
    """folder of the runs, a folder for each task"""
    out: Path = RESULTS
    """folder for the JSON file"""


def update_cost(task: str, width: int, count: int) -> float:
    """Processor seconds of one update, the mean of so many."""
    config = make_config(task, algo=CROSSQ, preset="published", critic_hidden=(width, width), replay_size=64)
    spec = headrace.make_spec(task)
    policy: Any = make_policy("", config, AgentGroup(spec.observation_space, spec.action_space), torch.device("cpu"))
    rows, (inputs,) = config.minibatch_size, spec.observation_space.shape  # type: ignore
    seen = torch.randn(2, rows, inputs)
    actions = torch.rand(rows, policy.distribution.noise_size)
    batch = Transitions(seen[0], actions, torch.randn(rows), torch.full((rows,), 0.99), seen[1])
    policy.improve(batch, UpdateRates(1e-3, 1e-3, 0.5))
    began = time.process_time()
    for number in range(count):
        policy.improve(batch, UpdateRates(1e-3, 1e-3, 0.5), (number + 1) % policy.actor_every == 0)
    return (time.process_time() - began) / count


def main() -> None:
    args = tyro.cli(CrossQArgs)
    torch.set_num_threads(1)
    rows = []
    for task in args.tasks:
        folder = args.runs / task
        if not (folder / "config.json").is_file():
            critics: dict[str, Any] = {"critic_hidden": (args.width, args.width)}
            train(
                task, CROSSQ, preset="published", total_steps=STEPS, seed=1, samplers=0, torch_threads=1,
                run_dir=folder, **critics,
            )  # fmt: skip
        costs = {width: update_cost(task, width, count) for width, count in ((args.width, 60), (PUBLISHED_WIDTH, 6))}
        rows.append(
            {
                "task": task,
                "width": args.width,
                "steps": STEPS,
                "games": round(evaluate(folder, args.games, which="newest", trust=True).mean_return),
                **{f"ms an update, {width}": round(1000 * cost, 1) for width, cost in costs.items()},
                f"hours, {PUBLISHED_WIDTH}": round(costs[PUBLISHED_WIDTH] * STEPS / 3600, 1),
            }
        )
    tell(args.out, heading("crossq_published", "CrossQ after 100,000 steps, one core, one seed") | {"rows": rows})


if __name__ == "__main__":
    main()

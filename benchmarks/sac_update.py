"""SAC's update alone, for HalfCheetah's sizes: how often a second, beside stable-baselines3's, and what it is made of.

Equal networks (two hidden layers of 256), batches, and replays of random numbers of which every update draws its own.
Both libraries with float32 products as they are ("highest"), and rounded to bfloat16 on their way into the
processor's matrix units, where it has them ("medium", the default of our off-policy runs). The matrix products of
an update alone, of the same shapes, tell how much of it is the arithmetic that no library can avoid.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import Tensor

from common import OURS, Args, Comparison, Contender, measure, repeating
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SAC
from headrace.train.collect.policies import keep_freed_memory
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.storage.transitions import Transitions

INPUTS, ACTIONS, HIDDEN = 17, 6, 256
HELD = 100_000  # transitions in the replays
PRODUCTS = "headrace: its products alone"
LEAST = {"stable-baselines3": 3.7}
OBSERVATIONS = gym.spaces.Box(-np.inf, np.inf, (INPUTS,), np.float32)
BOX = gym.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)


@dataclass
class SacArgs(Args):
    """SAC's update beside stable-baselines3's."""

    batches: tuple[int, ...] = (256, 1024)
    """transitions in an update"""
    threads: tuple[int, ...] = (1, 2)
    """torch's threads"""


def timed(update: Callable[[], Any], threads: int, precision: str) -> Contender:
    """A contender: updates a second."""
    updates = repeating(update, times=5)

    def run(seconds: float) -> float:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        return updates(seconds)

    return run


def transitions(count: int, columns: int = INPUTS) -> Transitions:
    """Random ones."""
    chance = torch.Generator().manual_seed(0)
    inputs, following = torch.randn(2, count, columns, generator=chance)
    actions = torch.rand(count, ACTIONS, generator=chance) * 2 - 1
    discounts = (torch.rand(count, generator=chance) < 0.99) * 0.99
    return Transitions(inputs, actions, torch.randn(count, generator=chance), discounts, following)


class Ours:
    """Our policy and its replay on the device."""

    def __init__(self, batch: int, held: Transitions):
        config = make_config("HalfCheetah-v5", algo="sac", hidden=(HIDDEN, HIDDEN), minibatch_size=batch)
        self.batch = batch
        self.policy = SAC("", config, AgentGroup(OBSERVATIONS, BOX), torch.device("cpu"))
        self.replay = TransitionReplay(HELD, INPUTS, ACTIONS)
        self.replay.add(held)
        self.rates = UpdateRates.of(config, 0)
        self.chance = torch.Generator().manual_seed(1)

    @torch.inference_mode()
    def read(self) -> Transitions:
        """A batch of its own."""
        return self.replay.read(self.replay.draw((self.batch,), self.chance))

    @torch.inference_mode()
    def update(self) -> None:
        """Everything that learning does."""
        self.policy.improve(self.read(), self.rates)

    def parts(self, repeats: int) -> dict[str, float]:
        """Microseconds of the parts, the least of several turns; critics and actor as they are when made apart."""
        batch = self.read()
        parts = {
            "replay": self.read,
            "update": lambda: self.policy.improve(batch, self.rates),
            "critics": lambda: self.policy.improve(batch, self.rates, actor=False),
            "actor": lambda: self.policy.improve(batch, self.rates, critics=False),
            "targets": self.policy.move_targets,
        }
        return {name: round(least_seconds(part, repeats) * 1e6, 1) for name, part in parts.items()}


def least_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Of one call, on average over ten, in the best of so many turns."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(10):
            function()
        best = min(best, (time.perf_counter() - began) / 10)
    return best


class Products:
    """The matrix products of one update, and nothing else."""

    def __init__(self, batch: int):
        twin, joined, both = 2, INPUTS + ACTIONS, 2 * batch
        shapes: list[tuple[int, int, int, int]] = []  # (towers, rows, inner, columns)
        # the actor on what was seen before and after the step
        shapes += [(1, both, INPUTS, HIDDEN), (1, both, HIDDEN, HIDDEN), (1, both, HIDDEN, 2 * ACTIONS)]
        # the targets, the critics on actions that were taken, and on the actor's
        shapes += 3 * [(twin, batch, joined, HIDDEN), (twin, batch, HIDDEN, HIDDEN), (twin, 1, HIDDEN, batch)]
        # the critics' gradients: of the last layer, the second, its inputs, the first
        shapes += [(twin, 1, batch, HIDDEN), (twin, HIDDEN, batch, HIDDEN), (twin, batch, HIDDEN, HIDDEN)]
        shapes += [(twin, joined, batch, HIDDEN)]
        # down to the actor's actions, and its gradients
        shapes += [(twin, batch, HIDDEN, HIDDEN), (twin, ACTIONS, HIDDEN, batch)]
        shapes += [(1, 2 * ACTIONS, batch, HIDDEN), (1, batch, 2 * ACTIONS, HIDDEN), (1, HIDDEN, batch, HIDDEN)]
        shapes += [(1, batch, HIDDEN, HIDDEN), (1, INPUTS, batch, HIDDEN)]
        self.gflop = sum(2e-9 * k * rows * inner * columns for k, rows, inner, columns in shapes)
        self._factors = [
            (torch.randn(k, rows, inner), torch.randn(k, inner, columns), torch.empty(k, rows, columns))
            for k, rows, inner, columns in shapes
        ]

    @torch.inference_mode()
    def update(self) -> None:
        for a, b, out in self._factors:
            torch.bmm(a, b, out=out)


class Nothing(gym.Env[np.ndarray, np.ndarray]):
    """An environment that is never stepped: stable-baselines3 asks one for its spaces."""

    observation_space, action_space = OBSERVATIONS, BOX

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(INPUTS, np.float32), {}


def stable_baselines(batch: int, held: Transitions) -> Callable[[], None]:
    """stable-baselines3's update, with the same transitions in its replay."""
    import stable_baselines3
    from stable_baselines3.common.logger import configure

    model = stable_baselines3.SAC("MlpPolicy", Nothing(), buffer_size=HELD, batch_size=batch, seed=1, device="cpu")
    model.set_logger(configure(None, []))
    fill(model.replay_buffer, held)
    return lambda: model.train(1, batch)


def fill(buffer: Any, held: Transitions) -> None:
    """Gives a replay of stable-baselines3 as many transitions as it holds."""
    buffer.observations[:, 0], buffer.next_observations[:, 0] = held.inputs.numpy(), held.next_observations.numpy()
    buffer.actions[:, 0], buffer.rewards[:, 0] = held.actions.numpy(), held.rewards.numpy()
    buffer.dones[:, 0] = (held.discounts == 0).numpy()
    buffer.full = True


def matrix_rate(size: int = 2048) -> float:
    """GFLOP/s of a large square product, with the threads and the precision that are set."""
    a, out = torch.randn(size, size), torch.empty(size, size)

    def product() -> Tensor:
        return torch.mm(a, a, out=out)

    return 2e-9 * size**3 / min(least_seconds(product, 1) for _ in range(2))


def comparisons(args: SacArgs, details: dict[str, Any]) -> Iterator[Comparison]:
    """One for each minibatch and number of threads; with the parts of the update, and of the machine's matrix rate."""
    held = transitions(HELD)
    for batch, threads in itertools.product(args.batches, args.threads):
        ours, theirs, products = Ours(batch, held), stable_baselines(batch, held), Products(batch)
        peers = {
            "headrace, highest": timed(ours.update, threads, "highest"),
            "stable-baselines3": timed(theirs, threads, "highest"),
            "stable-baselines3, medium": timed(theirs, threads, "medium"),
            PRODUCTS: timed(products.update, threads, "medium"),
            f"{PRODUCTS}, highest": timed(products.update, threads, "highest"),
        }
        name = f"batch {batch}, {threads} threads"
        case = Comparison(name, timed(ours.update, threads, "medium"), peers, wanted=LEAST, unit="updates/s")
        yield case
        median = {who: statistics.median(turns) for who, turns in case.rates.items()}
        details[name] = {"gflop_an_update": round(products.gflop, 3)}
        for precision, more in (("medium", ""), ("highest", ", highest")):
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision(precision)
            reached, machine = median[f"{OURS}{more}"] * products.gflop, matrix_rate()
            details[name][precision] = {
                "machine_gflops": round(machine, 1),
                "update_gflops": round(reached, 1),
                "share_of_matrix_rate": round(reached / machine, 3),
                "share_of_products": round(median[f"{OURS}{more}"] / median[f"{PRODUCTS}{more}"], 3),
                "microseconds": ours.parts(3 * args.repeats),
            }
        print(name, details[name])


if __name__ == "__main__":
    chosen, found = tyro.cli(SacArgs), dict[str, Any]()
    keep_freed_memory()
    sizes = {"hidden": [HIDDEN, HIDDEN], "inputs": INPUTS, "actions": ACTIONS, "held": HELD}
    measure("sac_update", "SAC's update", comparisons(chosen, found), chosen, {"details": found}, **sizes)

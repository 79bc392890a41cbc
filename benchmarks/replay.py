"""Minibatches from a replay beside stable-baselines3's: numbers drawn, transitions gathered, on one thread.

Ours is full and in shared memory, as a run with samplers has it; by priority, it also gives every transition that was
read a new priority. Of Atari, stable-baselines3's buffer gets an eighth of the steps: it holds each image eight times,
in stacks of four and again in what followed, and would take that much more memory. Rates are minibatches a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro

from common import Args, Comparison, Contender, measure, repeating
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.step_replay import StepReplay

ENVS = 16
EPISODE = 500


@dataclass
class ReplayArgs(Args):
    """Minibatches from a replay."""

    steps: int = 1_000_000
    """of HalfCheetah's environments; Atari has a hundredth of them"""


@dataclass
class Kind:
    """What a replay holds."""

    observation: gym.spaces.Box
    action: gym.Space
    batch: int
    steps: int
    n_step: int = 1
    stack: int = 1


def full(kind: Kind) -> StepReplay:
    """A replay of one segment that was written from end to end, and a little more."""
    rows = kind.steps // ENVS
    replay = StepReplay(kind.observation, kind.action, 1, rows, ENVS, kind.n_step, frame_stack=kind.stack)
    writer, random = replay.writer(0), np.random.default_rng(0)
    shape, dtype = writer.row.observation.shape, writer.row.observation.dtype
    seen = random.integers(0, 255, shape).astype(dtype)
    writer.begin()
    no = np.zeros(ENVS, bool)
    for t in range(rows + 100):
        row = writer.row
        row.observation[...], row.action[...], row.reward[...] = seen, 0, 1
        writer.publish(no, ~no if t % EPISODE == EPISODE - 1 else no)
    return replay


def ours(kind: Kind) -> tuple[Contender, Contender]:
    """Drawn alike, and by priority."""
    replay, generator = full(kind), torch.Generator().manual_seed(0)
    prioritised, errors = PrioritisedReplay(replay, 0.5), torch.rand(kind.batch)

    def alike() -> None:
        replay.read(replay.draw((kind.batch,), generator))

    def by_priority() -> None:
        numbers = prioritised.draw((kind.batch,), generator)
        prioritised.read(numbers)
        prioritised.update(numbers, errors)

    return repeating(alike, times=10), repeating(by_priority, times=10)


def theirs(kind: Kind) -> dict[str, Contender]:
    """stable-baselines3's buffer, filled by hand."""
    try:
        from stable_baselines3.common.buffers import ReplayBuffer
    except ImportError:
        return {}
    space = kind.observation
    if kind.stack > 1:
        space = gym.spaces.Box(0, 255, (kind.stack, *space.shape[1:]), np.uint8)
    steps = kind.steps // (8 if kind.stack > 1 else 1)
    buffer = ReplayBuffer(steps, space, kind.action, device="cpu", n_envs=ENVS)
    buffer.observations[:], buffer.next_observations[:], buffer.full = 1, 1, True
    return {"stable-baselines3": repeating(lambda: buffer.sample(kind.batch), times=10)}


def comparisons(args: ReplayArgs) -> Iterator[Comparison]:
    """One for each kind of observations and number of steps."""
    robot = gym.spaces.Box(-np.inf, np.inf, (17,), np.float32), gym.spaces.Box(-1, 1, (6,), np.float32)
    screen = gym.spaces.Box(0, 255, (1, 84, 84), np.uint8), gym.spaces.Discrete(6)
    kinds = {
        "HalfCheetah, 256": Kind(*robot, 256, args.steps),
        "HalfCheetah, 256 of 3 steps": Kind(*robot, 256, args.steps, n_step=3),
        "Atari, 32 of 4 x 84 x 84": Kind(*screen, 32, args.steps // 100, stack=4),
        "Atari, 32 of 3 steps": Kind(*screen, 32, args.steps // 100, n_step=3, stack=4),
    }
    for name, kind in kinds.items():
        alike, by_priority = ours(kind)
        peers = {"headrace, by priority": by_priority} | (theirs(kind) if kind.n_step == 1 else {})
        yield Comparison(name, alike, peers, unit="minibatches/s")


if __name__ == "__main__":
    chosen = tyro.cli(ReplayArgs)
    torch.set_num_threads(1)
    measure("replay", "Minibatches from a replay", comparisons(chosen), chosen, envs=ENVS)

"""DQN's update over images, and over numbers, beside stable-baselines3's: minibatches from each one's own replay.

Images are Pong's; numbers are random, for two hidden layers of 128. Ours makes double targets, which cost a forward
pass more; otherwise settings are equal (Nature-CNN, Huber's loss, Adam, clipped gradients). Ours by default multiplies
in bfloat16 where the processor can; float32 is shown beside it for images. Each contender over images runs with the
number of torch threads (1 or all cores) that it is faster with. Rates are minibatches a second; times their size they
are the update frame rate.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
import tyro

import headrace
from common import Args, Comparison, Contender, measure, repeating
from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.collect.policies import make_policy
from headrace.train.collect.steps import Frames, make_replay
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.storage.transitions import Transitions
from ppo_speed import pong_frames, threaded
from sac_update import ACTIONS, HELD, INPUTS, OBSERVATIONS, Nothing, fill, transitions

HIDDEN = 128, 128
STEPS = 256  # of each of 8 environments: enough to draw from, and the same memory for both


@dataclass
class UpdateArgs(Args):
    """DQN's update beside stable-baselines3's."""

    sizes: tuple[int, ...] = (32, 64, 256)
    """minibatches of images"""
    numbers: tuple[int, ...] = (128,)
    """minibatches of numbers"""


def ours(size: int, bf16: bool) -> Contender:
    """Our policy and replay, as a run with samplers has them."""
    settings: dict[str, Any] = {"minibatch_size": size, "bf16": bf16, "replay_size": 8 * STEPS}
    config = make_config("Pong-v5", algo="dqn", preset="default", samplers=1, **settings)
    replay, frames = make_replay(config), Frames.of(config)
    writer = replay.writer(0)
    with headrace.make("Pong-v5", num_envs=8, seed=1, autoreset="next_step", **frames.options) as pool:
        writer.row.observation[...], _ = pool.reset()
        writer.begin()
        policy: Any = _policy(config, pool)
        chance = torch.Generator().manual_seed(1)
        for _ in range(STEPS - 16):
            row = writer.row
            actions = torch.randint(policy.distribution.size, (8,), generator=chance)
            row.action[...] = actions.numpy()
            seen, row.reward[...], terminated, truncated, _ = pool.step(actions.numpy())
            writer.following.observation[...] = seen
            writer.publish(terminated, truncated)
    rates = UpdateRates.of(config, 0)

    def update() -> None:
        with torch.inference_mode():
            policy.improve(replay.read(replay.draw((size,), chance)), rates)

    return repeating(update)


def _policy(config: Any, pool: headrace.Pool) -> DQN:
    torch.manual_seed(1)
    spec = headrace.make_spec("Pong-v5", **config.env_options)
    policy = make_policy("", config, AgentGroup(spec.observation_space, spec.action_space), torch.device("cpu"))
    assert isinstance(policy, DQN)
    return policy


def stable_baselines(size: int) -> Contender:
    """stable-baselines3's DQN, its replay filled by itself."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    envs = VecFrameStack(make_atari_env(pong_frames, 8, seed=1), 4)
    steps = 8 * (STEPS - 16)
    model = stable_baselines3.DQN(
        "CnnPolicy", envs, buffer_size=8 * STEPS, learning_starts=10**9, batch_size=size, device="cpu", seed=1
    )
    model.learn(steps)
    envs.close()
    return repeating(lambda: model.train(gradient_steps=1, batch_size=size))


class Numbers(Nothing):
    """Its spaces, with discrete actions."""

    action_space = gym.spaces.Discrete(ACTIONS)  # type: ignore[assignment]


def ours_of_numbers(size: int, held: Transitions) -> Contender:
    """Our policy, and its replay on the device."""
    config = make_config("x", algo="dqn", defaults=False, hidden=HIDDEN, minibatch_size=size, loss="huber")
    policy: Any = make_policy("", config, AgentGroup(OBSERVATIONS, Numbers.action_space), torch.device("cpu"))
    replay, chance, rates = (
        TransitionReplay(HELD, INPUTS, 1),
        torch.Generator().manual_seed(1),
        UpdateRates.of(config, 0),
    )
    replay.add(held)

    def update() -> None:
        with torch.inference_mode():
            policy.improve(replay.read(replay.draw((size,), chance)), rates)

    return repeating(update, times=20)


def stable_baselines_of_numbers(size: int, held: Transitions) -> Contender:
    """stable-baselines3's DQN, with the same transitions in its replay."""
    import stable_baselines3
    from stable_baselines3.common.logger import configure

    network = {"net_arch": list(HIDDEN)}
    how: dict[str, Any] = {"buffer_size": HELD, "batch_size": size, "policy_kwargs": network, "device": "cpu"}
    model = stable_baselines3.DQN("MlpPolicy", Numbers(), **how)
    model.set_logger(configure(None, []))
    fill(model.replay_buffer, held)
    return repeating(lambda: model.train(1, size), times=20)


def comparisons(args: UpdateArgs, used: dict[str, dict[str, int]]) -> Iterator[Comparison]:
    """One for each size of minibatch; each contender with the number of threads that it is faster with."""
    for size in args.sizes:
        contenders = {
            "headrace": ours(size, bf16=True),
            "stable-baselines3": stable_baselines(size),
            "headrace, float32": ours(size, bf16=False),
        }
        faster = {label: threaded(run, args.seconds / 2) for label, run in contenders.items()}
        name = f"Pong-v5, minibatch {size}"
        used[name] = {label: threads for label, (threads, _) in faster.items()}
        peers = {label: run for label, (_, run) in faster.items()}
        yield Comparison(name, peers.pop("headrace"), peers, unit="updates/s")
    chosen = torch.randint(ACTIONS, (HELD, 1), generator=torch.Generator().manual_seed(0)).float()
    held = transitions(HELD)._replace(actions=chosen)
    for size in args.numbers:
        peers = {"stable-baselines3": stable_baselines_of_numbers(size, held)}
        yield Comparison(f"Numbers, minibatch {size}", ours_of_numbers(size, held), peers, unit="updates/s")


def main() -> None:
    args, used = tyro.cli(UpdateArgs), {}
    logging.disable(logging.WARNING)
    torch.set_float32_matmul_precision(make_config("Pong-v5", algo="dqn", preset="default").matmul_precision)
    extra = {"torch_threads": used}
    measure("dqn_update", "DQN's update", comparisons(args, used), args, extra)


if __name__ == "__main__":
    main()

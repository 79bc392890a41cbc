"""Updates beside their arithmetic: how much of what the processor can do is reached, in compiled code and torch.

Of PPO, SAC, TD3 and DQN, for perceptrons of several widths: the operations of one update (products alone; activations,
loss and Adam are small beside them), the rate at which torch multiplies matrices of such shapes on one core, and the
share of it that an update reaches in compiled code and in torch, operation by operation. Products of float32; with
``medium`` of bfloat16 where the processor has matrix units. DQN's update of Atari's CNN, which only torch makes, stands
beside products of its second layer's shape. One thread, processor time, in turns; a share is the median of those turn
by turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro

from common import Args, heading, tell
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import Rates, UpdateRates
from headrace.train.collect.policies import make_policy
from headrace.train.modules.cnn import cpu_has_bf16
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples, draw_order
from headrace.train.storage.transitions import Transitions

INPUTS, ACTIONS = 17, 6  # HalfCheetah's
SEEN, ACTION = gym.spaces.Box(-1, 1, (INPUTS,), np.float32), gym.spaces.Box(-1, 1, (ACTIONS,), np.float32)


@dataclass
class LimitArgs(Args):
    """Updates beside the limit."""

    widths: tuple[int, ...] = (64, 128, 256)
    """units of both hidden layers"""
    minibatches: tuple[int, ...] = (256, 2048)
    """samples of an update of PPO; updates from a replay have 256"""
    seconds: float = 0.3
    precisions: tuple[str, ...] = ("highest", "medium")
    """of products; PPO's are of float32"""
    frames: tuple[int, ...] = (32, 256)
    """transitions of an update of DQN with a CNN"""


REPLAY = 256  # transitions of an update
# of Atari's CNN: places, inputs of each filter, and filters
CONVOLUTIONS = (400, 256, 32), (81, 512, 64), (49, 576, 64)


def policy_of(width: int, minibatch: int) -> PPO:
    """A policy of HalfCheetah's shape."""
    config = make_config(
        "x", defaults=False, algo="ppo", hidden=(width, width), minibatch_size=minibatch, torch_threads=1
    )
    return PPO("", config, AgentGroup(SEEN, ACTION), torch.device("cpu"))


def samples_of(policy: PPO, rows: int) -> Samples:
    """Random samples."""
    inputs, actions, columns = torch.randn(rows, INPUTS), torch.randn(rows, ACTIONS), torch.randn(3, rows)
    with torch.inference_mode():
        log_probs = policy.distribution.evaluate(policy.network(inputs)[0], actions)[0]
    return Samples(inputs, actions, log_probs, *columns)


def layers(width: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Multiplications and additions of a network's products for one sample: forward, and back to its first layer."""
    forward = 2 * (inputs * width + width * width + width * outputs)
    return forward, forward - 2 * inputs * width


def operations(algo: str, width: int, samples: int) -> int:
    """Those of one update; gradients of parameters are as many as forward."""
    if algo == "ppo":
        actor, critic = layers(width, INPUTS, ACTIONS), layers(width, INPUTS, 1)
        return samples * sum(2 * forward + back for forward, back in (actor, critic))
    if algo == "dqn":
        forward, back = layers(width, INPUTS, ACTIONS)
        return samples * (4 * forward + back)  # of Q twice, of its target, and back
    critic, critic_back = layers(width, INPUTS + ACTIONS, 1)
    actor, actor_back = layers(width, INPUTS, ACTIONS * (2 if algo == "sac" else 1))
    judges = 2 if algo == "sac" else 1
    fit = 2 * (3 * critic + critic_back)  # values of the targets, own ones, and back
    climb = judges * (critic + critic_back + 2 * ACTIONS * width) + 2 * actor + actor_back
    return samples * (actor + fit + climb)


def timed(run: Callable[[], Any], seconds: float) -> float:
    """Processor seconds of one call."""
    began, calls = time.process_time(), 0
    while time.process_time() - began < seconds:
        run()
        calls += 1
    return (time.process_time() - began) / calls


def ppo_updates(width: int, minibatch: int) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """Updates in compiled code and in torch, and how many they are."""
    torch.manual_seed(0)
    compiled, plain = policy_of(width, minibatch), policy_of(width, minibatch)
    plain.network.compiled = None
    samples, rates = samples_of(plain, 4 * minibatch), Rates.of(plain.config, 0)
    order = draw_order(samples, minibatch, torch.Generator().manual_seed(0))
    return lambda: compiled.update(samples, rates, [order]), lambda: plain.update(samples, rates, [order]), 4


def replay_updates(algo: str, width: int) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """As `ppo_updates`, of an algorithm with a replay; each update of TD3 has one of the actor."""
    config = make_config("x", algo=algo, defaults=False, hidden=(width, width), minibatch_size=REPLAY)
    action = gym.spaces.Discrete(ACTIONS) if algo == "dqn" else ACTION
    made: Any = [make_policy("", config, AgentGroup(SEEN, action), torch.device("cpu")) for _ in range(2)]
    compiled, plain = made
    plain.compiled = None
    torch.manual_seed(0)
    seen, following = torch.randn(2, REPLAY, INPUTS)
    actions = torch.randint(ACTIONS, (REPLAY,)) if algo == "dqn" else torch.randn(REPLAY, ACTIONS).clamp(-1, 1)
    batch = Transitions(seen, actions, torch.rand(REPLAY), torch.rand(REPLAY), following)
    rates = UpdateRates.of(config, 0)
    return lambda: compiled.improve(batch, rates), lambda: plain.improve(batch, rates), 1


def cnn_operations(samples: int) -> int:
    """Those of DQN's update with the Nature-CNN, whose first layer has no gradients of inputs."""
    first, *others = [2 * a * b * c for a, b, c in (*CONVOLUTIONS, (1, 3136, 512), (1, 512, ACTIONS))]
    return samples * (4 * (first + sum(others)) + sum(others))  # of Q twice, of its target, and back


def cnn_update(samples: int, bf16: bool) -> Callable[[], Any]:
    """DQN's update from Atari's frames."""
    config = make_config("x", algo="dqn", defaults=False, network="cnn", bf16=bf16, minibatch_size=samples)
    agents = AgentGroup(gym.spaces.Box(0, 255, (4, 84, 84), np.uint8), gym.spaces.Discrete(ACTIONS))
    torch.manual_seed(0)
    policy: Any = make_policy("", config, agents, torch.device("cpu"))
    seen, following = torch.randint(256, (2, samples, 4, 84, 84), dtype=torch.uint8)
    actions = torch.randint(ACTIONS, (samples,))
    batch, rates = (
        Transitions(seen, actions, torch.rand(samples), torch.rand(samples), following),
        UpdateRates.of(config, 0),
    )
    return lambda: policy.improve(batch, rates)


def mlp_row(algo: str, width: int, samples: int, precision: str, args: LimitArgs) -> dict[str, Any]:
    """A line of the table, of perceptrons."""
    torch.set_float32_matmul_precision(precision)
    compiled, plain, updates = ppo_updates(width, samples) if algo == "ppo" else replay_updates(algo, width)
    work = operations(algo, width, samples)
    runs = {"compiled": (compiled, updates), "torch": (plain, updates)}
    shape = samples, width, width
    return {"update": f"{algo}, {precision}", "network": f"{width} × {width}", "samples": samples} | shares(
        runs, work, shape, torch.float32, args
    )


def cnn_row(samples: int, precision: str, args: LimitArgs) -> dict[str, Any]:
    """A line of the table, of Atari's CNN."""
    torch.set_float32_matmul_precision(precision)
    bf16 = precision == "medium" and cpu_has_bf16()
    runs, (positions, inner, columns) = {"torch": (cnn_update(samples, bf16), 1)}, CONVOLUTIONS[1]
    shape, dtype = (samples * positions, inner, columns), torch.bfloat16 if bf16 else torch.float32
    return {"update": f"dqn, {precision}", "network": "Nature-CNN", "samples": samples} | shares(
        runs, cnn_operations(samples), shape, dtype, args
    )


def shares(
    runs: dict[str, tuple[Callable[[], Any], int]],
    work: int,
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    args: LimitArgs,
) -> dict[str, Any]:
    """The columns of a line that are measured.

    Args:
        runs: ``"compiled"``, ``"torch"`` → what makes updates, and how many.
        work: operations of an update.
        shape, dtype: rows, inner size and columns of the product that is the limit.
    """
    rows, inner, columns = shape
    a, b, product = (torch.randn(size).to(dtype) for size in ((rows, inner), (inner, columns), (rows, columns)))
    contenders = {name: (run, updates * work) for name, (run, updates) in runs.items()}
    contenders["products"] = (lambda: torch.mm(a, b, out=product), 2 * rows * inner * columns)
    rates_of: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.repeats):
        for name, (run, done) in contenders.items():
            rates_of[name].append(done / timed(run, args.seconds))
    names = "compiled", "torch"
    found = {
        "MFLOP": round(work / 1e6, 1),
        "products alone, GFLOP/s": round(median(rates_of["products"]) / 1e9, 1),
    }
    micros = {name: round(work / median(rates_of[name]) * 1e6) for name in runs}
    share = {
        name: round(median(each / peak for each, peak in zip(rates_of[name], rates_of["products"], strict=True)), 2)
        for name in runs
    }
    found |= {f"{name}, µs an update": micros.get(name) for name in names}
    return found | {f"{name}, of the limit": share.get(name) for name in names}


def main() -> None:
    args = tyro.cli(LimitArgs)
    torch.set_num_threads(1)
    record = heading("learner_limit", "Updates beside bare products, one thread, processor time")
    record |= {"settings": {"repeats": args.repeats, "seconds": args.seconds}}
    cases = [("ppo", width, minibatch, "highest") for width in args.widths for minibatch in args.minibatches]
    for algo in ("sac", "td3", "dqn"):
        cases += [(algo, width, REPLAY, precision) for precision in args.precisions for width in args.widths[-1:]]
    record["rows"] = [mlp_row(*case, args) for case in cases]
    record["rows"] += [cnn_row(size, precision, args) for precision in args.precisions for size in args.frames]
    tell(args.out, record)


if __name__ == "__main__":
    main()

"""An update of PPO beside its arithmetic: how much of what the processor can do is reached, in compiled code and torch.

For perceptrons of several widths, actor and critic apart: the operations of one update (products alone; activations,
loss and Adam are small beside them), the rate at which torch multiplies matrices of such shapes on one core, which
nothing exceeds, and the share of it that an update reaches in `CompiledMLP` and in torch, operation by operation. One
thread, processor time, in turns; a share is the median of those turn by turn.
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
from headrace.train.algorithms.ppo import PPO, PPOConfig
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.storage.samples import Samples, draw_order

INPUTS, ACTIONS = 17, 6  # HalfCheetah's
SEEN, ACTION = gym.spaces.Box(-1, 1, (INPUTS,), np.float32), gym.spaces.Box(-1, 1, (ACTIONS,), np.float32)


@dataclass
class LimitArgs(Args):
    """Updates beside the limit."""

    widths: tuple[int, ...] = (64, 128, 256)
    """units of both hidden layers"""
    minibatches: tuple[int, ...] = (256, 2048)
    """samples of an update"""
    seconds: float = 0.3


def policy_of(width: int, minibatch: int) -> PPO:
    """A policy of HalfCheetah's shape."""
    config = PPOConfig("x", hidden=(width, width), minibatch_size=minibatch, torch_threads=1)
    return PPO("", config, AgentGroup(SEEN, ACTION), torch.device("cpu"))


def samples_of(policy: PPO, rows: int) -> Samples:
    """Random samples."""
    inputs, actions, columns = torch.randn(rows, INPUTS), torch.randn(rows, ACTIONS), torch.randn(3, rows)
    with torch.inference_mode():
        log_probs = policy.distribution.evaluate(policy.network(inputs)[0], actions)[0]
    return Samples(inputs, actions, log_probs, *columns)


def operations(width: int, minibatch: int) -> int:
    """Multiplications and additions of an update's products: forward, and twice as many back but for the inputs'."""
    first, second, last = INPUTS * width, width * width, width * (ACTIONS + 1) / 2
    return int(2 * 2 * minibatch * (2 * first + 3 * second + 3 * last))


def timed(run: Callable[[], Any], seconds: float) -> float:
    """Processor seconds of one call."""
    began, calls = time.process_time(), 0
    while time.process_time() - began < seconds:
        run()
        calls += 1
    return (time.process_time() - began) / calls


def row(width: int, minibatch: int, args: LimitArgs) -> dict[str, Any]:
    """A line of the table."""
    torch.manual_seed(0)
    compiled, plain = policy_of(width, minibatch), policy_of(width, minibatch)
    plain.network.compiled = None
    samples, rates = samples_of(plain, 4 * minibatch), Rates.of(plain.config, 0)
    order = draw_order(samples, minibatch, torch.Generator().manual_seed(0))
    a, b, product = torch.randn(minibatch, width), torch.randn(width, width), torch.empty(minibatch, width)
    contenders: dict[str, tuple[Callable[[], Any], float]] = {
        "products": (lambda: torch.mm(a, b, out=product), 2 * minibatch * width * width),
        "compiled": (lambda: compiled.update(samples, rates, [order]), 4 * operations(width, minibatch)),
        "torch": (lambda: plain.update(samples, rates, [order]), 4 * operations(width, minibatch)),
    }
    rates_of: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.repeats):
        for name, (run, work) in contenders.items():
            rates_of[name].append(work / timed(run, args.seconds))
    share = {
        name: median(each / peak for each, peak in zip(rates_of[name], rates_of["products"], strict=True))
        for name in ("compiled", "torch")
    }
    update = {name: operations(width, minibatch) / median(rates_of[name]) for name in share}
    return {
        "network": f"{width} × {width}",
        "samples": minibatch,
        "MFLOP": round(operations(width, minibatch) / 1e6, 1),
        "products alone, GFLOP/s": round(median(rates_of["products"]) / 1e9, 1),
        "compiled, µs an update": round(update["compiled"] * 1e6),
        "torch, µs an update": round(update["torch"] * 1e6),
        "compiled, of the limit": round(share["compiled"], 2),
        "torch, of the limit": round(share["torch"], 2),
    }


def main() -> None:
    args = tyro.cli(LimitArgs)
    torch.set_num_threads(1)
    record = heading("learner_limit", "PPO's update beside bare products, one thread, processor time")
    record |= {"settings": {"repeats": args.repeats, "seconds": args.seconds}}
    record["rows"] = [row(width, minibatch, args) for width in args.widths for minibatch in args.minibatches]
    tell(args.out, record)


if __name__ == "__main__":
    main()

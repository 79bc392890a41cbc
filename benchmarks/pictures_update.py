"""Updates of CNNs and their evaluation, in compiled code beside torch's, by processor time on one thread.

The same policies, batches and settings: DQN's recipe for Pong (images of 42 x 42, 128 samples), DQN's Nature-CNN with
double targets (64 samples), epochs of minibatches of 256 of PPO, and of PQN with its normalised layers (the Nature-CNN;
images of 10 x 10), and what actors evaluate. Torch takes part in bfloat16 and in float32; Headrace's is the setting
``bf16``, float32 is shown beside it. stable-baselines3 and CleanRL take part where they have the update of the
Nature-CNN, with equal batches, in float32 as they are; their DQN's targets are not double, which saves them a forward
pass. The limit is torch's product of square matrices of bfloat16, as many times as the update has multiply-adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro

import pictures_peers as peers
from common import OURS, Args, Comparison, Contender, measure, repeating
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.collect.policies import make_policy
from headrace.train.modules.compiled import described
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples
from headrace.train.storage.transitions import Transitions

ACTIONS = 6
SIDE = 1024  # of the matrices that the limit multiplies
FORMS = {OURS: (True, True), "headrace float32": (True, False), "torch bfloat16": (False, True)}
FORMS |= {"torch float32": (False, False)}
"""contender → whether compiled code learns, and whether products are of bfloat16"""
SB3, CLEANRL = "stable-baselines3", "CleanRL"
OTHERS: dict[str, dict[str, Callable[[], peers.Update]]] = {
    "DQN, Nature-CNN, double": {
        SB3: lambda: peers.stable_baselines_dqn(64, ACTIONS),
        CLEANRL: lambda: peers.cleanrl_dqn(64, ACTIONS),
    },
    "PPO, Nature-CNN, epoch": {
        SB3: lambda: peers.stable_baselines_ppo(16, 64, 256, ACTIONS),
        CLEANRL: lambda: peers.cleanrl_ppo(1024, 256, ACTIONS),
    },
    "PQN, Nature-CNN, epoch": {CLEANRL: lambda: peers.cleanrl_pqn(1024, 256, ACTIONS)},
}
"""how the name of a case begins → other libraries' updates"""
IN_MATRIX_UNITS = {"DQN, 42 x 42, update": 8.0, "DQN, Nature-CNN, double": 6.0, "PPO, Nature-CNN, epoch": 10.0}
"""how the name of a case begins → the least ratio to torch's bfloat16 that is wanted of processors with AMX"""
ELSEWHERE = {"DQN, 42 x 42, update": 2.5}
"""the same of others, and to torch's float32 as well"""


def policy_of(side: int, compiled: bool, **settings: Any) -> Any:
    config = make_config("Pong-v5", torch_threads=1, **settings)
    space = gym.spaces.Box(0, 255, (4, side, side), np.uint8)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest")
    policy = make_policy("", config, AgentGroup(space, gym.spaces.Discrete(ACTIONS)), torch.device("cpu"))
    if not compiled:
        policy.compiled = policy.network.compiled = None
    return policy


def images(rows: int, side: int) -> torch.Tensor:
    return torch.randint(0, 256, (rows, 4, side, side), dtype=torch.uint8)


def update_of_dqn(policy: Any, side: int) -> Callable[[], Any]:
    rows = policy.config.minibatch_size
    actions, rewards = torch.randint(0, ACTIONS, (rows, 1)).float(), torch.randn(rows)
    batch = Transitions(images(rows, side), actions, rewards, torch.full((rows,), 0.95), images(rows, side))
    rates = UpdateRates.of(policy.config, 0)
    return lambda: policy.improve(batch, rates)


def epoch_of_rollout(policy: Any, side: int) -> Callable[[], Any]:
    rows = policy.config.num_envs * policy.config.num_steps
    columns = {name: torch.randn(rows) for name in ("log_probs", "advantages", "returns", "values")}
    samples = Samples(images(rows, side), torch.randint(0, ACTIONS, (rows,)), **columns)
    generator = torch.Generator().manual_seed(1)
    return lambda: policy.learn(samples, 0, generator)


def evaluation(rows: int) -> Callable[[Any, int], Callable[[], Any]]:
    def of(policy: Any, side: int) -> Callable[[], Any]:
        seen = images(rows, side)

        @torch.inference_mode()
        def evaluate() -> None:
            policy.network(seen)

        return evaluate

    return of


def multiply_adds(policy: Any) -> tuple[float, float]:
    """Returns the multiply-adds of a sample's way through the network, and of all but the first layer."""
    trunk: Any = next(each for each in policy.network.modules() if hasattr(each, "convolutions"))
    (_, height, width), counts = trunk.shape, []
    for layer in trunk.convolutions:
        (side, _), (stride, _) = layer.kernel_size, layer.stride
        height, width = ((length - side) // stride + 1 for length in (height, width))
        counts.append(layer.weight.numel() * height * width)
    counts.append(trunk.dense.weight.numel())
    return sum(counts), sum(counts[1:])


def products(count: float) -> Contender:
    """Returns what multiplies matrices of bfloat16, and counts a sample for each so many multiply-adds."""
    a, b = (torch.randn(SIDE, SIDE).bfloat16() for _ in range(2))
    return repeating(lambda: a @ b, SIDE**3 / count, clock=time.process_time)


def comparisons(args: Args) -> Iterator[Comparison]:
    dqn = {"algo": "dqn", "preset": "fast"}
    nature = {"algo": "dqn", "preset": "default"}
    ppo = {"algo": "ppo", "num_envs": 16, "num_steps": 64, "epochs": 1, "minibatch_size": 256}
    pqn = ppo | {"algo": "pqn", "trunk": "nature"}
    cases: list[tuple[str, int, dict[str, Any], int, Any, Callable[[float, float], float]]] = [
        ("DQN, 42 x 42, update of 128", 42, dqn, 128, update_of_dqn, lambda all_, rest: 3 * all_ + rest),
        ("DQN, Nature-CNN, double, update of 64", 84, nature, 64, update_of_dqn, lambda all_, rest: 4 * all_ + rest),
        ("PPO, Nature-CNN, epoch of 1,024", 84, ppo, 1024, epoch_of_rollout, lambda all_, rest: 2 * all_ + rest),
        ("PQN, Nature-CNN, epoch of 1,024", 84, pqn, 1024, epoch_of_rollout, lambda all_, rest: 2 * all_ + rest),
        ("PQN, 10 x 10, epoch of 1,024", 10, pqn, 1024, epoch_of_rollout, lambda all_, rest: 2 * all_ + rest),
        ("DQN, 42 x 42, values of 32", 42, dqn, 32, evaluation(32), lambda all_, _: all_),
        ("PPO, Nature-CNN, actions of 16", 84, ppo, 16, evaluation(16), lambda all_, _: all_),
        ("PQN, 10 x 10, values of 128", 10, pqn, 128, evaluation(128), lambda all_, _: all_),
    ]
    for name, side, settings, samples, job, count in cases:
        runs: dict[str, Contender] = {}
        limit = {"bare products": products(count(*multiply_adds(policy_of(side, False, **settings))))}
        for form, (compiled, bf16) in FORMS.items():
            policy = policy_of(side, compiled, **settings, bf16=bf16)
            runs[form] = repeating(job(policy, side), samples, clock=time.process_time)
        for library, made in of_case(OTHERS, name, {}).items():
            runs[library] = repeating(made(), samples, clock=time.process_time)
        yield Comparison(name, runs.pop(OURS), runs, limit, wanted(name), unit="samples/s of processor time")


def of_case(table: dict[str, Any], name: str, default: Any) -> Any:
    """Returns what a table has for the case of a name."""
    return next((found for begin, found in table.items() if name.startswith(begin)), default)


def wanted(name: str) -> dict[str, float]:
    """Returns the least ratios that are wanted of a case on this processor."""
    units = "AMX" in described(bfloat16=True)
    least = of_case(IN_MATRIX_UNITS if units else ELSEWHERE, name, 0.0)
    return dict.fromkeys(("torch bfloat16",) if units else ("torch bfloat16", "torch float32"), least) if least else {}


def main() -> None:
    args = tyro.cli(Args)
    torch.set_num_threads(1)
    title = f"Updates of CNNs beside torch's; {described(bfloat16=True)}"
    measure("pictures_update", title, comparisons(args), args, {"note": peers.named()})


if __name__ == "__main__":
    main()

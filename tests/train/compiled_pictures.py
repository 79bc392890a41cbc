"""What the tests of compiled convolutions share: trunks and their pictures, networks and policies, and distances."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.train.algorithms.a2c.a2c import A2C
from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.modules.cnn import StridedTrunk
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.network import make_network
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples

CPU = torch.device("cpu")
CHOICE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(-2.0, 1.0, (2,), np.float32)
ALGORITHMS: dict[str, Any] = {"ppo": PPO, "a2c": A2C, "dqn": DQN}
Shape = tuple[int, int, int]
"""channels, height and width of pictures"""
# the name of a trunk, and what it sees
SMALL: tuple[str, Shape] = ("small", (2, 12, 10))
NATURE: tuple[str, Shape] = ("nature", (4, 36, 36))
STRIDED: tuple[str, Shape] = ("strided", (3, 37, 39))


def space_of(shape: Shape) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255, shape, np.uint8)


def pictures(shape: tuple[int, ...], rows: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (rows, *shape), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def wild(*modules: torch.nn.Module) -> None:
    """Weights of which none is near 0, and of two networks not the same."""
    with torch.no_grad():
        for module in modules:
            for parameter in module.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * torch.randn_like(parameter))


def network_of(trunk: str, shape: Shape, action: gym.Space = CHOICE, **settings: Any) -> Any:
    """A network whose gradients are views of one vector, and that vector; pixels are standardised where they can be."""
    torch.manual_seed(0)
    how = {"trunk": "nature" if trunk == "small" else trunk, **settings}
    network: Any = make_network(space_of(shape), distribution_for(action, CPU), **how)
    wild(network)
    optimiser = FlatAdam(network)
    if isinstance(network.trunk, StridedTrunk):
        network.trunk.fit(pictures(shape, 20, 9))
    return network, optimiser.gradient


def policy_of(algo: str, trunk: str, shape: Shape, action: gym.Space = CHOICE, **settings: Any) -> Any:
    torch.manual_seed(5)
    how = {"trunk": "nature" if trunk == "small" else trunk, "bf16": False, "adam_epsilon": 1e-3, **settings}
    config = make_config("x", defaults=False, algo=algo, **how)
    policy: Any = ALGORITHMS[algo]("", config, AgentGroup(space_of(shape), action), CPU)
    assert policy.compiled is not None
    wild(policy.network, *([policy.targets] if algo == "dqn" else []))
    return policy


def samples_of(policy: Any, shape: Shape, action: gym.Space, rows: int) -> Samples:
    """A rollout, whose probabilities have changed since."""
    torch.manual_seed(1)
    columns, inputs = torch.randn(4, rows), pictures(shape, rows)
    actions = torch.randint(0, 3, (rows,)) if action is CHOICE else torch.randn(rows, 2)
    with torch.no_grad():
        log_probs = policy.distribution.evaluate(policy.network(inputs)[0], actions)[0] + 0.2 * columns[0]
    return Samples(inputs, actions, log_probs, columns[1], columns[2], columns[3])


def distance(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())

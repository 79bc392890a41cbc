"""What the tests of DQN's updates share: observation spaces, policies whose networks are not near zero, batches."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.transitions import Transitions

CPU = torch.device("cpu")
VECTORS = gym.spaces.Box(-1, 1, (3,), np.float32)
SMALL_IMAGES = gym.spaces.Box(0, 255, (2, 12, 10), np.uint8)
IMAGES = gym.spaces.Box(0, 255, (2, 44, 41), np.uint8)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def policy_for(space: gym.Space = VECTORS, actions: int = 4, **settings: Any) -> DQN:
    config = make_config("x", defaults=False, algo="dqn", **({"hidden": (16, 12), "minibatch_size": 8} | settings))
    torch.manual_seed(5)
    policy = DQN("", config, AgentGroup(space, gym.spaces.Discrete(actions)), CPU)
    with torch.no_grad():  # the last layers begin near nothing, and targets as the network
        for module in (policy.network, policy.targets):
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return policy


def some_transitions(space: gym.spaces.Box, count: int, seed: int, weighted: bool = True) -> Transitions:
    chance = generator(seed)
    if space.dtype == np.uint8:
        inputs, following = torch.randint(0, 256, (2, count, *space.shape), generator=chance).to(torch.uint8)
    else:
        inputs, following = torch.randn(2, count, *space.shape, generator=chance)
    actions = torch.randint(0, 4, (count,), generator=chance)
    discounts = 0.9 * (torch.rand(count, generator=chance) < 0.7).float()
    weights = torch.rand(count, generator=chance) if weighted else None
    return Transitions(inputs, actions, 2 * torch.randn(count, generator=chance), discounts, following, weights)

"""What the tests of updates share: policies whose networks are not near zero, batches, networks in plain torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import headrace
from headrace.train.collect.policies import make_policy
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.transitions import Transitions

CPU = torch.device("cpu")
CROSSQ = f"{Path(__file__).parents[2]}/examples/algorithms/crossq.py:CrossQ"
NONLINEAR: dict[str, Any] = {"relu": F.relu, "tanh": torch.tanh}


def a_policy(algo: str, task: str = "Ant-v5", **settings: Any) -> Any:
    """A policy whose last layers do not begin near nothing, nor its targets as its networks."""
    config = make_config(task, algo=algo, **({"hidden": (16, 12), "replay_size": 64, "gamma": 0.9} | settings))
    spec = headrace.make_spec(task)
    torch.manual_seed(5)
    policy = make_policy("", config, AgentGroup(spec.observation_space, spec.action_space), CPU)
    for module in (policy.network, getattr(policy, "targets", policy.network)):
        for name, parameter in module.named_parameters():
            if "temperature" not in name:
                parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    return policy


def some_transitions(policy: Any, count: int, seed: int, weighted: bool = False) -> Transitions:
    """A batch of random numbers, of which some transitions are the last of their episodes."""
    chance = torch.Generator().manual_seed(seed)
    inputs, following = torch.randn(2, count, policy.agent_group.observation.shape[0], generator=chance)
    actions = torch.rand(count, policy.distribution.noise_size, generator=chance) * 2 - 1
    discounts = (torch.rand(count, generator=chance) < 0.7) * policy.config.gamma
    weights = torch.rand(count, generator=chance) + 0.5 if weighted else None
    return Transitions(inputs, actions, torch.randn(count, generator=chance), discounts, following, weights)


def perceptron(module: Any, x: Tensor, activation: str) -> Tensor:
    """A `Perceptron`, layer by layer."""
    layers = list(zip(module.weights, module.biases, strict=True))
    for weight, bias in layers[:-1]:
        x = NONLINEAR[activation](x @ weight.t() + bias)
    x = x @ layers[-1][0].t() + layers[-1][1]
    return torch.tanh(x) if module.squash else x


def critic_values(module: Any, k: int, inputs: Tensor, actions: Tensor, activation: str) -> Tensor:
    """The values of one of `TwinCritic`, layer by layer, [B]."""
    first = module.first[k]
    x = NONLINEAR[activation](torch.cat((inputs, actions), 1) @ first[:-1] + first[-1])
    for weight, bias in zip(module.weights, module.biases, strict=True):
        x = NONLINEAR[activation](x @ weight[k] + bias[k])
    return (x @ module.last[k].t() + module.last_bias[k]).squeeze(1)


def assert_same_parameters(mine: Any, plain: Any, **tolerances: Any) -> None:
    """That two modules hold the same, up to rounding."""
    for (name, parameter), other in zip(mine.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, check_dtype=False, msg=name, **tolerances)

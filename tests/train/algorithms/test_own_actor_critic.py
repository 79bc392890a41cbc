"""SAC, TD3 and DDPG with a user's actor and critic: the update is that of Headrace's own; runs; what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.train.algorithms.rates import UpdateRates
from updates import a_policy, some_transitions

train: Any = headrace.train
OWN = """
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, inputs, actions, number):
        super().__init__()
        shape = (inputs + actions, 16), (16, 12), (12, 1)
        self.each = nn.ModuleList([layers(*shape) for _ in range(number)])

    def forward(self, inputs, actions):
        x = torch.cat((inputs, actions), 1)
        return torch.cat([one(x) for one in self.each], 1).t()


def layers(*shape):
    parts = [part for a, b in shape for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


def pair(space, outputs, actions, number=2):
    own = nn.Module()
    inputs = space.shape[0]
    own.actor = layers((inputs, 16), (16, 12), (12, outputs))
    own.critic = Critic(inputs, actions, number)
    return own


def single(space, outputs, actions):
    return pair(space, outputs, actions, 1)


def no_critic(space, outputs, actions):
    own = nn.Module()
    own.actor = nn.Linear(space.shape[0], outputs)
    return own


def no_actor(space, outputs, actions):
    own = nn.Module()
    own.critic = nn.Linear(space.shape[0], outputs)
    return own


def wide(space, outputs, actions):
    own = pair(space, outputs, actions)
    own.actor = nn.Linear(space.shape[0], outputs + 1)
    return own


def together(space, outputs, actions):
    own = pair(space, outputs, actions)
    own.critic.each[0][2] = own.actor[2]
    return own
"""
SMALL = {
    "samplers": 0, "num_envs": 4, "num_steps": 8, "learning_starts": 64, "minibatch_size": 16, "replay_size": 500,
    "replay_ratio": 0.2, "total_steps": 600, "anneal_learning_rate": False, "video": False, "tensorboard": False,
}  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def copy_layers(mine: Any, layers: Any, k: int | None = None) -> None:
    """Make a user's layers those of a `Perceptron`, or of one of a `TwinCritic`'s."""
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    if k is None:
        pairs = list(zip(mine.weights, mine.biases, strict=True))
    else:
        middle = [(weight[k].t(), bias[k, 0]) for weight, bias in zip(mine.weights, mine.biases, strict=True)]
        pairs = [(mine.first[k, :-1].t(), mine.first[k, -1]), *middle, (mine.last[k], mine.last_bias[k])]
    with torch.no_grad():
        for layer, (weight, bias) in zip(linear, pairs, strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_an_own_network_learns_as_ours_of_the_same_weights_does(algo, own):
    ours = a_policy(algo)
    theirs = a_policy(algo, network=f"{own}:{'single' if algo == 'ddpg' else 'pair'}")
    noise = torch.Generator().manual_seed(1)
    noises = torch.randn(2, 32, 8, generator=noise)
    for mine, there in ((ours.network, theirs.network), (ours.targets, theirs.targets)):
        if hasattr(mine, "actor"):
            copy_layers(mine.actor, there.actor.own)
        for k, one in enumerate(there.critic.own.each):
            copy_layers(mine.critic, one, None if algo == "ddpg" else k)
    for policy in (ours, theirs):
        left = list(noises)
        policy.noise = lambda _, left=left: left.pop().clone()
    batch = some_transitions(ours, 32, 0)
    measured = [policy.improve(batch, UpdateRates(1e-2, 2e-2, 0.5)) for policy in (ours, theirs)]
    torch.testing.assert_close(measured[0], measured[1], rtol=1e-4, atol=1e-5)
    inputs = torch.randn(9, batch.inputs.shape[1])
    torch.testing.assert_close(ours.network(inputs)[0], theirs.network(inputs)[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("algo", "name", "why"),
    [
        ("sac", "no_critic", "has no 'critic'"),
        ("td3", "no_actor", "has no 'actor'"),
        ("sac", "wide", r"the actor must answer shape \(2, 2\), not \(2, 3\)"),
        ("ddpg", "pair", r"the critic must answer shape \(2,\), not \(2, 2\)"),
        ("td3", "together", "must not share parameters"),
        ("sac", "nothing", "no 'nothing'"),
    ],
)
def test_an_own_network_that_does_not_fit_is_refused(algo, name, why, own, tmp_path):
    with pytest.raises(OptionError, match=why):
        train("Pendulum-v1", algo, run_dir=tmp_path / "run", quiet=True, **(SMALL | {"network": f"{own}:{name}"}))

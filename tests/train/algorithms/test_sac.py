"""SAC: updates as autograd and torch's own Adam make them, and a run that learns."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.distributions import Normal

import headrace
from headrace.errors import OptionError
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.exploration import SquashedGaussian
from headrace.train.play.evaluate import evaluate
from headrace.train.storage.transitions import Transitions
from updates import a_policy, assert_same_parameters, critic_values, perceptron, some_transitions

train: Any = headrace.train


# -- the distribution --------------------------------------------------------------------------------


def squashed() -> SquashedGaussian:
    return SquashedGaussian(gym.spaces.Box(-2, 2, (3,)))


def test_log_probabilities_and_gradients_equal_those_of_autograd():
    distribution, chance = squashed(), torch.Generator().manual_seed(1)
    params = torch.randn(50, 6, generator=chance, dtype=torch.float64, requires_grad=True)
    noise = 0.5 * torch.randn(50, 3, generator=chance, dtype=torch.float64)
    d_actions, d_log_prob = (torch.randn(50, n, generator=chance, dtype=torch.float64) for n in (3, 1))

    mean, log_std = params[:, :3], params[:, 3:].clamp(*distribution.LOG_STD)
    before = mean + log_std.exp() * noise
    actions = torch.tanh(before)
    expected = (Normal(mean, log_std.exp()).log_prob(before) - torch.log1p(-(actions**2))).sum(1)
    (gradient,) = torch.autograd.grad((actions * d_actions).sum() + (expected * d_log_prob[:, 0]).sum(), params)

    drawn, log_prob = distribution.rsample(params, noise)
    torch.testing.assert_close(drawn, actions)
    torch.testing.assert_close(log_prob, expected)
    (ours,) = torch.autograd.grad((drawn * d_actions).sum() + (log_prob * d_log_prob[:, 0]).sum(), params)
    torch.testing.assert_close(ours, gradient)
    with torch.no_grad():
        torch.testing.assert_close(distribution.sample(params, noise), actions)
        torch.testing.assert_close(distribution.mode(params), torch.tanh(mean))
    assert (params[:, 3:] > 2).any(), "no standard deviation was clamped"


@pytest.mark.parametrize("mean", [-60.0, 60.0])
def test_log_probabilities_of_extreme_actions_are_finite(mean):
    distribution = squashed()
    params = torch.tensor([[mean] * 3 + [-1.0] * 3], requires_grad=True)
    actions, log_prob = distribution.rsample(params, torch.zeros(1, 3))
    # far out, 1 - tanh² is 4 exp(-2 |u|)
    each = -0.5 * math.log(2 * math.pi) + 1.0 - math.log(4) + 2 * abs(mean)
    torch.testing.assert_close(log_prob.detach(), torch.tensor([3 * each]))
    assert torch.isfinite(torch.autograd.grad(actions.sum() + log_prob.sum(), params)[0]).all()
    np.testing.assert_allclose(distribution.to_env(actions.detach()).numpy(), 2 * np.sign(mean))


# -- the update --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("compiled", [True, False])
def test_updates_equal_those_of_plain_torch(activation, weighted, compiled):
    policy = a_policy("sac", activation=activation, target_rate=0.1, initial_temperature=0.3)
    policy.compiled = policy.compiled if compiled else None
    network, target = copy.deepcopy(policy.network).double(), copy.deepcopy(policy.targets.critic).double()
    plain = PlainUpdate(network, target, policy, activation)
    for seed in range(4):
        batch = some_transitions(policy, 32, seed, weighted)
        before = policy.generator.get_state()
        measured = policy.improve(batch, UpdateRates(1e-2, 2e-2, 0.5))
        policy.generator.set_state(before)
        after, now = (policy.noise(32).double() for _ in range(2))
        batch = Transitions(*(column if column is None else column.double() for column in batch))  # type: ignore
        expected = plain.critics(batch, after) + plain.actor(batch, now)
        plain.move()
        torch.testing.assert_close(measured, torch.stack(expected), rtol=1e-4, atol=1e-5, check_dtype=False)
    assert_same_parameters(policy.network, network, rtol=1e-3, atol=1e-5)
    assert_same_parameters(policy.targets.critic, target, rtol=1e-3, atol=1e-5)


class PlainUpdate:
    """SAC's update as one would write it with autograd."""

    def __init__(self, network: Any, target: Any, policy: Any, activation: str):
        self.network, self.target, self.policy, self.activation = network, target, policy, activation
        epsilon = policy.config.adam_epsilon
        self.critic_adam = torch.optim.Adam(network.critic.parameters(), 2e-2, eps=epsilon)
        self.actor_adam = torch.optim.Adam(network.actor.parameters(), 1e-2, eps=epsilon)
        self.temperature_adam = torch.optim.Adam(network.temperature.parameters(), 1e-2, eps=epsilon)

    def drawn(self, inputs: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = perceptron(self.network.actor, inputs, self.activation).chunk(2, 1)
        normal = Normal(mean, log_std.clamp(-20, 2).exp())
        before = mean + normal.stddev * noise
        return torch.tanh(before), (normal.log_prob(before) + 2 * before.cosh().log()).sum(1)

    def values(self, module: Any, inputs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.stack([critic_values(module, k, inputs, actions, self.activation) for k in range(2)])

    def critics(self, batch: Any, noise: torch.Tensor) -> list[torch.Tensor]:
        temperature = self.network.temperature.log.exp()
        with torch.no_grad():
            actions, log_prob = self.drawn(batch.next_observations, noise)
            after = self.values(self.target, batch.next_observations, actions).min(0).values - temperature * log_prob
            wanted = batch.rewards + batch.discounts * after
        q = self.values(self.network.critic, batch.inputs, batch.actions)
        weights = 1.0 if batch.weights is None else batch.weights
        loss = 0.5 * ((q - wanted) ** 2 * weights).mean(1).sum()
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()
        return [loss.detach(), q.mean().detach()]

    def actor(self, batch: Any, noise: torch.Tensor) -> list[torch.Tensor]:
        actions, log_prob = self.drawn(batch.inputs, noise)
        temperature = self.network.temperature.log.detach().exp()
        lower = self.values(self.network.critic, batch.inputs, actions).min(0).values
        loss = (temperature * log_prob - lower).mean()
        self.actor_adam.zero_grad()
        loss.backward()
        self.actor_adam.step()
        target_entropy = -float(self.policy.distribution.noise_size)
        temperature_loss = -(self.network.temperature.log * (log_prob + target_entropy).detach()).mean()
        self.temperature_adam.zero_grad()
        temperature_loss.backward()
        self.temperature_adam.step()
        return [loss.detach(), -log_prob.mean().detach(), temperature[0]]

    def move(self) -> None:
        with torch.no_grad():
            for target, now in zip(self.target.parameters(), self.network.critic.parameters(), strict=True):
                target.mul_(0.9).add_(now, alpha=0.1)


def test_critics_and_actor_improve_apart():
    """One after the other they do what the whole update does, given the same noise."""
    whole, apart = (a_policy("sac", initial_temperature=0.3) for _ in range(2))
    batch, rates = some_transitions(whole, 32, 1), UpdateRates(1e-2, 2e-2, 0.5)
    measured = whole.improve(batch, rates)
    before = apart.actor_parameters.clone()
    critics = apart.improve(batch, rates, actor=False)
    assert torch.equal(apart.actor_parameters, before)
    critic_before = apart.parts["critic"].clone()
    actor = apart.improve(batch, rates, critics=False)
    assert torch.equal(apart.parts["critic"], critic_before) and not torch.equal(apart.actor_parameters, before)
    apart.move_targets()
    torch.testing.assert_close(torch.cat((critics, actor)), measured)
    assert_same_parameters(apart.network, whole.network)
    assert_same_parameters(apart.targets, whole.targets)


@pytest.mark.parametrize(("target", "warmer"), [(-20.0, False), (20.0, True)])
def test_the_temperature_follows_the_entropy(target, warmer):
    policy = a_policy("sac", target_entropy=target)
    before = policy.network.temperature.log.item()
    for seed in range(3):
        policy.improve(some_transitions(policy, 32, seed), UpdateRates(1e-3, 1e-3, 0.5))
    assert (policy.network.temperature.log.item() > before) == warmer


# -- runs --------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_pendulum_is_learnt(tmp_path: Path):
    result = train("Pendulum-v1", "sac", run_dir=tmp_path, seed=1, samplers=0, quiet=True, video=False)
    assert result.reason == "solved"
    assert evaluate(tmp_path, 16).mean_return > -250


def test_mistakes_are_named(tmp_path: Path):
    with pytest.raises(OptionError, match="initial_temperature"):
        train("Pendulum-v1", "sac", run_dir=tmp_path, quiet=True, initial_temperature=0.0)
    with pytest.raises(OptionError, match="algo='sac' is for continuous actions"):
        train("CartPole-v1", "sac", run_dir=tmp_path, quiet=True)

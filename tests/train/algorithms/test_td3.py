"""TD3: updates as autograd and torch's own Adam make them, the delayed actor, and a run that learns."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.play.evaluate import evaluate
from updates import a_policy, assert_same_parameters, critic_values, perceptron, some_transitions

train: Any = headrace.train


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("compiled", [True, False])
def test_updates_equal_those_of_plain_torch(activation, compiled):
    policy = a_policy("td3", activation=activation, target_rate=0.1, target_noise=0.6, policy_delay=3)
    policy.compiled = policy.compiled if compiled else None
    network, targets = copy.deepcopy(policy.network), copy.deepcopy(policy.targets)
    epsilon = policy.config.adam_epsilon
    critic_adam = torch.optim.Adam(network.critic.parameters(), 2e-2, eps=epsilon)
    actor_adam = torch.optim.Adam(network.actor.parameters(), 1e-2, eps=epsilon)

    def values(module: Any, inputs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.stack([critic_values(module, k, inputs, actions, activation) for k in range(2)])

    actor_loss = torch.zeros(())
    for number in range(1, 8):
        batch = some_transitions(policy, 32, number)
        before = policy.generator.get_state()
        measured = policy.improve(batch, UpdateRates(1e-2, 2e-2, 0.5), number % 3 == 0)
        policy.generator.set_state(before)
        noise = 0.6 * policy.noise(32)
        assert (noise.abs() > 0.5).any(), "no noise was clipped"
        with torch.no_grad():
            chosen = perceptron(targets.actor, batch.next_observations, activation)
            chosen = (chosen + noise.clamp(-0.5, 0.5)).clamp(-1, 1)
            wanted = (
                batch.rewards + batch.discounts * values(targets.critic, batch.next_observations, chosen).min(0).values
            )
        q = values(network.critic, batch.inputs, batch.actions)
        loss = 0.5 * ((q - wanted) ** 2).mean(1).sum()
        critic_adam.zero_grad()
        loss.backward()
        critic_adam.step()
        if number % 3 == 0:
            actions = perceptron(network.actor, batch.inputs, activation)
            actor_loss = -critic_values(network.critic, 0, batch.inputs, actions, activation).mean()
            actor_adam.zero_grad()
            actor_loss.backward()
            actor_adam.step()
            with torch.no_grad():
                for target, now in zip(targets.parameters(), network.parameters(), strict=True):
                    target.mul_(0.9).add_(now, alpha=0.1)
        expected = torch.stack([loss, q.mean(), actor_loss]).detach()
        torch.testing.assert_close(measured, expected[: len(measured)], rtol=1e-4, atol=1e-5)
        assert_same_parameters(policy.network, network, rtol=1e-3, atol=1e-5)
        assert_same_parameters(policy.targets, targets, rtol=1e-3, atol=1e-5)


@pytest.mark.nightly
def test_pendulum_is_learnt(tmp_path: Path):
    result = train("Pendulum-v1", "td3", run_dir=tmp_path, seed=1, samplers=0, quiet=True, video=False)
    assert result.reason == "solved"
    assert evaluate(tmp_path, 16).mean_return > -250

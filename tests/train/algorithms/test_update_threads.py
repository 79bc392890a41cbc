"""The number of torch's threads while a policy learns, which does not change the learnt weights."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.train.algorithms import update_threads as module
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples

SEEN, DONE = gym.spaces.Box(-1, 1, (17,), np.float32), gym.spaces.Box(-1, 1, (6,), np.float32)
LARGE: dict[str, Any] = {"hidden": (128, 128), "minibatch_size": 1024}


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 4)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def learner(**settings: Any) -> PPO:
    torch.manual_seed(0)
    return PPO(
        "",
        make_config("x", defaults=False, algo="ppo", epochs=2, **settings),
        AgentGroup(SEEN, DONE),
        torch.device("cpu"),
    )


def samples(rows: int) -> Samples:
    generator = torch.Generator().manual_seed(1)
    inputs, actions = torch.randn(rows, 17, generator=generator), torch.rand(rows, 6, generator=generator)
    return Samples(inputs, actions, *torch.randn(4, rows, generator=generator).unbind())


def threads_in_updates(monkeypatch, rows: int = 2048, **settings: Any) -> int:
    policy, seen = learner(**settings), []
    policy.compiled = None
    whole = policy.backward

    def backward(batch: Samples, rates: Rates, measure: bool) -> Any:
        seen.append(torch.get_num_threads())
        return whole(batch, rates, measure)

    monkeypatch.setattr(policy, "backward", backward)
    policy.learn(samples(rows), 0, torch.Generator().manual_seed(2))
    assert torch.get_num_threads() == 1  # as before
    (count,) = {*seen}
    return count


def test_large_minibatches_keep_all_cores_busy_and_small_ones_one(monkeypatch):
    assert threads_in_updates(monkeypatch, **LARGE) == 4
    assert threads_in_updates(monkeypatch, **LARGE | {"minibatch_size": 512}) == 3
    assert threads_in_updates(monkeypatch, minibatch_size=256) == 1
    assert (
        threads_in_updates(monkeypatch, rows=64, num_envs=8, num_steps=8, **LARGE) == 1
    )  # a rollout that is smaller than a minibatch


def test_given_threads_and_the_cores_of_samplers_are_kept(monkeypatch):
    assert threads_in_updates(monkeypatch, torch_threads=1, **LARGE) == 1
    assert threads_in_updates(monkeypatch, samplers=2, **LARGE) == 1


def test_the_number_of_threads_is_restored_after_an_error(monkeypatch):
    policy = learner(**LARGE)
    policy.compiled = None
    monkeypatch.setattr(policy, "backward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        policy.learn(samples(2048), 0, torch.Generator())
    assert torch.get_num_threads() == 1


def test_learnt_weights_are_the_same_but_for_rounding():
    alone, together = learner(torch_threads=1, **LARGE), learner(**LARGE)
    for policy in (alone, together):
        policy.learn(samples(4096), 0, torch.Generator().manual_seed(2))
    torch.testing.assert_close(together.optimiser.parameters, alone.optimiser.parameters, atol=1e-4, rtol=1e-3)

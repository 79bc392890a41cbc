"""A learning rate that is adapted to the KL divergence of each rollout's last pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace.train import resume
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.update_threads import torch_threads
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.runs.metrics import read_metrics
from headrace.train.storage.samples import Samples
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
SPACES = AgentGroup(gym.spaces.Box(-1, 1, (5,), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32))
SHORT = SMALL | {"log_steps": 128, "learning_rate": 3e-3, "target_kl_rate": 0.001, "quiet": True}


def policy_of(**changes: Any) -> PPO:
    torch.manual_seed(0)
    how: dict[str, Any] = {"minibatch_size": 64, "epochs": 2} | changes
    return PPO("", make_config("x", defaults=False, algo="ppo", **how), SPACES, torch.device("cpu"))


def rollout_of(policy: PPO) -> Samples:
    columns, inputs = torch.randn(3, 256), torch.randn(256, 5)
    with torch.inference_mode():
        params, _ = policy.network(inputs)
        actions = policy.distribution.sample(params, torch.randn(256, 2))
        log_probs, _ = policy.distribution.evaluate(params, actions)
    return Samples(inputs, actions, log_probs, *columns)


FOLLOWS = policy_of(target_kl_rate=0.01)


@settings(deadline=None)
@given(kl=st.floats(0, 1), target=st.floats(1e-4, 0.5), rate=st.floats(1e-5, 1e-2))
def test_the_rate_follows_the_formula(kl: float, target: float, rate: float) -> None:
    policy = FOLLOWS
    policy.config, policy.rate = policy.config.replace(target_kl_rate=target), rate
    kl = float(torch.tensor(kl))
    policy.adapt(torch.tensor([0.0, 0.0, 0.0, kl, 0.0, 0.0]))
    wanted = max(1e-5, rate / 1.5) if kl > 2 * target else min(1e-2, rate * 1.5) if kl < target / 2 else rate
    assert policy.rates(0).learning_rate == wanted


@pytest.mark.parametrize("compiled", [True, False])
def test_updates_have_the_kl_that_is_asked_for(compiled: bool) -> None:
    found = {}
    for target in (0.002, 0.05):
        policy = policy_of(target_kl_rate=target, learning_rate=1e-3)
        policy.compiled = policy.compiled if compiled else None
        with torch_threads(1):
            for seed in range(12):
                policy.learn(rollout_of(policy), 0, torch.Generator().manual_seed(seed))
        found[target] = policy.last_losses()["approx_kl"]
        assert target / 4 < found[target] < 4 * target


def test_any_number_of_threads_has_the_same_rate() -> None:
    rates = []
    for threads in (1, 3):
        policy = policy_of(target_kl_rate=0.01, minibatch_size=256)
        with torch_threads(threads):
            for seed in range(5):
                policy.learn(rollout_of(policy), 0, torch.Generator().manual_seed(seed))
        rates.append((policy.rate, policy.last_losses()))
    assert rates[0] == rates[1]


def test_a_schedule_replaces_it_and_annealing_does_not() -> None:
    policy = policy_of(target_kl_rate=0.01, learning_rate=2e-3, total_steps=100)
    assert policy.rates(50).learning_rate == 2e-3
    policy.reschedule({"learning_rate": [(0, 1e-3)]})
    policy.adapt(torch.zeros(6))
    assert policy.rates(50).learning_rate == 1e-3 and policy.rate == 2e-3


def test_after_a_load_it_begins_with_the_lowest_rate_and_after_a_resumption_with_its_last() -> None:
    loaded = policy_of(target_kl_rate=0.01, learning_rate=2e-3, load="other")
    assert loaded.rates(0).learning_rate == 1e-5
    loaded.adapt(torch.zeros(6))
    resumed = policy_of(target_kl_rate=0.01, learning_rate=2e-3, load="other")
    resumed.load_state(loaded.state())
    assert resumed.rates(0).learning_rate == loaded.rate == 1e-5 * 1.5


def test_a_resumed_run_is_the_same_and_metrics_have_the_rate(tmp_path: Path) -> None:
    train("CartPole-v1", **SHORT | {"total_steps": 1280}, run_dir=tmp_path / "whole")
    train("CartPole-v1", **SHORT | {"total_steps": 640}, run_dir=tmp_path / "parts")
    resume(tmp_path / "parts", total_steps=1280, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    rates = [line["loss"]["learning_rate"] for line in read_metrics(tmp_path / "whole" / "metrics.jsonl")]
    assert len(set(rates)) > 2

"""A policy that has learnt, as of a walking robot, acts nearly as before after the first updates that follow a load."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.train.algorithms.on_policy import WARMING
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.algorithms import find_algorithm
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples

SIZE, ACTIONS, ROWS = 20, 12, 512
DEVIATION = 0.02  # of the G1's actions, in units of half their range
SPACES = AgentGroup(gym.spaces.Box(-1, 1, (SIZE,), np.float32), gym.spaces.Box(-1, 1, (ACTIONS,), np.float32))


def policy_of(algo: str, **changes: Any) -> Any:
    torch.manual_seed(0)
    how = ({"epochs": 4, "minibatch_size": 128} if algo == "ppo" else {}) | changes
    config = make_config("x", defaults=False, algo=algo, num_envs=ROWS, num_steps=1, hidden=(64, 64), **how)
    policy = find_algorithm(algo)("", config, SPACES, torch.device("cpu"))
    with torch.no_grad():
        policy.network.log_std.fill_(float(np.log(DEVIATION)))
    return policy


def divergence_after_a_rollout(policy: Any) -> float:
    """Returns how far the policy moves by learning from a rollout of noise, as a mean KL divergence."""
    columns, inputs = torch.randn(3, ROWS), torch.randn(ROWS, SIZE)
    with torch.inference_mode():
        before = policy.network(inputs)[0].clone()
        actions = policy.distribution.sample(before, torch.randn(ROWS, ACTIONS))
        log_probs, _ = policy.distribution.evaluate(before, actions)
    policy.learn(Samples(inputs, actions, log_probs, *columns), 0, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        after = policy.network(inputs)[0]
    (mean, log_std), (there, log_std_there) = before.chunk(2, -1), after.chunk(2, -1)
    ratio = ((2 * log_std).exp() + (mean - there).square()) / (2 * log_std_there).exp()
    return float((log_std_there - log_std + (ratio - 1) / 2).sum(1).mean())


@pytest.mark.parametrize(
    ("algo", "how"), [("ppo", {}), ("ppo", {"target_kl_rate": 0.01}), ("a2c", {})], ids=["ppo", "adaptive", "a2c"]
)
def test_the_first_updates_of_a_loaded_policy_hardly_change_it(algo: str, how: dict[str, Any]) -> None:
    assert divergence_after_a_rollout(policy_of(algo, **how)) > 0.1
    assert divergence_after_a_rollout(policy_of(algo, load="other", **how)) < 0.01


def test_its_learning_rate_rises_with_its_updates_also_over_a_resumption() -> None:
    policy, resumed = policy_of("ppo", load="other", learning_rate=1e-3), policy_of("ppo", load="other")
    rates = [policy.rates(0).learning_rate]
    while policy.updates < WARMING:
        divergence_after_a_rollout(policy)
        rates.append(policy.rates(0).learning_rate)
    assert rates[0] == 1e-3 / WARMING and rates[1] == pytest.approx(17e-3 / WARMING) and rates[-1] == 1e-3
    policy = policy_of("ppo", load="other")
    divergence_after_a_rollout(policy)
    resumed.load_optimisers(policy.optimisers())
    assert resumed.rates(0) == policy.rates(0) != policy_of("ppo").rates(0)


def test_a_schedule_of_the_learning_rate_is_kept_to() -> None:
    policy = policy_of("ppo", load="other", schedules={"learning_rate": [(0, 1e-3), (100, 0.0)]})
    assert policy.rates(50).learning_rate == 5e-4


@pytest.mark.parametrize("algo", ["dqn", "pqn"])
def test_a_loaded_network_begins_with_the_last_share_of_random_actions(algo: str) -> None:
    assert make_config("CartPole-v1", algo=algo).epsilon_start == 1.0
    loaded = make_config("CartPole-v1", algo=algo, load="other")
    assert loaded.epsilon_start == loaded.epsilon_end == make_config("CartPole-v1", algo=algo).epsilon_end
    assert make_config("CartPole-v1", algo=algo, load="other", epsilon_end=0.02).epsilon_start == 0.02
    assert make_config("CartPole-v1", algo=algo, load="other", epsilon_start=0.3).epsilon_start == 0.3


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_so_does_the_one_policy_of_several_that_is_loaded(algo: str) -> None:
    policies = {"tagger": {"algo": "dqn", "load": "other"}, "runner": {"algo": "dqn"}}
    run = make_config("TagGridWorld-v0", algo=algo, policies=policies)
    loaded, new = run.of_policy("tagger"), run.of_policy("runner")
    assert loaded.epsilon_start == loaded.epsilon_end == new.epsilon_end < new.epsilon_start
    given = make_config("TagGridWorld-v0", algo="dqn", policies=policies, epsilon_start=0.3)
    assert given.of_policy("tagger").epsilon_start == 0.3

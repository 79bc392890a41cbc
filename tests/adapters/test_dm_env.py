"""One environment as dm_env knows it: dm_env's own tests, and a loop of an actor and its learner as Acme runs one.

Acme itself cannot be installed today: its last release, of 2022, needs a dm-launchpad that has no wheels for Python
3.10 and later. The loop here is written after its `EnvironmentLoop`, which asks nothing else of an environment.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import dm_env as theirs
import gymnasium as gym
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import specs, test_utils

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.adapters import dm_env
from headrace.errors import ActionError, OptionError


def sampled(spec: Any, rng: np.random.Generator) -> Any:
    """Any action of a spec."""
    if isinstance(spec, dict):
        return {key: sampled(part, rng) for key, part in spec.items()}
    low, high = np.broadcast_to(spec.minimum, spec.shape), np.broadcast_to(spec.maximum, spec.shape)
    if spec.dtype.kind == "i":
        return rng.integers(low, high, endpoint=True, dtype=spec.dtype)
    return rng.uniform(low, high).astype(spec.dtype)


class Whole(test_utils.EnvironmentTestMixin):
    """dm_env's tests, with actions that reach the episode's end."""

    task = ""
    options: dict[str, Any] = {}  # noqa: RUF012

    def make_object_under_test(self, **_: Any) -> theirs.Environment:
        return dm_env.environment(self.task, seed=0, **self.options)

    def make_action(self) -> Any:
        return sampled(self.environment.action_spec(), np.random.default_rng(0))

    def make_action_sequence(self) -> Generator[Any, Any, None]:
        rng = np.random.default_rng(0)
        for _ in range(30):
            yield sampled(self.environment.action_spec(), rng)


class CartPoleTest(Whole, absltest.TestCase):
    task = "CartPole-v1"


class FrozenLakeTest(Whole, absltest.TestCase):
    task = "FrozenLake-v1"


class CheetahRunTest(Whole, absltest.TestCase):
    task, options = "CheetahRun-v1", {"max_episode_steps": 7}


class AntTest(Whole, absltest.TestCase):
    task, options = "Ant-v5", {"max_episode_steps": 7}


class PongTest(Whole, absltest.TestCase):
    task, options = "Pong-v5", {"max_episode_steps": 7}


class DuelTest(Whole, absltest.TestCase):
    task = "TestDuel-v0"


class HuntTest(Whole, absltest.TestCase):
    task = "TestHunt-v0"


class GymnasiumsTaxiTest(Whole, absltest.TestCase):
    task, options = "Taxi-v4", {"executor": "processes", "max_episode_steps": 7}


class Sarsa:
    """A learner of FrozenLake's values, with the methods that Acme's loop calls."""

    def __init__(self, observed: specs.DiscreteArray, acted: specs.DiscreteArray, seed: int):
        self.values = np.zeros((int(observed.num_values), int(acted.num_values)))
        self.rng = np.random.default_rng(seed)
        self.waiting: list[Any] = []

    def select_action(self, observation: Any) -> Any:
        row = self.values[observation]
        greedy = self.rng.choice(np.flatnonzero(row == row.max()))
        return np.int32(self.rng.integers(len(row)) if self.rng.random() < 0.1 else greedy)

    def observe_first(self, timestep: theirs.TimeStep) -> None:
        assert timestep.first()
        self.seen = timestep.observation

    def observe(self, action: Any, next_timestep: theirs.TimeStep) -> None:
        self.waiting.append((self.seen, action, next_timestep))
        self.seen = next_timestep.observation

    def update(self) -> None:
        for seen, action, after in self.waiting:
            target = after.reward + 0.95 * after.discount * self.values[after.observation].max()
            self.values[seen, action] += 0.3 * (target - self.values[seen, action])
        self.waiting.clear()


def run_episode(environment: theirs.Environment, actor: Sarsa) -> tuple[float, int]:
    """As `acme.EnvironmentLoop.run_episode`: its return and its length."""
    timestep = environment.reset()
    actor.observe_first(timestep)
    total, length = environment.reward_spec().generate_value(), 0
    while not timestep.last():
        action = actor.select_action(timestep.observation)
        timestep = environment.step(action)
        actor.observe(action, next_timestep=timestep)
        actor.update()
        total, length = total + timestep.reward, length + 1
    return float(total), length


def test_an_agent_learns_in_acmes_loop() -> None:
    environment = dm_env.environment("FrozenLake-v1", seed=3, is_slippery=False)
    actor = Sarsa(environment.observation_spec(), environment.action_spec(), seed=0)
    returns = [run_episode(environment, actor)[0] for _ in range(600)]
    assert np.mean(returns[:50]) < 0.5
    assert np.mean(returns[-50:]) > 0.6
    environment.close()


@pytest.mark.parametrize("task", ["CartPole-v1", "CheetahRun-v1", "Pendulum-v1"])
def test_time_steps_equal_the_results_of_the_pool(task: str) -> None:
    environment = dm_env.environment(task, seed=5, max_episode_steps=40)
    rng = np.random.default_rng(1)
    with headrace.make(task, seed=5, autoreset="disabled", max_episode_steps=40) as pool:
        for _ in range(3):
            step, (obs, info) = environment.reset(), pool.reset()
            terminated = truncated = np.zeros(1, np.bool_)
            while not step.last():
                assert_rows(step.observation, obs)
                action = sampled(environment.action_spec(), rng)
                step = environment.step(action)
                obs, reward, terminated, truncated, info = pool.step(action[None])
                assert step.reward == reward[0]
                assert step.discount == info.get("discount", 1.0 - terminated)[0]
                assert step.last() == (terminated | truncated)[0]
            assert_rows(step.observation, obs)
            assert truncated[0] != terminated[0]
    environment.close()


def assert_rows(one: Any, rows: Any) -> None:
    assert isinstance(one, dict) == isinstance(rows, dict)
    for key, array in rows.items() if isinstance(rows, dict) else [(None, rows)]:
        np.testing.assert_array_equal(one if key is None else one[key], array[0])


def test_num_envs_and_invalid_actions_are_refused() -> None:
    with pytest.raises(OptionError, match="num_envs is not for one environment"):
        dm_env.environment("CartPole-v1", num_envs=2)
    with dm_env.environment("CartPole-v1") as environment:
        environment.reset()
        with pytest.raises(ActionError, match="is not in"):
            environment.step(2)
        assert environment.step(1).mid()


class Lettered(gym.Env):
    """Observes words, for which dm_env has no spec that a batch could hold."""

    observation_space = gym.spaces.Text(4)
    action_space = gym.spaces.Discrete(2)


def test_a_space_without_a_dm_env_spec_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="no spec for Text"):
        dm_env.environment(Lettered)

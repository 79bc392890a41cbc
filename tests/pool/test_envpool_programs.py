"""Programs for EnvPool run with their import changed: the same steps, taken by EnvPool and by Headrace.

They use what EnvPool's own examples and tests use: every call, option, attribute and name that
tasks of both have. What differs by intent is in docs/coming-from-envpool.md.
"""

from __future__ import annotations

from typing import Any

import dm_env
import numpy as np
import pytest

import headrace
from envpool_calls import is_a, sampled
from headrace.errors import ActionError


def test_a_gym_loop_steps_all_and_chosen_environments(envpool: Any) -> None:
    env = envpool.make_gym("Pong-v5", num_envs=4)
    obs, _ = env.reset()
    assert obs.shape == (4, 4, 84, 84)
    for _ in range(20):
        env.step(np.random.randint(env.action_space.n, size=4))
    obs, rew, term, trunc, info = env.step(np.random.randint(env.action_space.n, size=4))
    assert rew.dtype == np.float32
    assert term.dtype == trunc.dtype == np.bool_
    assert info["lives"].dtype == info["env_id"].dtype == info["players"]["env_id"].dtype == np.int32
    obs, _ = env.reset(np.array([1, 3]))
    assert obs.shape == (2, 4, 84, 84)
    env_id = np.array([3, 2, 0])
    obs, *_, info = env.step(np.array([0, 0, 2]), env_id)
    np.testing.assert_array_equal(info["env_id"], env_id)
    assert obs.shape == (3, 4, 84, 84)
    env.close()


def test_a_dm_loop_steps_all_and_chosen_environments(envpool: Any) -> None:
    env = envpool.make_dm("Pong-v5", num_envs=4)
    assert is_a(env, dm_env.Environment)
    ts = env.reset()
    assert ts.first().all()
    for _ in range(10):
        ts = env.step(np.random.randint(env.action_spec().num_values, size=4))
    assert ts.mid().all()
    assert ts.observation.obs.shape == (4, 4, 84, 84)
    assert ts.observation.lives.dtype == ts.observation.players.env_id.dtype == np.int32
    assert ts.reward.dtype == ts.discount.dtype == np.float32
    assert env.reset(np.array([1, 3])).observation.obs.shape == (2, 4, 84, 84)
    ts = env.step(np.array([0, 0, 2]), np.array([3, 2, 0]))
    np.testing.assert_array_equal(ts.observation.env_id, [3, 2, 0])
    env.close()


def test_asynchronous_dm_and_gym_loops_run(envpool: Any) -> None:
    dm = envpool.make_dm("Pong-v5", num_envs=8, batch_size=4)
    ts = dm.reset()
    for _ in range(10):
        assert len(ts.observation.env_id) == 4
        ts = dm.step(np.random.randint(6, size=4), ts.observation.env_id)
    dm.close()
    env = envpool.make_gym("Pong-v5", num_envs=8, batch_size=4, gym_reset_return_info=True)
    obs, info = env.reset()
    for _ in range(10):
        assert obs.shape == (4, 4, 84, 84)
        obs, *_, info = env.step(np.random.randint(6, size=4), info["env_id"])
    assert env.is_async
    assert len(env) == 8
    env.close()


def test_an_asynchronous_gym_loop_sends_and_receives(envpool: Any) -> None:
    env = envpool.make_gym("Pong-v5", num_envs=8, batch_size=4, num_threads=2, thread_affinity_offset=0)
    env.async_reset()
    obs, info = env.recv(True)
    env.send(np.zeros(4, np.int32), info["env_id"])
    for _ in range(10):
        obs, _rew, _term, _trunc, info = env.recv()
        assert obs.shape == (4, 4, 84, 84)
        env.send(np.random.randint(env.action_space.n, size=4), info["env_id"])
    env.close()


@pytest.mark.parametrize("kind", ["gym", "dm"])
def test_actions_may_be_a_dict_or_an_array_of_any_numeric_dtype(envpool: Any, kind: str) -> None:
    env = envpool.make("Pong-v5", env_type=kind, num_envs=4)
    env.async_reset()
    env.recv()
    env_id = np.arange(4, dtype=np.int32)
    env.send({"env_id": env_id, "players.env_id": env_id, "action": np.ones(4, np.int32)})
    env.recv()
    for action in (np.ones(4), np.ones(4, np.float32), np.ones(4, np.int64), np.ones(4, np.uint8)):
        env.send(action)
        env.recv()
    env.step({"env_id": env_id, "action": np.ones(4, np.int32)})
    env.close()


def test_fractional_and_out_of_range_discrete_actions_are_refused() -> None:
    with headrace.make_gym("CartPole-v1", num_envs=2) as env:
        env.reset()
        for wrong in ([0.5, 1.0], [np.nan, 1.0], [2.0, 1.0]):
            with pytest.raises(ActionError):
                env.step(np.array(wrong))


def test_the_first_step_of_an_environment_resets_it(envpool: Any) -> None:
    env = envpool.make_gym("CartPole-v1", num_envs=3, seed=0)
    _, rew, term, trunc, info = env.step(np.array([1]), np.array([2]))
    assert (rew[0], term[0], trunc[0], info["elapsed_step"][0]) == (0, False, False, 0)
    _, rew, *_, info = env.step(np.ones(3, np.int32))
    np.testing.assert_array_equal(rew, [0, 0, 1])
    np.testing.assert_array_equal(info["elapsed_step"], [0, 0, 1])
    np.testing.assert_array_equal(info["players"]["env_id"], [0, 1, 2])
    env.step(np.ones(3, np.int32))
    env.close()
    env = envpool.make_dm("CheetahRun-v1", num_envs=2)
    assert env.step(np.zeros((2, 6))).first().all()
    env.close()


def test_a_first_step_with_an_invalid_action_is_refused() -> None:
    with headrace.make_gym("CartPole-v1", num_envs=2) as env, pytest.raises(ActionError):
        env.step(np.array([0, 7]))


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "HalfCheetah-v4"])
def test_equal_seeds_give_equal_observations_and_different_seeds_do_not(envpool: Any, task: str) -> None:
    env0, env1, env2 = (envpool.make_gym(task, num_envs=4, seed=seed) for seed in (0, 0, 1))
    space = env0.observation_space
    eps = np.finfo(np.float32).eps
    for _ in range(30):
        action = sampled(env0.action_space, 4)
        obs0, obs1, obs2 = (env.step(action)[0] for env in (env0, env1, env2))
        np.testing.assert_array_equal(obs0, obs1)
        assert not np.allclose(obs0, obs2)
        assert (space.low - eps <= obs0).all()
        assert (obs0 <= space.high + eps).all()
    for env in (env0, env1, env2):
        env.close()


def test_a_list_of_seeds_gives_one_to_each_environment(envpool: Any) -> None:
    lists = [envpool.make_gym("CartPole-v1", num_envs=2, **{name: [5, 9]}) for name in ("seed", "env_seed")]
    lists.append(envpool.make_gym("CartPole-v1", num_envs=2, seed=np.array([5, 9])))
    assert all(list(env.config["env_seed"]) == [5, 9] for env in lists)
    first, *others = (env.reset()[0] for env in lists)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_gym_and_dm_pools_return_the_same_observations(envpool: Any) -> None:
    one = envpool.make_gym("SpaceInvaders-v5", num_envs=2, seed=3)
    other = envpool.make_dm("SpaceInvaders-v5", num_envs=2, seed=3)
    np.testing.assert_array_equal(one.reset()[0], other.reset().observation.obs)
    for _ in range(20):
        action = np.random.randint(6, size=2)
        np.testing.assert_array_equal(one.step(action)[0], other.step(action).observation.obs)


@pytest.mark.parametrize("kind", ["gym", "dm"])
def test_catch_is_won_by_following_the_ball(envpool: Any, kind: str) -> None:
    env = envpool.make("Catch-v0", env_type=kind, num_envs=3)
    obs = env.reset().observation.obs if kind == "dm" else env.reset()[0]
    ball, paddle = np.where(obs[:, 0] == 1)[1], np.where(obs[:, -1] == 1)[1]
    rew = done = np.zeros(3)
    for _ in range(9):
        action = np.sign(ball - paddle) + 1
        if kind == "dm":
            ts = env.step(action, np.arange(3))
            obs, rew, done = ts.observation.obs, ts.reward, ts.last()
        else:
            obs, rew, done, _, _ = env.step(action, np.arange(3))
        paddle = np.where(obs[:, -1] == 1)[1]
    assert (rew == 1).all()
    assert done.all()


def test_environments_are_truncated_by_their_own_step_counts(envpool: Any) -> None:
    env = envpool.make_gym("Defender-v5", num_envs=5, max_episode_steps=6)
    env.reset()
    odd = np.arange(5)[1::2]
    env.step(np.zeros(len(odd), dtype=int), env_id=odd)
    for _ in range(4):
        *_, truncated, _info = env.step(np.zeros(5, dtype=int), env_id=np.arange(5))
        assert not truncated.any()
    *_, truncated, info = env.step(np.zeros(5, dtype=int), env_id=np.arange(5))
    assert sorted(info["env_id"][truncated]) == odd.tolist()

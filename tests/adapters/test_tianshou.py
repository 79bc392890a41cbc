"""Pools as vector environments of Tianshou: beside its own, in its collectors, and in training."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError, SequenceError
from walks import Walk

pytest.importorskip("tianshou")

import torch
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import AsyncCollector, Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from headrace.adapters.tianshou import PoolVectorEnv, make_venv


def told(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key != "elapsed_step"}


def same_rows(ours: Any, other: Any) -> None:
    """Results of both kinds of vector environment are equal, row by row."""
    for mine, theirs in zip(ours[:-1], other[:-1], strict=True):
        assert len(mine) == len(theirs)
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_equal(one, two if isinstance(two, dict) else np.asarray(two, mine.dtype))
    for one, two in zip(ours[-1], other[-1], strict=True):
        np.testing.assert_equal(told(one), {**two, "env_id": one["env_id"]})


def test_a_python_environment_gives_the_same_results_as_in_dummy_vector_env() -> None:
    dummy = DummyVectorEnv([Walk] * 3)
    env = make_venv(Walk, 3, num_threads=1)
    env.seed([5, 6, 7])
    dummy.seed([5, 6, 7])
    same_rows(env.reset(), dummy.reset())
    rng = np.random.default_rng(0)
    for step in range(60):
        ids = rng.permutation(3)[: 1 + step % 3]
        actions = rng.integers(0, 2, (len(ids), 2))
        mine, theirs = env.step(actions, ids), dummy.step(actions, ids)
        same_rows(mine, theirs)
        assert [info["env_id"] for info in mine[-1]] == ids.tolist()
        if len(over := ids[mine[2] | mine[3]]):
            same_rows(env.reset(over), dummy.reset(over))
    assert [space == Walk.action_space for space in env.action_space] == [True] * 3
    env.close()


def test_finished_environments_wait_until_the_user_resets_them() -> None:
    with headrace.make("CartPole-v1", num_envs=2, autoreset="disabled", max_episode_steps=2) as pool:
        env = PoolVectorEnv(pool)
        env.reset()
        env.step(np.zeros(2, np.int64))
        assert env.step(np.zeros(2, np.int64))[3].all()
        with pytest.raises(SequenceError):
            env.step(np.zeros(1, np.int64), [1])
        env.reset([1])
        env.step(np.zeros(1, np.int64), [1])


def test_asynchronous_steps_and_resets_lose_no_results() -> None:
    env = make_venv(Walk, 5, wait_num=2, num_threads=2, seed=3, length=4)
    twin = headrace.make(Walk, num_envs=5, num_threads=1, seed=3, length=4, autoreset="disabled")
    obs, _ = env.reset()
    first, _ = twin.reset()
    np.testing.assert_array_equal([one["place"] for one in obs], first["place"])
    rng, ids = np.random.default_rng(0), np.arange(5)
    steps, sent = np.zeros(5, int), {}  # sent: the newest action of each
    for _ in range(80):
        actions = rng.integers(0, 2, (len(ids), 2))
        sent |= dict(zip(ids.tolist(), actions, strict=True))
        obs, reward, terminated, truncated, infos = env.step(actions, ids)
        assert len(obs) == 2
        ids = np.array([info["env_id"] for info in infos])
        assert not set(ids.tolist()) & set(env.waiting_id)
        assert sorted([*env.waiting_id, *env.ready_id]) == [0, 1, 2, 3, 4]
        expected = twin.step(np.stack([sent[i] for i in ids.tolist()]), ids)
        np.testing.assert_array_equal([one["place"] for one in obs], expected[0]["place"])
        np.testing.assert_array_equal(reward, expected[1])
        np.testing.assert_array_equal([info["count"] for info in infos], expected[4]["count"])
        over = ids[terminated | truncated]
        if len(over):
            if env.waiting_id:
                with pytest.raises(SequenceError, match="is stepping"):
                    env.reset([*over, env.waiting_id[0]])
            again, _ = env.reset(over)
            np.testing.assert_array_equal([one["place"] for one in again], twin.reset(over)[0]["place"])
        steps[ids] += 1
    assert steps.min() > 10
    env.step(None)
    assert not env.waiting_id
    with pytest.raises(SequenceError, match="nothing steps"):
        env.step(None)
    env.reset()
    env.close()
    twin.close()


def test_attributes_of_python_environments_can_be_read_and_set() -> None:
    env = make_venv(Walk, 2, num_threads=1)
    env.reset()
    env.set_env_attr("length", 8, 1)
    assert env.get_env_attr("length") == [5, 8]
    assert [frame.shape for frame in env.render()] == [(4, 6, 3)] * 2
    env.close()
    own = make_venv("CartPole-v1", 2)
    assert own.metadata[0]["render_modes"] == ["rgb_array"]  # type: ignore[attr-defined]
    assert own.spec[0].id == "CartPole-v1"  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="no Python objects"):
        own.get_env_attr("gravity")
    own.close()


def test_unsupported_options_and_pools_are_refused_with_a_reason() -> None:
    for options, words in [
        ({"batch_size": 1}, "say wait_num"),
        ({"autoreset": "next_step"}, "autoreset is not for"),
        ({"wait_num": 3}, "wait_num must be"),
        ({"wait_num": 0}, "wait_num must be"),
    ]:
        with pytest.raises(OptionError, match=words):
            make_venv("CartPole-v1", 2, **options)
    with headrace.make("CartPole-v1", num_envs=2) as pool, pytest.raises(OptionError, match="disabled"):
        PoolVectorEnv(pool)
    with (
        headrace.make("CartPole-v1", num_envs=4, batch_size=2, autoreset="disabled") as pool,
        pytest.raises(OptionError, match="batch_size=1"),
    ):
        PoolVectorEnv(pool, wait_num=2)


def q_learner(env: Any, kind: type[DiscreteQLearningPolicy] = DiscreteQLearningPolicy) -> DQN:
    space: Any = env.action_space[0]
    net = Net(state_shape=4, action_shape=int(space.n), hidden_sizes=(32,))
    policy = kind(model=net, action_space=space, eps_training=0.3)
    return DQN(policy=policy, optim=AdamOptimizerFactory())


@pytest.mark.nightly
def test_collectors_collect_whole_episodes() -> None:
    env = make_venv("CartPole-v1", 4, seed=0, max_episode_steps=30)
    buffer = VectorReplayBuffer(2000, 4)
    collector = Collector[CollectStats](q_learner(env), env, buffer)  # pyright: ignore[reportArgumentType]
    collector.reset()
    stats = collector.collect(n_episode=20)
    assert stats.n_collected_episodes == 20
    batch: Any = buffer[:]
    assert len(batch) == stats.n_collected_steps == stats.lens.sum()
    going = ~(batch.terminated | batch.truncated)
    same = (batch.obs[1:] == batch.obs_next[:-1]).all(1)
    assert same[going[:-1]].all()
    assert not same[~going[:-1]].any()
    collector.collect(n_step=100, random=True)
    env.close()


class Remembering(DiscreteQLearningPolicy):
    """A policy with a state, which Tianshou 2.0's asynchronous collector requires."""

    def forward(self, batch: Any, state: Any = None, model: Any = None) -> Any:
        result = super().forward(batch, state, model)
        result.state = torch.zeros(len(result.act), 1)  # pyright: ignore[reportAttributeAccessIssue]
        return result


@pytest.mark.nightly
def test_an_asynchronous_collector_stores_each_environments_steps_in_order() -> None:
    env = make_venv("CartPole-v1", 6, wait_num=2, num_threads=2, seed=0, executor="processes")
    buffer = VectorReplayBuffer(6000, 6)
    with pytest.warns(UserWarning, match="async setting"):
        collector = AsyncCollector(q_learner(env, Remembering), env, buffer)
    collector.reset()
    for _ in range(3):
        collector.collect(n_step=102)
    stats = collector.collect(n_episode=5)
    assert stats.n_collected_episodes >= 5
    for first in range(0, 6000, 1000):  # each environment's steps follow one another
        part = buffer.buffers[first // 1000]
        batch: Any = part[: len(part)]
        going = ~(batch.terminated | batch.truncated)[:-1]
        assert len(batch) > 5
        np.testing.assert_array_equal((batch.obs[1:] == batch.obs_next[:-1]).all(1), going)
    collector.reset()
    assert not env.waiting_id
    collector.collect(n_step=24)
    env.close()


@pytest.mark.nightly
def test_ppo_learns_cartpole() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train, judge = make_venv("CartPole-v1", 16, seed=0), make_venv("CartPole-v1", 8, seed=100)
    space: Any = train.action_space[0]
    net = partial(Net, state_shape=4, hidden_sizes=(64, 64), activation=torch.nn.Tanh)
    actor = DiscreteActor(preprocess_net=net(), action_shape=int(space.n), softmax_output=False)
    policy = DiscreteActorPolicy(actor=actor, action_space=space)
    algorithm = PPO(
        policy=policy,
        critic=DiscreteCritic(preprocess_net=net()),
        optim=AdamOptimizerFactory(lr=1e-3),
        gae_lambda=0.9,
        gamma=0.98,
    )
    collector = Collector[CollectStats](algorithm, train, VectorReplayBuffer(20000, 16))  # pyright: ignore[reportArgumentType]
    params = OnPolicyTrainerParams(
        training_collector=collector,
        test_collector=Collector[CollectStats](algorithm, judge),  # pyright: ignore[reportArgumentType]
        max_epochs=12,
        epoch_num_steps=6400,
        collection_step_num_env_steps=640,
        update_step_num_repetitions=8,
        batch_size=128,
        test_step_num_episodes=8,
        stop_fn=lambda score: score >= 300,
        verbose=False,
        show_progress=False,
    )
    result = algorithm.run_training(params)
    assert result.best_score >= 200
    train.close()
    judge.close()
    torch.set_num_threads(threads)


def test_importing_the_adapter_without_tianshou_names_it_in_the_error() -> None:
    code = "import sys; sys.modules['tianshou'] = None; import headrace.adapters.tianshou"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: this adapter needs Tianshou" in done.stderr

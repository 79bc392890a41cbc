"""Learners drive Headrace as EnvPool's examples drive EnvPool: for each library, the calls that it makes."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import warnings
from typing import Any

import dm_env
import numpy as np
import pytest


def listed(info: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    """The info arrays of a batch, as one dict for each environment."""
    return [{key: info[key][i] for key in info if isinstance(info[key], np.ndarray)} for i in range(rows)]


def stable(env: Any) -> Any:
    """A vector environment for stable-baselines3, written as in EnvPool's present example."""
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")

    class Adapter(vectors.VecEnv):
        def __init__(self, venv: Any):
            self.venv = venv
            super().__init__(venv.spec.config.num_envs, venv.observation_space, venv.action_space)

        def step_async(self, actions: np.ndarray) -> None:
            self.actions = actions

        def reset(self) -> Any:
            obs, info = self.venv.reset()
            self.reset_infos = listed(info, self.num_envs)
            return obs

        def step_wait(self) -> Any:
            obs, rewards, terms, truncs, info = self.venv.step(self.actions)
            dones, infos = terms | truncs, listed(info, self.num_envs)
            for i in np.flatnonzero(dones):
                infos[i]["terminal_observation"] = obs[i]
                first, info = self.venv.reset(np.array([i]))
                obs[i], self.reset_infos[i] = first[0], listed(info, 1)[0]
            return obs, rewards, dones, infos

        def close(self) -> None:
            self.venv.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(self.venv, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            setattr(self.venv, attr_name, value)

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [getattr(self.venv, method_name)(*args, **kwargs) for _ in self._get_indices(indices)]

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

        def get_images(self) -> Any:
            return list(self.venv.render(env_ids=self.venv.all_env_ids))

    return Adapter(env)


def stable_by_wrapping(env: Any) -> Any:
    """The same, written as in EnvPool's older example and in many programs since."""
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")

    class Adapter(vectors.VecEnvWrapper):
        def __init__(self, venv: Any):
            with contextlib.suppress(AttributeError):  # it cannot be set in EnvPool 1.2.5
                venv.num_envs = venv.spec.config.num_envs
            super().__init__(venv=venv)

        def step_async(self, actions: np.ndarray) -> None:
            self.actions = actions

        def reset(self) -> Any:
            return self.venv.reset()[0]

        def step_wait(self) -> Any:
            obs, rewards, terms, truncs, info = self.venv.step(self.actions)
            dones, infos = terms + truncs, listed(info, self.num_envs)
            for i in np.flatnonzero(dones):
                infos[i]["terminal_observation"] = obs[i]
                obs[i] = self.venv.reset(np.array([i]))[0]
            return obs, rewards, dones, infos

    return Adapter(env)


@pytest.mark.parametrize(
    ("task", "kind", "adapted"), [("Pendulum-v1", "gymnasium", stable), ("CartPole-v1", "gym", stable_by_wrapping)]
)
def test_stable_baselines3_trains_over_the_adapters_of_envpools_examples(
    envpool: Any, task: str, kind: str, adapted: Any
) -> None:
    env = envpool.make(task, env_type=kind, num_envs=4, seed=0, render_mode="rgb_array")
    env.spec.id = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a wrapper asks a VecEnv for render_mode in its own way
        vector = adapted(env)
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecMonitor

    monitored = VecMonitor(vector)
    use_sde = task == "Pendulum-v1"
    model = PPO("MlpPolicy", monitored, n_steps=32, batch_size=64, use_sde=use_sde, seed=0, device="cpu")
    model.learn(256)
    mean: Any = evaluate_policy(model, monitored, n_eval_episodes=4)[0]
    assert mean < 0 if task == "Pendulum-v1" else mean >= 8
    if adapted is stable:
        assert [image.shape for image in vector.get_images()] == [(500, 500, 3)] * 4
    monitored.close()


def test_the_loops_of_cleanrl_and_envpools_ppo_collect_rollouts(envpool: Any) -> None:
    torch = pytest.importorskip("torch")
    sync = envpool.make("Pong-v5", env_type="gymnasium", num_envs=4, episodic_life=True, reward_clip=True)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 84 * 84, sync.single_action_space.n))

    def act(obs: Any) -> Any:
        return torch.distributions.Categorical(logits=net(torch.Tensor(obs) / 255)).sample().numpy()

    storage = torch.zeros((8, 4, *sync.single_observation_space.shape))
    actions = torch.zeros((8, 4, *sync.single_action_space.shape))
    obs, _ = sync.reset()
    for t in range(8):
        storage[t] = torch.Tensor(obs)
        action = act(obs)
        actions[t] = torch.tensor(action)
        obs, _rew, term, trunc, info = sync.step(action)
        for i, over in enumerate(term | trunc):
            assert not (over and info["lives"][i] == 0)
    assert storage[-1].std() > 0
    sync.close()

    asynchronous = envpool.make("Pong-v5", env_type="gym", num_envs=6, batch_size=3, reward_clip=True)
    returns = np.zeros(len(asynchronous))
    asynchronous.async_reset()
    seen = set()
    for _ in range(20):
        obs, _rew, term, trunc, info = asynchronous.recv()
        env_id = info["env_id"]
        asynchronous.send(act(torch.tensor(obs)), env_id)
        returns[env_id] += info["reward"]
        seen |= set(env_id[~((term + trunc) & (info["lives"] == 0))].tolist())
    assert seen == set(range(6))
    asynchronous.close()


@pytest.mark.parametrize("task", ["Catch-v0", "CartPole-v1"])
def test_the_actor_of_envpools_impala_unrolls_consecutive_trajectories(envpool: Any, task: str) -> None:
    """An actor's thread keeps whole time steps and stacks them; the learner masks steps from LAST to FIRST."""
    env = envpool.make(task, env_type="dm", num_envs=6, seed=1)
    spec, choices = env.observation_spec().obs, env.action_spec().num_values
    unrolls: queue.Queue[Any] = queue.Queue(maxsize=1)
    finished: list[float] = []

    def act() -> None:
        rng, ts, kept = np.random.default_rng(0), env.reset(), []
        returns = np.zeros(6, np.float32)
        for _ in range(3):
            for _ in range(40 + (not kept)):
                kept.append(ts._replace(observation=ts.observation.obs.astype(np.float32)))
                ts = env.step(rng.integers(choices, size=6))
                returns += ts.reward
                finished.extend(returns[ts.last()])
                returns[ts.last()] = 0
            unrolls.put(dm_env.TimeStep(*map(np.stack, zip(*kept, strict=True))))
            kept = kept[-1:]

    actor = threading.Thread(target=act)
    actor.start()
    found = [unrolls.get(timeout=60) for _ in range(3)]
    actor.join(timeout=60)
    for one in found:
        assert one.observation.shape == (41, 6, *spec.shape)
        assert one.reward.shape == one.discount.shape == one.step_type.shape == (41, 6)
    for one, other in itertools.pairwise(found):  # the last step of one is the first of the next, unchanged since
        for last, first in zip(one, other, strict=True):
            np.testing.assert_array_equal(last[-1], first[0])
    kinds = np.concatenate([found[0].step_type, *(one.step_type[1:] for one in found[1:])])
    rewards = np.concatenate([found[0].reward, *(one.reward[1:] for one in found[1:])])
    discounts = np.concatenate([found[0].discount, *(one.discount[1:] for one in found[1:])])
    last, first = kinds == dm_env.StepType.LAST, kinds == dm_env.StepType.FIRST
    assert last.sum() >= 6
    np.testing.assert_array_equal(first[1:], last[:-1])
    assert not rewards[first].any()
    np.testing.assert_array_equal(discounts == 0, last)
    if task == "CartPole-v1":
        assert min(finished) >= 8
    env.close()


@pytest.mark.parametrize("kind", ["gym", "dm"])
def test_steps_in_a_compiled_jax_loop_equal_steps_from_python(envpool: Any, kind: str) -> None:
    jax = pytest.importorskip("jax")
    env, twin = (envpool.make("CartPole-v1", env_type=kind, num_envs=3, seed=1) for _ in range(2))
    handle, _recv, _send, step = env.xla()

    def observed(result: Any) -> Any:
        return result.observation.obs if kind == "dm" else result[0]

    def actor(_: Any, carried: Any) -> Any:
        handle, obs = carried
        handle, result = step(handle, (obs[:, 2] > 0).astype("int32"))
        return handle, observed(result)

    obs = observed(env.reset())
    _, last = jax.jit(lambda handle, obs: jax.lax.fori_loop(0, 30, actor, (handle, obs)))(handle, obs)
    there = observed(twin.reset())
    for _ in range(30):
        there = observed(twin.step((there[:, 2] > 0).astype(np.int32)))
    np.testing.assert_array_equal(last, there)
    env.close()
    twin.close()


def test_a_compiled_jax_loop_sends_and_receives_asynchronous_batches(envpool: Any) -> None:
    jax = pytest.importorskip("jax")
    env = envpool.make_dm("CartPole-v1", num_envs=8, batch_size=4)
    handle, recv, send, _step = env.xla()

    def actor(_: Any, carried: Any) -> Any:
        handle, ts = carried
        send(handle, jax.numpy.ones(4, dtype="int32"), ts.observation.env_id)
        return recv(handle)

    env.async_reset()
    handle, ts = recv(handle)
    _, ts = jax.jit(lambda carried: jax.lax.fori_loop(0, 12, actor, carried))((handle, ts))
    assert ts.observation.obs.shape == (4, 4)
    assert len(set(np.asarray(ts.observation.env_id).tolist())) == 4
    env.close()


def test_xla_without_jax_raises_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import headrace
    from headrace.errors import OptionError

    monkeypatch.setitem(sys.modules, "jax", None)
    with headrace.make_gym("CartPole-v1") as env, pytest.raises(OptionError, match="pip install jax"):
        env.xla()

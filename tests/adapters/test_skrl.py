"""The skrl adapter: skrl's PPO learns over it, and its steps are the pool's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("skrl", reason="skrl is not installed")

import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.model_instantiators.torch import categorical_model, deterministic_model, gaussian_model

import headrace
from headrace.adapters.skrl import HeadraceWrapper
from headrace.errors import OptionError

MAKERS: dict[str, Callable[..., Any]] = {"pool": headrace.make, "torch pool": headrace.make_torch}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
pytestmark = pytest.mark.usefixtures("one_thread")


def agent_for(env: HeadraceWrapper, folder: Path) -> Any:
    net = [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}]
    spaces: Any = {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "device": env.device,
    }
    policy = categorical_model if isinstance(env.action_space, gym.spaces.Discrete) else gaussian_model
    models: Any = {
        "policy": policy(**spaces, network=net, output="ACTIONS"),
        "value": deterministic_model(**spaces, network=net, output="ONE"),
    }
    cfg = PPO_CFG(rollouts=32, learning_epochs=4, mini_batches=4, learning_rate=2e-3, time_limit_bootstrap=True)
    cfg.experiment.directory, cfg.experiment.write_interval, cfg.experiment.checkpoint_interval = str(folder), 0, 0
    memory = RandomMemory(memory_size=32, num_envs=env.num_envs, device=env.device)
    return PPO(models=models, memory=memory, cfg=cfg, **spaces)


def train(env: HeadraceWrapper, agent: Any, timesteps: int) -> None:
    cfg: Any = {
        "timesteps": timesteps,
        "headless": True,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }
    SequentialTrainer(env=env, agents=agent, cfg=cfg).train()


def mean_length(env: HeadraceWrapper, agent: Any, steps: int = 500) -> float:
    agent.enable_training_mode(False)
    obs, _ = env.reset()
    ends = 1
    with torch.no_grad():
        for _ in range(steps):
            action = agent.act(obs, None, timestep=0, timesteps=0)[0]
            obs, _, terminated, truncated, _ = env.step(action)
            ends += int((terminated | truncated).sum())
    return steps * env.num_envs / ends


@pytest.mark.nightly
@both
def test_ppo_learns(make: Callable[..., Any], tmp_path: Path) -> None:
    set_seed(1)
    env = HeadraceWrapper(make("CartPole-v1", num_envs=16, seed=0, autoreset="same_step"))
    agent = agent_for(env, tmp_path)
    train(env, agent, 1)  # this also initialises its networks
    before = mean_length(env, agent)
    train(env, agent, 1000)
    assert before < 40
    assert mean_length(env, agent) > 2 * before
    env.close()


@pytest.mark.parametrize(("task", "num_envs"), [("Pendulum-v1", 4), ("CartPole-v1", 1)])
def test_ppo_runs(task: str, num_envs: int, tmp_path: Path) -> None:
    """Also over a single environment, which skrl's trainer resets at the end of each episode."""
    env = HeadraceWrapper(headrace.make(task, num_envs=num_envs, seed=0, autoreset="same_step"))
    train(env, agent_for(env, tmp_path), 96)
    env.close()


def test_pixels_become_float32_and_discrete_observations_int32() -> None:
    for task, size, dtype in (("Pong-v5", 4 * 84 * 84, torch.float32), ("FrozenLake-v1", 1, torch.int32)):
        env = HeadraceWrapper(headrace.make(task, num_envs=2, autoreset="same_step"))
        for obs in (env.reset()[0], env.step(torch.zeros(2, 1))[0]):
            assert obs.dtype == dtype
            assert obs.shape == (2, size)
        env.close()


@both
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_steps_equal_the_steps_of_the_pool(make: Callable[..., Any], mode: str) -> None:
    env = HeadraceWrapper(make("CartPole-v1", num_envs=3, seed=4, autoreset=mode))
    pool = headrace.make("CartPole-v1", num_envs=3, seed=4, autoreset=mode)
    obs, _ = env.reset()
    expected, _ = pool.reset()
    kept = [(obs, expected)]
    ends = 0
    for _ in range(60):
        action = (expected[:, 2] > 0).astype(np.int64)
        obs, *rest, info = env.step(torch.from_numpy(action)[:, None])
        expected, *arrays, _ = pool.step(action)
        kept.append((obs, expected))
        for tensor, array in zip(rest, arrays, strict=True):
            assert tensor.shape == (3, 1)
            np.testing.assert_array_equal(tensor[:, 0], array)
        assert (env.reset()[0] == obs).all(), "environments begin their episodes by themselves"
        ended = arrays[1] | arrays[2]
        ends += int(ended.sum())
        if mode == "same_step" and ended.any():
            assert np.asarray(info["_final_obs"]).tolist() == ended.tolist()
    assert ends
    for tensor, array in kept:  # no step overwrites the results of another
        np.testing.assert_array_equal(tensor, array)
    env.close()
    pool.close()


def test_dict_observations_are_flattened_in_the_order_of_their_keys() -> None:
    env = HeadraceWrapper(headrace.make("CheetahRun-v1", num_envs=2, seed=0, autoreset="same_step"))
    plain = headrace.make("CheetahRun-v1", num_envs=2, seed=0)
    obs, _ = env.reset()
    expected, _ = plain.reset()
    assert isinstance(expected, dict)
    flat = np.concatenate([expected[key] for key in sorted(expected)], 1)
    np.testing.assert_array_equal(obs, flat.astype(np.float32))
    assert env.render().shape[0] == 1
    env.close()
    plain.close()


class Lettered(gym.Env):
    """Observes words, which are no tensors."""

    observation_space = gym.spaces.Dict(word=gym.spaces.Text(4))
    action_space = gym.spaces.Discrete(2)


def test_pools_that_skrl_does_not_support_are_refused() -> None:
    with headrace.make("CartPole-v1", autoreset="disabled") as pool, pytest.raises(OptionError, match="'disabled'"):
        HeadraceWrapper(pool)
    with (
        headrace.make("TagGridWorld-v0", autoreset="same_step") as pool,
        pytest.raises(OptionError, match="parallel_env"),
    ):
        HeadraceWrapper(pool)


def test_skrl_wraps_many_agents_through_the_pettingzoo_adapter() -> None:
    pettingzoo = pytest.importorskip("headrace.adapters.pettingzoo")
    env: Any = wrap_env(pettingzoo.parallel_env("TagGridWorld-v0", num_taggers=2), wrapper="pettingzoo")
    observations, _ = env.reset()
    assert observations.keys() == {"tagger_0", "tagger_1", "runner_0"}
    observations, rewards, terminated, *_ = env.step({agent: torch.zeros(1, 1) for agent in env.agents})
    assert observations["runner_0"].shape == (1, env.observation_space("runner_0").shape[0])
    assert rewards["tagger_0"].shape == terminated["tagger_0"].shape == (1, 1)
    assert env.state()["tagger_0"].shape == (1, env.state_space("tagger_0").shape[0])
    env.close()

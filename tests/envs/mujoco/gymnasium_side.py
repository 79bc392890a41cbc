"""Gymnasium's MuJoCo environments beside a pool of ours: an equal state once an episode, then equal actions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.envs import mujoco as family

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")
mujoco: Any = pytest.importorskip("mujoco")

from headrace.envs.mujoco.common import warnings_dropped  # noqa: E402

TASKS = family.TASKS
ASSETS = Path(gym.__file__).parent / "envs" / "mujoco" / "assets"
OURS = {"env_id", "elapsed_step", "players", "physics_warning"}  # info that Gymnasium does not have
ENVPOOLS = {  # nor these, which EnvPool has
    "Ant-v4": {"reward_contact"},
    "HalfCheetah-v5": {"reward_run"},
    "Humanoid-v4": {"reward_impact"},
    "Humanoid-v5": {"reward_linvel", "reward_quadctrl", "reward_alive", "reward_impact"},
    "HumanoidStandup-v4": {"reward_alive"},
    "HumanoidStandup-v5": {"reward_alive"},
    "Pusher-v4": {"reward_near"},
    "Swimmer-v5": {"reward_fwd"},
}

# Numbers that both copy from MuJoCo are equal bit by bit, on one machine. Sums may be taken in another order,
# and sines come from another library: one in the last place. Rewards are float32, Gymnasium's float64.
EQUAL = 1e-12
FLOAT32 = 2.0**-23


def official(task: str, **options: Any) -> Any:
    """Gymnasium's environment, without wrappers."""
    with warnings.catch_warnings(), warnings_dropped(), patch.object(mujoco, "__version__", "2.3.7"):
        # Pusher-v4 refuses later versions
        warnings.simplefilter("ignore")
        return gym.make(task, **options).unwrapped


def put_at_its_start(env: Any, pool: headrace.Pool) -> np.ndarray:
    """Puts Gymnasium's environment where the pool's only one starts; returns what it observes there."""
    state = pool.state_arrays()
    mujoco.mj_resetData(env.model, env.data)
    env.set_state(state["qpos"][0].copy(), state["qvel"][0].copy())
    return env._get_obs()


@dataclass
class Played:
    """The numbers of steps and ends that were compared."""

    steps: int = 0
    terminated: int = 0
    truncated: int = 0


def play_both(
    task: str, episodes: int, seed: int, *, ours: Mapping[str, Any] | None = None, scale: float = 1.0, **options: Any
) -> Played:
    """Play whole episodes of random actions and compare everything.

    Both get float64 actions: of float32 ones Gymnasium would sum float32 squares.

    Args:
        task, episodes, seed: what is played.
        ours: options of our pool alone, in place of the others.
        scale: how large actions are, the largest allowed being 1.
        options: of both.
    """
    env, rng, played = official(task, **options), np.random.default_rng(seed), Played()
    ours = options if ours is None else ours
    settings: dict[str, Any] = {"num_envs": 1, "num_threads": 1, "autoreset": "disabled", "physics": "mujoco"}
    with headrace.make(task, seed=seed, **settings, **ours) as pool:
        space, limit = pool.action_space, pool.spec.max_episode_steps
        assert isinstance(space, gym.spaces.Box)
        for _ in range(episodes):
            obs, info = pool.reset()
            assert_equal(obs[0], put_at_its_start(env, pool), info, env._get_reset_info())
            terminated = truncated = np.zeros(1, bool)
            while not (terminated[0] or truncated[0]):
                action = scale * rng.uniform(space.low, space.high)
                obs, reward, terminated, truncated, info = pool.step(action[None])
                expected, its_reward, its_end, _, its_info = env.step(action)
                assert_equal(obs[0], expected, info, its_info)
                assert set(info) - OURS == set(its_info) | ENVPOOLS.get(task, set())
                np.testing.assert_allclose(reward[0], its_reward, FLOAT32, FLOAT32)
                assert terminated[0] == its_end
                assert truncated[0] == (info["elapsed_step"][0] == limit)
                assert info["physics_warning"][0] == 0
                played.steps += 1
            played.terminated += int(terminated[0])
            played.truncated += int(truncated[0])
    return played


def assert_equal(obs: np.ndarray, expected: np.ndarray, info: dict[str, Any], its_info: dict[str, Any]) -> None:
    assert obs.dtype == np.float64
    np.testing.assert_allclose(obs, expected, EQUAL, EQUAL)
    for key, value in its_info.items():
        assert info[key].dtype == np.float64
        np.testing.assert_allclose(info[key][0], value, EQUAL, EQUAL, err_msg=key)

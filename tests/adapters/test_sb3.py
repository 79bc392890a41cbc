"""Pools as vector environments of stable-baselines3: beside its own, under its wrappers, and in training."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import OptionError

pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env as theirs
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    is_vecenv_wrapped,
)

from headrace.adapters.sb3 import PoolVecEnv, make_vec_env
from walks import Walk


def same(ours: Any, other: Any) -> None:
    """Nested dicts, lists and arrays are equal, and arrays of one dtype."""
    if isinstance(other, dict):
        assert ours.keys() == other.keys()
        for key in other:
            same(ours[key], other[key])
    elif isinstance(other, list | tuple):
        assert len(ours) == len(other)
        for one, two in zip(ours, other, strict=True):
            same(one, two)
    else:
        np.testing.assert_array_equal(ours, other)
        assert not np.ndim(other) or ours.dtype == other.dtype


def told(infos: Any) -> list[dict[str, Any]]:
    """Infos without the keys that a pool adds, and without the times that monitors note."""
    found = [{key: value for key, value in info.items() if key not in ("elapsed_step", "episode")} for info in infos]
    for one, info in zip(found, infos, strict=True):
        one |= {"episode": {key: info["episode"][key] for key in "rl"}} if "episode" in info else {}
    return found


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def walks() -> Iterator[PoolVecEnv]:
    env = PoolVecEnv(headrace.make(Walk, num_envs=3, num_threads=2, seed=5, autoreset="same_step"))
    yield env
    env.close()


def alike(ours: VecEnv, other: VecEnv, steps: int, seed: int) -> int:
    """Both do the same, step after step; returns how many episodes ended."""
    ours.seed(seed)
    other.seed(seed)
    same(ours.reset(), other.reset())
    same(told(ours.reset_infos), list(other.reset_infos))
    rng, ended = np.random.default_rng(seed), 0
    for _ in range(steps):
        shape = (ours.num_envs, *(ours.action_space.shape or ()))
        actions = rng.integers(0, 2, shape)
        obs, reward, done, infos = ours.step(actions)
        obs2, reward2, done2, infos2 = other.step(actions)
        same((obs, reward, done, told(infos)), (obs2, reward2, done2, told(infos2)))
        same(told(ours.unwrapped.reset_infos), list(other.unwrapped.reset_infos))
        ended += int(done.sum())
    return ended


def test_a_python_environment_gives_the_same_results_as_in_dummy_vec_env(walks: PoolVecEnv) -> None:
    dummy = DummyVecEnv([Walk] * 3)
    assert walks.observation_space == dummy.observation_space
    assert walks.action_space == dummy.action_space
    assert alike(walks, dummy, 60, 3) > 30


def test_cartpole_gives_the_same_results_and_monitor_infos_as_sb3s_make_vec_env() -> None:
    ours = make_vec_env("CartPole-v1", 4, executor="processes", num_threads=1, max_episode_steps=20)
    other = theirs("CartPole-v1", 4, env_kwargs={"max_episode_steps": 20})
    assert alike(ours, other, 100, 11) > 15
    ours.close()


@pytest.mark.parametrize("stacked", [False, True])
def test_sb3_wrappers_give_the_same_results_as_over_dummy_vec_env(stacked: bool) -> None:
    def wrapped(env: VecEnv) -> VecEnv:
        env = VecCheckNan(VecNormalize(env, norm_obs_keys=["place"]), raise_exception=True)
        return VecFrameStack(env, 3) if stacked else env

    def walk() -> gym.Env:
        space = gym.spaces.Dict({"place": gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)})
        return gym.wrappers.TransformObservation(Walk(), lambda obs: {"place": obs["place"]}, space)

    with headrace.make(walk, num_envs=3, num_threads=1, autoreset="same_step") as pool:
        assert alike(wrapped(PoolVecEnv(pool)), wrapped(DummyVecEnv([walk] * 3)), 40, 1) > 20


def test_a_step_both_terminated_and_truncated_is_not_reported_as_a_time_limit() -> None:
    class Both(Walk):
        def step(self, action: Any) -> Any:
            obs, reward, _, _, info = super().step(action)
            return obs, reward, self.count == self.length, self.count == self.length, info

    with headrace.make(Both, num_envs=2, num_threads=1, length=2, autoreset="same_step") as pool:
        env = PoolVecEnv(pool)
        env.reset()
        env.step(np.zeros((2, 2)))
        _, _, done, infos = env.step(np.zeros((2, 2)))
        assert done.all()
        assert [info["TimeLimit.truncated"] for info in infos] == [False, False]


@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5", "Pong-v5"])
def test_headrace_tasks_end_their_episodes_as_in_the_pool(task: str) -> None:
    options: dict[str, Any] = {"seed": 2, "max_episode_steps": 9}
    env = make_vec_env(task, 3, **options)
    with headrace.make(task, num_envs=3, autoreset="same_step", **options) as twin:
        first, _ = twin.reset()
        np.testing.assert_array_equal(env.reset(), first)
        env.action_space.seed(0)
        ended = 0
        for _ in range(30):
            actions = np.stack([env.action_space.sample() for _ in range(3)])
            obs, reward, done, infos = env.step(actions)
            obs2, reward2, terminated, truncated, info = twin.step(actions)
            same((obs, reward, done), (obs2, reward2, terminated | truncated))
            for i in range(3):
                assert infos[i]["TimeLimit.truncated"] is bool(truncated[i] and not terminated[i])
                tells = info["final_info"] if done[i] else info
                assert infos[i]["elapsed_step"] == tells["elapsed_step"][i]
                for field in twin.spec.info:
                    np.testing.assert_array_equal(infos[i][field.name], tells[field.name][i])
                assert ("terminal_observation" in infos[i]) == done[i]
                if done[i]:
                    np.testing.assert_array_equal(infos[i]["terminal_observation"], info["final_obs"][i])
                    assert env.unwrapped.reset_infos[i]["elapsed_step"] == 0
            ended += int(done.sum())
        assert ended >= 9
    env.close()


def test_returned_arrays_do_not_change_in_later_steps(walks: PoolVecEnv) -> None:
    kept: list[Any] = [walks.reset()]
    before = deepcopy(kept)
    for _ in range(60):
        obs, reward, _, infos = walks.step(np.ones((3, 2)))
        kept.append((obs, reward, infos))
        before.append(deepcopy(kept[-1]))
    for result, was in zip(kept, before, strict=True):
        same(result, was)
    kept[-1][2][0]["mine"] = True
    assert not any("mine" in info for info in walks.step(np.ones((3, 2)))[3])


def test_attributes_and_methods_of_python_environments_can_be_used(walks: PoolVecEnv) -> None:
    walks.reset()
    assert walks.get_attr("length") == [5, 5, 5]
    walks.set_attr("length", [1, 2], indices=[0, 2])  # type: ignore[arg-type]
    assert walks.get_attr("length") == [[1, 2], 5, [1, 2]]
    walks.set_attr("length", 9)
    assert walks.env_method("twice", 4, more=1) == [18, 18, 18]
    assert walks.env_method("twice", 4, indices=1) == [17]
    assert callable(walks.get_attr("twice", 0)[0])
    assert walks.has_attr("count")
    assert not walks.has_attr("nothing")
    assert walks.get_attr("render_mode", indices=np.array([2])) == ["rgb_array"]


def test_env_is_wrapped_looks_into_the_processes() -> None:
    class Scaled(gym.wrappers.TransformReward):
        pass

    def walk() -> gym.Env:
        return gym.wrappers.TimeLimit(Scaled(Walk(), lambda reward: 2.0 * float(reward)), 3)

    with headrace.make(walk, num_envs=2, num_threads=1, autoreset="same_step") as pool:
        env = PoolVecEnv(pool)
        assert env.env_is_wrapped(gym.wrappers.TimeLimit) == [True, True]
        assert env.env_is_wrapped(Scaled, [1]) == [True]
        assert env.env_is_wrapped(gym.wrappers.TransformReward, [1]) == [True]
        assert env.env_is_wrapped(Monitor) == [False, False]


def test_headrace_tasks_refuse_access_to_python_attributes_and_methods() -> None:
    env = make_vec_env("CartPole-v1", 2, seed=0)
    assert isinstance(env, VecMonitor)
    assert env.env_is_wrapped(gym.wrappers.TimeLimit) == [False, False]
    assert not env.has_attr("gravity")
    assert env.get_attr("spec")[0].id == "CartPole-v1"
    assert env.get_attr("action_space", 1) == [gym.spaces.Discrete(2)]
    with pytest.raises(OptionError, match="no Python objects"):
        env.set_attr("gravity", 1.0)
    with pytest.raises(OptionError, match="no Python objects"):
        env.env_method("reset")
    env.close()


def test_a_seed_takes_effect_at_the_next_reset_and_differing_options_are_refused(walks: PoolVecEnv) -> None:
    assert list(walks.seed(7)) == [7, 8, 9]
    first, other = walks.reset(), walks.reset()
    assert not np.array_equal(first["place"], other["place"])  # type: ignore[call-overload]
    walks.seed(7)
    same(walks.reset(), first)
    walks.seed(8)
    np.testing.assert_array_equal(walks.reset()["place"][:2], first["place"][1:])  # type: ignore[call-overload]
    walks.set_options([{"a": 1}, {}, {}])
    with pytest.raises(OptionError, match="same options"):
        walks.reset()
    walks.set_options()
    walks.reset()


def test_images_come_from_the_environments_and_are_none_without_render_mode(walks: PoolVecEnv) -> None:
    walks.reset()
    walks.step(np.zeros((3, 2)))
    assert [frame.max() for frame in walks.get_images() if frame is not None] == [1, 1, 1]
    tiled = walks.render()
    assert tiled is not None
    assert tiled.shape == (8, 12, 3)
    assert walks.metadata == {"render_modes": ["human", "rgb_array"], "render_fps": 7.0}
    blind = make_vec_env("CartPole-v1", 2, render_mode=None)
    blind.reset()
    assert blind.get_images() == [None, None]
    with pytest.warns(UserWarning, match="no `render_mode`"):
        assert blind.render() is None
    blind.close()


def test_monitor_writes_episodes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"monitor_dir": str(tmp_path), "monitor_kwargs": {"info_keywords": ("elapsed_step",)}}
    env = make_vec_env("CartPole-v1", 2, env_kwargs={"max_episode_steps": 3}, **options)
    env.reset()
    for _ in range(6):
        env.step(np.zeros(2, np.int64))
    env.close()
    with (tmp_path / "0.monitor.csv").open() as file:
        assert "CartPole-v1" in next(file)
        rows = list(csv.DictReader(file))
    assert [(row["r"], row["l"], row["elapsed_step"]) for row in rows] == [("3.0", "3", "3")] * 4


def test_unsupported_options_and_pools_are_refused_with_a_reason() -> None:
    for options, words in [
        ({"batch_size": 1}, "batch_size is not for"),
        ({"autoreset": "disabled"}, "autoreset is not for"),
        ({"wrapper_class": Monitor}, "wraps it"),
        ({"vec_env_cls": DummyVecEnv}, "vec_env_cls is not for"),
        ({"render_mode": "human"}, "render_mode must be"),
        ({"nothing": 1}, "nothing"),
    ]:
        with pytest.raises(OptionError, match=words):
            make_vec_env("CartPole-v1", 2, **options)
    with pytest.raises(OptionError, match="many agents"):
        make_vec_env("TagGridWorld-v0")
    more: dict[str, Any]
    for more in ({"batch_size": 1, "autoreset": "same_step"}, {"autoreset": "next_step"}):
        with headrace.make("CartPole-v1", num_envs=2, **more) as pool, pytest.raises(OptionError, match="synchronous"):
            PoolVecEnv(pool)


def test_ppo_takes_atari_observations_as_images_with_channels_first() -> None:
    env = make_vec_env("Pong-v5", 2, seed=0)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=16, n_epochs=1, device="cpu")
    assert not is_vecenv_wrapped(model.get_env(), VecTransposeImage)  # type: ignore[arg-type]
    model.learn(16)
    env.close()


def test_pictures_with_channels_last_are_transposed() -> None:
    class Seen(gym.Env):
        observation_space, action_space = gym.spaces.Box(0, 255, (36, 40, 3), np.uint8), gym.spaces.Discrete(2)
        count = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.count = 0
            return np.zeros((36, 40, 3), np.uint8), {}

        def step(self, action: Any) -> Any:
            self.count += 1
            return np.full((36, 40, 3), self.count, np.uint8), 0.0, False, self.count == 4, {}

    with headrace.make(Seen, num_envs=2, num_threads=1, autoreset="same_step") as pool:
        model = PPO("CnnPolicy", PoolVecEnv(pool), n_steps=8, batch_size=16, n_epochs=1, device="cpu")
        env = model.get_env()
        assert is_vecenv_wrapped(env, VecTransposeImage)  # type: ignore[arg-type]
        model.learn(16)
        env.reset()  # type: ignore[union-attr]
        infos: Any = [env.step(np.zeros(2, np.int64)) for _ in range(4)][-1][3]  # type: ignore[union-attr]
        assert infos[0]["terminal_observation"].shape == (3, 36, 40)
        assert (infos[1]["terminal_observation"] == 4).all()


def test_off_policy_learners_run() -> None:
    pendulum = make_vec_env("Pendulum-v1", 4, seed=0)
    sac = SAC("MlpPolicy", pendulum, learning_starts=750, buffer_size=2000, device="cpu", seed=0)
    sac.learn(900)
    ends = np.flatnonzero(sac.replay_buffer.dones[: sac.replay_buffer.pos].any(1))  # type: ignore[union-attr]
    assert ends.tolist() == [199]
    assert sac.replay_buffer.timeouts[ends].all()  # type: ignore[union-attr]
    pendulum.close()
    cartpole = make_vec_env("CartPole-v1", 2, seed=0)
    DQN("MlpPolicy", cartpole, learning_starts=20, device="cpu").learn(100)
    cartpole.close()


@pytest.mark.nightly
def test_ppo_solves_cartpole() -> None:
    env, judge = make_vec_env("CartPole-v1", 8, seed=1), make_vec_env("CartPole-v1", 8, seed=2)
    model = PPO(
        "MlpPolicy", env, n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=10,
        learning_rate=lambda left: 1e-3 * left, clip_range=lambda left: 0.2 * left, seed=1, device="cpu",
    )  # fmt: skip
    solved = StopTrainingOnRewardThreshold(475)
    watch = EvalCallback(judge, solved, n_eval_episodes=16, eval_freq=1250, verbose=0)
    model.learn(200_000, callback=watch)
    mean: Any = evaluate_policy(model, judge, n_eval_episodes=16)[0]
    assert watch.best_mean_reward >= 475
    assert mean >= 400
    assert len(model.ep_info_buffer or ()) > 10
    env.close()
    judge.close()


def test_importing_the_adapter_without_stable_baselines3_names_it_in_the_error() -> None:
    code = "import sys; sys.modules['stable_baselines3'] = None; import headrace.adapters.sb3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: this adapter needs stable-baselines3" in done.stderr


class Limited(gym.Env):
    """Sets TimeLimit.truncated in its own infos, at times wrongly, as older environments do."""

    observation_space, action_space = gym.spaces.Box(0, 9, (1,), np.float32), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        over = self.count == 3
        said = {"TimeLimit.truncated": np.bool_(True)} if over or action else {}
        return np.full(1, self.count, np.float32), 1.0, False, over, said


def test_the_time_limit_info_follows_the_pool_not_the_environments_own_value() -> None:
    env = PoolVecEnv(headrace.make(Limited, num_envs=2, autoreset="same_step"))
    env.reset()
    for count in range(1, 7):
        _, _, done, infos = env.step(np.array([0, 1]))
        assert done.tolist() == [count % 3 == 0] * 2
        assert [info["TimeLimit.truncated"] for info in infos] == done.tolist()
        assert all(("terminal_observation" in info) == over for info, over in zip(infos, done, strict=True))
    env.close()

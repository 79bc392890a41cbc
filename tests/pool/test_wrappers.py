"""Wrapped pools return the functions' results: sync and async, at ends of episodes, and in the caller's arrays."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError, SequenceError
from headrace.wrappers import NormalizeReward, Step, TransformObservation, TransformReward

HALF = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
MODES: Any = ["next_step", "same_step"]


def shaped(step: Step) -> Any:
    """A reward that depends on several parts of a step."""
    return 2 * step.reward + step.obs[:, 0] + 1.0 * step.terminated


def pools(**options: Any) -> tuple[Any, Any]:
    """The same pool twice."""
    one, two = (headrace.make("CartPole-v1", num_envs=5, seed=3, max_episode_steps=12, **options) for _ in range(2))
    return one, two


@pytest.mark.parametrize("autoreset", MODES)
def test_rewards_are_the_results_of_the_function(autoreset: str):
    plain, inner = pools(autoreset=autoreset)
    with plain, TransformReward(inner, shaped) as pool:
        rng = np.random.default_rng(0)
        plain.reset()
        _, info = pool.reset()
        assert info["reward"].tolist() == [0.0] * 5
        ends = 0
        for _ in range(60):
            actions = rng.integers(2, size=5)
            obs, reward, terminated, truncated, info = plain.step(actions)
            seen, got, ended, cut, told = pool.step(actions)
            done = terminated | truncated
            led = np.where(done[:, None], info["final_obs"], obs) if "final_obs" in info else obs
            wanted = 2 * reward + led[:, 0] + terminated
            wanted[(info["elapsed_step"] == 0) & ~done] = 0.0
            assert np.allclose(got, wanted) and got.dtype == np.float32
            assert np.array_equal(told["reward"], reward) and np.array_equal(seen, obs)
            if "final_info" in told:
                assert np.array_equal(told["final_info"]["reward"][done], reward[done])
            assert np.array_equal(ended, terminated) and np.array_equal(cut, truncated)
            ends += int(done.sum())
        assert ends > 5


@pytest.mark.parametrize("batch_size", [0, 2])
def test_the_first_step_after_a_lost_life_has_no_transformed_reward(batch_size: int):
    pytest.importorskip("ale_py")
    options = {"num_envs": 4, "batch_size": batch_size, "seed": 1, "episodic_life": True, "use_fire_reset": True}
    with TransformReward(headrace.make("Breakout-v5", **options), lambda step: step.reward * 0 + 1) as pool:
        over, lives = np.zeros(4, np.bool_), 0
        pool.async_reset() if batch_size else pool.reset()
        result = pool.recv() if batch_size else pool.step(np.full(4, 2))
        for _ in range(150 if not batch_size else 300):
            _, reward, terminated, truncated, info = result
            ids = info["env_id"]
            began = over[ids] | (info["elapsed_step"] == 0)
            assert np.array_equal(reward, np.where(began, 0, 1))
            lives += int((over[ids] & (info["elapsed_step"] > 0)).sum())
            over[ids] = terminated | truncated
            if batch_size:
                pool.send(np.full(len(ids), 2), ids)
            result = pool.recv() if batch_size else pool.step(np.full(4, 2))
        assert lives > 5
        if not batch_size:
            while not over.any():
                _, _, terminated, truncated, info = pool.step(np.full(4, 2))
                over = terminated | truncated
            pool.reset()  # this begins the next life already
            assert pool.step(np.full(4, 2))[1].tolist() == [1.0] * 4


def test_kept_results_are_not_overwritten():
    _, inner = pools(autoreset="same_step")
    with TransformReward(inner, lambda step: step.reward * 0 + float(step.info["elapsed_step"].sum())) as pool:
        pool.reset()
        kept = [pool.step(np.zeros(5, np.int64)) for _ in range(20)]
        copies = [(reward.copy(), info["reward"].copy()) for _, reward, _, _, info in kept]
        for _ in range(20):
            pool.step(np.ones(5, np.int64))
        for (_, reward, _, _, info), (was, raw) in zip(kept, copies, strict=True):
            assert np.array_equal(reward, was) and np.array_equal(info["reward"], raw)


@pytest.mark.parametrize("autoreset", MODES)
def test_asynchronous_steps_pass_their_env_ids_to_the_function(autoreset: str):
    _, inner = pools(batch_size=2, autoreset=autoreset)
    with TransformReward(inner, lambda step: step.reward + 10 * step.info["env_id"]) as pool:
        pool.async_reset()
        for _ in range(100):
            _, reward, terminated, truncated, info = pool.recv()
            began = (info["elapsed_step"] == 0) & ~(terminated | truncated)
            assert np.array_equal(reward, np.where(began, 0, info["reward"] + 10 * info["env_id"]))
            pool.send(np.ones(len(reward), np.int64), info["env_id"])
        with pytest.raises(SequenceError):
            pool.send(np.ones(5, np.int64))


def test_transformed_rewards_are_written_to_the_arrays_of_the_caller():
    plain, inner = pools(autoreset="same_step")
    with plain, TransformReward(inner, shaped) as pool:
        arrays = {"reward": np.zeros(5, np.float32), "obs": np.zeros((5, 4), np.float32)}
        more = {"info:reward": np.zeros(5, np.float32), "final:info:reward": np.zeros(5, np.float32)}
        batch, other = pool.make_batch(arrays | more), plain.make_batch()
        pool.reset()
        plain.reset()
        for _ in range(30):
            _, raw, *_ = plain.step(np.ones(5, np.int64), out=other)
            _, reward, *_ = pool.step(np.ones(5, np.int64), out=batch)
            assert reward is arrays["reward"] or np.shares_memory(reward, arrays["reward"])
            assert np.array_equal(arrays["reward"], reward)
            assert np.array_equal(more["info:reward"], raw) and np.array_equal(more["final:info:reward"], raw)
        with pytest.raises(OptionError, match="belongs to another pool"):
            TransformReward(inner, shaped).step(np.ones(5, np.int64), out=batch)


@pytest.mark.parametrize("autoreset", MODES)
def test_observations_are_the_results_of_the_function(autoreset: str):
    plain, inner = pools(autoreset=autoreset)
    with plain, TransformObservation(inner, lambda obs: obs[:, 2:] * 2, HALF) as pool:
        assert pool.observation_space == HALF == pool.spec.observation
        bound = pool.make_batch(obs=np.zeros((5, 2), np.float32))
        obs, _ = plain.reset()
        seen, _ = pool.reset()
        for t in range(60):
            assert np.array_equal(seen, obs[:, 2:] * 2)
            actions = np.full(5, t % 2)
            obs, _, terminated, truncated, info = plain.step(actions)
            seen, _, _, _, told = pool.step(actions, out=bound if t % 3 else None)
            if "final_obs" in info:
                done = terminated | truncated
                assert np.array_equal(told["final_obs"][done], info["final_obs"][done][:, 2:] * 2)


def test_what_a_task_says_of_its_observations_is_not_said_of_others():
    with headrace.make("Crazyflie-v0", num_envs=2) as pool:
        changed = TransformObservation(pool, lambda obs: obs[:, ::-1].copy(), pool.spec.observation)
        assert pool.spec.mirror is not None and pool.spec.signals.observation
        assert changed.spec.mirror is None and not changed.spec.signals.observation
        assert changed.spec.signals.action == pool.spec.signals.action


def test_wrappers_can_be_nested_and_have_nested_spaces():
    parts = gym.spaces.Dict({"place": HALF, "speed": gym.spaces.Tuple([HALF])})
    _, inner = pools(autoreset="same_step")
    nested = TransformObservation(
        inner, lambda obs: {"place": obs[:, ::2].copy(), "speed": (obs[:, 1::2].copy(),)}, parts
    )
    with TransformReward(nested, lambda step: step.obs["speed"][0][:, 0]) as pool:
        pool.reset()
        for _ in range(20):
            obs, reward, terminated, truncated, _ = pool.step(np.ones(5, np.int64))
            going = ~(terminated | truncated)
            assert np.array_equal(reward[going], obs["speed"][0][going, 0])
        assert pool.unwrapped is inner and pool.num_envs == 5 == len(pool)


@pytest.mark.parametrize("autoreset", MODES)
def test_tensors_stay_tensors(autoreset: Any):
    plain, inner = (headrace.make_torch("CartPole-v1", 5, seed=3, autoreset=autoreset) for _ in range(2))
    with plain, TransformReward(inner, shaped) as pool:
        plain.reset()
        pool.reset()
        actions = torch.ones(5, dtype=torch.int64)
        raw = torch.zeros(5)
        step = pool.bind(actions, pool.make_batch({"info:reward": raw}))
        for _ in range(40):
            obs, reward, terminated, truncated, info = plain.step(actions)
            _, got, *_ = step()
            done = terminated | truncated
            led = torch.where(done[:, None], info["final_obs"], obs) if "final_obs" in info else obs
            wanted = 2 * reward + led[:, 0] + terminated
            wanted[(info["elapsed_step"] == 0) & ~done] = 0.0
            assert torch.allclose(got, wanted) and torch.equal(raw, reward)


def test_rewards_are_normalised_by_the_variance_of_the_returns():
    with NormalizeReward(headrace.make("Pendulum-v1", num_envs=16, seed=1), gamma=0.9) as pool:
        pool.reset()
        rng = np.random.default_rng(1)
        returns, raw = np.zeros(16), []
        reward, info = np.zeros(16), {}
        for _ in range(300):
            _, reward, terminated, truncated, info = pool.step(rng.uniform(-2, 2, (16, 1)).astype(np.float32))
            returns = returns * 0.9 + info["reward"]
            raw.append(returns.copy())
            returns[terminated | truncated] = 0.0
        assert pool.variance == pytest.approx(np.var(raw), rel=1e-9)
        assert np.allclose(reward, np.clip(info["reward"] / np.sqrt(pool.variance + 1e-8), -10, 10), atol=1e-6)


def test_a_function_that_returns_a_wrong_shape_or_dtype_is_refused():
    _, inner = pools()
    with TransformReward(inner, lambda step: 1.0) as pool:
        pool.reset()
        with pytest.raises(OptionError, match=r"returned shape \(\), not \(5,\)"):
            pool.step(np.ones(5, np.int64))
    _, inner = pools()
    wide = TransformObservation(inner, lambda obs: obs[:, :2].astype(np.float64), HALF)
    with wide as pool, pytest.raises(OptionError, match=r"returned float64\[5, 2\], not float32\[5, 2\]"):
        pool.reset()
    with pytest.raises(OptionError, match="not 3"):
        TransformReward(inner, 3)  # type: ignore[arg-type]


def test_a_function_is_called_once_per_step_of_all_environments():
    """The number of calls does not depend on the number of environments."""
    calls = 0

    def count(step: Step) -> Any:
        nonlocal calls
        calls += 1
        return step.reward * 0.5

    with TransformReward(headrace.make("CartPole-v1", num_envs=1000), count) as pool:
        pool.reset()
        for _ in range(10):
            pool.step(np.ones(1000, np.int64))
    assert calls == 10


class Told(gym.Env[Any, Any]):
    """An episode of three steps, whose infos differ: at its begin, in its steps and at its end."""

    observation_space, action_space = gym.spaces.Box(0, 9, (1,), np.float32), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.zeros(1, np.float32), {"success": False, "begun": 1, "told": {"at": 0}}

    def step(self, action: Any) -> Any:
        self.steps += 1
        over = self.steps == 3
        info = {"success": over, "told": {"at": self.steps}} | ({"length": 3} if over else {})
        return np.full(1, self.steps, np.float32), 1.0, over, False, info


def test_a_function_sees_the_info_of_the_step_in_every_mode() -> None:
    seen: dict[str, list[Any]] = {}
    for autoreset in MODES:
        told = seen[autoreset] = []

        def bonus(step: Step, told: list[Any] = told) -> Any:
            if step.info["elapsed_step"][0]:  # with next-step autoreset some rows only begin an episode
                known = {name: step.info[name][0] for name in ("success", "elapsed_step", "env_id")}
                known |= {
                    name: step.info[name][0] if step.info.get(f"_{name}") else None for name in ("begun", "length")
                }
                told.append(known | {"at": step.info["told"]["at"][0], "obs": step.obs[0, 0]})
            return step.reward + 10 * step.info["success"]

        earned = []
        with TransformReward(headrace.make(Told, num_envs=1, num_threads=1, autoreset=autoreset), bonus) as pool:
            pool.reset()
            while len(told) < 9:
                earned.append(float(pool.step([0])[1][0]))
        assert [reward for reward in earned if reward] == [1, 1, 11] * 3
    assert seen["next_step"] == seen["same_step"]
    assert [(each["at"], each["length"], each["begun"]) for each in seen["same_step"][:3]] == [
        (1, None, None),
        (2, None, None),
        (3, 3, None),
    ]


def test_fields_that_a_task_declares_are_those_of_the_step_too() -> None:
    def speed(step: Step) -> Any:
        return step.info["x_velocity"]

    pools = [
        TransformReward(headrace.make("HalfCheetah-v5", num_envs=2, seed=0, max_episode_steps=3, autoreset=mode), speed)
        for mode in MODES
    ]
    earned: list[Any] = [[], []]
    for pool, kept in zip(pools, earned, strict=True):
        with pool:
            pool.reset()
            for i in range(7 if pool is pools[0] else 6):
                reward = pool.step(np.full((2, 6), 0.5, np.float32))[1]
                if pool is not pools[0] or i != 3:  # a step that begins an episode
                    kept.append(reward)
    assert np.array_equal(*earned) and np.all(earned[0])


def test_a_function_cannot_change_what_the_pool_returns() -> None:
    def smaller(step: Step) -> Any:
        reward = step.reward
        reward -= 0.9
        return reward

    def other(step: Step) -> Any:
        step.obs[:, 0] = 7
        return step.reward

    plain, inner = pools()
    with plain, TransformReward(inner, smaller) as pool:
        plain.reset()
        pool.reset()
        for _ in range(20):
            wanted, (_, reward, *_, info) = plain.step(np.ones(5, np.int64))[1], pool.step(np.ones(5, np.int64))
            assert np.array_equal(info["reward"], wanted)
            assert np.allclose(reward, np.where(wanted, wanted - np.float32(0.9), 0))
    with TransformReward(pools()[0], other) as pool:
        pool.reset()
        with pytest.raises(ValueError, match="read-only"):
            pool.step(np.ones(5, np.int64))


def test_what_is_no_pool_or_no_number_is_refused() -> None:
    view: Any = headrace.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(OptionError, match="wraps a pool"):
        TransformReward(view, shaped)
    view.close()
    for wrong in ({"gamma": "a"}, {"gamma": np.nan}, {"gamma": 2}, {"clip": -1}, {"gamma": None}):
        with headrace.make("CartPole-v1", num_envs=2) as pool, pytest.raises(OptionError, match="must be a number in"):
            NormalizeReward(pool, **wrong)  # type: ignore[arg-type]
    with TransformReward(pools()[0], lambda step: step.reward * 1j) as pool:
        pool.reset()
        with pytest.raises(OptionError, match="no real numbers"):
            pool.step(np.ones(5, np.int64))

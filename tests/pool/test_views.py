"""The gymnasium and dm_env views, used as their libraries use them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import dm_env
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import headrace
from headrace.envs import FAMILIES
from headrace.errors import OptionError, SequenceError


def test_gym_make_vec_makes_a_headrace_vector_env_by_name() -> None:
    envs = gym.make_vec("headrace:headrace/CartPole-v1", num_envs=3)
    assert isinstance(envs, gym.vector.VectorEnv)
    assert envs.num_envs == 3
    assert envs.spec is not None
    assert envs.spec.id == "headrace/CartPole-v1"
    assert envs.observation_space.shape == (3, 4)
    assert envs.single_observation_space.shape == (4,)
    assert envs.action_space == gym.spaces.MultiDiscrete([2, 2, 2])
    obs, _ = envs.reset(seed=1)
    assert obs in envs.observation_space
    obs, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert obs.shape == (3, 4)
    assert reward.shape == terminated.shape == truncated.shape == (3,)
    envs.close()
    envs.close()


def test_games_of_two_families_are_not_versions_of_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gym.spec("headrace/Blackjack-v1").kwargs == {"task": "Blackjack-v1"}
        gym.make("headrace/Blackjack-v1").close()
    assert gym.spec("headrace-atari/Blackjack-v5").kwargs == {"task": "Blackjack-v5"}
    tasks = {spec.kwargs["task"] for name, spec in gym.registry.items() if name.startswith("headrace")}
    assert tasks >= {task for family in FAMILIES.values() for task in family.tasks}


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0", "Acrobot-v1"])
def test_one_environment_passes_gymnasiums_check_env(task: str) -> None:
    env = gym.make(f"headrace/{task}", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_vector_env_has_metadata_of_its_own(mode: AutoresetMode) -> None:
    with_mode = headrace.make_vec("CartPole-v1", num_envs=2, autoreset=mode)
    other = headrace.make_vec("CartPole-v1", num_envs=2)
    assert with_mode.metadata["autoreset_mode"] is mode
    assert other.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert "autoreset_mode" not in gym.vector.VectorEnv.metadata
    with_mode.close()
    other.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_episodes_equal_those_of_gymnasiums_vector_env(mode: str) -> None:
    """Equal starts and equal actions: the same rewards, ends, resets and final observations."""
    ours = headrace.make_vec("CartPole-v1", num_envs=4, seed=3, autoreset=mode)
    theirs = gym.make_vec(
        "CartPole-v1",
        4,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode(ours.metadata["autoreset_mode"])},
    )
    ours_obs, _ = ours.reset()
    theirs.reset(seed=1)
    envs = theirs.envs  # type: ignore[attr-defined]
    for env, row in zip(envs, ours_obs, strict=True):
        env.unwrapped.state = row.astype(np.float64)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(60):
        action = rng.integers(0, 2, 4)
        a, b = ours.step(action), theirs.step(action)
        for i in range(1, 4):
            np.testing.assert_array_equal(a[i], b[i])
        ended = a[2] | a[3]
        ends += int(ended.sum())
        np.testing.assert_allclose(
            a[0][~ended & (a[4]["elapsed_step"] > 0)], b[0][~ended & (a[4]["elapsed_step"] > 0)], atol=1e-5
        )
        if mode == "same_step" and ended.any():
            assert (a[4]["_final_obs"] == b[4]["_final_obs"]).all()
            for i in np.flatnonzero(ended):
                np.testing.assert_allclose(a[4]["final_obs"][i], b[4]["final_obs"][i], atol=1e-5)
            assert [x is None for x in a[4]["final_obs"]] == [x is None for x in b[4]["final_obs"]]
        fresh = ended if mode == "same_step" else a[4]["elapsed_step"] == 0
        for i in np.flatnonzero(fresh):
            envs[i].unwrapped.state = a[0][i].astype(np.float64)
    assert ends > 4
    ours.close()
    theirs.close()


def test_reset_mask_returns_all_rows() -> None:
    envs = headrace.make_vec("CartPole-v1", num_envs=4, seed=0, autoreset="disabled")
    envs.reset()
    before = envs.step(np.array([0, 1, 0, 1]))[0]
    mask = np.array([False, True, False, True])
    obs, info = envs.reset(options={"reset_mask": mask})
    assert obs.shape == (4, 4)
    assert (obs[~mask] == before[~mask]).all()
    assert (obs[mask] != before[mask]).any(axis=1).all()
    assert info["env_id"].tolist() == info["players"]["env_id"].tolist() == [0, 1, 2, 3]
    assert info["elapsed_step"].shape == (4,)
    assert (info["_elapsed_step"] == mask).all()
    envs.close()


def test_a_masked_reset_returns_the_latest_rows_after_partial_steps() -> None:
    envs = headrace.make_vec("CartPole-v1", num_envs=3, seed=0, autoreset="disabled")
    first, _ = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert first[[0, 2]].any(axis=1).all()
    assert not first[1].any(), "never reset: there is nothing to see yet"
    second, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert (second[[0, 2]] == first[[0, 2]]).all()
    assert second[1].any()

    some = envs.step(np.array([1, 0]), env_id=np.array([2, 1]))[0]
    third, _ = envs.reset(options={"reset_mask": np.array([True, False, False])})
    assert (third[[2, 1]] == some).all()
    assert (third[0] != first[0]).any()

    envs.send(np.array([1, 0, 1]), np.array([1, 2, 0]))
    every = envs.recv()[0]
    fourth, _ = envs.reset(options={"reset_mask": np.array([False, False, True])})
    assert (fourth[[1, 0]] == every[[0, 2]]).all()
    assert (fourth[2] != every[1]).any()
    envs.close()


def test_a_masked_reset_must_include_environments_with_loaded_states() -> None:
    envs = headrace.make_vec("CartPole-v1", num_envs=3, seed=0, autoreset="disabled")
    first, _ = envs.reset()
    saved = envs.save_state([1])
    before = envs.step(np.array([0, 1, 0]))[0].copy()
    mask = np.array([True, False, False])
    twin = pickle.loads(pickle.dumps(envs))
    assert (twin.reset(options={"reset_mask": mask})[0][1:] == before[1:]).all()
    twin.close()

    envs.load_state([1], saved)
    with pytest.raises(SequenceError, match="leaves out environment 1, whose state was loaded"):
        envs.reset(options={"reset_mask": mask})
    stepped = envs.step(np.array([1]), env_id=np.array([1]))[0].copy()
    after, _ = envs.reset(options={"reset_mask": mask})
    assert (after[1] == stepped[0]).all()
    assert (after[2] == before[2]).all()
    envs.load_state(None, envs.save_state())
    assert envs.reset(options={"reset_mask": np.ones(3, np.bool_)})[0].shape == first.shape
    envs.close()


def test_a_vector_env_works_with_gymnasiums_vector_wrappers() -> None:
    for mode in ("next_step", "same_step"):
        envs: Any = headrace.make_vec("CartPole-v1", num_envs=4, seed=0, autoreset=mode)
        envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
        envs = gym.wrappers.vector.NormalizeReward(gym.wrappers.vector.ClipReward(envs, 0, 1))
        if mode == "next_step":  # Gymnasium's observation wrappers know no other autoreset
            envs = gym.wrappers.vector.FlattenObservation(envs)
        envs.reset(seed=5)
        episodes = 0
        for t in range(100):
            *_, info = envs.step(np.full(4, t % 2))
            if "episode" in info:
                episodes += int(info["_episode"].sum())
        assert episodes > 0
        envs.close()


def test_render_returns_one_frame_for_each_environment() -> None:
    envs = headrace.make_vec("CartPole-v1", num_envs=2, render_mode="rgb_array")
    envs.reset(seed=0)
    frames = envs.render()
    assert frames is not None
    assert len(frames) == 2
    assert frames[0].dtype == np.uint8
    assert frames[0].ndim == 3
    assert frames[0].shape[2] == 3
    envs.close()


def test_a_pickled_vector_env_continues_like_the_original() -> None:
    envs = headrace.make_vec("CartPole-v1", num_envs=2, seed=0)
    envs.reset()
    twin = pickle.loads(pickle.dumps(envs))
    assert (envs.step([0, 1])[0] == twin.step([0, 1])[0]).all()
    envs.close()
    twin.close()


@pytest.mark.parametrize("make", [headrace.make_vec, headrace.make_gym])
def test_attributes_can_be_read_and_set_as_in_gymnasiums_vector_env(make: Any) -> None:
    def use(envs: Any) -> list[Any]:
        envs.reset(seed=1)
        envs.set_attr("gravity", 9.0)
        envs.set_attr("length", [0.5, 0.6])
        with pytest.raises(ValueError, match="values"):
            envs.set_attr("length", [0.5])
        found = [envs.get_attr("gravity"), envs.get_attr("length"), envs.call("get_wrapper_attr", "gravity")]
        return [*found, [state.tolist() for state in envs.call("state")]]

    envs = make("gymnasium:CartPole-v1", num_envs=2)
    theirs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    assert use(envs) == use(theirs)
    envs.close()
    kernels = make("CartPole-v1", num_envs=2)
    with pytest.raises(OptionError, match=r"no Python objects.*executor='processes'"):
        kernels.get_attr("gravity")
    kernels.close()


def test_a_vector_env_made_by_gymnasium_has_its_options_in_config() -> None:
    envs: Any = gym.make_vec("headrace:headrace/CartPole-v1", num_envs=3, seed=4).unwrapped
    assert (envs.config["num_envs"], envs.config["seed"]) == (3, 4)
    assert envs.spec.id == "headrace/CartPole-v1"
    assert "num_envs=3" in repr(envs)
    envs.close()


def test_gym_make_refuses_options_of_a_vector_env() -> None:
    with pytest.raises(OptionError, match="make_vec"):
        gym.make("headrace/CartPole-v1", num_envs=4)
    with pytest.raises(OptionError, match="autoreset is for make_vec"):
        gym.make("headrace/CartPole-v1", autoreset="next_step")


def test_make_dm_returns_an_environment_of_dm_env() -> None:
    env = headrace.make_dm("CartPole-v1", num_envs=3, seed=0)
    assert isinstance(env, dm_env.Environment)
    start = env.reset()
    assert start.step_type.tolist() == [dm_env.StepType.FIRST] * 3
    env.observation_spec().obs.validate(start.observation.obs[0])
    assert env.action_spec().num_values == 2
    assert env.reward_spec().dtype == env.discount_spec().dtype == np.float32
    kinds = set()
    for _ in range(60):
        step = env.step(np.ones(3, np.int64))
        last = step.step_type == dm_env.StepType.LAST
        assert (step.discount == np.where(last, 0, 1)).all()  # only terminations here
        assert ((step.observation.elapsed_step == 0) == (step.step_type == dm_env.StepType.FIRST)).all()
        assert step.observation.players.env_id.tolist() == step.observation.env_id.tolist() == [0, 1, 2]
        kinds |= set(step.step_type.tolist())
    assert kinds == {0, 1, 2}
    some = env.step(np.ones(2, np.int64), np.array([2, 0]))
    assert some.observation.env_id.tolist() == [2, 0]
    env.close()


def test_make_dm_refuses_same_step_autoreset() -> None:
    with pytest.raises(OptionError, match="autoreset must be 'next_step' or 'disabled'"):
        headrace.make_dm("CartPole-v1", autoreset="same_step")


def test_a_dm_env_can_be_stepped_asynchronously() -> None:
    with headrace.make("CartPole-v1", num_envs=6, batch_size=2, seed=0) as pool:
        env = headrace.pool.views.dm.DmPool(pool)  # type: ignore[attr-defined]
        env.async_reset()
        for _ in range(20):
            step = env.recv()
            env.send(np.zeros(2, np.int64), step.observation.env_id)

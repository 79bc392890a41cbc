"""Multi-agent environments: all agents act at once, in whatever order they are computed, also after some have left."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import warp as wp
from multi_agent_plays import (
    HUNT,
    MODES,
    RING,
    assert_equal,
    asynchronously,
    draw,
    flat,
    in_parts,
    play,
    rows_of,
)

import headrace
import headrace.testing
import multi_agent_games as games
from headrace.errors import SequenceError
from headrace.pool.executors.kernels import launch_splitter
from nightly import rest_nightly

# -- steps and spaces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("players", [1, 2, 5, 40])
def test_all_agents_act_at_the_same_time_as_in_the_reference(players):
    """Compares with a reference in NumPy that computes all agents at the same time."""
    n, rng, deaths, ends = 6, np.random.default_rng(0), 0, 0
    with headrace.make(RING, num_envs=n, players=players, seed=0, autoreset="disabled") as pool:
        obs, info = pool.reset()
        assert (info["living"] == players).all()
        rivals = [games.RingReference(o[:, 0]) for o in obs]
        for _ in range(120):
            actions = rng.integers(0, 4, (n, players))
            obs, reward, terminated, truncated, info = pool.step(actions)
            for i, game in enumerate(rivals):
                want, over = game.step(actions[i], info["luck"][i])
                np.testing.assert_array_equal(reward[i], want)
                np.testing.assert_array_equal(obs[i, :, 0], game.coins)
                np.testing.assert_array_equal(obs[i, :, 1], np.roll(game.coins, 1))
                np.testing.assert_array_equal(info["alive"][i], game.lives)
                assert info["living"][i] == game.lives.sum()
                assert terminated[i] == over
            deaths += (~info["alive"]).sum()
            done = np.flatnonzero(terminated | truncated)
            ends += len(done)
            if len(done):
                new, info = pool.reset(done)
                assert info["alive"].all()
                for i, o in zip(done, new, strict=True):
                    rivals[i] = games.RingReference(o[:, 0])
    assert ends > 0
    assert deaths > 0 or players == 1


def test_equal_agents_share_one_array_with_an_axis_of_agents():
    with headrace.make(RING, num_envs=3, players=4, seed=0) as pool:
        obs, info = pool.reset()
        assert pool.observation_space.shape == (4, 2)
        assert pool.action_space == gym.spaces.MultiDiscrete([4] * 4)
        assert obs.shape == (3, 4, 2)
        assert obs[0] in pool.observation_space
        assert info["alive"].shape == info["luck"].shape == (3, 4)
        _, reward, terminated, truncated, _ = pool.step(np.zeros((3, 4), int))
        assert reward.shape == (3, 4)
        assert reward.dtype == np.float32
        assert terminated.shape == truncated.shape == (3,)
        assert pool.spec.num_agents == 4
        assert headrace.make_spec(RING, players=9).num_agents == 9


def test_agent_types_with_different_spaces_are_keys_of_a_dict():
    with headrace.make(HUNT, num_envs=2, seed=0) as pool:
        assert set(pool.observation_space) == set(pool.action_space) == {"archer", "dog"}
        assert pool.observation_space["dog"] == gym.spaces.MultiDiscrete([100, 100])
        assert pool.action_space["dog"] == gym.spaces.MultiDiscrete([[3, 10], [3, 10]])
        start, _ = pool.reset()
        turn = np.zeros((2, 3, 2), np.float32)
        turn[:, 1, 0] = 1.0
        obs, reward, *_, info = pool.step({"archer": turn, "dog": np.array([[[1, 2], [2, 9]]] * 2)})
        aim = np.concatenate([start["archer"][:, :, 0] + [0, 1, 0], [[12, 29]] * 2], 1)
        np.testing.assert_array_equal(obs["dog"], [[12, 29]] * 2)
        np.testing.assert_array_equal(obs["archer"][:, :, 0], aim[:, :3])
        np.testing.assert_array_equal(obs["archer"][:, :, 2], [[0, 1, 2]] * 2)
        np.testing.assert_array_equal(reward, aim.sum(1, keepdims=True) - aim)
        assert info["alive"].shape == (2, 5)


def test_an_episode_can_be_truncated_and_terminated_in_the_same_step():
    with headrace.make(HUNT, num_envs=2, seed=0, limit=9, max_episode_steps=3, autoreset="disabled") as pool:
        pool.reset()
        rng = np.random.default_rng(0)
        for t in range(3):
            *_, terminated, truncated, info = pool.step(draw(HUNT, rng, 2))
            assert truncated.tolist() == [t == 2] * 2
            assert not terminated.any()
            assert (info["elapsed_step"] == t + 1).all()
    with headrace.make(HUNT, num_envs=1, seed=0, limit=2, max_episode_steps=2) as pool:
        pool.reset()
        pool.step(draw(HUNT, rng, 1))
        *_, terminated, truncated, _ = pool.step(draw(HUNT, rng, 1))
        assert terminated[0]
        assert truncated[0]


# -- what results depend on --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", [RING, HUNT])
def test_results_do_not_depend_on_partial_and_asynchronous_calls(task, mode):
    whole = play(task, n=6, autoreset=mode)
    assert_equal(whole, play(task, n=6, autoreset=mode))
    assert_equal(whole, play(task, n=6, autoreset=mode, order=in_parts))
    assert_equal(whole, play(task, n=6, autoreset=mode, order=asynchronously, batch_size=3))
    alive, ends = (whole[-4], whole[-6]) if task == RING else (whole[-2], whole[-4])
    assert not alive.all()
    assert ends.any()


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(launch_splitter, "PROBE_ROWS", 8)
    monkeypatch.setattr(launch_splitter, "HANDOVER_NS", 1)
    monkeypatch.setattr(launch_splitter, "WORTH", float("inf"))
    alone = play(RING, n=51, num_threads=1)
    for threads in (2, 5):
        assert_equal(alone, play(RING, n=51, num_threads=threads))
        assert_equal(alone, play(RING, n=51, num_threads=threads, order=in_parts))


def test_every_agent_has_its_own_random_stream():
    with headrace.make(RING, num_envs=40, players=40, seed=3, start=100) as pool:
        pool.reset()
        luck = np.stack([pool.step(np.zeros((40, 40), int))[4]["luck"] for _ in range(20)], -1)
    streams = luck.reshape(-1, 20)
    assert len(np.unique(streams, axis=0)) == len(streams)  # 1,600 of 3²⁰ possible
    assert abs(np.bincount(streams.ravel()) / streams.size - 1 / 3).max() < 0.01
    few = headrace.make(RING, num_envs=2, players=40, seed=3, start=100)
    few.reset()
    again = np.stack([few.step(np.zeros((2, 40), int))[4]["luck"] for _ in range(20)], -1)
    np.testing.assert_array_equal(again, luck[:2])  # streams do not depend on the number of environments
    few.close()
    with headrace.make(RING, num_envs=1, players=7, seed=3, start=100) as pool:
        pool.reset()
        own = np.stack([pool.step(np.zeros((1, 7), int))[4]["luck"] for _ in range(20)], -1)
    np.testing.assert_array_equal(own, luck[:1, :7])  # nor on the number of agents


def test_only_a_seeded_reset_restarts_the_random_streams():
    with headrace.make(RING, num_envs=3, seed=9, players=20) as pool:
        first = pool.reset()[0].copy()
        second = pool.reset()[0].copy()
        assert (first != second).any(axis=(1, 2)).all()
        np.testing.assert_array_equal(pool.reset(seed=9)[0], first)
        np.testing.assert_array_equal(pool.reset([2, 1])[0], second[[2, 1]])
        np.testing.assert_array_equal(pool.reset([2], seed=[10])[0][0], first[1])


@wp.func
def flat_reward(state: games.RingState, env: int, agent: int) -> float:
    return -1.0


def test_environments_with_the_same_name_keep_their_own_functions():
    before = play(RING, steps=10)
    twin = replace(games.RING, reward=flat_reward)
    headrace.register("TestTwin-v0", replace(games.RING_TASK, env=twin), replace=True)
    with headrace.make("TestTwin-v0", num_envs=2, seed=0) as pool:
        pool.reset()
        assert (pool.step(np.zeros((2, 5), int))[1] == -1).all()
    headrace.register("TestTwin-v0", replace(games.RING_TASK, env=replace(games.RING)), replace=True)
    with headrace.make("TestTwin-v0", num_envs=2, seed=0) as pool:
        pool.reset()
        assert (pool.step(np.zeros((2, 5), int))[1] > 0).all()
    assert_equal(before, play(RING, steps=10))


@pytest.mark.parametrize("task", [RING, HUNT])
def test_debug_mode_gives_the_same_results(task):
    assert_equal(play(task, n=2, steps=15), play(task, n=2, steps=15, debug=True))


@pytest.mark.parametrize("task", rest_nightly([RING, HUNT, "TestDuel-v0"], RING))
def test_the_conformance_suite_passes(task):
    report = headrace.testing.check(task, steps=60)
    assert len(report.results) > 10


# -- how episodes end --------------------------------------------------------------------------------------


def test_next_step_autoreset_resets_in_the_step_after_an_end():
    with headrace.make(HUNT, num_envs=3, seed=0, limit=4) as pool:
        pool.reset()
        rng = np.random.default_rng(0)
        for t in range(20):
            *_, reward, terminated, truncated, info = pool.step(draw(HUNT, rng, 3))
            reset = t % 5 == 4
            assert (terminated == (t % 5 == 3)).all()
            assert not truncated.any()
            assert (info["elapsed_step"] == (0 if reset else t % 5 + 1)).all()
            assert (reward == 0).all() == reset
            assert info["alive"].all() or not reset


@pytest.mark.parametrize("task", [RING, HUNT])
def test_same_step_keeps_the_exact_last_observation(task):
    plain = headrace.make(task, num_envs=6, seed=3, autoreset="disabled")
    same = headrace.make(task, num_envs=6, seed=3, autoreset="same_step")
    rng, ended, gone = np.random.default_rng(0), 0, 0
    with plain, same:
        plain.reset()
        same.reset()
        for _ in range(60):
            action = draw(task, rng, 6)
            want, *want_rest, want_info = plain.step(action)
            obs, *rest, info = same.step(action)
            assert_equal(rest, want_rest)
            done = rest[1] | rest[2]
            np.testing.assert_array_equal(info["alive"][~done], want_info["alive"][~done])
            if not done.any():
                assert "final_obs" not in info
                continue
            np.testing.assert_array_equal(info["_final_obs"], done)
            for part in ("archer", "dog") if task == HUNT else (slice(None),):
                np.testing.assert_array_equal(info["final_obs"][part][done], want[part][done])
            for key in ("alive", "elapsed_step", "luck", "living"):
                if key in want_info:
                    np.testing.assert_array_equal(info["final_info"][key][done], want_info[key][done])
            new, new_info = plain.reset(np.flatnonzero(done))
            for part in ("archer", "dog") if task == HUNT else (slice(None),):
                np.testing.assert_array_equal(obs[part][done], new[part])
            np.testing.assert_array_equal(info["alive"][done], new_info["alive"])
            gone += (~want_info["alive"][done]).sum()
            ended += done.sum()
    assert ended > 10
    assert gone > 10


def test_finished_environments_need_a_reset_if_autoreset_is_disabled():
    with headrace.make(HUNT, num_envs=2, seed=0, limit=1, autoreset="disabled") as pool:
        pool.reset()
        action = draw(HUNT, np.random.default_rng(0), 2)
        assert pool.step(action)[2].all()
        with pytest.raises(SequenceError, match="environment 0 has finished"):
            pool.step(action)
        pool.reset([0])
        pool.step(rows_of(action, [0]), [0])


# -- states, buffers, views --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", [RING, HUNT])
def test_saved_states_continue_bit_by_bit(task, mode):
    rng = np.random.default_rng(0)
    one = headrace.make(task, num_envs=4, seed=1, autoreset=mode)
    other = headrace.make(task, num_envs=7, seed=99, autoreset=mode)
    with one, other:
        one.reset()
        for _ in range(13):
            one.step(draw(task, rng, 4))
        blobs, where = one.save_state(), [6, 0, 3, 5]
        other.load_state(where, blobs)
        assert other.save_state(where) == blobs
        for _ in range(40):
            action = draw(task, rng, 4)
            assert_equal(flat(one.step(action)), flat(other.step(action, where)))


def test_results_are_written_to_the_arrays_of_the_caller():
    rng = np.random.default_rng(0)
    pool, twin = (headrace.make(HUNT, num_envs=3, seed=0) for _ in range(2))
    with pool, twin:
        pool.reset()
        twin.reset()
        archer, dog = np.zeros((10, 3, 3, 3), np.float32), np.zeros((10, 3, 2), np.int64)
        reward, alive = np.zeros((10, 3, 5), np.float32), np.zeros((10, 3, 5), bool)
        for t in range(10):
            out = {"obs:archer": archer[t], "obs:dog": dog[t], "reward": reward[t], "info:alive": alive[t]}
            action = draw(HUNT, rng, 3)
            pool.step(action, out=pool.make_batch(out))
            obs, want, *_, info = twin.step(action)
            assert_equal([archer[t], dog[t], reward[t], alive[t]], [obs["archer"], obs["dog"], want, info["alive"]])


def test_a_multi_agent_pool_works_as_a_gymnasium_vector_env():
    for mode in MODES:
        envs = headrace.make_vec(HUNT, num_envs=3, seed=0, autoreset=mode, limit=3)
        rng = np.random.default_rng(0)
        obs, _ = envs.reset()
        assert obs in envs.observation_space
        assert envs.action_space.sample()["dog"].shape == (3, 2, 2)
        for _ in range(8):
            obs, reward, *_, info = envs.step(draw(HUNT, rng, 3))
            assert obs in envs.observation_space
            assert reward.shape == (3, 5)
            if "final_obs" in info:
                assert info["final_obs"][0]["archer"].shape == (3, 3)
        envs.close()
    ring = headrace.make_vec(RING, num_envs=2, seed=0)
    assert ring.reset()[0] in ring.observation_space
    ring.step(ring.action_space.sample())
    ring.close()


def test_a_multi_agent_pool_works_as_a_dm_env():
    env = headrace.make_dm(HUNT, num_envs=2, seed=0, limit=2)
    start = env.reset()
    assert start.reward.shape == (2, 5)
    assert start.observation.archer.shape == (2, 3, 3)
    env.reward_spec().validate(start.reward[0])
    for name, spec in env.action_spec().items():
        assert spec.shape == {"archer": (3, 2), "dog": (2, 2)}[name]
    step = env.step(draw(HUNT, np.random.default_rng(0), 2))
    assert step.discount.shape == (2,)
    assert step.observation.alive.shape == (2, 5)
    env.close()


def test_a_multi_agent_environment_is_rendered():
    with headrace.make(RING, num_envs=2, seed=0) as pool:
        pool.reset()
        assert pool.render([1]).shape == (1, 8, 40, 3)

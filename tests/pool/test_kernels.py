"""The kernels executor: the results of an environment depend on its seed and its actions alone."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import threading

import numpy as np
import pytest
from kernel_plays import assert_equal, in_shuffled_parts, play

import headrace
from headrace.errors import StateError
from headrace.pool.executors.kernels import launch_splitter


def test_results_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(launch_splitter, "PROBE_ROWS", 8)
    monkeypatch.setattr(launch_splitter, "HANDOVER_NS", 1)
    monkeypatch.setattr(launch_splitter, "WORTH", float("inf"))
    monkeypatch.setattr(launch_splitter, "SETTLED_NS", 0)
    alone = play("CartPole-v1", n=101, num_threads=1)
    for threads in (2, 3, 8):
        assert_equal(alone, play("CartPole-v1", n=101, num_threads=threads))
        assert_equal(alone, play("CartPole-v1", n=101, num_threads=threads, order=in_shuffled_parts))


def test_helper_threads_end_with_the_pool_and_can_be_pinned(monkeypatch):
    monkeypatch.setattr(launch_splitter, "PROBE_ROWS", 8)
    monkeypatch.setattr(launch_splitter, "HANDOVER_NS", 1)
    monkeypatch.setattr(launch_splitter, "WORTH", float("inf"))
    monkeypatch.setattr(launch_splitter, "SETTLED_NS", 0)
    before = threading.active_count()
    pool = headrace.make("CartPole-v1", num_envs=64, num_threads=4, thread_affinity_offset=0, seed=0)
    pool.reset()
    for _ in range(20):
        pool.step(np.zeros(64, np.int64))
    assert threading.active_count() == before + 3
    pool.close()
    assert threading.active_count() == before


def test_a_reset_restarts_or_continues_only_the_streams_of_its_environments():
    with headrace.make("CartPole-v1", num_envs=3, seed=9) as pool:
        first = pool.reset()[0].copy()
        second = pool.reset()[0].copy()
        assert (first != second).all()
        np.testing.assert_array_equal(pool.reset(seed=9)[0], first)
        np.testing.assert_array_equal(pool.reset([1])[0][0], second[1])
        np.testing.assert_array_equal(pool.reset([2, 0])[0], second[[2, 0]])
        np.testing.assert_array_equal(pool.reset([2], seed=[10])[0][0], first[1])
        big = pool.reset(seed=[2**64 - 1, 2**63, 0])[0]
        assert np.unique(big).size == big.size


def test_same_step_keeps_the_exact_last_observation():
    plain = headrace.make("KernelTestCounter-v0", num_envs=6, seed=3, autoreset="disabled")
    same = headrace.make("KernelTestCounter-v0", num_envs=6, seed=3, autoreset="same_step")
    plain.reset()
    same.reset()
    ended = 0
    with plain, same:
        for _ in range(12):
            action = np.tile([2, 0], (6, 1))
            want, want_reward, want_terminated, want_truncated, want_info = plain.step(action)
            obs, reward, terminated, truncated, info = same.step(action)
            np.testing.assert_array_equal(reward, want_reward)
            np.testing.assert_array_equal(terminated, want_terminated)
            np.testing.assert_array_equal(truncated, want_truncated)
            done = want_terminated | want_truncated
            for key in obs:
                np.testing.assert_array_equal(obs[key][~done], want[key][~done])
            if done.any():
                np.testing.assert_array_equal(info["_final_obs"], done)
                for key in obs:
                    np.testing.assert_array_equal(info["final_obs"][key][done], want[key][done])
                for key in ("elapsed_step", "noise"):
                    np.testing.assert_array_equal(info["final_info"][key][done], want_info[key][done])
                assert (info["elapsed_step"][done] == 0).all()
                new, _ = plain.reset(np.flatnonzero(done))
                for key in obs:
                    np.testing.assert_array_equal(obs[key][done], new[key])
                ended += done.sum()
    assert ended > 10


def test_next_step_autoreset_resets_in_the_next_step_and_ignores_its_action():
    with headrace.make("KernelTestCounter-v0", num_envs=1, seed=3, goal=2, max_episode_steps=0) as pool:
        pool.reset()
        _, reward, terminated, truncated, info = pool.step([[3, 0]])
        assert terminated[0]
        assert not truncated[0]
        assert reward[0] >= 3.5
        assert info["elapsed_step"][0] == 1
        obs, reward, terminated, truncated, info = pool.step([[3, 0]])
        assert obs["count"][0] < 3
        assert reward[0] == 0
        assert info["elapsed_step"][0] == 0
        assert not terminated[0]
        assert not truncated[0]


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_a_step_can_be_both_terminated_and_truncated(mode):
    with headrace.make("KernelTestCounter-v0", num_envs=1, goal=3, max_episode_steps=1, seed=0, autoreset=mode) as pool:
        pool.reset()
        _, _, terminated, truncated, _ = pool.step([[3, 0]])
        assert terminated[0]
        assert truncated[0]


def test_states_of_a_wrong_size_are_refused_before_anything_changes():
    with headrace.make("CartPole-v1", num_envs=2, seed=0) as pool:
        pool.reset()
        inner, ids = pool._executor, np.arange(2, dtype=np.int32)
        before = inner.save_state(ids)
        with pytest.raises(StateError, match="environment 1 has 3 bytes"):
            inner.load_state(ids, [bytes(len(before[0])), b"abc"])
        assert inner.save_state(ids) == before

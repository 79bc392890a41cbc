"""The kernels executor: what an environment does follows from its seed and its actions alone."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import threading
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.envs.classic_control import TASKS
from headrace.errors import StateError
from headrace.pool.executors.kernels import KernelEnv, Streams, random_bits, sharing, uniform
from headrace.pool.executors.kernels.executor import KernelExecutor
from headrace.pool.spec import Field


@wp.struct
class CounterState:
    """Counts up by its action; a random start, and a board that remembers the random bits of each reset."""

    count: wp.array[wp.int32]
    board: wp.array3d[wp.uint8]
    goal: wp.int32
    bonus: wp.float32


@wp.struct
class CounterView:
    obs_count: wp.array[wp.int64]
    obs_board: wp.array3d[wp.uint8]
    noise: wp.array[wp.float64]


@wp.func
def counter_reset(state: CounterState, env: int, streams: Streams):
    state.count[env] = wp.int32(random_bits(streams, env) % wp.uint64(3))
    bits = random_bits(streams, env)
    for i in range(2):
        for j in range(3):
            state.board[env, i, j] = wp.uint8(bits >> wp.uint64(8 * (3 * i + j)))


@wp.func
def counter_step(state: CounterState, env: int, actions: wp.array2d[wp.int64], row: int, streams: Streams):
    state.count[env] = state.count[env] + wp.int32(actions[row, 0] - actions[row, 1])
    state.board[env, 0, 0] = wp.uint8(uniform(streams, env, wp.float64(0.0), wp.float64(256.0)))
    return wp.float32(state.count[env]) + state.bonus, state.count[env] >= state.goal


@wp.func
def counter_observe(state: CounterState, env: int, view: CounterView, row: int):
    view.obs_count[row] = wp.int64(state.count[env])
    for i in range(2):
        for j in range(3):
            view.obs_board[row, i, j] = state.board[env, i, j]
    view.noise[row] = wp.float64(state.board[env, 0, 0])


COUNTER = KernelEnv(
    "Counter",
    CounterState,
    CounterView,
    counter_reset,
    counter_step,
    counter_observe,
    shapes={"board": (2, 3)},
    constants={"bonus": 0.5},
)


def build_counter(task, goal=6, max_episode_steps=4):
    spec = headrace.TaskSpec(
        task=task,
        observation=gym.spaces.Dict(count=gym.spaces.Discrete(100), board=gym.spaces.Box(0, 255, (2, 3), np.uint8)),
        action=gym.spaces.MultiDiscrete([4, 2]),
        info=(Field("noise", np.dtype(np.float64)),),
        max_episode_steps=max_episode_steps,
        options={"goal": goal},
    )
    return headrace.Task(spec, partial(KernelExecutor, COUNTER))


headrace.register("KernelTestCounter-v0", build_counter, replace=True)


def play(task, steps=60, n=9, order=None, **settings):
    """Every result of every environment over some steps: arrays [steps + 1, n, …], rows by env_id."""
    rng = np.random.default_rng(5)
    rows = []
    with headrace.make(task, num_envs=n, seed=21, **settings) as pool:
        actions = [np.stack([sample(pool.action_space, rng) for _ in range(n)]) for _ in range(steps)]
        calls = (order or in_one_go)(pool, actions)
        for obs, *rest, info in calls:
            obs = obs if isinstance(obs, dict) else {"obs": obs}
            rows.append([*(a.copy() for a in obs.values()), *(np.copy(r) for r in rest), info["elapsed_step"].copy()])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def sample(space, rng):
    if isinstance(space, gym.spaces.Box):
        return rng.uniform(space.low, space.high).astype(space.dtype)
    return rng.integers(0, space.nvec if isinstance(space, gym.spaces.MultiDiscrete) else space.n)


def in_one_go(pool, actions):
    obs, info = pool.reset()
    zeros = np.zeros(pool.num_envs)
    yield obs, zeros, zeros, zeros, info
    for action in actions:
        yield pool.step(action)


def merged(pool, parts):
    """The rows of several partial results, in the order of env_id."""
    order = np.argsort(np.concatenate([info["env_id"] for *_, info in parts]))

    def join(values):
        if isinstance(values[0], dict):
            return {k: join([v[k] for v in values]) for k in values[0]}
        return np.concatenate(values)[order]

    columns = zip(*((*rest, {"elapsed_step": info["elapsed_step"]}) for *rest, info in parts), strict=True)
    return tuple(join(column) for column in columns)


def in_shuffled_parts(pool, actions):
    """Every step in three partial calls, with the environments in random order."""
    rng = np.random.default_rng(1)
    zeros = np.zeros(pool.num_envs)
    obs, info = pool.reset()
    yield obs, zeros, zeros, zeros, info
    for action in actions:
        parts = np.array_split(rng.permutation(pool.num_envs), 3)
        yield merged(pool, [pool.step(action[ids], ids) for ids in parts])


def asynchronously(pool, actions):
    """All are sent in random order, and come back a batch at a time."""
    rng = np.random.default_rng(2)
    n, zeros = pool.num_envs, np.zeros(pool.num_envs)
    pool.async_reset()
    parts = [pool.recv() for _ in range(n // pool.batch_size)]
    obs, *_, info = merged(pool, parts)
    yield obs, zeros, zeros, zeros, info
    for action in actions:
        for ids in np.array_split(rng.permutation(n), 2):
            pool.send(action[ids], ids)
        yield merged(pool, [pool.recv() for _ in range(n // pool.batch_size)])


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


MODES = ["next_step", "same_step"]
SOME = ["CartPole-v1", "MountainCarContinuous-v0", "KernelTestCounter-v0"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", [*TASKS, "KernelTestCounter-v0"])
def test_same_seed_same_actions_same_results(task, mode):
    limits = {} if "Counter" in task else {"max_episode_steps": 25}
    first = play(task, autoreset=mode, **limits)
    assert_equal(first, play(task, autoreset=mode, **limits))
    assert np.logical_or(first[-3], first[-2]).any(), "an episode should have ended"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", SOME)
def test_results_do_not_depend_on_how_calls_are_cut(task, mode):
    whole = play(task, autoreset=mode)
    assert_equal(whole, play(task, autoreset=mode, order=in_shuffled_parts))
    assert_equal(whole, play(task, autoreset=mode, order=asynchronously, batch_size=3))


@pytest.mark.parametrize("task", SOME)
def test_results_do_not_depend_on_how_many_environments_there_are(task):
    many, few = play(task, n=9), play(task, n=4)
    # the actions are drawn step by step, so only the start can be compared
    assert_equal([a[0, :4] for a in many], [a[0] for a in few])


def test_results_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(sharing, "PROBE_ROWS", 8)
    monkeypatch.setattr(sharing, "HANDOVER_NS", 1)
    monkeypatch.setattr(sharing, "WORTH", float("inf"))
    alone = play("CartPole-v1", n=101, num_threads=1)
    for threads in (2, 3, 8):
        assert_equal(alone, play("CartPole-v1", n=101, num_threads=threads))
        assert_equal(alone, play("CartPole-v1", n=101, num_threads=threads, order=in_shuffled_parts))


def test_helper_threads_end_with_the_pool_and_can_be_pinned(monkeypatch):
    monkeypatch.setattr(sharing, "PROBE_ROWS", 8)
    monkeypatch.setattr(sharing, "HANDOVER_NS", 1)
    monkeypatch.setattr(sharing, "WORTH", float("inf"))
    before = threading.active_count()
    pool = headrace.make("CartPole-v1", num_envs=64, num_threads=4, thread_affinity_offset=0, seed=0)
    pool.reset()
    for _ in range(20):
        pool.step(np.zeros(64, np.int64))
    assert threading.active_count() == before + 3
    pool.close()
    assert threading.active_count() == before


def test_a_reset_restarts_the_stream_or_continues_it_and_leaves_the_others_alone():
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


def test_next_step_resets_in_the_step_after_and_ignores_its_action():
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
def test_both_ends_at_once_are_both_reported(mode):
    with headrace.make("KernelTestCounter-v0", num_envs=1, goal=3, max_episode_steps=1, seed=0, autoreset=mode) as pool:
        pool.reset()
        _, _, terminated, truncated, _ = pool.step([[3, 0]])
        assert terminated[0]
        assert truncated[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", SOME)
def test_saved_states_continue_bit_by_bit(task, mode):
    rng = np.random.default_rng(0)
    with (
        headrace.make(task, num_envs=5, seed=1, autoreset=mode) as one,
        headrace.make(task, num_envs=7, seed=99, autoreset=mode) as other,
    ):
        one.reset()
        actions = [np.stack([sample(one.action_space, rng) for _ in range(5)]) for _ in range(70)]
        for action in actions[:23]:
            one.step(action)
        blobs = one.save_state()
        where = [6, 0, 3, 2, 5]
        other.load_state(where, blobs)
        assert other.save_state(where)[2][17:] == blobs[2][17:]
        for action in actions[23:]:
            a, b = one.step(action), other.step(action, where)
            assert_equal(flat(a), flat(b))


def flat(result):
    obs, *rest, info = result
    return [*(obs.values() if isinstance(obs, dict) else [obs]), *rest, info["elapsed_step"]]


def test_states_of_a_wrong_size_are_refused_before_anything_changes():
    with headrace.make("CartPole-v1", num_envs=2, seed=0) as pool:
        pool.reset()
        inner, ids = pool._executor, np.arange(2, dtype=np.int32)
        before = inner.save_state(ids)
        with pytest.raises(StateError, match="environment 1 has 3 bytes"):
            inner.load_state(ids, [bytes(len(before[0])), b"abc"])
        assert inner.save_state(ids) == before

"""Plays tasks of kernel environments in several ways, for tests that compare them; and one with all kinds of arrays."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from functools import partial

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.pool.executors.kernels import KernelEnv, Streams, random_bits, uniform
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

"""A task of kernels whose rewards have weights in a table, for tests of options that change."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams


@wp.struct
class State:
    count: wp.array[wp.int32]
    weights: wp.array[wp.float32]
    speed: int


@wp.struct
class Seen:
    obs: wp.array2d[wp.float32]


@wp.func
def begin(state: State, env: int, streams: Streams):
    state.count[env] = 0


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    state.count[env] = state.count[env] + state.speed
    return state.weights[0] + state.weights[1] * wp.float32(state.count[env]), state.count[env] >= 20


@wp.func
def see(state: State, env: int, view: Seen, row: int):
    view.obs[row, 0] = wp.float32(state.count[env])


def counting(options: Any) -> KernelEnv:
    tables = {"weights": np.array([options["bonus"], options["slope"]], np.float32)}
    if options["many"]:
        tables["weights"] = np.append(tables["weights"], 0)
    return KernelEnv("Counting", State, Seen, begin, step, see, tables=tables)


COUNTING = KernelTask(
    counting,
    observation=lambda options: gym.spaces.Box(0, options["most"], (1,), np.float32),
    action=gym.spaces.Discrete(2),
    options={"bonus": 1.0, "slope": 0.0, "speed": 1, "most": 1000.0, "many": False},
    max_episode_steps=100,
)
headrace.register("Counting-v0", COUNTING)

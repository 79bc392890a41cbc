"""An environment that reads and writes far outside its arrays in its hundredth step, for tests of what is said then.

So late that its first steps, which are played when its pool is made, do not find it.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams

FAR = wp.constant(1 << 30)


@wp.struct
class State:
    steps: wp.array[wp.int32]


@wp.struct
class View:
    obs: wp.array2d[wp.float32]


@wp.func
def begin(state: State, env: int, streams: Streams):
    state.steps[env] = 0


@wp.func
def write_far_away(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    state.steps[env] = state.steps[env] + 1
    if state.steps[env] == 100:
        state.steps[env + FAR] = 1
    return 1.0, False


@wp.func
def look(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = float(state.steps[env])


ENV = KernelEnv("Faulty", State, View, begin, write_far_away, look)
TASK = KernelTask(ENV, gym.spaces.Box(0.0, 1000.0, (1,), np.float32), gym.spaces.Discrete(2), max_episode_steps=1000)
headrace.register("Faulty-v0", TASK)

"""An environment whose fourth copy gives a reward, or shows an observation, that is not finite after 20 steps."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams
from headrace.pool.executors.kernels import Option

REWARD_NAN, REWARD_INF, OBSERVATION_NAN = range(3)
STEPS = wp.constant(20)


@wp.struct
class State:
    steps: wp.array[wp.int32]
    what: int


@wp.struct
class View:
    obs: wp.array2d[wp.float32]


@wp.func
def begin(state: State, env: int, streams: Streams):
    state.steps[env] = 0


@wp.func
def move(state: State, env: int, actions: wp.array2d[wp.float32], row: int, streams: Streams):
    state.steps[env] = state.steps[env] + 1
    reward = -wp.abs(actions[row, 0])
    if env == 3 and state.steps[env] > STEPS and state.what == 0:
        reward = wp.nan
    if env == 3 and state.steps[env] > STEPS and state.what == 1:
        reward = -wp.inf
    return reward, state.steps[env] >= 100


@wp.func
def look(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = 0.01 * float(state.steps[env])
    view.obs[row, 1] = 1.0
    if env == 3 and state.steps[env] > STEPS and state.what == 2:
        view.obs[row, 1] = wp.nan


ENV = KernelEnv("Poisoned", State, View, begin, move, look)
TASK = KernelTask(
    ENV,
    gym.spaces.Box(-2.0, 2.0, (2,), np.float32),
    gym.spaces.Box(-1.0, 1.0, (1,), np.float32),
    options={"what": Option(0)},
)
headrace.register("Poisoned-v0", TASK, replace=True)

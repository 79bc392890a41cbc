"""An environment that cannot draw itself here, for tests of what is said to who would watch it."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.errors import RenderError
from headrace.kernels import KernelEnv, KernelTask, Streams


@wp.struct
class State:
    place: wp.array[wp.float32]


@wp.struct
class View:
    obs: wp.array2d[wp.float32]


@wp.func
def begin(state: State, env: int, streams: Streams):
    state.place[env] = wp.float32(0.0)


@wp.func
def go(state: State, env: int, actions: wp.array2d[wp.float32], row: int, streams: Streams):
    state.place[env] = state.place[env] + actions[row, 0]
    return -wp.abs(state.place[env]), False


@wp.func
def look(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = state.place[env]


def render(state: Mapping[str, Any]) -> np.ndarray:
    raise RenderError("all pencils are broken")


SPACES = gym.spaces.Box(-1000.0, 1000.0, (1,), np.float32), gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
for name, drawing in (("Unpictured", None), ("Broken", render)):
    env = KernelEnv(name, State, View, begin, go, look, drawing)
    headrace.register(f"{name}-v0", KernelTask(env, *SPACES, max_episode_steps=20))

"""An environment of your own as a Warp kernel: written in Python, run at compiled speed.

A cart on a line is pushed left or right and should come to rest at a target. Three
functions say how an episode starts, what an action does, and what is seen; Headrace
compiles them into one kernel around which everything else (seeds, autoreset, partial
steps, saved states) is already there. Then an agent is trained on it.

    python examples/kernel_environment.py [TOTAL_STEPS]

The commands know its task by the file's name: ``headrace check examples/kernel_environment.py``,
``headrace train examples/kernel_environment.py``. In docs/kernel-environment.md it is built step by step.
"""

import argparse

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams, uniform


@wp.struct
class State:
    """One row an environment: where the cart is, how fast it goes, and where it should be."""

    x: wp.array[wp.float64]
    speed: wp.array[wp.float64]
    target: wp.array[wp.float64]


@wp.struct
class View:
    """What is seen: distance to the target and speed."""

    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.x[env] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))
    state.speed[env] = wp.float64(0.0)
    state.target[env] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    push = wp.float64(actions[row] - wp.int64(1))  # -1, 0 or 1
    speed = wp.float64(0.9) * state.speed[env] + wp.float64(0.02) * push
    x = state.x[env] + speed
    state.x[env] = x
    state.speed[env] = speed
    distance = wp.abs(x - state.target[env])
    return -wp.float32(distance), distance > wp.float64(3.0)


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.x[env] - state.target[env])
    view.obs[row, 1] = wp.float32(state.speed[env])


CART = KernelEnv("TargetCart", State, View, reset, step, observe)
SEEN = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
headrace.register("TargetCart-v0", KernelTask(CART, SEEN, gym.spaces.Discrete(3), max_episode_steps=100))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("total_steps", nargs="?", type=int, default=300_000, help="agent steps (300,000)")
    steps = parser.parse_args().total_steps
    result = headrace.train("TargetCart-v0", total_steps=steps, video=False)
    print(f"mean return {result.mean_return:.1f} (standing still earns about -67); run folder {result.run_dir}")

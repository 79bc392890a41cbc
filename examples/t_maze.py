"""A T-maze: what was seen at its entrance decides at its end, so that an agent needs a memory.

A sign at the entrance says whether to turn left or right at the far end of a corridor, and is seen from the first cell
only (Bakker 2002, "Reinforcement Learning with Long Short-Term Memory"). The right turn earns 1, the wrong one -1, and
every step costs 0.01: 0.89 at best. Without a memory both turns are as good, and the mean is -0.11 at best.

    python examples/t_maze.py [TOTAL_STEPS]

The commands know its task by the file's name: ``headrace train examples/t_maze.py --network gru``.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams, integers

LENGTH = wp.constant(10)  # cells from the entrance to the junction
FORWARD, LEFT, RIGHT = wp.constant(0), wp.constant(1), wp.constant(2)


@wp.struct
class State:
    """One row an environment: where to turn, 0 left and 1 right, and the cell, 0 at the entrance."""

    sign: wp.array[wp.int32]
    cell: wp.array[wp.int32]


@wp.struct
class View:
    """What is seen: the sign (-1 or 1, and 0 where there is none), and whether this is the junction."""

    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.sign[env] = integers(streams, env, 0, 2)
    state.cell[env] = 0


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    action, junction = int(actions[row]), state.cell[env] == LENGTH
    reward = float(-0.01)
    if junction and action != FORWARD:
        reward += wp.where(action - LEFT == state.sign[env], 1.0, -1.0)
    if action == FORWARD:
        state.cell[env] = wp.min(state.cell[env] + 1, LENGTH)
    return reward, junction and action != FORWARD


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.where(state.cell[env] == 0, 2.0 * float(state.sign[env]) - 1.0, 0.0)
    view.obs[row, 1] = wp.where(state.cell[env] == LENGTH, 1.0, 0.0)


MAZE = KernelEnv("TMaze", State, View, reset, step, observe)
SEEN = gym.spaces.Box(-1, 1, (2,), np.float32)
headrace.register("TMaze-v0", KernelTask(MAZE, SEEN, gym.spaces.Discrete(3), max_episode_steps=60))

SETTINGS: dict[str, Any] = {
    "hidden": (32, 32),
    "num_steps": 32,
    "minibatch_size": 512,
    "learning_rate": 5e-3,
    "entropy_coef": 0.01,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("total_steps", nargs="?", type=int, default=100_000, help="agent steps (100,000)")
    steps = parser.parse_args().total_steps
    result = headrace.train("TMaze-v0", network="gru", total_steps=steps, video=False, **SETTINGS)
    print(f"mean return {result.mean_return:.2f}, of 0.89 at best; run folder {result.run_dir}")

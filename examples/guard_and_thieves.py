"""A game of two kinds of agents that see and do different things, each with a policy of its own.

A guard on skates pushes itself in any direction (two real numbers) and sees everybody. Three
thieves walk in one of four directions (or stay), and see themselves, the guard and the gold in the
middle. A thief at the gold has stolen, one near the guard is caught; both are then out of the
game. One kind's gain is the other's loss.

    python examples/guard_and_thieves.py [TOTAL_STEPS]

or, the same from the command line:

    headrace train examples/guard_and_thieves.py:Heist-v0 --total-steps 1000000 --num-steps 32 \\
        --minibatch-size 2048 --entropy-coef 0.01 --gamma 0.97 \\
        --policies '{"guard": {"hidden": [128, 128]}, "thief": {"learning_rate": 0.002}}'
    headrace play runs/… --log x,y,free --log-file heist.npz

How such a game is written is in docs/multi-agent.md.
"""

import argparse

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.envs.drawing import Canvas
from headrace.kernels import AgentStreams, AgentType, KernelTask, MultiAgentEnv, agent_uniform

THIEVES = wp.constant(3)  # agents 1 to 3; agent 0 is the guard
REACH = wp.constant(0.15)  # of the guard, and of the gold
STOLE, CAUGHT = wp.constant(1), wp.constant(2)
EAST, WEST, NORTH, SOUTH = (wp.constant(wp.int64(action)) for action in (1, 2, 3, 4))


@wp.struct
class State:
    """Places in the square [-1, 1]², the guard's speed, who is free, and what became of a thief in this step."""

    x: wp.array2d[wp.float32]
    y: wp.array2d[wp.float32]
    speed_x: wp.array[wp.float32]
    speed_y: wp.array[wp.float32]
    free: wp.array2d[wp.bool]
    fate: wp.array2d[wp.int32]


@wp.struct
class View:
    """An array for each type: their observations differ in size."""

    obs_guard: wp.array3d[wp.float32]
    obs_thief: wp.array3d[wp.float32]


@wp.struct
class Actions:
    """As for observations: the guard's are pushes, the thieves' directions."""

    guard: wp.array3d[wp.float32]
    thief: wp.array2d[wp.int64]


@wp.func
def begin(state: State, env: int, agent: int, streams: AgentStreams):
    # the guard anywhere near the gold, thieves at the western and eastern edges
    x = agent_uniform(streams, env, agent, wp.float64(-0.5), wp.float64(0.5))
    y = agent_uniform(streams, env, agent, wp.float64(-0.5), wp.float64(0.5))
    if agent > 0:
        x = wp.where(x < wp.float64(0.0), wp.float64(-1.0), wp.float64(1.0))
        y = wp.float64(2.0) * y
    state.x[env, agent] = float(x)
    state.y[env, agent] = float(y)
    state.free[env, agent] = True
    state.fate[env, agent] = 0
    if agent == 0:
        state.speed_x[env] = 0.0
        state.speed_y[env] = 0.0


@wp.func
def move(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    dx = float(0.0)
    dy = float(0.0)
    if agent == 0:
        dx = 0.9 * state.speed_x[env] + 0.02 * wp.clamp(actions.guard[row, 0, 0], -1.0, 1.0)
        dy = 0.9 * state.speed_y[env] + 0.02 * wp.clamp(actions.guard[row, 0, 1], -1.0, 1.0)
        state.speed_x[env] = dx
        state.speed_y[env] = dy
    elif state.free[env, agent]:
        action = actions.thief[row, agent - 1]
        dx = 0.06 * (float(int(action == EAST)) - float(int(action == WEST)))
        dy = 0.06 * (float(int(action == NORTH)) - float(int(action == SOUTH)))
    state.x[env, agent] = wp.clamp(state.x[env, agent] + dx, -1.0, 1.0)
    state.y[env, agent] = wp.clamp(state.y[env, agent] + dy, -1.0, 1.0)


@wp.func
def meet(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    """Once all have moved; a thief that the guard reaches at the gold is caught."""
    state.fate[env, agent] = 0
    if agent > 0 and state.free[env, agent]:
        x = state.x[env, agent]
        y = state.y[env, agent]
        if wp.length(wp.vec2(x - state.x[env, 0], y - state.y[env, 0])) < REACH:
            state.fate[env, agent] = CAUGHT
        elif wp.length(wp.vec2(x, y)) < REACH:
            state.fate[env, agent] = STOLE
        state.free[env, agent] = state.fate[env, agent] == 0


@wp.func
def gain(fate: int) -> float:
    """A thief's."""
    return float(int(fate == STOLE)) - float(int(fate == CAUGHT))


@wp.func
def reward(state: State, env: int, agent: int) -> float:
    earned = gain(state.fate[env, agent])
    if agent == 0:
        for thief in range(1, THIEVES + 1):
            earned = earned - gain(state.fate[env, thief])
    return earned


@wp.func
def over(state: State, env: int) -> bool:
    somebody = bool(False)
    for thief in range(1, THIEVES + 1):
        somebody = somebody or state.free[env, thief]
    return not somebody


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    if agent == 0:
        view.obs_guard[row, 0, 0] = state.x[env, 0]
        view.obs_guard[row, 0, 1] = state.y[env, 0]
        view.obs_guard[row, 0, 2] = 10.0 * state.speed_x[env]
        view.obs_guard[row, 0, 3] = 10.0 * state.speed_y[env]
        for thief in range(1, THIEVES + 1):
            free = float(int(state.free[env, thief]))
            view.obs_guard[row, 0, 3 * thief + 1] = free
            view.obs_guard[row, 0, 3 * thief + 2] = free * (state.x[env, thief] - state.x[env, 0])
            view.obs_guard[row, 0, 3 * thief + 3] = free * (state.y[env, thief] - state.y[env, 0])
    else:
        view.obs_thief[row, agent - 1, 0] = state.x[env, agent]
        view.obs_thief[row, agent - 1, 1] = state.y[env, agent]
        view.obs_thief[row, agent - 1, 2] = state.x[env, 0] - state.x[env, agent]
        view.obs_thief[row, agent - 1, 3] = state.y[env, 0] - state.y[env, agent]
        view.obs_thief[row, agent - 1, 4] = 10.0 * state.speed_x[env]
        view.obs_thief[row, agent - 1, 5] = 10.0 * state.speed_y[env]


@wp.func
def alive(state: State, env: int, agent: int) -> bool:
    return state.free[env, agent]


GOLD, COLOURS = (230, 200, 60), [(230, 90, 60), *[(90, 200, 120)] * 3]


def picture(state) -> np.ndarray:
    """The square from above, uint8[240, 240, 3]: the gold, the guard (red), and the thieves that are free."""
    canvas = Canvas(240, 240, (24, 24, 24))
    canvas.circle((120, 120), 8, GOLD)
    for x, y, colour, free in zip(state["x"], state["y"], COLOURS, state["free"], strict=True):
        if free:
            canvas.circle((120 * (1 + 0.93 * x), 120 * (1 + 0.93 * y)), 8, colour)
    return canvas.array()


HEIST = MultiAgentEnv(
    "Heist",
    State,
    View,
    reset=(begin,),
    step=(move, meet),
    reward=reward,
    over=over,
    observe=observe,
    alive=alive,
    actions=Actions,
    render=picture,
    shapes=dict.fromkeys(("x", "y", "free", "fate"), ("num_agents",)),
)
GUARD = AgentType(
    "guard", 1, gym.spaces.Box(-np.inf, np.inf, (13,), np.float32), gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
)
THIEF = AgentType("thief", 3, gym.spaces.Box(-np.inf, np.inf, (6,), np.float32), gym.spaces.Discrete(5))
headrace.register("Heist-v0", KernelTask(HEIST, agents=(GUARD, THIEF), max_episode_steps=100))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("total_steps", nargs="?", type=int, default=1_000_000, help="agent steps (1,000,000)")
    steps = parser.parse_args().total_steps
    headrace.train(
        "Heist-v0",
        total_steps=steps,
        num_steps=32,
        minibatch_size=2048,
        entropy_coef=0.01,
        gamma=0.97,
        policies={"guard": {"hidden": [128, 128]}, "thief": {"learning_rate": 0.002}},
        video=False,
    )

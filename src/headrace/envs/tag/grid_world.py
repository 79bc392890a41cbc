"""Tag on a grid: taggers and one runner move from cell to cell simultaneously.

The runner is the last agent. An episode ends when a tagger is in the runner's cell after a move, or after
``max_episode_steps``. A tagger and the runner that swap cells pass each other without a tag. All taggers are
rewarded for a tag.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.tag import drawing
from headrace.envs.tag.common import MOST_STEPS, remembered, time_of
from headrace.pool.executors.kernels import AgentStreams, KernelTask, MultiAgentEnv, Option, agent_integers
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.kernels.warps import coalesced_store, warp_atomic_min
from headrace.pool.spec import AgentType

NOBODY = wp.constant(0x7FFFFFFF)
MOST_AGENTS = wp.constant(4096)  # a power of two, as keys combine a distance and an agent's number
LONGEST = 500  # 2 · 500² · 4096 < 2³¹
Seen = wp.types.vector(6, wp.float32)  # an observation, unless it is full
store_seen = coalesced_store(6)

OPTIONS = {
    "num_taggers": Option(10, 1, 4095),
    "grid_length": Option(10, 1, LONGEST),
    "wall_hit_penalty": Option(0.1),
    "tag_reward": Option(10.0),
    "tag_penalty": Option(2.0),
    "step_cost": Option(0.01),
    "full_observation": False,
    "random_start": False,
    "trail": Option(8, 0, 1000),
}
"""
num_taggers: number of taggers in one environment; there is one runner.
grid_length: L; cells are numbered 0 … L in both directions.
wall_hit_penalty: penalty for a move off the grid, which leaves the agent in its cell.
tag_reward: reward of every tagger when the runner is tagged.
tag_penalty: penalty of the runner when it is tagged.
step_cost: cost of every other step for taggers, and the runner's reward.
full_observation: whether agents observe all agents (4·agents + 1 numbers), or only themselves and one other (6):
    taggers the runner, the runner its nearest tagger.
random_start: whether agents start at random; otherwise taggers start in the middle and the runner at (0, 0).
trail: number of earlier cells of every agent that are stored for rendering.
"""


@wp.struct
class State:
    """The state of the game, its options and constants. Arrays are [envs] or [envs, agents].

    ``x`` and ``y`` are the agents' cells, ``paid`` their penalties in the last step, and ``t`` counts steps.
    ``nearest`` is the key of the tagger nearest to the runner, squared distance · 4096 + number.
    """

    x: wp.array2d[wp.int32]
    y: wp.array2d[wp.int32]
    paid: wp.array2d[wp.float32]
    was_at: wp.array3d[wp.int32]  # [env, step % trail, agent]: x and y as 16 bits each
    t: wp.array[wp.int32]
    nearest: wp.array[wp.int32]
    num_agents: int
    max_episode_steps: int
    grid_length: int
    wall_hit_penalty: float
    tag_reward: float
    tag_penalty: float
    step_cost: float
    trail: int
    random_start: bool
    full_observation: bool


@wp.struct
class View:
    """The observations: ``obs`` float32[rows, agents, numbers]."""

    obs: wp.array3d[wp.float32]


@wp.func
def place(state: State, env: int, agent: int, streams: AgentStreams):
    """Places an agent in its initial cell."""
    is_runner = agent == state.num_agents - 1
    start = wp.where(is_runner, 0, state.grid_length / 2)
    x = start
    y = start
    if state.random_start:
        x = agent_integers(streams, env, agent, 0, state.grid_length + 1)
        y = agent_integers(streams, env, agent, 0, state.grid_length + 1)
    state.x[env, agent] = x
    state.y[env, agent] = y
    if is_runner:
        state.t[env] = -1  # `chase` increments it to 0
        state.nearest[env] = NOBODY


@wp.func
def move(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    """Moves an agent to its next cell."""
    action = int(actions[row, agent])
    x = state.x[env, agent]
    y = state.y[env, agent]
    if state.trail > 0:
        state.was_at[env, state.t[env] % state.trail, agent] = x << 16 | y
    x = x + wp.where(action == 1, 1, 0) - wp.where(action == 2, 1, 0)
    y = y + wp.where(action == 3, 1, 0) - wp.where(action == 4, 1, 0)
    inside_x = wp.clamp(x, 0, state.grid_length)
    inside_y = wp.clamp(y, 0, state.grid_length)
    state.x[env, agent] = inside_x
    state.y[env, agent] = inside_y
    state.paid[env, agent] = wp.where(x != inside_x or y != inside_y, state.wall_hit_penalty, 0.0)
    if agent == state.num_agents - 1:
        state.nearest[env] = NOBODY


@wp.func
def chase(state: State, env: int, agent: int, streams: AgentStreams):
    """Finds the tagger nearest to the runner, and counts the step."""
    runner = state.num_agents - 1
    if agent < runner:
        dx = state.x[env, agent] - state.x[env, runner]
        dy = state.y[env, agent] - state.y[env, runner]
        warp_atomic_min(state.nearest, env, (dx * dx + dy * dy) * MOST_AGENTS + agent)
    else:
        state.t[env] = state.t[env] + 1


@wp.func
def chase_after_move(
    state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams
):
    """Calls `chase`, with the parameters of a step's function."""
    chase(state, env, agent, streams)


@wp.func
def caught(state: State, env: int) -> bool:
    """Returns whether a tagger is in the runner's cell."""
    return state.nearest[env] < MOST_AGENTS


@wp.func
def reward(state: State, env: int, agent: int) -> float:
    """Returns an agent's reward of the last step."""
    by_tag = wp.where(caught(state, env), state.tag_reward, -state.step_cost)
    if agent == state.num_agents - 1:
        by_tag = wp.where(caught(state, env), -state.tag_penalty, state.step_cost)
    return by_tag - state.paid[env, agent]


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    agents = state.num_agents
    scale = 1.0 / float(state.grid_length)
    is_runner = agent == agents - 1
    if state.full_observation:
        for other in range(agents):
            view.obs[row, agent, other] = float(state.x[env, other]) * scale
            view.obs[row, agent, agents + other] = float(state.y[env, other]) * scale
            view.obs[row, agent, 2 * agents + other] = wp.where(other == agents - 1, 1.0, 0.0)
            view.obs[row, agent, 3 * agents + other] = wp.where(other == agent, 1.0, 0.0)
        view.obs[row, agent, 4 * agents] = time_of(state, env)
    else:
        target = wp.where(is_runner, state.nearest[env] & (MOST_AGENTS - 1), agents - 1)
        seen = Seen()
        seen[0] = float(state.x[env, agent]) * scale
        seen[1] = float(state.y[env, agent]) * scale
        seen[2] = float(state.x[env, target]) * scale
        seen[3] = float(state.y[env, target]) * scale
        seen[4] = wp.where(is_runner, 1.0, 0.0)
        seen[5] = time_of(state, env)
        store_seen(view.obs, row, agent, 0, seen)


def render(state: Mapping[str, Any]) -> np.ndarray:
    cells = state["grid_length"] + 1
    x, y = ((state[name] + 0.5) / cells for name in "xy")
    is_runner = np.arange(len(x)) == len(x) - 1
    packed = remembered(state)
    trail = (np.stack([packed >> 16, packed & 0xFFFF], 1) + 0.5) / cells
    return drawing.picture(x, y, is_runner, np.ones_like(is_runner), trail, cells)


def agent_types(options: Mapping[str, Any]) -> tuple[AgentType, ...]:
    """Returns the types of agents, with their numbers and spaces."""
    agents = options["num_taggers"] + 1
    seen = gym.spaces.Box(0.0, 1.0, (4 * agents + 1 if options["full_observation"] else 6,), np.float32)
    move = gym.spaces.Discrete(5)
    return AgentType("tagger", agents - 1, seen, move), AgentType("runner", 1, seen, move)


def bounds(scalars: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Returns the bounds of the state for a grid's size."""
    cells = (0, scalars["grid_length"])
    return {"x": cells, "y": cells, "paid": FINITE, "t": (0, MOST_STEPS)}


ENV = MultiAgentEnv(
    "TagGridWorld",
    State,
    View,
    reset=(place, chase),
    step=(move, chase_after_move),
    reward=reward,
    over=caught,
    observe=observe,
    render=render,
    shapes={"was_at": ("trail", "num_agents")} | dict.fromkeys(("x", "y", "paid"), ("num_agents",)),
    bounds=bounds,
)
TASKS = {"TagGridWorld-v0": KernelTask(ENV, agents=agent_types, options=OPTIONS, max_episode_steps=100, render_fps=10)}

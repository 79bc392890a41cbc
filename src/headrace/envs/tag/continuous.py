"""Tag in the plane: taggers and runners move through a square, with discrete levels of acceleration and turn.

The first agents are taggers, the others runners; all start at random positions. A tagged runner leaves the game,
and an episode ends when no runner is left, or after ``max_episode_steps``. The state is stored as float32 and
computed in float64, with the same implementation of sine and cosine on every device, so that games are
identical on all devices.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.tag import drawing
from headrace.envs.tag.common import MOST_STEPS, remembered, time_of
from headrace.pool.executors.kernels import (
    AgentStreams,
    KernelTask,
    MultiAgentEnv,
    Option,
    agent_integers,
    agent_uniform,
    sincos,
)
from headrace.pool.executors.kernels.program import FINITE, NOT_NEGATIVE
from headrace.pool.executors.kernels.warps import coalesced_store
from headrace.pool.spec import AgentType

ZERO = wp.constant(wp.float64(0.0))
ONE_TURN = wp.constant(wp.float64(2 * math.pi))
ROUNDING = wp.constant(wp.float64(1e-6))  # relative rounding error of a speed at its bound
QUARTER_TURN = wp.constant(wp.float64(math.pi / 2))
TURN_TO_ONE = wp.constant(1 / (2 * math.pi))
DIAGONAL = wp.constant(1 / math.sqrt(2))
FAR = wp.constant(3.0e38)  # above any squared distance
FEATURES = wp.constant(7)  # numbers observed of one other agent
Seen = wp.types.vector(7, wp.float32)
store_seen = coalesced_store(7)

OPTIONS = {
    "num_taggers": Option(10, 1, 4096),
    "num_runners": Option(100, 1, 4096),
    "grid_length": Option(20.0, 1e-3),
    "max_speed": Option(1.0, 1e-6),
    "max_acceleration": Option(0.1),
    "max_turn": Option(2.356),
    "num_acceleration_levels": Option(20, 1, 1000),
    "num_turn_levels": Option(20, 1, 1000),
    "skill_tagger": Option(1.0),
    "skill_runner": Option(1.0),
    "tagging_distance": Option(0.02),
    "tag_reward": Option(10.0),
    "tag_penalty": Option(10.0),
    "end_reward": Option(1.0),
    "step_cost": Option(0.0),
    "step_reward": Option(0.0),
    "edge_hit_penalty": Option(0.0),
    "runner_exits": True,
    "full_observation": False,
    "num_observed": Option(10, 1, 256),
    "trail": Option(8, 0, 1000),
}
"""
num_taggers, num_runners: number of agents of each type in one environment.
grid_length: L, side of the square.
max_speed: largest speed (units/step), before it is multiplied by ``skill_tagger`` or ``skill_runner``.
max_acceleration, max_turn: largest change of the acceleration (units/step²) and of the direction (rad) in a step.
num_acceleration_levels, num_turn_levels: number of actions besides 0, evenly spaced from −maximum to maximum.
tagging_distance: a runner whose nearest tagger is nearer than this times L is tagged by it.
tag_reward, tag_penalty: reward of a tagger for each tag, and penalty of the tagged runner.
end_reward: reward of the runners that are in the game after the last step.
step_cost, step_reward: cost of every step for taggers, and reward of every step for runners in the game.
edge_hit_penalty: penalty for leaving the square; the agent is put back onto its edge.
runner_exits: whether a tagged runner leaves the game.
full_observation: whether agents observe all others (7·(agents − 1) + 1 numbers), or only the nearest ones that are in
    the game (7·num_observed + 1).
num_observed: number of others that an agent observes without ``full_observation``.
trail: number of earlier positions of every agent that are stored for rendering.
"""


@wp.struct
class State:
    """The state of the game, its options and constants. Arrays are [envs] or [envs, agents].

    ``direction`` is in rad, ``speed`` in units/step, ``acceleration`` in units/step². ``paid`` is the sum of the
    step's penalties and ``tags`` the number of its tags. ``was_at`` [envs, trail, 2, agents] stores earlier
    positions, ``t`` counts steps.
    """

    x: wp.array2d[wp.float32]
    y: wp.array2d[wp.float32]
    direction: wp.array2d[wp.float32]
    speed: wp.array2d[wp.float32]
    acceleration: wp.array2d[wp.float32]
    in_game: wp.array2d[wp.bool]
    paid: wp.array2d[wp.float32]
    tags: wp.array2d[wp.int32]
    was_at: wp.array4d[wp.float32]
    t: wp.array[wp.int32]
    runners_left: wp.array[wp.int32]
    num_agents: int
    num_taggers: int
    max_episode_steps: int
    grid_length: float
    max_speed: float
    max_acceleration: float
    max_turn: float
    num_acceleration_levels: int
    num_turn_levels: int
    skill_tagger: float
    skill_runner: float
    tagging_distance: float
    tag_reward: float
    tag_penalty: float
    end_reward: float
    step_cost: float
    step_reward: float
    edge_hit_penalty: float
    runner_exits: bool
    trail: int


@wp.struct
class View:
    """The observations: ``obs`` float32[rows, agents, numbers]."""

    obs: wp.array3d[wp.float32]


@wp.func
def place(state: State, env: int, agent: int, streams: AgentStreams):
    """Places an agent at a random position, at rest, in one of four directions."""
    length = wp.float64(state.grid_length)
    state.x[env, agent] = wp.float32(agent_uniform(streams, env, agent, ZERO, length))
    state.y[env, agent] = wp.float32(agent_uniform(streams, env, agent, ZERO, length))
    quarter = agent_integers(streams, env, agent, 0, 4)
    state.direction[env, agent] = wp.float32(wp.float64(quarter) * QUARTER_TURN)
    state.speed[env, agent] = 0.0
    state.acceleration[env, agent] = 0.0
    state.in_game[env, agent] = True
    if agent == 0:
        state.t[env] = 0
        state.runners_left[env] = state.num_agents - state.num_taggers


@wp.func
def level(action: wp.int64, levels: int, highest: float) -> wp.float64:
    """Returns the change that an action makes: 0 for action 0, from −highest to highest for actions 1 … levels."""
    steps = wp.float64(wp.max(levels - 1, 1))
    change = wp.float64(highest) * (wp.float64(2.0) * wp.float64(action - wp.int64(1)) / steps - wp.float64(1.0))
    return wp.where(action == wp.int64(0), ZERO, change)


@wp.func
def move(state: State, env: int, agent: int, actions: wp.array3d[wp.int64], row: int, streams: AgentStreams):
    """Moves an agent that is in the game."""
    state.paid[env, agent] = 0.0
    state.tags[env, agent] = 0
    if state.trail > 0:
        state.was_at[env, state.t[env] % state.trail, 0, agent] = state.x[env, agent]
        state.was_at[env, state.t[env] % state.trail, 1, agent] = state.y[env, agent]
    if not state.in_game[env, agent]:
        return
    change = level(actions[row, agent, 0], state.num_acceleration_levels, state.max_acceleration)
    turn = level(actions[row, agent, 1], state.num_turn_levels, state.max_turn)
    direction = wp.float64(state.direction[env, agent]) + turn
    direction = direction - ONE_TURN * wp.floor(direction / ONE_TURN)
    skill = wp.where(agent < state.num_taggers, state.skill_tagger, state.skill_runner)
    fastest = wp.float64(state.max_speed) * wp.float64(skill)
    acceleration = wp.float64(state.acceleration[env, agent]) + change
    speed = wp.clamp(wp.float64(state.speed[env, agent]) + acceleration, ZERO, fastest)
    if speed <= fastest * ROUNDING or speed >= fastest - fastest * ROUNDING:
        acceleration = ZERO
    sin, cos = sincos(direction)
    x = wp.float64(state.x[env, agent]) + speed * cos
    y = wp.float64(state.y[env, agent]) + speed * sin
    length = wp.float64(state.grid_length)
    inside_x = wp.clamp(x, ZERO, length)
    inside_y = wp.clamp(y, ZERO, length)
    if x != inside_x or y != inside_y:
        state.paid[env, agent] = state.edge_hit_penalty
    state.x[env, agent] = wp.float32(inside_x)
    state.y[env, agent] = wp.float32(inside_y)
    state.direction[env, agent] = wp.float32(direction)
    state.speed[env, agent] = wp.float32(speed)
    state.acceleration[env, agent] = wp.float32(acceleration)


@wp.func
def squared_distance(state: State, env: int, one: int, other: int) -> float:
    """Returns the squared distance of two agents."""
    dx = state.x[env, one] - state.x[env, other]
    dy = state.y[env, one] - state.y[env, other]
    return dx * dx + dy * dy


@wp.func
def tag(state: State, env: int, agent: int, actions: wp.array3d[wp.int64], row: int, streams: AgentStreams):
    """Lets the nearest tagger within the tagging distance tag a runner."""
    if agent == 0:
        state.t[env] = state.t[env] + 1
    if agent < state.num_taggers or not state.in_game[env, agent]:
        return
    reach = state.tagging_distance * state.grid_length
    nearest = reach * reach
    by = int(-1)
    for tagger in range(state.num_taggers):
        distance = squared_distance(state, env, agent, tagger)
        if distance < nearest:
            nearest = distance
            by = tagger
    if by >= 0:
        wp.atomic_add(state.tags, env, by, 1)
        state.paid[env, agent] = state.paid[env, agent] + state.tag_penalty
        if state.runner_exits:
            state.in_game[env, agent] = False
            wp.atomic_sub(state.runners_left, env, 1)


@wp.func
def reward(state: State, env: int, agent: int) -> float:
    """Returns an agent's reward of the last step."""
    earned = -state.paid[env, agent]
    if agent < state.num_taggers:
        earned += float(state.tags[env, agent]) * state.tag_reward - state.step_cost
    elif state.in_game[env, agent]:
        earned += state.step_reward
        if state.t[env] == state.max_episode_steps:
            earned += state.end_reward
    return earned


@wp.func
def over(state: State, env: int) -> bool:
    """Returns whether no runner is left."""
    return state.runners_left[env] == 0


@wp.func
def alive(state: State, env: int, agent: int) -> bool:
    """Returns whether an agent is in the game."""
    return state.in_game[env, agent]


@wp.func
def see(state: State, env: int, agent: int, other: int):
    """Returns the numbers that ``agent`` observes of ``other``.

    They are the relative x, y, speed, acceleration and direction, scaled; whether the other is a runner; and whether
    the other is in the game.
    """
    seen = Seen()
    to_one = DIAGONAL / state.grid_length
    seen[0] = (state.x[env, other] - state.x[env, agent]) * to_one
    seen[1] = (state.y[env, other] - state.y[env, agent]) * to_one
    seen[2] = (state.speed[env, other] - state.speed[env, agent]) / state.max_speed
    largest = wp.max(state.max_acceleration, 1e-6)
    seen[3] = (state.acceleration[env, other] - state.acceleration[env, agent]) / largest
    seen[4] = (state.direction[env, other] - state.direction[env, agent]) * TURN_TO_ONE
    seen[5] = wp.where(other < state.num_taggers, 0.0, 1.0)
    seen[6] = wp.where(state.in_game[env, other], 1.0, 0.0)
    return seen


@wp.func
def observe_all(state: State, env: int, agent: int, view: View, row: int):
    """Writes an observation of all other agents and the elapsed time."""
    at = int(0)
    for other in range(state.num_agents):
        if other != agent:
            store_seen(view.obs, row, agent, at, see(state, env, agent, other))
            at += FEATURES
    view.obs[row, agent, at] = time_of(state, env)


def observe_nearest(count: int) -> Any:
    """Returns a Warp function that observes the nearest ``count`` others in the game, and the elapsed time.

    Of equally near agents, those with the lowest numbers come first. Unused entries are 0.
    """
    distances_type = wp.types.vector(length=count, dtype=wp.float32)
    numbers_type = wp.types.vector(length=count, dtype=wp.int32)

    def observe(state, env, agent, view, row):
        distances = distances_type()
        numbers = numbers_type()
        farthest = float(FAR)  # of the agents kept; FAR while fewer than `count` are
        others = wp.where(state.in_game[env, agent], state.num_agents, 0)
        for i in range(count):
            distances[i] = FAR
        for other in range(others):
            distance = squared_distance(state, env, agent, other & NOT_NEGATIVE)
            if distance < farthest and other != agent and state.in_game[env, other & NOT_NEGATIVE]:
                slot = count - 1
                while slot > 0 and distances[slot - 1] > distance:
                    distances[slot] = distances[slot - 1]
                    numbers[slot] = numbers[slot - 1]
                    slot -= 1
                distances[slot] = distance
                numbers[slot] = other
                farthest = distances[count - 1]
        for i in range(count):
            seen = Seen()
            if distances[i] < FAR:
                seen = see(state, env, agent, numbers[i])
            store_seen(view.obs, row, agent, FEATURES * i, seen)
        view.obs[row, agent, FEATURES * count] = time_of(state, env)

    observe.__name__ = observe.__qualname__ = f"observe_nearest_{count}"
    observe.__annotations__ = {"state": State, "env": int, "agent": int, "view": View, "row": int}
    return wp.func(observe)


def render(state: Mapping[str, Any]) -> np.ndarray:
    length = state["grid_length"]
    return drawing.picture(
        state["x"] / length,
        state["y"] / length,
        np.arange(len(state["x"])) >= state["num_taggers"],
        state["in_game"],
        remembered(state) / length,
        heading=state["direction"],
    )


def num_seen(options: Mapping[str, Any]) -> int:
    """Returns the number of other agents in an observation."""
    others = options["num_taggers"] + options["num_runners"] - 1
    return others if options["full_observation"] else min(options["num_observed"], others)


def agent_types(options: Mapping[str, Any]) -> tuple[AgentType, ...]:
    """Returns the types of agents, with their numbers and spaces."""
    seen = gym.spaces.Box(-np.inf, np.inf, (FEATURES * num_seen(options) + 1,), np.float32)
    steer = gym.spaces.MultiDiscrete([options["num_acceleration_levels"] + 1, options["num_turn_levels"] + 1])
    return (
        AgentType("tagger", options["num_taggers"], seen, steer),
        AgentType("runner", options["num_runners"], seen, steer),
    )


def environment(options: Mapping[str, Any]) -> MultiAgentEnv:
    """Returns the environment for these options."""
    return _environment(0 if options["full_observation"] else num_seen(options))


@functools.cache
def _environment(nearest: int) -> MultiAgentEnv:
    per_agent = ("x", "y", "direction", "speed", "acceleration", "in_game", "paid", "tags")
    return MultiAgentEnv(
        f"TagContinuous{nearest or ''}",
        State,
        View,
        reset=(place,),
        step=(move, tag),
        reward=reward,
        over=over,
        observe=observe_nearest(nearest) if nearest else observe_all,
        alive=alive,
        render=render,
        shapes=dict.fromkeys(per_agent, ("num_agents",)) | {"was_at": ("trail", 2, "num_agents")},
        bounds=bounds,
    )


def bounds(scalars: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Returns the bounds of the state for a square's size and the numbers of agents."""
    agents = scalars["num_agents"]
    return {
        **dict.fromkeys(("x", "y", "was_at"), (0, scalars["grid_length"])),
        "direction": (0, 2 * math.pi),
        **dict.fromkeys(("speed", "acceleration", "paid"), FINITE),
        "tags": (0, agents),
        "t": (0, MOST_STEPS),
        "runners_left": (0, agents - scalars["num_taggers"]),
    }


TASKS = {"TagContinuous-v0": KernelTask(environment, agents=agent_types, options=OPTIONS, max_episode_steps=500)}

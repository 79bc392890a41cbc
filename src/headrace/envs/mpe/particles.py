"""What the worlds of particles share: their state, its physics, relative positions, and pictures.

Particles are discs: first the agents, then the landmarks, which do not move. In a step an agent accelerates in one of
four directions, or does not; agents that touch, or touch a landmark, push each other away, where they collide at all.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.drawing import Canvas
from headrace.pool.executors.kernels import AgentStreams, MultiAgentEnv, agent_integers, agent_uniform
from headrace.pool.executors.kernels.program import FINITE

SECONDS = wp.constant(0.1)  # of a step
KEPT = wp.constant(0.75)  # of a velocity after a step
STIFFNESS = wp.constant(100.0)
MARGIN = wp.constant(1e-3)  # distance over which the force of a contact sets in
LEAST_DISTANCE = wp.constant(1e-9)  # particles at one place do not push each other
SILENCE = wp.constant(-1)
CONSTANTS = {"num_colliding": 0, "num_adversaries": 0, "num_goals": 0, "landmarks_within": 1.0, "local_ratio": 1.0}

SIZE = 480  # pixels, side of a frame
GREY, RED, GREEN, BLUE = (90, 90, 90), (214, 69, 65), (60, 160, 75), (38, 115, 190)


@wp.struct
class State:
    """A world. Arrays are [envs], [envs, agents] or [envs, particles]; tables [agents] or [particles]."""

    place: wp.array2d[wp.vec2]  # of particles, as the radius
    velocity: wp.array2d[wp.vec2]
    force: wp.array2d[wp.vec2]  # on agents, each of mass 1
    goal: wp.array[wp.int32]  # a landmark
    word: wp.array[wp.int32]  # what the speaker has said last
    radius: wp.array[wp.float32]
    thrust: wp.array[wp.float32]
    top_speed: wp.array[wp.float32]
    num_agents: int
    num_particles: int
    num_colliding: int  # these come first
    num_adversaries: int  # as do these
    num_goals: int  # of these landmarks one is the goal; as many words
    landmarks_within: float  # distance from the origin of landmarks' initial coordinates
    local_ratio: float


@wp.func
def anywhere(streams: AgentStreams, env: int, agent: int, within: float) -> wp.vec2:
    """Returns a random place, uniform in the square [-within, within)²."""
    x = float(agent_uniform(streams, env, agent, wp.float64(-within), wp.float64(within)))
    y = float(agent_uniform(streams, env, agent, wp.float64(-within), wp.float64(within)))
    return wp.vec2(x, y)


@wp.func
def scatter(state: State, env: int, agent: int, streams: AgentStreams):
    """Puts particles at random places, and chooses a goal."""
    state.place[env, agent] = anywhere(streams, env, agent, 1.0)
    state.velocity[env, agent] = wp.vec2(0.0, 0.0)
    state.force[env, agent] = wp.vec2(0.0, 0.0)
    if agent == 0:
        state.goal[env] = agent_integers(streams, env, agent, 0, state.num_goals)
        state.word[env] = SILENCE
        for landmark in range(state.num_agents, state.num_particles):
            state.place[env, landmark] = anywhere(streams, env, agent, state.landmarks_within)


@wp.func
def distance(state: State, env: int, a: int, b: int) -> float:
    return wp.length(state.place[env, a] - state.place[env, b])


@wp.func
def goal_distance(state: State, env: int, agent: int) -> float:
    """Returns an agent's distance to the goal."""
    return distance(state, env, agent, state.num_agents + state.goal[env])


@wp.func
def touch(state: State, env: int, a: int, b: int) -> bool:
    """Returns whether two particles overlap."""
    return distance(state, env, a, b) < state.radius[a] + state.radius[b]


@wp.func
def contact(state: State, env: int, agent: int, other: int) -> wp.vec2:
    """Returns the force with which another particle pushes an agent: linear in their overlap, smooth at its onset."""
    apart = distance(state, env, agent, other)
    overlap = (state.radius[agent] + state.radius[other] - apart) / MARGIN
    soft = MARGIN * (wp.max(overlap, 0.0) + wp.log(1.0 + wp.exp(-wp.abs(overlap))))
    return (state.place[env, agent] - state.place[env, other]) * (STIFFNESS * soft / wp.max(apart, LEAST_DISTANCE))


@wp.func
def push(state: State, env: int, agent: int, action: wp.int64):
    """Sums the forces on an agent, its own among them; a phase, as they depend on places."""
    move = int(action)
    x = wp.where(move == 2, 1.0, 0.0) - wp.where(move == 1, 1.0, 0.0)
    y = wp.where(move == 4, 1.0, 0.0) - wp.where(move == 3, 1.0, 0.0)
    force = wp.vec2(x, y) * state.thrust[agent]
    if agent < state.num_colliding:
        for other in range(state.num_colliding):
            if other != agent:
                force = force + contact(state, env, agent, other)
    state.force[env, agent] = force


@wp.func
def push_itself(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    push(state, env, agent, actions[row, agent])


@wp.func
def move(state: State, env: int, agent: int, actions: Any, row: int, streams: AgentStreams):
    """Moves an agent at its velocity, and then changes this one."""
    before = state.velocity[env, agent]
    velocity = before * KEPT + state.force[env, agent] * SECONDS
    speed = wp.length(velocity)
    if speed > state.top_speed[agent]:
        velocity = velocity * (state.top_speed[agent] / speed)
    state.place[env, agent] = state.place[env, agent] + before * SECONDS
    state.velocity[env, agent] = velocity


@wp.func
def never(state: State, env: int) -> bool:
    """Returns whether an episode is over before its time limit."""
    return False


@wp.func
def show(obs: wp.array3d[wp.float32], row: int, agent: int, at: int, value: wp.vec2) -> int:
    """Writes two numbers of an observation, and returns where the next begins."""
    obs[row, agent, at] = value[0]
    obs[row, agent, at + 1] = value[1]
    return at + 2


@wp.func
def show_others(state: State, env: int, agent: int, obs: wp.array3d[wp.float32], row: int, slot: int, at: int) -> int:
    """Writes the places of landmarks and then of other agents relative to an agent, whose row is ``slot``."""
    place = state.place[env, agent]
    end = at
    for i in range(state.num_particles):
        other = (state.num_agents + i) % state.num_particles
        if other != agent:
            end = show(obs, row, slot, end, state.place[env, other] - place)
    return end


@wp.func
def show_all(state: State, env: int, agent: int, obs: wp.array3d[wp.float32], row: int, slot: int) -> int:
    """Writes an agent's velocity and place, and then the others' places."""
    at = show(obs, row, slot, 0, state.velocity[env, agent])
    at = show(obs, row, slot, at, state.place[env, agent])
    return show_others(state, env, agent, obs, row, slot, at)


@functools.cache
def world(
    name: str,
    agents: tuple[tuple[float, float, float], ...],
    landmarks: tuple[float, ...],
    view: Any,
    observe: Callable[..., Any],
    reward: Callable[..., Any],
    act: Callable[..., Any] = push_itself,
    actions: Any = None,
    **constants: Any,
) -> MultiAgentEnv:
    """Returns the environment of a world.

    Args:
        name: the compiled kernel's name.
        agents: radius, thrust and top speed of each.
        landmarks: radius of each.
        view, observe, reward, actions: as in `MultiAgentEnv`.
        act: the phase of a step before the agents move, to which the actions matter.
        constants: scalar fields of the state, where they are not as in most worlds.
    """
    radii, thrusts, top_speeds = np.array(agents, np.float32).T
    radii = np.concatenate([radii, np.array(landmarks, np.float32)])
    goals = constants.get("num_goals", 0)
    return MultiAgentEnv(
        name,
        State,
        view,
        reset=(scatter,),
        step=(act, move),
        reward=reward,
        over=never,
        observe=observe,
        actions=actions,
        render=functools.partial(picture, radii),
        shapes={"place": ("num_particles",), "velocity": ("num_agents",), "force": ("num_agents",)},
        constants=CONSTANTS | {"num_particles": len(radii)} | constants,
        tables={"radius": radii, "thrust": thrusts, "top_speed": top_speeds},
        bounds={"place": FINITE, "velocity": FINITE, "goal": (0, max(goals - 1, 0)), "word": (int(SILENCE), goals - 1)},
    )


def picture(radii: np.ndarray, state: Mapping[str, Any]) -> np.ndarray:
    """Returns a frame, uint8[480, 480, 3]: adversaries red, other agents blue, the goal green, and the last word."""
    agents, adversaries, place = state["num_agents"], state["num_adversaries"], state["place"]
    scale = SIZE / 2 / max(1.2, float(np.abs(place).max()) + 0.2)  # agents may go anywhere
    canvas = Canvas(SIZE, SIZE)
    for i in reversed(range(len(place))):
        color = RED if i < adversaries else BLUE if i < agents else GREY
        if state["num_goals"] and i == agents + state["goal"]:
            color = GREEN
        x, y = (SIZE / 2 + scale * place[i]).tolist()
        canvas.circle((x, y), scale * float(radii[i]), color)
    if state["word"] >= 0:
        canvas.text((SIZE / 2, SIZE - 24), f"the speaker says {'ABC'[int(state['word'])]}", 20)
    return canvas.array()

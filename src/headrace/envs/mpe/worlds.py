"""Four worlds of particles: what their agents observe, say and are rewarded for.

Places in observations are relative to the observer, except for its own.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.mpe.particles import State, distance, goal_distance, push, show, show_all, show_others, touch, world
from headrace.pool.executors.kernels import AgentStreams, KernelTask, MultiAgentEnv, Option
from headrace.pool.spec import AgentType

SPEAKER, LISTENER = wp.constant(0), wp.constant(1)
AGENTS = wp.constant(2)  # of that world
WORDS = wp.constant(3)  # and landmarks
BRIGHT, DARK = wp.constant(0.65), wp.constant(0.15)  # red, green and blue of a landmark
CATCH = wp.constant(10.0)

NUMBER = {"low": 1, "high": 1000}
SPREAD = {"N": Option(3, **NUMBER), "local_ratio": Option(0.5, 0, 1)}
"""
N: number of agents, and of landmarks.
local_ratio: share of its own collisions in an agent's reward; the rest is of the landmarks' distances.
"""
TAG = {"num_good": Option(1, **NUMBER), "num_adversaries": Option(3, **NUMBER), "num_obstacles": Option(2, 0, 1000)}
"""
num_good: number of agents that flee.
num_adversaries: number of those that chase them.
num_obstacles: number of landmarks.
"""
ADVERSARY = {"N": Option(2, **NUMBER)}
"""
N: number of agents beside the adversary, and of landmarks.
"""


@wp.struct
class View:
    """Observations of agents that are alike, float32[rows, agents, numbers]."""

    obs: wp.array3d[wp.float32]


@wp.struct
class SidesView:
    """Observations of adversaries and of the other agents, float32[rows, agents of the type, numbers]."""

    obs_adversary: wp.array3d[wp.float32]
    obs_agent: wp.array3d[wp.float32]


@wp.struct
class SpeechView:
    """Observations of a speaker and a listener, float32[rows, 1, numbers]."""

    obs_speaker: wp.array3d[wp.float32]
    obs_listener: wp.array3d[wp.float32]


@wp.struct
class Speech:
    """Actions of a speaker and a listener: a word and a move, int64[rows, 1]."""

    speaker: wp.array2d[wp.int64]
    listener: wp.array2d[wp.int64]


# ---- spread: agents are to be at one landmark each, and not to touch each other ---------------


@wp.func
def spread_reward(state: State, env: int, agent: int) -> float:
    """The landmarks' distances to the agents next to them, and the agent's own collisions."""
    collisions = float(0.0)
    for other in range(state.num_agents):
        if other != agent and touch(state, env, agent, other):
            collisions = collisions + 1.0
    distances = float(0.0)
    for landmark in range(state.num_agents, state.num_particles):
        nearest = distance(state, env, 0, landmark)
        for other in range(1, state.num_agents):
            nearest = wp.min(nearest, distance(state, env, other, landmark))
        distances = distances + nearest
    return -(distances * (1.0 - state.local_ratio) + collisions * state.local_ratio)


@wp.func
def spread_observe(state: State, env: int, agent: int, view: View, row: int):
    for silent in range(show_all(state, env, agent, view.obs, row, agent), view.obs.shape[2]):
        view.obs[row, agent, silent] = 0.0


# ---- tag: slow adversaries chase fast agents, with landmarks in the way -----------------------


@wp.func
def outside(coordinate: float) -> float:
    """Returns the penalty for a coordinate: none in the middle, and then ever more."""
    away = wp.abs(coordinate)
    far = wp.min(wp.exp(2.0 * away - 2.0), 10.0)
    return wp.where(away < 1.0, wp.max(away - 0.9, 0.0) * 10.0, far)


@wp.func
def tag_reward(state: State, env: int, agent: int) -> float:
    """All catches for an adversary; for another agent, those of itself and how far it is outside."""
    chases = agent < state.num_adversaries
    catches = float(0.0)
    for fleeing in range(state.num_adversaries, state.num_agents):
        if chases or fleeing == agent:
            for adversary in range(state.num_adversaries):
                if touch(state, env, fleeing, adversary):
                    catches = catches + CATCH
    if chases:
        return catches
    place = state.place[env, agent]
    return -catches - outside(place[0]) - outside(place[1])


@wp.func
def tag_show(state: State, env: int, agent: int, obs: wp.array3d[wp.float32], row: int, slot: int):
    at = show_all(state, env, agent, obs, row, slot)
    for other in range(state.num_adversaries, state.num_agents):
        if other != agent:
            at = show(obs, row, slot, at, state.velocity[env, other])


@wp.func
def tag_observe(state: State, env: int, agent: int, view: SidesView, row: int):
    if agent < state.num_adversaries:
        tag_show(state, env, agent, view.obs_adversary, row, agent)
    else:
        tag_show(state, env, agent, view.obs_agent, row, agent - state.num_adversaries)


# ---- adversary: agents are to be at one of several landmarks, which the first must not find out -------


@wp.func
def adversary_reward(state: State, env: int, agent: int) -> float:
    adversary = goal_distance(state, env, 0)
    if agent == 0:
        return -adversary
    nearest = goal_distance(state, env, 1)
    for other in range(2, state.num_agents):
        nearest = wp.min(nearest, goal_distance(state, env, other))
    return adversary - nearest


@wp.func
def adversary_observe(state: State, env: int, agent: int, view: SidesView, row: int):
    if agent == 0:
        show_others(state, env, agent, view.obs_adversary, row, 0, 0)
    else:
        goal = state.place[env, state.num_agents + state.goal[env]]
        at = show(view.obs_agent, row, agent - 1, 0, goal - state.place[env, agent])
        show_others(state, env, agent, view.obs_agent, row, agent - 1, at)


# ---- speaker and listener: one sees the goal's colour and has three words, the other moves ------------


@wp.func
def speak_or_push(state: State, env: int, agent: int, actions: Speech, row: int, streams: AgentStreams):
    if agent == SPEAKER:
        state.word[env] = int(actions.speaker[row, 0])
    else:
        push(state, env, agent, actions.listener[row, 0])


@wp.func
def speech_reward(state: State, env: int, agent: int) -> float:
    away = goal_distance(state, env, LISTENER)
    return -away * away


@wp.func
def speech_observe(state: State, env: int, agent: int, view: SpeechView, row: int):
    if agent == SPEAKER:
        for i in range(WORDS):
            view.obs_speaker[row, 0, i] = wp.where(i == state.goal[env], BRIGHT, DARK)
    else:
        at = show(view.obs_listener, row, 0, 0, state.velocity[env, agent])
        for i in range(WORDS):
            at = show(view.obs_listener, row, 0, at, state.place[env, AGENTS + i] - state.place[env, agent])
        for i in range(WORDS):
            view.obs_listener[row, 0, at + i] = wp.where(i == state.word[env], 1.0, 0.0)


# ---- tasks ------------------------------------------------------------------------------------


def spread_world(n: int) -> MultiAgentEnv:
    agents = ((0.15, 5.0, math.inf),) * n
    return world("SimpleSpread", agents, (0.05,) * n, View, spread_observe, spread_reward, num_colliding=n)


def tag_world(good: int, adversaries: int, obstacles: int) -> MultiAgentEnv:
    agents = ((0.075, 3.0, 1.0),) * adversaries + ((0.05, 4.0, 1.3),) * good
    numbers = {"num_colliding": len(agents) + obstacles, "landmarks_within": 0.9}
    return world("SimpleTag", agents, (0.2,) * obstacles, SidesView, tag_observe, tag_reward, **numbers)


def adversary_world(n: int) -> MultiAgentEnv:
    agents, numbers = ((0.15, 5.0, math.inf),) * (n + 1), {"num_adversaries": 1, "num_goals": n}
    return world("SimpleAdversary", agents, (0.08,) * n, SidesView, adversary_observe, adversary_reward, **numbers)


SPEECH_WORLD = world(
    "SimpleSpeakerListener",
    ((0.075, 0.0, math.inf), (0.075, 5.0, math.inf)),
    (0.04,) * 3,
    SpeechView,
    speech_observe,
    speech_reward,
    speak_or_push,
    Speech,
    num_goals=3,
)


def kind(name: str, count: int, numbers: int, actions: int = 5) -> AgentType:
    """Returns a type of agents; its five actions are nothing, -x, +x, -y and +y."""
    seen = gym.spaces.Box(-np.inf, np.inf, (numbers,), np.float32)
    return AgentType(name, count, seen, gym.spaces.Discrete(actions))


def tag_agents(options: Mapping[str, Any]) -> tuple[AgentType, ...]:
    good, adversaries = options["num_good"], options["num_adversaries"]
    seen = 2 + 2 * (options["num_obstacles"] + adversaries + 2 * good)
    return kind("adversary", adversaries, seen), kind("agent", good, seen - 2)


def task(env: MultiAgentEnv | Callable[..., MultiAgentEnv], agents: Any, **options: Any) -> KernelTask:
    """Returns the task of a world: episodes have 25 steps."""
    return KernelTask(env, agents=agents, options=options, max_episode_steps=25, render_fps=10)


TASKS = {
    "SimpleAdversary-v3": task(
        lambda o: adversary_world(o["N"]),
        lambda o: (kind("adversary", 1, 4 * o["N"]), kind("agent", o["N"], 4 * o["N"] + 2)),
        **ADVERSARY,
    ),
    "SimpleSpeakerListener-v4": task(SPEECH_WORLD, (kind("speaker", 1, 3, 3), kind("listener", 1, 11))),
    "SimpleSpread-v3": task(lambda o: spread_world(o["N"]), lambda o: (kind("agent", o["N"], 6 * o["N"]),), **SPREAD),
    "SimpleTag-v3": task(
        lambda o: tag_world(o["num_good"], o["num_adversaries"], o["num_obstacles"]), tag_agents, **TAG
    ),
}

"""Multi-agent environments, and the kernel that is generated around one.

All agents act simultaneously, so the effect of one agent's move on another must not depend on the order in which they
are computed. An author therefore writes a step as phases: functions of one agent, each executed for all agents of an
environment before the next begins.

The same source is compiled for CPUs and GPUs. On a CPU a thread serves a whole environment and loops over its agents.
On a GPU a group of threads, called lanes, serves an environment; their number is a power of two: part of a warp, a
warp, or a block. Each lane loops over its share of the agents, and a barrier among the lanes separates the phases. A
step is still a single launch.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from headrace.errors import KernelError
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.program import (
    NEXT_STEP,
    NOT_NEGATIVE,
    RESEED,
    ROUNDING,
    SAME_STEP,
    STEP,
    Bounds,
    Episodes,
    Requests,
    Rules,
)
from headrace.pool.executors.kernels.random import AgentStreams

WARP = 32
BLOCK = 256  # number of threads of a block that serves several environments
MOST_LANES = 256  # so that several environments share a multiprocessor, and one works while another is at a barrier


@wp.struct
class AgentsOutcome:
    """The part of a result that every multi-agent environment has: arrays [rows], or [rows, agents]."""

    reward: wp.array2d[wp.float32]
    alive: wp.array2d[wp.bool]
    terminated: wp.array[wp.bool]
    truncated: wp.array[wp.bool]
    env_id: wp.array[wp.int32]
    elapsed_step: wp.array[wp.int32]
    final_elapsed_step: wp.array[wp.int32]
    final_alive: wp.array2d[wp.bool]


@dataclass(frozen=True, eq=False)
class MultiAgentEnv:
    """A multi-agent environment as Warp functions over named arrays.

    In every function ``env`` is the environment's row of the state and ``agent`` counts its agents from 0, in
    the order of the task's agent types. A phase may write elements that other agents read in the next phase. Agents
    that write the same element in one phase must use Warp's atomic functions on integers, whose results do not depend
    on the order. Debug mode and ``headrace check`` find agents that race.

    Attributes:
        name: the compiled kernel's name: an identifier.
        state: a `warp.struct`: array fields [environments, …], usually [environments, agents]; scalar fields
            as in `KernelEnv`, among them, if it has them, ``num_agents`` and ``max_episode_steps``.
        view: a `warp.struct` of the outputs: ``obs`` [rows, agents, …], or ``obs_<type>`` [rows, agents of
            the type, …] where the types' spaces differ; and the task's info fields [rows, …].
        reset: phases ``(state, env, agent, streams)`` that begin an episode.
        step: phases ``(state, env, agent, actions, row, streams)`` that advance by one agent step; the agent's
            action is ``actions[row, agent]``, or ``actions.<type>[row, i]`` where the types' spaces differ.
        reward: ``(state, env, agent) → float32``: the agent's reward in this step.
        over: ``(state, env) → bool``: whether the episode terminated in this step; the threads of all agents
            compute it, so it must only read.
        observe: ``(state, env, agent, view, row)``: write the agent's observation into ``row`` of the view.
        alive: ``(state, env, agent) → bool``: whether the agent takes part in the episode; None if agents never leave.
        actions: a `warp.struct` with one array for each agent type, where the types' action spaces differ.
        render, shapes, constants, tables, bounds: as in `KernelEnv`.
    """

    name: str
    state: Any
    view: Any
    reset: tuple[Callable[..., Any], ...]
    step: tuple[Callable[..., Any], ...]
    reward: Callable[..., Any]
    over: Callable[..., Any]
    observe: Callable[..., Any]
    alive: Callable[..., Any] | None = None
    actions: Any = None
    render: Callable[[Mapping[str, Any]], np.ndarray] | None = None
    shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    bounds: Bounds | Callable[[Mapping[str, Any]], Bounds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, phases in (("reset", self.reset), ("step", self.step)):
            if not isinstance(phases, tuple) or not phases:
                raise KernelError(f"{self.name}: {name} must be a tuple of phases, at least one, not {phases!r}")


def lanes_for(num_agents: int, device: str) -> int:
    """Returns the number of threads that serve one environment: a power of two, 1 on a CPU."""
    if device == "cpu":
        return 1
    return min(1 << max(num_agents - 1, 0).bit_length(), MOST_LANES)


def block_for(lanes: int, device: str) -> int:
    """Returns the number of threads of a block, which serve several environments, or one if it needs a whole block.

    Environments that share a block may take different branches, so they must not share a barrier.
    """
    return lanes if device == "cpu" or lanes > WARP else BLOCK


@wp.func_native(cpp(__file__, "barrier"))
def barrier(lanes: int):
    """Waits for the other lanes of this environment, and makes their writes visible.

    All lanes of an environment must reach it equally often, so it is never inside a loop over agents.
    """


@wp.func
def whose_turn(turn: int) -> int:
    """Returns the agent that acts at position ``turn``: that number itself, unless debug mode shuffles the order."""
    return turn & NOT_NEGATIVE


def _function(of: MultiAgentEnv, function: Any, name: str, actions_type: Any) -> Any:
    """Returns a Warp function with a unique name and typed arguments."""
    function.__name__ = function.__qualname__ = f"{of.name}_{name}"
    types = {"actions": actions_type, "state": of.state, "streams": AgentStreams}
    function.__annotations__ = {
        argument: types.get(argument, int) for argument in inspect.signature(function).parameters
    }
    return wp.func(function)


def _by_everyone(of: MultiAgentEnv, phase: Any, acting: bool, actions_type: Any, name: str) -> Any:
    """Returns a function that executes one phase for all agents of an environment."""

    def act(state, env, actions, row, streams, lane, lanes):
        for turn in range(lane, streams.num_agents, lanes):
            phase(state, env, whose_turn(turn), actions, row, streams)
        barrier(lanes)

    def begin(state, env, actions, row, streams, lane, lanes):
        for turn in range(lane, streams.num_agents, lanes):
            phase(state, env, whose_turn(turn), streams)
        barrier(lanes)

    return _function(of, act if acting else begin, name, actions_type)


def _then(of: MultiAgentEnv, before: Any, now: Any, actions_type: Any, name: str) -> Any:
    """Returns a function that calls ``before`` and then ``now``."""

    def both(state, env, actions, row, streams, lane, lanes):
        before(state, env, actions, row, streams, lane, lanes)
        now(state, env, actions, row, streams, lane, lanes)

    return _function(of, both, name, actions_type)


def _in_turn(of: MultiAgentEnv, acting: bool, actions_type: Any) -> Any:
    """Returns all phases of a step (or of a reset) as one function."""
    what, phases = ("step", of.step) if acting else ("reset", of.reset)
    whole = _by_everyone(of, phases[0], acting, actions_type, f"{what}_0")
    for number, phase in enumerate(phases[1:], 1):
        part = _by_everyone(of, phase, acting, actions_type, f"{what}_{number}")
        whole = _then(of, whole, part, actions_type, f"{what}_to_{number}")
    return whole


def _everyone_lives(of: MultiAgentEnv) -> Any:
    def alive(state, env, agent):
        return True

    return _function(of, alive, "alive", None)


@functools.cache
def build_agents_kernel(env: MultiAgentEnv, actions_type: Any, block_dim: int) -> Any:
    """Returns the kernel that serves requests for a multi-agent environment; see `build_kernel`.

    It is launched with ``rules.lanes`` threads for each row, in blocks of ``block_dim`` (`block_for`).
    """
    reset_episode = _in_turn(env, False, actions_type)
    step_episode = _in_turn(env, True, actions_type)
    earned, finished, observe = env.reward, env.over, env.observe
    lives = env.alive or _everyone_lives(env)

    def advance(state, streams, episodes, rules, requests, actions, outcome, view, final, first, share):
        lanes = rules.lanes
        thread = wp.tid()
        lane = thread & (lanes - 1)
        begin = first + thread / lanes * share
        for served in range(begin, begin + share):
            row = served & NOT_NEGATIVE
            env_id = requests.env_id[row] & NOT_NEGATIVE
            command = requests.command[row]
            terminated = wp.bool(False)
            truncated = wp.bool(False)
            elapsed = episodes.elapsed[env_id] + 1
            starting = command != STEP or (rules.autoreset == NEXT_STEP and episodes.over[env_id])

            if command == RESEED:
                if lane == 0:
                    streams.seed[env_id] = requests.seed[row]
                for agent in range(lane, streams.num_agents, lanes):
                    streams.drawn[env_id, agent] = wp.uint32(0)
            barrier(lanes)
            if starting:
                reset_episode(state, env_id, actions, row, streams, lane, lanes)
                elapsed = wp.int32(0)
                for agent in range(lane, streams.num_agents, lanes):
                    outcome.reward[row, agent] = wp.float32(0.0)
            else:
                step_episode(state, env_id, actions, row, streams, lane, lanes)
                terminated = finished(state, env_id)
                truncated = rules.max_episode_steps > 0 and elapsed >= rules.max_episode_steps
                for turn in range(lane, streams.num_agents, lanes):
                    agent = whose_turn(turn)
                    outcome.reward[row, agent] = earned(state, env_id, agent)

            over = terminated or truncated
            if over and rules.autoreset == SAME_STEP:
                for turn in range(lane, streams.num_agents, lanes):
                    agent = whose_turn(turn)
                    observe(state, env_id, agent, final, row)
                    outcome.final_alive[row, agent] = lives(state, env_id, agent)
                if lane == 0:
                    outcome.final_elapsed_step[row] = elapsed
                barrier(lanes)
                reset_episode(state, env_id, actions, row, streams, lane, lanes)
                elapsed = wp.int32(0)
            if lane == 0:
                episodes.elapsed[env_id] = elapsed
                episodes.over[env_id] = over
                outcome.terminated[row] = terminated
                outcome.truncated[row] = truncated
                outcome.env_id[row] = env_id
                outcome.elapsed_step[row] = elapsed
            for turn in range(lane, streams.num_agents, lanes):
                agent = whose_turn(turn)
                observe(state, env_id, agent, view, row)
                outcome.alive[row, agent] = lives(state, env_id, agent)

    advance.__annotations__ = {
        "state": env.state,
        "streams": AgentStreams,
        "episodes": Episodes,
        "rules": Rules,
        "requests": Requests,
        "actions": actions_type,
        "outcome": AgentsOutcome,
        "view": env.view,
        "final": env.view,
        "first": int,
        "share": int,
    }
    advance.__name__ = advance.__qualname__ = f"advance_{env.name}"
    # launch bounds limit the registers of a thread, so that a large block fits on a multiprocessor and can start
    return wp.kernel(advance, module="unique", module_options=ROUNDING, enable_backward=False, launch_bounds=block_dim)

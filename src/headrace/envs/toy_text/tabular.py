"""Tabular problems: in every state, each action has a few outcomes of known probability.

The rules of such a problem are a Python function of state and action, which is called once for every pair
when the task is built. A step in the pool is a table look-up and, if the problem is stochastic, one random
number.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from headrace.pool.executors.kernels import KernelEnv, Streams, integers, uniform
from headrace.pool.executors.kernels.program import NOT_NEGATIVE
from headrace.pool.spec import Field

PROB = Field("prob", np.dtype(np.float32))


class Outcome(NamedTuple):
    """A possible outcome of an action."""

    probability: float
    state: int
    reward: float
    terminated: bool


Rules = Callable[[int, int], Sequence[Outcome]]
"""(state, action) → all possible outcomes; their probabilities sum to 1."""


@dataclass(frozen=True)
class Problem:
    """A problem as tables, constants and bounds of a `KernelEnv`.

    Attributes:
        tables: ``next_state`` int32, ``reward`` float32, ``terminated`` bool, ``prob`` float32 and ``until``
            float64 (the cumulative probability up to and including this outcome), each
            [states · actions · outcomes]; and ``starts`` int32[starts], the initial states.
        constants: ``num_actions``, ``num_outcomes`` (the largest number of outcomes of an action) and
            ``num_starts``.
        bounds: of ``s`` and ``chance``.
    """

    tables: Mapping[str, np.ndarray]
    constants: Mapping[str, int]
    bounds: Mapping[str, tuple[int, int]]


def tabulate(num_states: int, num_actions: int, starts: Iterable[int], rules: Rules) -> Problem:
    """Returns the tables of a problem; an episode begins in any of ``starts`` with equal probability."""
    every = [rules(state, action) for state in range(num_states) for action in range(num_actions)]
    most = max(len(outcomes) for outcomes in every)
    padded = [outcome for outcomes in every for outcome in (*outcomes, *[outcomes[-1]] * (most - len(outcomes)))]
    probability, state, reward, terminated = (np.array(column) for column in zip(*padded, strict=True))
    until = np.cumsum(probability.reshape(-1, most), axis=1)
    until[:, -1] = 1.0  # despite rounding errors
    first = np.array(list(starts), np.int32)
    tables = {
        "next_state": state.astype(np.int32),
        "reward": reward.astype(np.float32),
        "terminated": terminated.astype(np.bool_),
        "prob": probability.astype(np.float32),
        "until": until.ravel(),
        "starts": first,
    }
    constants = {"num_actions": num_actions, "num_outcomes": most, "num_starts": len(first)}
    return Problem(tables, constants, {"s": (0, num_states - 1), "chance": (0, 1)})


@wp.struct
class State:
    """The state's number, the probability of the last transition, and the problem's tables and constants."""

    s: wp.array[wp.int32]
    chance: wp.array[wp.float32]

    next_state: wp.array[wp.int32]
    reward: wp.array[wp.float32]
    terminated: wp.array[wp.bool]
    prob: wp.array[wp.float32]
    until: wp.array[wp.float64]
    starts: wp.array[wp.int32]
    num_actions: wp.int32
    num_outcomes: wp.int32
    num_starts: wp.int32


@wp.struct
class View:
    obs: wp.array[wp.int32]
    prob: wp.array[wp.float32]


@wp.func
def reset(state: Any, env: int, streams: Streams):
    start = wp.int32(0)
    if state.num_starts > 1:
        start = integers(streams, env, 0, state.num_starts)
    state.s[env] = state.starts[start]
    state.chance[env] = wp.float32(1.0)


@wp.func
def step(state: Any, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    at = (state.s[env] * state.num_actions + wp.int32(actions[row])) * state.num_outcomes & NOT_NEGATIVE
    if state.num_outcomes > 1:
        chance = uniform(streams, env, wp.float64(0.0), wp.float64(1.0))
        first = at
        for outcome in range(state.num_outcomes - 1):
            if chance >= state.until[(first + outcome) & NOT_NEGATIVE]:
                at = at + 1
    state.s[env] = state.next_state[at]
    state.chance[env] = state.prob[at]
    return state.reward[at], state.terminated[at]


@wp.func
def observe(state: Any, env: int, view: Any, row: int):
    view.obs[row] = state.s[env]
    view.prob[row] = state.chance[env]


def environment(name: str, problem: Problem, render: Callable[[Mapping[str, Any]], np.ndarray]) -> KernelEnv:
    """Returns an environment whose observation is the state's number and whose info field is ``prob``."""
    return KernelEnv(name, State, View, reset, step, observe, render, **vars(problem))

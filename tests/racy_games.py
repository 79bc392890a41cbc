"""Small environments of many agents whose agents race, each in one way, and sound ones that are alike.

The game: every agent has a number, which grows by its action; all of them have one sum.
"""

# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import AgentStreams, AgentType, Field, KernelTask, MultiAgentEnv, agent_integers

Actions = wp.array2d[wp.int64]
AGENTS = 3


@wp.struct
class State:
    x: wp.array2d[wp.int32]
    seen: wp.array2d[wp.int32]
    place: wp.array2d[wp.vec3]
    sum: wp.array[wp.int32]
    share: wp.array[wp.float32]
    ended: wp.array[wp.bool]
    num_agents: int


@wp.struct
class View:
    obs: wp.array3d[wp.float32]
    mark: wp.array[wp.int32]


@wp.func
def begin(state: State, env: int, agent: int, streams: AgentStreams):
    state.x[env, agent] = agent_integers(streams, env, agent, 0, 9)
    state.seen[env, agent] = 0
    state.place[env, agent] = wp.vec3(0.0, 0.0, 0.0)
    if agent == 0:
        state.sum[env] = 0
        state.share[env] = 0.0
        state.ended[env] = False


@wp.func
def grow(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.x[env, agent] = state.x[env, agent] + int(actions[row, agent])


@wp.func
def look(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.seen[env, agent] = state.x[env, (agent + 1) % state.num_agents]


@wp.func
def tell(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    wp.atomic_add(state.sum, env, state.x[env, agent])
    state.sum[env] -= 1
    state.sum[env] += agent


@wp.func
def reward(state: State, env: int, agent: int) -> float:
    return float(state.seen[env, agent] + state.sum[env])


@wp.func
def over(state: State, env: int) -> bool:
    return state.sum[env] > 60


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    view.obs[row, agent, 0] = float(state.x[env, agent]) + state.place[env, agent][0]
    view.obs[row, agent, 1] = state.share[env]
    if agent == 0:
        view.mark[row] = state.sum[env]


SOUND = MultiAgentEnv(
    "SoundGame",
    State,
    View,
    reset=(begin,),
    step=(grow, look, tell),
    reward=reward,
    over=over,
    observe=observe,
    shapes=dict.fromkeys(("x", "seen", "place"), ("num_agents",)),
)


# -- functions that race -------------------------------------------------------------------------


@wp.func
def grow_and_look(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.x[env, agent] = state.x[env, agent] + int(actions[row, agent])
    state.seen[env, agent] = state.x[env, (agent + 1) % state.num_agents]  # early


@wp.func
def push_the_next(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.seen[env, agent] = int(actions[row, agent])
    state.seen[env, (agent + 1) % state.num_agents] = 7  # too


@wp.func
def all_write_the_same(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.sum[env] = 5


@wp.func
def sum_and_read(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    wp.atomic_add(state.sum, env, 1)
    state.seen[env, agent] = state.sum[env]  # so far


@wp.func
def read_and_sum(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    if state.sum[env] < 100:
        state.sum[env] += 1


@wp.func
def sum_and_overwrite(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    wp.atomic_add(state.sum, env, 1)
    if agent == state.num_agents - 1:
        state.sum[env] = 0


@wp.func
def sum_and_double(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.sum[env] *= 2  # no atomic function


@wp.func
def add_and_raise(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    if agent == 0:
        wp.atomic_add(state.sum, env, 3)
    else:
        wp.atomic_max(state.sum, env, 5)


@wp.func
def first_of(places: wp.array[wp.vec3]) -> float:
    return wp.length(places[0])


@wp.func
def move_and_measure(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.place[env, agent][1] = float(agent)
    state.seen[env, agent] = int(first_of(state.place[env]))


@wp.func
def draw_from_the_first(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.seen[env, agent] = agent_integers(streams, env, 0, 0, 9)


@wp.func
def begin_on_a_sum(state: State, env: int, agent: int, streams: AgentStreams):
    begin(state, env, agent, streams)
    state.x[env, agent] = state.sum[env]


@wp.func
def observe_for_others(state: State, env: int, agent: int, view: View, row: int):
    view.obs[row, (agent + 1) % state.num_agents, 0] = 1.0
    view.obs[row, agent, 0] = 2.0
    view.obs[row, agent, 1] = 0.0
    if agent == 0:
        view.mark[row] = 0


@wp.func
def all_tell_the_mark(state: State, env: int, agent: int, view: View, row: int):
    view.obs[row, agent, 0] = 0.0
    view.obs[row, agent, 1] = 0.0
    view.mark[row] = state.sum[env]


@wp.func
def reward_and_forget(state: State, env: int, agent: int) -> float:
    earned = float(state.x[env, agent])
    state.x[env, agent] = 0  # earned once
    return earned


@wp.func
def over_by_the_largest(state: State, env: int) -> bool:
    most = int(0)
    for agent in range(state.num_agents):
        most = wp.max(most, state.x[env, agent])
    return most > 50


@wp.func
def over_and_noted(state: State, env: int) -> bool:
    state.ended[env] = state.sum[env] > 60
    return state.ended[env]


# -- functions that do not, but whose results depend on the order --------------------------------


@wp.func
def take_a_number(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.seen[env, agent] = wp.atomic_add(state.sum, env, 1)


@wp.func
def add_fractions(state: State, env: int, agent: int, actions: Actions, row: int, streams: AgentStreams):
    state.share[env] += 1.0 / float(3 + 7 * agent + state.x[env, agent])


# -- what is registered --------------------------------------------------------------------------

STEP = SOUND.step
RACES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    # what is changed; what the message says; the texts of the lines that it names
    "WriteAfterRead": (
        {"step": (grow_and_look, tell)},
        r"agent 1 writes state.x\[\d, 1\], which agent 0 reads, in the same phase, grow_and_look of step",
        ("state.x[env, agent] = state.x[env, agent] + int(actions[row, agent])", "# early"),
    ),
    "WriteWrite": (
        {"step": (grow, push_the_next)},
        r"agent 1 writes state.seen\[\d, 1\], which agent 0 writes, in the same phase, push_the_next of step",
        ("state.seen[env, agent] = int(actions[row, agent])", "= 7  # too"),
    ),
    "SameValue": (
        {"step": (all_write_the_same,)},
        r"agent 1 writes state.sum\[\d\], which agent 0 writes, in the same phase",
        ("state.sum[env] = 5",),
    ),
    "AtomicThenRead": (
        {"step": (sum_and_read,)},
        r"agent 1 changes \(atomic add\) state.sum\[\d\], which agent 0 reads",
        ("wp.atomic_add(state.sum, env, 1)", "# so far"),
    ),
    "ReadThenAtomic": (
        {"step": (read_and_sum,)},
        r"agent 1 reads state.sum\[\d\], which agent 0 changes \(atomic add\)",
        ("if state.sum[env] < 100:", "state.sum[env] += 1"),
    ),
    "AtomicAndWrite": (
        {"step": (sum_and_overwrite,)},
        r"agent 2 writes state.sum\[\d\], which agent 0 changes",
        ("state.sum[env] = 0",),
    ),
    "TwoAtomics": (
        {"step": (add_and_raise,)},
        r"agent 1 changes \(atomic max\) state.sum\[\d\], which agent 0 changes \(atomic add\)",
        ("wp.atomic_max(state.sum, env, 5)", "wp.atomic_add(state.sum, env, 3)"),
    ),
    "NotAtomic": ({"step": (sum_and_double,)}, r"agent 1 reads state.sum\[\d\], which agent 0 writes", ("*= 2",)),
    "Component": (
        {"step": (move_and_measure,)},
        r"agent 1 reads state.place\[\d, 0\]\[1\], which agent 0 writes",
        ("return wp.length(places[0])", "state.place[env, agent][1] = float(agent)"),
    ),
    "Streams": (
        {"step": (draw_from_the_first,)},
        r"agent 1 reads streams.drawn\[\d, 0\], which agent 0 writes",
        ("agent_integers(streams, env, 0, 0, 9)",),
    ),
    "Reset": (
        {"reset": (begin_on_a_sum,)},
        r"agent 1 reads state.sum\[\d\], which agent 0 writes, in the same phase, begin_on_a_sum of reset",
        ("state.x[env, agent] = state.sum[env]", "state.sum[env] = 0"),
    ),
    "Result": (
        {"observe": observe_for_others},
        r"agent 1 writes view.obs\[\d, 1, 0\], which agent 0 writes, in the same phase, observe",
        ("view.obs[row, (agent + 1) % state.num_agents, 0] = 1.0", "= 2.0"),
    ),
    "Info": (
        {"observe": all_tell_the_mark},
        r"agent 1 writes view.mark\[\d\], which agent 0 writes",
        ("view.mark[row] = state.sum[env]",),
    ),
    "RewardWrites": (
        {"reward": reward_and_forget, "over": over_by_the_largest},
        r"agent 0 writes state.x\[\d, 0\], which every agent reads, and no barrier separates over_by_the_largest"
        r" from reward_and_forget",
        ("# earned once", "most = wp.max(most, state.x[env, agent])"),
    ),
    "OverWrites": (
        {"over": over_and_noted},
        r"over_and_noted is computed by the threads of all agents, so it may only read, but state.ended\[\d\] is",
        ("state.ended[env] = state.sum[env] > 60",),
    ),
}
ORDER: dict[str, dict[str, Any]] = {
    "TakesANumber": {"step": (grow, take_a_number)},
    "AddsFractions": {"step": (grow, add_fractions)},
}


def _register(name: str, changes: dict[str, Any]) -> None:
    seen = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    player = AgentType("player", AGENTS, seen, gym.spaces.Discrete(3))
    mark = Field("mark", np.dtype(np.int32))
    env = replace(SOUND, name=name, **changes)
    headrace.register(name, KernelTask(env, agents=(player,), info=(mark,), max_episode_steps=20), replace=True)


for _name, _changes in {"SoundGame": {}, **{n: race[0] for n, race in RACES.items()}, **ORDER}.items():
    _register(_name, _changes)

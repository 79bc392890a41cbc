"""Environments for tests that forbid actions, differently in every step: who takes one all the same earns -10.

One choice, two at once, and agents of several types, some with continuous actions, who may leave the game.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import (
    AgentStreams,
    AgentType,
    Field,
    KernelEnv,
    KernelTask,
    MultiAgentEnv,
    Option,
    Streams,
    agent_integers,
    integers,
)

CRIME = -10.0
MASK = "action_mask"


@wp.func
def is_set(bits: int, place: int) -> bool:
    return (bits >> place) % 2 == 1


@wp.func
def next_set(bits: int, first: int, count: int) -> int:
    """The first bit that is set of so many, from some place on."""
    place = int(first)
    while not is_set(bits, place):
        place = (place + 1) % count
    return place


# -- the gate: one of five ways, some of them closed; one that is open is worth something ---------------------

WAYS = 5


@wp.struct
class GateState:
    open: wp.array[wp.int32]  # bits
    wanted: wp.array[wp.int32]
    ways: int


@wp.struct
class GateView:
    obs: wp.array2d[wp.float32]
    action_mask: wp.array2d[wp.bool]


@wp.func
def gate_begin(state: GateState, env: int, streams: Streams):
    state.open[env] = integers(streams, env, 1, 1 << state.ways)
    state.wanted[env] = next_set(state.open[env], integers(streams, env, 0, state.ways), state.ways)


@wp.func
def gate_step(state: GateState, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    way = int(actions[row]) - 1
    reward = wp.where(way == state.wanted[env], 1.0, 0.0)
    crime = not is_set(state.open[env], way)
    if crime:
        reward = -10.0
    gate_begin(state, env, streams)
    return reward, crime or integers(streams, env, 0, 8) == 0


@wp.func
def gate_observe(state: GateState, env: int, view: GateView, row: int):
    for way in range(state.ways):
        view.obs[row, way] = wp.where(way == state.wanted[env], 1.0, 0.0)
        view.action_mask[row, way] = is_set(state.open[env], way)


def gate_picture(state):
    frame = np.zeros((8, 8 * WAYS, 3), np.uint8)
    frame[:, 8 * int(state["wanted"]) :][:, :8] = 255
    return frame


GATE = KernelEnv(
    "Gate", GateState, GateView, gate_begin, gate_step, gate_observe, gate_picture, constants={"ways": WAYS}
)
SEEN = gym.spaces.Box(0.0, 1.0, (WAYS,), np.float32)
MASKS = Field(MASK, np.dtype(np.bool_), (WAYS,))
headrace.register(
    "TestGate-v0",
    KernelTask(GATE, SEEN, gym.spaces.Discrete(WAYS, start=1), (MASKS,), max_episode_steps=10),
    replace=True,
)
headrace.register("TestNarrowMask-v0", KernelTask(GATE, SEEN, gym.spaces.Discrete(WAYS + 1), (MASKS,)), replace=True)

# -- the lock: two dials at once, of three and of four places ------------------------------------------------


@wp.struct
class LockView:
    obs: wp.array2d[wp.float32]
    action_mask: wp.array2d[wp.int8]


@wp.func
def lock_begin(state: GateState, env: int, streams: Streams):
    state.open[env] = integers(streams, env, 1, 8) + 8 * integers(streams, env, 1, 16)
    state.wanted[env] = next_set(state.open[env] / 8, integers(streams, env, 0, 4), 4)


@wp.func
def lock_step(state: GateState, env: int, actions: wp.array2d[wp.int64], row: int, streams: Streams):
    first, second = int(actions[row, 0]), int(actions[row, 1]) - 2
    reward = wp.where(second == state.wanted[env], 1.0, 0.0)
    crime = not is_set(state.open[env], first) or not is_set(state.open[env], 3 + second)
    if crime:
        reward = -10.0
    lock_begin(state, env, streams)
    return reward, crime or integers(streams, env, 0, 8) == 0


@wp.func
def lock_observe(state: GateState, env: int, view: LockView, row: int):
    view.obs[row, 0] = float(state.wanted[env])
    for place in range(state.ways):
        view.action_mask[row, place] = wp.int8(wp.where(is_set(state.open[env], place), 1, 0))


LOCK = KernelEnv("Lock", GateState, LockView, lock_begin, lock_step, lock_observe, constants={"ways": 7})
headrace.register(
    "TestLock-v0",
    KernelTask(
        LOCK,
        gym.spaces.Box(0.0, 3.0, (1,), np.float32),
        gym.spaces.MultiDiscrete([3, 4], start=[0, 2]),
        (Field(MASK, np.dtype(np.int8), (7,)),),
        max_episode_steps=10,
    ),
    replace=True,
)

# -- the zoo: cats have five ways, mice two switches, a bird flies as it likes; the dead are allowed nothing ---

CATS, MICE = wp.constant(3), wp.constant(2)


@wp.struct
class ZooState:
    open: wp.array2d[wp.int32]
    earned: wp.array2d[wp.float32]
    lives: wp.array2d[wp.bool]
    num_agents: int


@wp.struct
class ZooView:
    obs: wp.array3d[wp.float32]
    action_mask: wp.array3d[wp.int8]


@wp.struct
class ZooActions:
    cat: wp.array2d[wp.int64]
    mouse: wp.array3d[wp.int64]
    bird: wp.array3d[wp.float32]


@wp.func
def zoo_choices(state: ZooState, env: int, agent: int, streams: AgentStreams):
    state.open[env, agent] = agent_integers(streams, env, agent, 1, 32)
    if agent >= CATS:
        first = agent_integers(streams, env, agent, 1, 4)
        state.open[env, agent] = first + 4 * agent_integers(streams, env, agent, 1, 4)
    if agent >= CATS + MICE:
        state.open[env, agent] = 0


@wp.func
def zoo_begin(state: ZooState, env: int, agent: int, streams: AgentStreams):
    state.earned[env, agent] = 0.0
    state.lives[env, agent] = True
    zoo_choices(state, env, agent, streams)


@wp.func
def zoo_act(state: ZooState, env: int, agent: int, actions: ZooActions, row: int, streams: AgentStreams):
    bits, earned = state.open[env, agent], float(0.0)
    if state.lives[env, agent]:
        if agent < CATS:
            way = int(actions.cat[row, agent])
            earned = wp.where(is_set(bits, way), float(way), -10.0)
        elif agent < CATS + MICE:
            one, two = int(actions.mouse[row, agent - CATS, 0]), int(actions.mouse[row, agent - CATS, 1])
            earned = wp.where(is_set(bits, one) and is_set(bits, 2 + two), float(one + two), -10.0)
        else:
            earned = actions.bird[row, 0, 0]
    state.earned[env, agent] = earned
    zoo_choices(state, env, agent, streams)
    if agent_integers(streams, env, agent, 0, 8) == 0:
        state.lives[env, agent] = False


@wp.func
def zoo_reward(state: ZooState, env: int, agent: int) -> float:
    return state.earned[env, agent]


@wp.func
def zoo_over(state: ZooState, env: int) -> bool:
    return not state.lives[env, 0] and not state.lives[env, 1]


@wp.func
def zoo_observe(state: ZooState, env: int, agent: int, view: ZooView, row: int):
    for way in range(5):
        free = is_set(state.open[env, agent], way)
        view.obs[row, agent, way] = wp.where(free, 1.0, 0.0)
        view.action_mask[row, agent, way] = wp.int8(wp.where(free and state.lives[env, agent], 1, 0))


@wp.func
def zoo_alive(state: ZooState, env: int, agent: int) -> bool:
    return state.lives[env, agent]


ZOO = MultiAgentEnv(
    "Zoo",
    ZooState,
    ZooView,
    reset=(zoo_begin,),
    step=(zoo_act,),
    reward=zoo_reward,
    over=zoo_over,
    observe=zoo_observe,
    alive=zoo_alive,
    actions=ZooActions,
    shapes=dict.fromkeys(("open", "earned", "lives"), ("num_agents",)),
)
ANIMALS = (
    AgentType("cat", 3, SEEN, gym.spaces.Discrete(5)),
    AgentType("mouse", 2, SEEN, gym.spaces.MultiDiscrete([2, 2])),
    AgentType("bird", 1, SEEN, gym.spaces.Box(-1.0, 1.0, (1,), np.float32)),
)
headrace.register(
    "TestZoo-v0",
    KernelTask(
        ZOO, agents=ANIMALS, info=(Field(MASK, np.dtype(np.int8), (6, 5), per_agent=True),), max_episode_steps=9
    ),
    replace=True,
)

# -- a mask of continuous actions, which means nothing -------------------------------------------------------


@wp.struct
class DriftState:
    x: wp.array[wp.float32]
    limit: float


@wp.func
def drift_begin(state: DriftState, env: int, streams: Streams):
    state.x[env] = 0.0


@wp.func
def drift_step(state: DriftState, env: int, actions: wp.array2d[wp.float32], row: int, streams: Streams):
    state.x[env] = state.x[env] + actions[row, 0]
    return -wp.abs(state.x[env]), wp.abs(state.x[env]) > state.limit


@wp.func
def drift_observe(state: DriftState, env: int, view: GateView, row: int):
    view.obs[row, 0] = state.x[env]
    view.action_mask[row, 0] = False


DRIFT = KernelEnv("Drift", DriftState, GateView, drift_begin, drift_step, drift_observe)
headrace.register(
    "TestMaskedDrift-v0",
    KernelTask(
        DRIFT,
        gym.spaces.Box(-np.inf, np.inf, (1,), np.float32),
        gym.spaces.Box(-1.0, 1.0, (1,), np.float32),
        (Field(MASK, np.dtype(np.bool_), (1,)),),
        options={"limit": Option(3.0)},
        max_episode_steps=10,
    ),
    replace=True,
)

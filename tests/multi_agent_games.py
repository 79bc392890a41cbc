"""Environments of many agents for tests.

Equal agents that die, agents of two types with different spaces, dicts as spaces, and two who play against each other.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.pool.executors.kernels import AgentStreams, KernelTask, MultiAgentEnv, Option, agent_integers
from headrace.pool.spec import AgentType, Field

# -- the ring: each hands coins to the next, all at once; who has none left is out ---------------------------


@wp.struct
class RingState:
    coins: wp.array2d[wp.int32]
    handed: wp.array2d[wp.int32]
    luck: wp.array2d[wp.int32]
    lives: wp.array2d[wp.bool]
    living: wp.array[wp.int32]
    num_agents: int
    start: int


@wp.struct
class RingView:
    obs: wp.array3d[wp.float32]
    luck: wp.array2d[wp.int32]
    living: wp.array[wp.int32]


@wp.func
def ring_begin(state: RingState, env: int, agent: int, streams: AgentStreams):
    state.coins[env, agent] = state.start + agent_integers(streams, env, agent, 0, 3)
    state.handed[env, agent] = 0
    state.luck[env, agent] = 0
    state.lives[env, agent] = True
    if agent == 0:
        state.living[env] = state.num_agents


@wp.func
def ring_hand(state: RingState, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    handed = int(0)
    if state.lives[env, agent]:
        state.luck[env, agent] = agent_integers(streams, env, agent, 0, 3)
        handed = wp.min(int(actions[row, agent]), state.coins[env, agent])
    state.coins[env, agent] = state.coins[env, agent] - handed
    state.handed[env, agent] = handed


@wp.func
def ring_take(state: RingState, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if state.lives[env, agent]:
        last = (agent + state.num_agents - 1) % state.num_agents
        coins = state.coins[env, agent] + state.handed[env, last] - 1  # each step costs one
        if state.luck[env, agent] == 2:
            coins = coins + 1
        state.coins[env, agent] = coins
        if coins <= 0:
            state.lives[env, agent] = False
            wp.atomic_sub(state.living, env, 1)


@wp.func
def ring_reward(state: RingState, env: int, agent: int) -> float:
    return float(state.handed[env, agent]) + 100.0 * float(state.living[env])


@wp.func
def ring_over(state: RingState, env: int) -> bool:
    return state.living[env] <= 1


@wp.func
def ring_observe(state: RingState, env: int, agent: int, view: RingView, row: int):
    last = (agent + state.num_agents - 1) % state.num_agents
    view.obs[row, agent, 0] = float(state.coins[env, agent])
    view.obs[row, agent, 1] = float(state.coins[env, last])
    view.luck[row, agent] = state.luck[env, agent]
    if agent == 0:
        view.living[row] = state.living[env]


@wp.func
def ring_alive(state: RingState, env: int, agent: int) -> bool:
    return state.lives[env, agent]


def ring_picture(state):
    frame = np.zeros((8, 8 * state["num_agents"], 3), np.uint8)
    for agent, lives in enumerate(state["lives"]):
        frame[:, 8 * agent : 8 * agent + 7] = (40, 200, 80) if lives else (90, 90, 90)
    return frame


RING = MultiAgentEnv(
    "Ring",
    RingState,
    RingView,
    reset=(ring_begin,),
    step=(ring_hand, ring_take),
    reward=ring_reward,
    over=ring_over,
    observe=ring_observe,
    alive=ring_alive,
    render=ring_picture,
    shapes=dict.fromkeys(("coins", "handed", "luck", "lives"), ("num_agents",)),
)


def ring_agents(options):
    coins = gym.spaces.Box(-1.0, np.inf, (2,), np.float32)
    return (AgentType("player", options["players"], coins, gym.spaces.Discrete(4)),)


def ring_info(options):
    return (
        Field("luck", np.dtype(np.int32), (options["players"],), per_agent=True),
        Field("living", np.dtype(np.int32)),
    )


RING_TASK = KernelTask(
    RING,
    agents=ring_agents,
    info=ring_info,
    options={"players": Option(5, 1, 4096), "start": Option(4)},
    max_episode_steps=30,
)


class RingReference:
    """A game of the ring in plain NumPy, everybody at once."""

    def __init__(self, coins):
        self.coins = coins.astype(int)
        self.lives = np.ones(len(coins), bool)

    def step(self, actions, luck):
        handed = np.where(self.lives, np.minimum(actions, self.coins), 0)
        self.coins = self.coins - handed + np.where(self.lives, np.roll(handed, 1) - 1 + (luck == 2), 0)
        self.lives = self.lives & (self.coins > 0)
        return handed + 100.0 * self.lives.sum(), self.lives.sum() <= 1


# -- the hunt: archers and a dog, whose spaces differ -------------------------------------------------------

NUM_ARCHERS = wp.constant(3)


@wp.struct
class HuntState:
    aim: wp.array2d[wp.int32]
    lives: wp.array2d[wp.bool]
    heard: wp.array2d[wp.int32]
    steps: wp.array[wp.int32]
    num_agents: int
    limit: int


@wp.struct
class HuntView:
    obs_archer: wp.array3d[wp.float32]
    obs_dog: wp.array2d[wp.int64]


@wp.struct
class HuntActions:
    archer: wp.array3d[wp.float32]
    dog: wp.array3d[wp.int64]


@wp.func
def hunt_begin(state: HuntState, env: int, agent: int, streams: AgentStreams):
    state.aim[env, agent] = agent_integers(streams, env, agent, 0, 10)
    state.lives[env, agent] = True
    state.heard[env, agent] = 0
    if agent == 0:
        state.steps[env] = 0


@wp.func
def hunt_act(state: HuntState, env: int, agent: int, actions: HuntActions, row: int, streams: AgentStreams):
    state.heard[env, agent] = 0
    if state.lives[env, agent] and agent < NUM_ARCHERS:
        turn = wp.clamp(actions.archer[row, agent, 0] - actions.archer[row, agent, 1], -3.0, 3.0)
        state.aim[env, agent] = state.aim[env, agent] + int(turn)
    if state.lives[env, agent] and agent >= NUM_ARCHERS:
        dog = agent - NUM_ARCHERS
        state.aim[env, agent] = 10 * int(actions.dog[row, dog, 0]) + int(actions.dog[row, dog, 1])
    if agent == 0:
        state.steps[env] = state.steps[env] + 1


@wp.func
def hunt_listen(state: HuntState, env: int, agent: int, actions: HuntActions, row: int, streams: AgentStreams):
    for other in range(state.num_agents):
        if other != agent:
            state.heard[env, agent] = state.heard[env, agent] + state.aim[env, other]
    if agent_integers(streams, env, agent, 0, 8) == 0 and agent > 0:
        state.lives[env, agent] = False


@wp.func
def hunt_reward(state: HuntState, env: int, agent: int) -> float:
    return float(state.heard[env, agent])


@wp.func
def hunt_over(state: HuntState, env: int) -> bool:
    return state.steps[env] >= state.limit


@wp.func
def hunt_observe(state: HuntState, env: int, agent: int, view: HuntView, row: int):
    if agent < NUM_ARCHERS:
        view.obs_archer[row, agent, 0] = float(state.aim[env, agent])
        view.obs_archer[row, agent, 1] = float(state.heard[env, agent])
        view.obs_archer[row, agent, 2] = float(agent)
    else:
        view.obs_dog[row, agent - NUM_ARCHERS] = wp.int64(state.aim[env, agent])


@wp.func
def hunt_alive(state: HuntState, env: int, agent: int) -> bool:
    return state.lives[env, agent]


HUNT = MultiAgentEnv(
    "Hunt",
    HuntState,
    HuntView,
    reset=(hunt_begin,),
    step=(hunt_act, hunt_listen),
    reward=hunt_reward,
    over=hunt_over,
    observe=hunt_observe,
    alive=hunt_alive,
    actions=HuntActions,
    shapes=dict.fromkeys(("aim", "lives", "heard"), ("num_agents",)),
)
ARCHER = AgentType(
    "archer", 3, gym.spaces.Box(-np.inf, np.inf, (3,), np.float32), gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
)
DOG = AgentType("dog", 2, gym.spaces.Discrete(100), gym.spaces.MultiDiscrete([3, 10]))
HUNT_TASK = KernelTask(HUNT, agents=(ARCHER, DOG), options={"limit": Option(9, 1)}, max_episode_steps=12)

headrace.register("TestRing-v0", RING_TASK, replace=True)
headrace.register("TestHunt-v0", HUNT_TASK, replace=True)

# -- the duel: equal agents whose observations and actions are dicts ----------------------------------------


@wp.struct
class DuelState:
    hurt: wp.array2d[wp.int32]
    guard: wp.array2d[wp.bool]
    num_agents: int


@wp.struct
class DuelView:
    obs_own: wp.array2d[wp.int64]
    obs_all: wp.array3d[wp.float32]


@wp.struct
class DuelActions:
    strike: wp.array2d[wp.int64]
    guard: wp.array2d[wp.int64]


@wp.func
def duel_begin(state: DuelState, env: int, agent: int, streams: AgentStreams):
    state.hurt[env, agent] = agent_integers(streams, env, agent, 0, 2)


@wp.func
def duel_guard(state: DuelState, env: int, agent: int, actions: DuelActions, row: int, streams: AgentStreams):
    state.guard[env, agent] = actions.guard[row, agent] == wp.int64(1)


@wp.func
def duel_strike(state: DuelState, env: int, agent: int, actions: DuelActions, row: int, streams: AgentStreams):
    other = int(actions.strike[row, agent]) - 1  # numbered from 1; oneself is nobody
    if other != agent and not state.guard[env, other] and not state.guard[env, agent]:
        wp.atomic_add(state.hurt, env, other, 1)


@wp.func
def duel_reward(state: DuelState, env: int, agent: int) -> float:
    return -float(state.hurt[env, agent])


@wp.func
def duel_over(state: DuelState, env: int) -> bool:
    over = bool(False)
    for agent in range(state.num_agents):
        over = over or state.hurt[env, agent] >= 9
    return over


@wp.func
def duel_observe(state: DuelState, env: int, agent: int, view: DuelView, row: int):
    view.obs_own[row, agent] = wp.int64(state.hurt[env, agent])
    for other in range(state.num_agents):
        view.obs_all[row, agent, other] = float(state.hurt[env, other])


DUEL = MultiAgentEnv(
    "Duel",
    DuelState,
    DuelView,
    reset=(duel_begin,),
    step=(duel_guard, duel_strike),
    reward=duel_reward,
    over=duel_over,
    observe=duel_observe,
    actions=DuelActions,
    shapes={"hurt": ("num_agents",), "guard": ("num_agents",)},
)
FENCER = AgentType(
    "fencer",
    3,
    gym.spaces.Dict(own=gym.spaces.Discrete(20), all=gym.spaces.Box(0.0, 20.0, (3,), np.float32)),
    gym.spaces.Dict(strike=gym.spaces.Discrete(3, start=1), guard=gym.spaces.Discrete(2)),
)
DUEL_TASK = KernelTask(DUEL, agents=(FENCER,), max_episode_steps=40)
headrace.register("TestDuel-v0", DUEL_TASK, replace=True)

# -- the dash: two on a line, and whoever alone stands on the coin first has won from the other --------------


@wp.struct
class DashState:
    cell: wp.array2d[wp.int32]
    coin: wp.array[wp.int32]
    length: int


@wp.struct
class DashView:
    obs: wp.array3d[wp.float32]


@wp.func
def dash_begin(state: DashState, env: int, agent: int, streams: AgentStreams):
    state.cell[env, agent] = agent_integers(streams, env, agent, 0, state.length)
    if agent == 0:
        state.coin[env] = agent_integers(streams, env, agent, 0, state.length)


@wp.func
def dash_run(state: DashState, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    cell = state.cell[env, agent] + int(actions[row, agent]) - 1
    state.cell[env, agent] = wp.clamp(cell, 0, state.length - 1)


@wp.func
def dash_reward(state: DashState, env: int, agent: int) -> float:
    own, other = state.cell[env, agent] == state.coin[env], state.cell[env, 1 - agent] == state.coin[env]
    return float(int(own)) - float(int(other))


@wp.func
def dash_over(state: DashState, env: int) -> bool:
    return state.cell[env, 0] == state.coin[env] or state.cell[env, 1] == state.coin[env]


@wp.func
def dash_observe(state: DashState, env: int, agent: int, view: DashView, row: int):
    view.obs[row, agent, 0] = float(state.coin[env] - state.cell[env, agent])
    view.obs[row, agent, 1] = float(state.coin[env] - state.cell[env, 1 - agent])


DASH = MultiAgentEnv(
    "Dash",
    DashState,
    DashView,
    reset=(dash_begin,),
    step=(dash_run,),
    reward=dash_reward,
    over=dash_over,
    observe=dash_observe,
    shapes={"cell": ("num_agents",)},
)
RUNNER = AgentType("runner", 2, gym.spaces.Box(-99.0, 99.0, (2,), np.float32), gym.spaces.Discrete(3))
headrace.register(
    "TestDash-v0",
    KernelTask(DASH, agents=(RUNNER,), options={"length": Option(9, 2)}, max_episode_steps=20),
    replace=True,
)

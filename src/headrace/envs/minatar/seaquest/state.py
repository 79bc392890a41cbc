"""The state of Seaquest, and how an episode begins."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minatar.common import LAST, LAST_ACTIONS, NONE, SIZE
from headrace.envs.minatar.seaquest.swimmers import DEEPEST, SWIMS, Divers, Enemies
from headrace.pool.executors.kernels import Streams

START = wp.constant(5)
FULL_AIR = wp.constant(200)
MOST_RESCUED = wp.constant(6)
SPAWN_INTERVAL = wp.constant(20)
DIVER_INTERVAL = wp.constant(30)
MOVE_INTERVAL = wp.constant(5)
FASTEST_MOVE = wp.constant(2)
RELOAD = wp.constant(5)
BULLET_INTERVAL = wp.constant(10)

Rows = wp.types.vector(SIZE, wp.int32)


@wp.struct
class State:
    """The state of the game; shots and bullets are ten rows of bits for each direction, and times are in steps.

    ``player`` is the place of the front of the submarine, which looks to the right if ``rightward``. ``enemies`` are
    fish and hostile submarines. ``rescued`` is negative where divers are owed. ``at_surface`` is whether the player
    has surfaced and not dived since. ``ramps`` counts how often the game became harder.
    """

    player: wp.array[wp.vec2i]
    rightward: wp.array[wp.bool]
    air: wp.array[wp.int32]
    rescued: wp.array[wp.int32]
    at_surface: wp.array[wp.bool]
    shots_left: wp.array[Rows]
    shots_right: wp.array[Rows]
    bullets_left: wp.array[Rows]
    bullets_right: wp.array[Rows]
    enemies: wp.array[Enemies]
    divers: wp.array[Divers]
    spawn_interval: wp.array[wp.int32]
    spawn_in: wp.array[wp.int32]
    diver_in: wp.array[wp.int32]
    move_interval: wp.array[wp.int32]
    reload: wp.array[wp.int32]
    ramps: wp.array[wp.int32]
    last_action: wp.array[wp.int32]
    action_set: wp.array[wp.int32]
    sticky_action_prob: wp.float64
    difficulty_ramping: wp.bool


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.player[env] = wp.vec2i(START, 0)
    state.rightward[env] = False
    state.air[env] = FULL_AIR
    state.rescued[env] = 0
    state.at_surface[env] = True
    state.shots_left[env] = Rows()
    state.shots_right[env] = Rows()
    state.bullets_left[env] = Rows()
    state.bullets_right[env] = Rows()
    state.enemies[env] = Enemies()
    state.divers[env] = Divers()
    state.spawn_interval[env] = SPAWN_INTERVAL
    state.spawn_in[env] = SPAWN_INTERVAL
    state.diver_in[env] = DIVER_INTERVAL
    state.move_interval[env] = MOVE_INTERVAL
    state.reload[env] = 0
    state.ramps[env] = 0
    state.last_action[env] = NONE


FULL_ROW = (1 << SIZE) - 1
BOUNDS = {
    "player": ((0, 0), (LAST, DEEPEST)),
    "air": (-1, FULL_AIR),
    "rescued": (-(1 << 30), MOST_RESCUED),
    **dict.fromkeys(("shots_left", "shots_right", "bullets_left", "bullets_right"), (0, FULL_ROW)),
    **dict.fromkeys(("enemies", "divers"), (0, 2 * SWIMS - 1)),
    **dict.fromkeys(("spawn_interval", "spawn_in"), (0, SPAWN_INTERVAL)),
    "diver_in": (0, DIVER_INTERVAL),
    "move_interval": (0, MOVE_INTERVAL),
    "reload": (0, RELOAD),
    "ramps": (0, SPAWN_INTERVAL),
    "last_action": LAST_ACTIONS,
}

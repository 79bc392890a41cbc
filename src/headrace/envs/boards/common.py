"""What games for two players who move by turns share.

Both players are agents of one type, of which the first moves first. Each step is a move of the player whose turn it is;
the other one waits, with a single allowed action that has no effect. A player observes planes of the board as it sees
them, its own pieces first; the last plane is 1 if it is to move. A win earns 1, a loss -1, a draw 0. A move that is not
allowed loses the game.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import Canvas, Color
from headrace.pool.executors.kernels import AgentStreams, KernelTask, MultiAgentEnv
from headrace.pool.spec import AgentType, Field

PLAYERS = 2
GREEN: Color = (42, 120, 78)
WOOD: Color = (222, 184, 120)
LINE: Color = (60, 50, 40)
PIECES: tuple[Color, Color] = ((30, 30, 34), (240, 240, 236))
CELL = 48  # pixels


@wp.struct
class View:
    """``obs`` uint8[rows, 2, planes, cells] and ``action_mask`` bool[rows, 2, actions]."""

    obs: wp.array4d[wp.uint8]
    action_mask: wp.array3d[wp.bool]


@wp.func
def begin(state: Any, env: int, agent: int):
    """Begins a game: the first player is to move."""
    state.result[env, agent] = 0.0
    if agent == 0:
        state.mover[env] = 0
        state.illegal[env] = False
        state.finished[env] = False


@wp.func
def end(state: Any, env: int, agent: int, finished: wp.bool, score: float):
    """Notes whether a move has ended the game, with what score for the player who made it."""
    mine = wp.where(state.illegal[env], -1.0, wp.where(finished, score, 0.0))
    state.result[env, agent] = wp.where(agent == state.mover[env], mine, -mine)
    if agent == 0:
        state.finished[env] = finished or state.illegal[env]


@wp.func
def show_turn(state: Any, env: int, agent: int, view: View, row: int, plane: int):
    """Writes the plane that says whether the player is to move."""
    turn = wp.uint8(wp.where(state.mover[env] == agent and not state.finished[env], 1, 0))
    for cell in range(view.obs.shape[3]):
        view.obs[row, agent, plane, cell] = turn


def two_player_task(
    name: str,
    state: Any,
    place: Callable[..., Any],
    functions: Mapping[str, Any],
    observation: gym.spaces.Box,
    actions: int,
    view: Any = View,
    options: Mapping[str, Any] | None = None,
    **details: Any,
) -> KernelTask:
    """Returns the task of a game.

    Args:
        name: the compiled kernel's name.
        state: its struct, with ``mover``, ``illegal``, ``finished`` [envs] and ``result`` [envs, 2].
        place: the phase in which the player whose turn it is moves.
        functions: ``reset`` (phases), ``judge`` (a phase), ``observe`` and ``render``, as in `MultiAgentEnv`; and
            ``turn``, a phase that says who moves next, if that is not always the other player.
        observation: space of a player's observation.
        actions: their number.
        view: a `warp.struct` with ``obs`` and ``action_mask``.
        options: the task's, as in `KernelTask`.
        details: further arguments of `MultiAgentEnv`.
    """

    @wp.func
    def turn(state: state, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
        if agent == 0:
            state.mover[env] = 1 - state.mover[env]

    @wp.func
    def reward(state: state, env: int, agent: int) -> float:
        return state.result[env, agent]

    @wp.func
    def over(state: state, env: int) -> bool:
        return state.finished[env]

    env = MultiAgentEnv(
        name,
        state,
        view,
        reset=functions["reset"],
        step=(place, functions["judge"], functions.get("turn", turn)),
        reward=reward,
        over=over,
        observe=functions["observe"],
        render=functions["render"],
        **details,
    )
    player = AgentType("player", PLAYERS, observation, gym.spaces.Discrete(actions))
    mask = Field("action_mask", np.dtype(np.bool_), (PLAYERS, actions), per_agent=True)
    return KernelTask(env, agents=(player,), info=(mask,), options=options or {}, render_fps=2)


def planes(number: int, rows: int, columns: int) -> gym.spaces.Box:
    """Returns the space of observations of a board, uint8[number, rows, columns]."""
    return gym.spaces.Box(0, 1, (number, rows, columns), np.uint8)


def draw_board(owner: np.ndarray, color: Color = WOOD, pieces: tuple[Color, Color] = PIECES) -> np.ndarray:
    """Returns a frame of a board, uint8[height, width, 3].

    Args:
        owner: int[rows, columns]: whose piece is on each cell, 0 or 1; -1 for nobody's.
    """
    rows, columns = owner.shape
    canvas = Canvas(columns * CELL, rows * CELL, color)
    for x in range(1, columns):
        canvas.line([(x * CELL, 0), (x * CELL, rows * CELL)], LINE)
    for y in range(1, rows):
        canvas.line([(0, y * CELL), (columns * CELL, y * CELL)], LINE)
    for y, x in np.argwhere(owner >= 0):
        canvas.circle(((x + 0.5) * CELL, (rows - y - 0.5) * CELL), 0.4 * CELL, pieces[int(owner[y, x])])
    return canvas.array()

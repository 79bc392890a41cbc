"""Kuhn and Leduc poker: small games of hidden cards, whose best play is known.

Kuhn poker (Kuhn, "A simplified two-person poker", 1950): three cards, one each, one chip each to begin with, and one
round in which one player may bet one more. Leduc poker (Southey et al., "Bayes' bluff: opponent modelling in poker",
2005): six cards of three ranks, and a second round after a public card; a raise is 2 chips in the first and 4 in the
second round, two raises a round. A pair with the public card wins, else the higher rank. Rewards are the chips that are
won or lost.

Actions of Kuhn poker are 0, check or fold, and 1, bet or call; those of Leduc poker are 0, fold, 1, check or call, and
2, raise. A player observes its rank, the public card's, whether it is the second player, the round, each player's chips
as a share of the most, the number of raises as a share of the most, and whether it is to move.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.boards.common import GREEN, PLAYERS, begin, end, two_player_task
from headrace.envs.drawing import BLACK, WHITE, Canvas, box
from headrace.pool.executors.kernels import AgentStreams, agent_integers

RANKS = wp.constant(3)
FOLD, CALL, RAISE = (wp.constant(move) for move in range(3))  # to call a bet of nothing is to check
NUMBERS = wp.constant(2 * RANKS + 6)
NAMES = ("J", "Q", "K")


@wp.struct
class State:
    """The state of a game. A card's rank is its number modulo `RANKS`; ``mover`` is the player whose turn it is."""

    card: wp.array2d[wp.int32]
    common_card: wp.array[wp.int32]
    chips: wp.array2d[wp.int32]
    round: wp.array[wp.int32]
    raises: wp.array[wp.int32]  # of the round
    checks: wp.array[wp.int32]  # of the round
    folded: wp.array[wp.bool]
    shown: wp.array[wp.bool]  # the game is over, and nobody has folded
    result: wp.array2d[wp.float32]
    mover: wp.array[wp.int32]
    illegal: wp.array[wp.bool]
    finished: wp.array[wp.bool]
    cards: int
    rounds: int
    first_raise: int  # chips; twice as many in the second round
    most_raises: int
    most_chips: int
    moves: int  # number of actions: 2 in Kuhn poker


@wp.struct
class View:
    obs: wp.array3d[wp.float32]
    action_mask: wp.array3d[wp.bool]


@wp.func
def deal(state: State, env: int, agent: int, streams: AgentStreams):
    begin(state, env, agent)
    state.chips[env, agent] = 1
    if agent == 0:
        first = agent_integers(streams, env, agent, 0, state.cards)
        second = (first + 1 + agent_integers(streams, env, agent, 0, state.cards - 1)) % state.cards
        state.card[env, 0] = first
        state.card[env, 1] = second
        public = int(0)
        if state.rounds > 1:
            public = agent_integers(streams, env, agent, 0, state.cards - 2)
            public += wp.where(public >= wp.min(first, second), 1, 0)
            public += wp.where(public >= wp.max(first, second), 1, 0)
        state.common_card[env] = public
        state.round[env] = 0
        state.raises[env] = 0
        state.checks[env] = 0
        state.folded[env] = False
        state.shown[env] = False


@wp.func
def is_behind(state: State, env: int, agent: int) -> wp.bool:
    return state.chips[env, agent] < state.chips[env, 1 - agent]


@wp.func
def move_of(state: State, env: int, agent: int, action: int) -> int:
    """Returns whether an action folds, calls or raises."""
    if state.moves == 2:
        return action + wp.where(is_behind(state, env, agent), FOLD, CALL)
    return action


@wp.func
def is_allowed(state: State, env: int, agent: int, move: int) -> wp.bool:
    if move == FOLD:
        return is_behind(state, env, agent)
    return move == CALL or state.raises[env] < state.most_raises


@wp.func
def place(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if agent != state.mover[env]:
        return
    move = move_of(state, env, agent, int(actions[row, agent]))
    state.illegal[env] = not is_allowed(state, env, agent, move)
    behind = is_behind(state, env, agent)
    theirs = state.chips[env, 1 - agent]
    if state.illegal[env]:
        return
    if move == FOLD:
        state.folded[env] = True
    elif move == RAISE:
        state.chips[env, agent] = theirs + state.first_raise * (state.round[env] + 1)
        state.raises[env] += 1
    else:
        state.chips[env, agent] = theirs
        state.checks[env] += 1
        if behind or state.checks[env] == 2:
            state.raises[env] = 0
            state.checks[env] = 0
            state.round[env] += 1
            state.shown[env] = state.round[env] == state.rounds


@wp.func
def strength(state: State, env: int, agent: int) -> int:
    rank = state.card[env, agent] % RANKS
    return wp.where(state.rounds > 1 and rank == state.common_card[env] % RANKS, RANKS, rank)


@wp.func
def judge(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    mover = state.mover[env]
    more = strength(state, env, mover) - strength(state, env, 1 - mover)
    sign = wp.where(more > 0, 1.0, wp.where(more < 0, -1.0, 0.0))
    if state.folded[env]:
        sign = -1.0
    end(state, env, agent, state.folded[env] or state.shown[env], sign * float(state.chips[env, mover]))


@wp.func
def turn(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    """Gives the turn to the other player; the first one begins each round."""
    if agent == 0:
        begins = state.raises[env] == 0 and state.checks[env] == 0
        state.mover[env] = wp.where(begins, 0, 1 - state.mover[env])


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    moves = state.mover[env] == agent and not state.finished[env]
    for i in range(NUMBERS):
        view.obs[row, agent, i] = 0.0
    view.obs[row, agent, state.card[env, agent] % RANKS] = 1.0
    if state.rounds > 1 and state.round[env] > 0:
        view.obs[row, agent, RANKS + state.common_card[env] % RANKS] = 1.0
    rest = 2 * RANKS
    view.obs[row, agent, rest] = float(agent)
    view.obs[row, agent, rest + 1] = wp.where(state.round[env] > 0, 1.0, 0.0)
    view.obs[row, agent, rest + 2] = float(state.chips[env, agent]) / float(state.most_chips)
    view.obs[row, agent, rest + 3] = float(state.chips[env, 1 - agent]) / float(state.most_chips)
    view.obs[row, agent, rest + 4] = float(state.raises[env]) / float(state.most_raises)
    view.obs[row, agent, rest + 5] = wp.where(moves, 1.0, 0.0)
    for action in range(state.moves):
        allowed = action == 0
        if moves:
            allowed = is_allowed(state, env, agent, move_of(state, env, agent, action))
        view.action_mask[row, agent, action] = allowed


def render(state: Mapping[str, Any]) -> np.ndarray:
    canvas = Canvas(480, 320, GREEN)
    for player, (card, chips) in enumerate(zip(state["card"], state["chips"], strict=True)):
        _draw_card(canvas, (130.0, 235.0 - 150.0 * player), NAMES[card % RANKS])
        canvas.text((250.0, 235.0 - 150.0 * player), f"{chips} in the pot", 22, WHITE)
    if state["rounds"] > 1:
        _draw_card(canvas, (400.0, 160.0), NAMES[state["common_card"] % RANKS] if state["round"] else "?")
    return canvas.array()


def _draw_card(canvas: Canvas, at: tuple[float, float], name: str) -> None:
    canvas.polygon(box(-36, 36, -52, 52, at=at), WHITE)
    canvas.text(at, name, 40, BLACK)


def _task(name: str, moves: int, **rules: int) -> Any:
    return two_player_task(
        name,
        State,
        place,
        {"reset": (deal,), "judge": judge, "turn": turn, "observe": observe, "render": render},
        gym.spaces.Box(0.0, 1.0, (NUMBERS,), np.float32),
        moves,
        view=View,
        shapes=dict.fromkeys(("card", "chips", "result"), (PLAYERS,)),
        constants={**rules, "moves": moves},
        bounds={
            **dict.fromkeys(("card", "common_card"), (0, rules["cards"] - 1)),
            "chips": (1, rules["most_chips"]),
            "round": (0, rules["rounds"]),
            "raises": (0, rules["most_raises"]),
            "checks": (0, 1),
            "mover": (0, 1),
        },
    )


TASKS = {
    "KuhnPoker-v0": _task("KuhnPoker", 2, cards=3, rounds=1, first_raise=1, most_raises=1, most_chips=2),
    "LeducPoker-v0": _task("LeducPoker", 3, cards=6, rounds=2, first_raise=2, most_raises=2, most_chips=13),
}

"""Blackjack: get closer to 21 than the dealer without exceeding it.

Example 5.1 of Sutton and Barto, "Reinforcement Learning: An Introduction", with the rules of Gymnasium's
``blackjack.py``. Cards are drawn with replacement, and an ace counts 11 unless the sum would exceed 21.
Action 1 hits; action 0 sticks, after which the dealer draws until the dealer's sum is at least 17. The reward
is 1 for a win, 0 for a draw and -1 for a loss. Observations are int32[3] (in Gymnasium a tuple): the player's
sum, the dealer's open card (1 to 10), and whether the player has a usable ace.

Options: with ``sab``, the rules are those of the book, by which a natural (an ace and a ten as the first two
cards) beats a dealer who has none. With ``natural`` instead, winning with a natural pays 1.5. ``sab`` is on by
default, as in Gymnasium's registry and EnvPool.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import BLACK, WHITE, Canvas, Color, Point, box
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, random_bits

OPTIONS = {"natural": False, "sab": True}
BOUNDS = {"player_sum": (2, 31), "open_card": (1, 10)}
SIXTY_BITS = wp.constant(wp.uint64((1 << 60) - 1))
ACE_AND_TEN = wp.constant(wp.uint64(0x1A))
TEN_AND_ACE = wp.constant(wp.uint64(0xA1))


@wp.struct
class State:
    """The hands. Cards are 1 (ace) to 10. A hand is its last 16 cards of 4 bits each, the newest in the lowest bits."""

    player: wp.array[wp.uint64]
    dealer: wp.array[wp.uint64]
    player_sum: wp.array[wp.int32]  # with aces counted as 1
    player_ace: wp.array[wp.bool]  # whether the player has an ace
    open_card: wp.array[wp.int32]
    stuck: wp.array[wp.bool]  # whether the dealer has played
    natural: wp.bool
    sab: wp.bool


@wp.struct
class View:
    obs: wp.array2d[wp.int32]


@wp.func
def draw(chance: wp.uint64):
    """Returns a card, 1 to 10, and the random bits for the next one; 60 random bits suffice for sixteen cards.

    The bits are the binary fraction of a number in [0, 1). Of 13 times that number, the integer part is the card's
    rank and the fractional part the next number.
    """
    scaled = chance * wp.uint64(13)
    rank = wp.int32(scaled >> wp.uint64(60))
    return wp.min(rank + 1, 10), scaled & SIXTY_BITS


@wp.func
def best_sum(hard: int, ace: wp.bool) -> int:
    """Returns a hand's best sum; ``hard`` is its sum with aces as 1, and ``ace`` whether it has one."""
    return wp.where(ace and hard <= 11, hard + 10, hard)


@wp.func
def held(hand: wp.uint64, card: int) -> wp.uint64:
    """Returns the hand with ``card`` added."""
    return (hand << wp.uint64(4)) | wp.uint64(card)


@wp.func
def is_natural(hand: wp.uint64) -> wp.bool:
    """Returns whether a hand is an ace and a ten."""
    return hand == ACE_AND_TEN or hand == TEN_AND_ACE  # no `in`: Warp has no tuples


@wp.func
def reset(state: State, env: int, streams: Streams):
    chance = random_bits(streams, env) & SIXTY_BITS
    open_card, chance = draw(chance)
    hidden, chance = draw(chance)
    first, chance = draw(chance)
    second, chance = draw(chance)
    state.open_card[env] = open_card
    state.dealer[env] = held(wp.uint64(open_card), hidden)
    state.player[env] = held(wp.uint64(first), second)
    state.player_sum[env] = first + second
    state.player_ace[env] = first == 1 or second == 1
    state.stuck[env] = False


@wp.func
def hit(state: State, env: int, streams: Streams):
    """Draws a card for the player; returns (reward, terminated)."""
    card, _rest = draw(random_bits(streams, env) & SIXTY_BITS)
    total = state.player_sum[env] + card
    state.player_sum[env] = total
    state.player_ace[env] = state.player_ace[env] or card == 1
    state.player[env] = held(state.player[env], card)
    return wp.where(total > 21, wp.float32(-1.0), wp.float32(0.0)), total > 21


@wp.func
def stick(state: State, env: int, streams: Streams):
    """Plays the dealer's hand; returns the reward."""
    hand = state.dealer[env]
    hidden = wp.int32(hand & wp.uint64(15))
    hard = state.open_card[env] + hidden
    ace = hidden == 1 or state.open_card[env] == 1
    dealer = best_sum(hard, ace)
    dealt_natural = is_natural(hand)
    if dealer < 17:
        chance = random_bits(streams, env) & SIXTY_BITS
        while dealer < 17:
            card, chance = draw(chance)
            hard = hard + card
            ace = ace or card == 1
            dealer = best_sum(hard, ace)
            hand = held(hand, card)
        state.dealer[env] = hand
    state.stuck[env] = True
    if dealer > 21:
        dealer = wp.int32(0)

    player = best_sum(state.player_sum[env], state.player_ace[env])
    reward = wp.where(player > dealer, wp.float32(1.0), wp.where(player < dealer, wp.float32(-1.0), wp.float32(0.0)))
    if is_natural(state.player[env]):
        if state.sab:
            reward = wp.where(dealt_natural, reward, wp.float32(1.0))
        elif state.natural and reward == wp.float32(1.0):
            reward = wp.float32(1.5)
    return reward


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    reward = wp.float32(0.0)
    terminated = wp.bool(True)
    if actions[row] == wp.int64(1):
        reward, terminated = hit(state, env, streams)
    else:
        reward = stick(state, env, streams)
    return reward, terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    hard = state.player_sum[env]
    total = best_sum(hard, state.player_ace[env])
    view.obs[row, 0] = total
    view.obs[row, 1] = state.open_card[env]
    view.obs[row, 2] = wp.where(total != hard, 1, 0)


WIDTH, HEIGHT = 640, 400
CARD_WIDTH, CARD_HEIGHT, GAP = 72, 104, 14
FELT, BACK, RIM, RED = (34, 110, 74), (60, 84, 150), (210, 220, 240), (190, 40, 46)


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns a frame of both hands, uint8[400, 640, 3]; the dealer's second card is hidden until the dealer plays."""
    canvas = Canvas(WIDTH, HEIGHT, FELT)
    dealer, player = (_cards(int(state[name])) for name in ("dealer", "player"))
    shown = state["stuck"]
    _hand(canvas, 270, dealer if shown else [dealer[0], None], f"dealer: {_told(dealer)}" if shown else "dealer")
    _hand(canvas, 90, player, f"player: {_told(player)}")
    return canvas.array()


def _told(cards: list[int]) -> str:
    """Returns a description of a hand's sum."""
    hard = sum(cards)
    if hard > 21:
        return f"{hard}, bust"
    return f"{hard + 10}, with a usable ace" if 1 in cards and hard <= 11 else str(hard)


def _cards(hand: int) -> list[int]:
    """Returns a hand's cards, oldest first, at most the last sixteen."""
    return [int(digit, 16) for digit in f"{hand:x}"]


def _hand(canvas: Canvas, y: float, cards: Sequence[int | None], told: str) -> None:
    canvas.text((WIDTH / 2, y + CARD_HEIGHT / 2 + 22), told, 20, WHITE)
    pitch = min(CARD_WIDTH + GAP, (WIDTH - CARD_WIDTH - 2 * GAP) / max(len(cards) - 1, 1))
    left = (WIDTH - pitch * (len(cards) - 1)) / 2
    for i, card in enumerate(cards):
        _card(canvas, (left + i * pitch, y), card)


def _card(canvas: Canvas, at: Point, card: int | None) -> None:
    """Draws a card face up with its number, or face down if it is None."""
    x, y = CARD_WIDTH / 2, CARD_HEIGHT / 2
    canvas.polygon(box(-x - 1, x + 1, -y - 1, y + 1, at=at), BLACK)
    if card is None:
        canvas.polygon(box(-x, x, -y, y, at=at), RIM)
        canvas.polygon(box(-x + 6, x - 6, -y + 6, y - 6, at=at), BACK)
        return
    color: Color = RED if card == 1 else BLACK
    letters = "A" if card == 1 else str(card)
    canvas.polygon(box(-x, x, -y, y, at=at), WHITE)
    canvas.text(at, letters, 40, color)
    canvas.text((at[0] - x + 13, at[1] + y - 14), letters, 15, color)


TASKS = {
    "Blackjack-v1": KernelTask(
        KernelEnv("Blackjack", State, View, reset, step, observe, render, bounds=BOUNDS),
        gym.spaces.Box(0, 31, (3,), np.int32),
        gym.spaces.Discrete(2),
        options=OPTIONS,
        render_fps=2,
    )
}

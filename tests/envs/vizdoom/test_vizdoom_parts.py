"""Parts of ViZDoom's tasks: smaller pictures, actions of buttons, rewards."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.envs.vizdoom.actions import action_table
from headrace.envs.vizdoom.resize import Resizer
from headrace.envs.vizdoom.rewards import Rewards

SIZES = [
    ((240, 320), (84, 84)),
    ((120, 160), (84, 84)),
    ((240, 320), (83, 101)),
    ((168, 168), (84, 84)),
    ((60, 80), (84, 84)),
]
ORDER = ("ATTACK", "SPEED", "MOVE_RIGHT", "MOVE_LEFT", "TURN_RIGHT", "TURN_LEFT", "SELECT_WEAPON1", "SELECT_WEAPON2")


@pytest.mark.parametrize(("shape", "out"), SIZES)
@pytest.mark.parametrize("area", [True, False])
@pytest.mark.parametrize("planes", [1, 3])
def test_pictures_are_resized_as_opencv_does(
    shape: tuple[int, int], out: tuple[int, int], area: bool, planes: int
) -> None:
    cv2 = pytest.importorskip("cv2")
    pictures = np.random.default_rng(0).integers(0, 256, (planes, *shape), dtype=np.uint8)
    resize = Resizer(shape, out, area)
    how = cv2.INTER_AREA if area and out <= shape else cv2.INTER_LINEAR
    for _ in range(2):
        ours = resize(pictures)
        theirs = np.stack([cv2.resize(plane, out[::-1], interpolation=how) for plane in pictures])
        assert ours.shape == theirs.shape and ours.dtype == np.uint8
        apart = np.abs(ours.astype(int) - theirs)
        assert apart.max() <= 1
        if how == cv2.INTER_AREA and shape != (168, 168):  # there OpenCV rounds halves up
            assert (apart > 0).mean() < 0.002


def test_area_means_are_rounded_exactly() -> None:
    """Half-way between two levels the even one is taken; else the nearest."""
    pictures = np.random.default_rng(1).integers(0, 256, (1, 20, 80), dtype=np.uint8)
    large = pictures.astype(int).repeat(7, 1).repeat(21, 2)  # pixels cut so that each mean is of whole ones
    means = large.reshape(1, 7, 20, 21, 80).sum((2, 4)) / 1600
    assert np.array_equal(Resizer((20, 80), (7, 21), True)(pictures), np.rint(means))


def test_a_picture_of_the_same_size_is_a_copy() -> None:
    pictures = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    same = Resizer((3, 4), (3, 4), True)(pictures)
    assert np.array_equal(same, pictures) and not np.shares_memory(same, pictures)


def test_buttons_that_undo_each_other_are_not_pressed_together() -> None:
    buttons = ["MOVE_LEFT", "ATTACK", "MOVE_RIGHT"]
    assert action_table(buttons, ORDER, {}, False) == [
        [0, 0, 0],
        [0, 0, 1],
        [1, 0, 0],
        [0, 1, 0],
        [0, 1, 1],
        [1, 1, 0],
    ]
    assert action_table(["TURN_LEFT"], ORDER, {}, False) == [[0], [1]]
    assert action_table(["SELECT_WEAPON2", "SELECT_WEAPON1"], ORDER, {}, False) == [[0, 0], [0, 1], [1, 0]]


def test_the_action_table_has_forced_speed_and_delta_buttons() -> None:
    order = (*ORDER, "TURN_LEFT_RIGHT_DELTA")
    buttons = ["SPEED", "TURN_LEFT_RIGHT_DELTA"]
    turns = {"TURN_LEFT_RIGHT_DELTA": (3, -10.0, 10.0)}
    assert action_table(buttons, order, turns, True) == [[1, -10], [1, 0], [1, 10]]
    assert action_table(buttons, order, {}, False) == [[0, 0], [1, 0]]


def rewards(duration: int = 100) -> Rewards:
    prices = {"HEALTH": (0.5, -0.25), "HITCOUNT": (1.0, 0.0), "KILLCOUNT": (10.0, 0.0)}
    names = ["HEALTH", "HITCOUNT", "KILLCOUNT", "SELECTED_WEAPON", "SELECTED_WEAPON_AMMO"]
    return Rewards(names, prices, {2: 0.125}, duration)


def test_gains_and_losses_of_game_variables_earn_their_prices() -> None:
    episode = rewards()
    episode.begin(np.array([80.0, 7, 0, 2, 50]))
    assert episode.values.tolist() == [80, 0, 0, 2, 50]  # hits are counted on from episode to episode
    assert episode.step(np.array([70.0, 8, 0, 2, 50])) == -2.5 + 1
    assert episode.step(np.array([90.0, 8, 2, 2, 50])) == 10 + 20
    assert episode.step(np.array([90.0, 108, 2, 2, 50])) == 5, "of one step no more than five hits count"
    assert episode.step(np.array([-999900.0, 108, 2, 2, 50])) == 0, "what the engine says where there is no player"
    assert episode.values.tolist() == [90, 101, 2, 2, 50]


def test_a_selected_weapon_earns_after_its_duration_in_hand() -> None:
    episode = rewards(duration=3)
    episode.begin(np.array([80.0, 0, 0, 2, 50]))
    earned = [episode.step(np.array([80.0, 0, 0, weapon, ammo])) for weapon, ammo in ((2, 50), (2, 50), (2, 0), (2, 5))]
    assert earned == [0, 0.125, 0, 0.125]
    earned = [episode.step(np.array([80.0, 0, 0, weapon, 5])) for weapon in (3, 2, 2, 2, -1)]
    assert earned == [0, 0, 0, 0.125, 0]

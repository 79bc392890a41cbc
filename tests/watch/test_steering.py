"""Commands and pushes of people who watch: what they may say, and what it does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError
from headrace.watch.steering import KEYS, PUSH, Controls, Steering, slider_step

WALKER = Controls(
    (("forwards, m/s", -1.5, 1.5), ("to the left, m/s", -0.8, 0.8), ("turn, rad/s", -1.2, 1.2)), True, True
)


@pytest.mark.parametrize(
    "said", [{"command": [1.5, -0.8, 0]}, {"command": None}, {"key": "w"}, {"push": True}, {"chase": False}]
)
def test_what_a_walker_may_be_told_is_passed_on(said: Any) -> None:
    assert WALKER.check(said) == said
    assert WALKER.check({"key": "p"}) == {"push": True}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        *[(each, "by a command, a key or") for each in (None, [], {}, {"run": 1}, {"key": "w", "push": True}, "w")],
        *[({"command": each}, "a command is 3 numbers") for each in ([], [0, 0], [0] * 4, {}, "000", 1)],
        *[
            ({"command": [each, 0, 0]}, "forwards, m/s must be a number from -1.5 to 1.5")
            for each in (float("nan"), float("inf"), 1.51, -2, 10**400, "1", None, True, [1], {"a": 1})
        ],
        ({"command": [0, 0, 1.21]}, "turn, rad/s must be"),
        *[({"key": each}, "no such key") for each in ("x", "W", "", None, 1, [], {}, "__class__")],
        *[({"push": each}, "a push is true") for each in (1, False, None, "yes")],
        *[({"chase": each}, "chase is true or false") for each in (1, None, "yes")],
    ],
)  # fmt: skip
def test_anything_else_is_refused(said: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words) as refused:
        WALKER.check(said)
    assert len(str(refused.value)) < 200


def test_a_task_is_told_only_what_it_takes() -> None:
    with pytest.raises(OptionError, match="cannot be pushed"):
        Controls(WALKER.ranges).check({"key": "p"})
    for said in ({"command": None}, {"command": []}, {"key": "w"}, {"key": " "}):
        with pytest.raises(OptionError, match="takes no commands"):
            Controls(can_push=True).check(said)
    with pytest.raises(OptionError, match="no camera 'chase'"):
        Controls(can_push=True).check({"chase": True})
    assert Controls(can_chase=True).check({"chase": True}) == {"chase": True}
    with pytest.raises(OptionError, match="no command for that key"):
        Controls(WALKER.ranges[:1]).check({"key": "a"})


def test_sliders_have_nought_among_their_values() -> None:
    for low, high in ((-1.5, 1.5), (-0.8, 0.8), (-1.2, 1.2), (0.0, 40.0)):
        step = slider_step(low, high)
        assert step * 60 <= high - low < 600.1 * step and -low / step == pytest.approx(round(-low / step))
    assert slider_step(0.0, 0.0) > 0  # of a robot that never goes sideways


def shown(steering: Steering) -> dict[str, Any]:
    found = steering.shown()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def go1() -> Any:
    pytest.importorskip("mujoco")
    with headrace.make("Go1Flat-v0", num_envs=2, num_threads=1, noise=0.0, push=0.0) as pool:
        yield pool


def test_the_task_commands_until_somebody_does_and_again_afterwards(go1: Any) -> None:
    go1.reset()
    steering, rows = Steering(go1), go1._executor.state_arrays()
    assert [label for label, _, _ in steering.controls.ranges] == list(go1.spec.steering)
    own = rows["command"].copy()
    steering.apply()
    assert (rows["command"] == own).all() and not shown(steering)["steered"]
    steering.take({"command": [0.4, -0.2, 0.8]})
    for _ in range(300):  # longer than the task keeps to a command
        steering.apply()
        go1.step(np.zeros((2, 12)))
        steering.apply()
        assert rows["command"][1] == pytest.approx((0.4, -0.2, 0.8))
    assert shown(steering)["command"] == pytest.approx([0.4, -0.2, 0.8]) and shown(steering)["steered"]
    steering.take({"command": None})
    go1.reset()
    steering.apply()
    assert rows["command"][0] != pytest.approx((0.4, -0.2, 0.8))


def test_keys_change_the_command_within_its_limits(go1: Any) -> None:
    steering = Steering(go1)
    moves = {"w": (1, 0, 0), "s": (-1, 0, 0), "a": (0, 1, 0), "d": (0, -1, 0), "q": (0, 0, 1), "e": (0, 0, -1)}
    also = {"arrowup": "w", "arrowdown": "s", "arrowleft": "a", "arrowright": "d"}
    also |= dict(zip("ikjluo", "wsadqe", strict=True))
    greatest = np.array([high for _, _, high in steering.controls.ranges])
    for key in {*moves, *also}:
        steering.take({"key": " "})
        assert steering.command == [0, 0, 0]
        way = np.array(moves[also.get(key, key)])
        steering.take({"key": key})
        assert steering.command == pytest.approx(way * greatest / 4)
        for _ in range(9):
            steering.take({"key": key})
        assert steering.command == pytest.approx(way * greatest)
    assert {*moves, *also, " ", "p"} == KEYS.keys()
    steering.take({"key": " "})
    steering.take({"key": "w"})
    steering.take({"key": "q"})
    assert steering.command == pytest.approx((greatest[0] / 4, 0, greatest[2] / 4))


def test_a_push_changes_the_velocity_of_every_robot_once(go1: Any) -> None:
    go1.reset()
    steering, rows = Steering(go1), go1._executor.state_arrays()
    before = rows["qvel"].copy()
    steering.take({"push": True})
    assert steering.command is None
    steering.apply()
    steering.apply()
    pushed = rows["qvel"] - before
    assert np.hypot(*pushed[:, :2].T) == pytest.approx(PUSH) and not pushed[:, 2:].any()


def test_who_watches_chooses_the_camera_behind_the_robot_and_leaves_it(go1: Any) -> None:
    steering, cameras = Steering(go1), []
    for chase in (True, False):
        steering.take({"chase": chase})
        cameras.append(steering.camera)
        assert shown(steering)["chased"] == chase and not shown(steering)["steered"]
    assert cameras == [go1._executor.model.camera("chase").id, None]


def test_a_page_knows_the_controls_of_a_frame(go1: Any) -> None:
    steering = Steering(go1)
    header = json.loads(json.dumps({"controls": steering.shown()}))
    assert Controls.of_frame(header) == steering.controls
    assert Controls.of_frame(None) == Controls.of_frame({"error": "x"}) == Controls()
    with headrace.make("CartPole-v1", num_envs=1) as pool:
        assert Steering(pool).shown() is None
    with headrace.make("Ant-v5", num_envs=1) as pool:
        assert Steering(pool).controls == Controls(can_push=True) and shown(Steering(pool))["command"] == []
    with headrace.make("Hopper-v5", num_envs=1) as pool:
        assert Steering(pool).shown() is None

"""Arrows over pictures of robots: what is commanded and what is done, for people and not for observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import KernelError, OptionError, RenderError

pytest.importorskip("mujoco")
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

import mujoco

from headrace.pool.executors.mujoco.arrows import COMMANDED, DONE, HEADED, WIDTH, velocity_arrows

TASKS = ("Go1Flat-v0", "Go2Flat-v0", "G1Flat-v0", "T1Flat-v0")
SMALL = {"render_width": 160, "render_height": 160, "render_effects": False}


def placed(task: str, command: Any, speed: Any, **options: Any) -> Any:
    """A pool of one robot that faces +y, with a command and a velocity in its own axes (forwards, left, turning)."""
    pool = headrace.make(task, num_envs=1, num_threads=1, **(SMALL | options))
    pool.reset()
    rows = pool._executor.state_arrays()
    rows["qpos"][0, :7] = (0.0, 0.0, rows["qpos"][0, 2], np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    rows["qvel"][:] = 0
    rows["qvel"][0, [1, 0, 5]] = speed[0], -speed[1], speed[2]
    rows["command"][0] = command
    return pool


def drawn(pool: Any) -> np.ndarray:
    try:
        return np.asarray(pool.render())[0].astype(int)
    except RenderError as error:
        if "there is none" not in str(error):
            raise
        pytest.skip(str(error))


def pixels(picture: np.ndarray, colour: tuple[float, ...]) -> int:
    """How many pixels have the hue of an arrow, whatever the light."""
    shades = picture / np.maximum(picture.max(-1, keepdims=True), 1)
    hue = np.array(colour[:3]) / max(colour[:3])
    return int((np.abs(shades - hue).max(-1) < 0.12).sum())


@pytest.mark.parametrize("task", TASKS)
def test_pictures_show_what_is_commanded_and_what_is_done(task: str) -> None:
    with placed(task, (0.8, 0.3, 0.9), (0.0, 0.0, 0.0)) as pool:
        told = drawn(pool)
        assert pixels(told, COMMANDED) > 40 and pixels(told, DONE) < 10
        pool._executor.state_arrays()["command"][:] = 0
        assert pixels(drawn(pool), COMMANDED) < 10  # a later picture has no arrows of an earlier one
    with placed(task, (0.0, 0.0, 0.0), (0.8, 0.3, 0.9)) as pool:
        done = drawn(pool)
        assert pixels(done, DONE) > 40 and pixels(done, COMMANDED) < 10
    with placed(task, (0.8, 0.3, 0.9), (0.8, 0.3, 0.9), render_arrows=False) as pool:
        plain = drawn(pool)
        assert pixels(plain, COMMANDED) < 10 and pixels(plain, DONE) < 10


def test_velocities_are_straight_and_turning_is_round() -> None:
    with placed("Go1Flat-v0", (1.0, 0.5, 1.0), (0.5, 0.0, -1.0)) as pool:
        rows = pool._executor.arrows(np.array([0]))[0]
        green, blue = (rows[np.abs(rows[:, 8:] - each).max(1) < 1e-6] for each in (COMMANDED, DONE))
        for mine, velocity, turning in ((green, (-0.5, 1.0), 1), (blue, (0.0, 0.5), -1)):
            assert mine[1, 3:5] - mine[0, :2] == pytest.approx(0.6 * np.array(velocity), abs=1e-5)  # it faces +y
            assert mine[0, 3:6] == pytest.approx(mine[1, :3]) and mine[:2, HEADED].tolist() == [0, 1]
            assert mine[0, 5] == mine[0, 2] > 0.4 and (mine[:, WIDTH] > 0).all()
            arc = mine[2:, :2]
            assert np.hypot(*arc.T) == pytest.approx(np.hypot(*arc[0]), abs=1e-5)
            angles = np.unwrap(np.arctan2(arc[:, 1], arc[:, 0]))
            assert angles[0] == pytest.approx(np.pi / 2, abs=1e-5)
            assert angles[-1] - angles[0] == pytest.approx(turning, abs=1e-3)
            assert mine[2:, HEADED].tolist() == [0] * (len(arc) - 1) + [1]
        assert not pool._executor.arrows(np.array([], np.int64)).size


def test_a_robot_without_command_or_motion_has_no_arrows_and_a_huge_one_ends() -> None:
    with placed("Go1Flat-v0", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) as pool:
        assert not pool._executor.arrows(np.array([0]))[0, :, WIDTH].any()
        pool._executor.state_arrays()["qvel"][0, :6] = 1e6
        rows = pool._executor.arrows(np.array([0]))[0]
        assert np.isfinite(rows).all() and np.linalg.norm(rows[1, 3:6] - rows[1, :3]) < 2


def test_observations_of_pixels_have_no_arrows() -> None:
    seen = []
    for arrows in (True, False):
        options: dict[str, Any] = {"num_threads": 1, "seed": 3, "from_pixels": True, "render_arrows": arrows}
        options |= SMALL | {"render_width": 64, "render_height": 64}
        try:
            with headrace.make("Go1Flat-v0", num_envs=2, **options) as pool:
                first, _ = pool.reset()
                shown = drawn(pool)
                later = pool.step(np.zeros((2, 12)))[0]
                seen.append((np.array(first), np.array(later)))
                assert (pixels(shown, COMMANDED) > 5) == arrows
        except RenderError as error:
            if "there is none" not in str(error):
                raise
            pytest.skip(str(error))
    for one, other in zip(*seen, strict=True):
        assert (one == other).all()
        assert pixels(one[0].transpose(1, 2, 0).astype(int), COMMANDED) < 3


def test_a_scene_that_is_full_leaves_arrows_out() -> None:
    with placed("Go1Flat-v0", (1.0, 0.0, 1.0), (1.0, 0.0, 1.0), max_geom=3) as pool:
        assert pixels(drawn(pool), COMMANDED) < 10


def test_a_robot_that_stands_on_a_base_is_refused() -> None:
    load: Any = mujoco.MjModel.from_xml_string  # pyright: ignore[reportAttributeAccessIssue]
    arm = "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    with pytest.raises(KernelError, match="whose first joint is free"):
        velocity_arrows(load(arm))
    ball = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    with pytest.raises(KernelError, match="need an array command"):
        velocity_arrows(load(ball))({"qpos": np.zeros((1, 7))}, np.array([0]))


def test_tasks_without_arrows_do_not_know_the_option() -> None:
    with pytest.raises(OptionError, match="render_arrows"):
        headrace.make("Hopper-v5", num_envs=1, render_arrows=True)

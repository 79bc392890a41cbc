"""Pictures of Gymnasium's MuJoCo tasks are Gymnasium's, pixel by pixel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from gymnasium_side import official

import headrace
from headrace.errors import OptionError, RenderError
from nightly import rest_nightly

TASKS = ("HalfCheetah-v5", "Hopper-v4")
RENDERING = mujoco.mjtRndFlag  # type: ignore[reportAttributeAccessIssue]
EFFECTS = [RENDERING.mjRND_SHADOW, RENDERING.mjRND_REFLECTION]


@pytest.fixture(autouse=True)
def _egl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both draw with EGL, or tests are skipped; MuJoCo writes its warnings into a file in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUJOCO_GL", "egl")
    pytest.importorskip("mujoco.egl", reason="PyOpenGL, or EGL, is missing")


def both(task: str, steps: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Our frame and Gymnasium's of one state, after random steps; Gymnasium's without effects if ours has none."""
    with headrace.make(task, num_envs=1, seed=1, **options) as pool:
        pool.reset()
        rng = np.random.default_rng(0)
        for _ in range(steps):
            pool.step(rng.uniform(-1, 1, (1, *(pool.action_space.shape or ()))))
        try:
            ours = pool.render()[0]
        except RenderError as error:
            pytest.skip(str(error))
        state = pool.state_arrays()
        effects = options.pop("render_effects", True)
        env = official(task, render_mode="rgb_array", **options)
        env.set_state(state["qpos"][0].copy(), state["qvel"][0].copy())
        if not effects:
            env.model.vis.quality.offsamples = 0
            env.render()  # makes its scene
            for effect in EFFECTS:
                env.mujoco_renderer.viewer.scn.flags[effect] = 0
        theirs = env.render()
        env.mujoco_renderer.viewer.free()
        return ours, theirs


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("steps", rest_nightly([0, 7], 7))
def test_frames_from_a_named_camera_equal_those_of_gymnasium(task: str, steps: int) -> None:
    ours, theirs = both(task, steps, camera_name="track")
    assert ours.shape == (480, 480, 3)
    assert np.array_equal(ours, theirs)


def test_small_frames_from_a_numbered_camera_are_close_to_gymnasium() -> None:
    ours, theirs = both("Hopper-v5", 3, camera_id=0, width=160, height=120)
    assert ours.shape == (120, 160, 3)
    # shadows of small pictures are coarser
    assert (np.abs(ours.astype(int) - theirs).max(-1) <= 8).mean() > 0.97


@pytest.mark.parametrize("config", [None, {"distance": 3.0, "elevation": -20.0, "azimuth": 120.0}])
def test_frames_from_the_free_camera_are_close_to_gymnasium(config: dict[str, Any] | None) -> None:
    """Gymnasium's camera looks at the geoms of its first frame, ours at their places in the model."""
    ours, theirs = both("Reacher-v5", 0, **({} if config is None else {"default_camera_config": config}))
    assert (np.abs(ours.astype(int) - theirs).max(-1) <= 8).mean() > 0.97


FLAG = mujoco.mjtVisFlag  # type: ignore[reportAttributeAccessIssue]
GLASS = {FLAG.mjVIS_TRANSPARENT: True}  # contact points lie inside the bodies that touch


@pytest.mark.parametrize(
    ("options", "without"),
    [
        ({"visual_options": {**GLASS, FLAG.mjVIS_CONTACTPOINT: True}}, {"visual_options": GLASS}),
        pytest.param(
            {"visual_options": {int(FLAG.mjVIS_TEXTURE): False}}, {"visual_options": {}}, marks=pytest.mark.nightly
        ),
        pytest.param({"max_geom": 5}, {}, marks=pytest.mark.nightly),
    ],
)
def test_visual_options_and_max_geom_change_frames_as_in_gymnasium(
    options: dict[str, Any], without: dict[str, Any]
) -> None:
    ours, theirs = both("HalfCheetah-v5", 17, camera_name="track", **options)
    usual, _ = both("HalfCheetah-v5", 17, camera_name="track", **without)
    assert np.array_equal(ours, theirs)
    assert not np.array_equal(ours, usual)


@pytest.mark.nightly
def test_frames_without_effects_equal_gymnasium_without_shadows_and_reflections() -> None:
    ours, theirs = both("HalfCheetah-v5", 5, camera_name="track", render_effects=False)
    usual, _ = both("HalfCheetah-v5", 5, camera_name="track")
    assert np.array_equal(ours, theirs)
    assert not np.array_equal(ours, usual)


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Ant-v5"])
def test_small_frames_without_effects_differ_at_the_edges_of_round_shapes_alone(task: str) -> None:
    ours, theirs = both(task, 5, camera_name="track", render_effects=False, width=64, height=64)
    off = np.abs(ours.astype(int) - theirs).max(-1)
    assert (off <= 16).mean() > 0.99
    assert off.mean() < 1


def test_an_invalid_default_camera_config_is_refused() -> None:
    for wrong in (3, {"speed": 1.0}, {"distance": "far"}, {"lookat": (1.0, 2.0)}):
        with pytest.raises(OptionError, match="default_camera_config of Reacher-v5 must be a dict with some of"):
            headrace.make("Reacher-v5", num_envs=1, default_camera_config=wrong)

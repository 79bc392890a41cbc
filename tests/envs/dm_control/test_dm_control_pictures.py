"""Pictures of the suite's tasks are dm_control's, pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")
pytest.importorskip("dm_control")

from official import begin, load

import headrace
from headrace.errors import RenderError
from nightly import rest_nightly


@pytest.fixture(autouse=True)
def _egl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both draw by EGL."""
    monkeypatch.setenv("MUJOCO_GL", "egl")
    egl = pytest.importorskip("dm_control._render.pyopengl.egl_renderer", reason="PyOpenGL, or EGL, is missing")
    monkeypatch.setattr("dm_control._render.Renderer", egl.EGLContext)


CAMERAS = [("WalkerWalk-v1", -1), ("FingerTurnEasy-v1", 0), ("SwimmerSwimmer6-v1", 1)]
PICTURES = [(*camera, *size) for camera in CAMERAS for size in ((320, 240), (84, 84))]


@pytest.mark.parametrize(("task", "camera", "width", "height"), rest_nightly(PICTURES, *PICTURES[1::3]))
def test_rendered_frames_equal_those_of_dm_control(task: str, camera: int, width: int, height: int) -> None:
    options: dict[str, Any] = {"render_width": width, "render_height": height, "render_camera_id": camera}
    with headrace.make(task, num_envs=2, seed=4, **options) as pool:
        pool.reset()
        for _ in range(5):
            pool.step(np.full((2, *(pool.action_space.shape or ())), 0.7))
        try:
            ours = pool.render([1])[0]
        except RenderError as error:
            pytest.skip(str(error))
        env = load(task)
        begin(env, pool, 1)
        theirs = env.physics.render(height, width, camera)
        env.physics.free()
    different = np.abs(ours.astype(int) - theirs).max(-1) > 8
    # shadows of small pictures are coarser
    assert not different.any() if width > 84 else different.mean() < 0.01


def test_each_environment_is_rendered_with_its_own_terrain(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenGL keeps a copy of the height field, by then that of another environment."""
    frames: dict[int, list[np.ndarray]] = {0: [], 1: []}
    with headrace.make("QuadrupedEscape-v1", num_envs=2, seed=4, render_width=320, render_height=240) as pool:
        pool.reset()
        try:
            for i in (0, 1, 0):
                frames[i].append(pool.render([i])[0])
        except RenderError as error:
            pytest.skip(str(error))
        env = load("QuadrupedEscape-v1")
        begin(env, pool, 1)
        monkeypatch.delattr(type(env.physics), "contexts")  # official.py has set it, so that nothing is drawn
        theirs = env.physics.render(240, 320, -1)
        env.physics.free()
    assert np.array_equal(frames[0][0], frames[0][1])
    assert not np.array_equal(frames[0][0], frames[1][0])
    assert np.array_equal(frames[1][0], theirs)

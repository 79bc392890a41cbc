"""The camera of rendered robots: with `on_reach`, everything that a fixed robot can reach is in the picture."""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco

from headrace.pool.executors.mujoco.pictures import Camera, camera_of

LINKS = """
<mujoco>
  {statistic}
  <default><joint axis="0 0 1" range="-160 160"/> <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/></default>
  <worldbody>
    <body>{joint}<geom/> <body pos="0.2 0 0"><joint/><geom/><site name="hand" pos="0.2 0 0"/></body></body>
  </worldbody>
</mujoco>"""
OPTIONS = {"render_camera_id": -1, "render_camera_name": ""}


def links(joint: str = "<joint/>", statistic: str = "") -> Any:
    return mujoco.MjModel.from_xml_string(LINKS.format(joint=joint, statistic=statistic))


def place(camera: Any) -> tuple[float, ...]:
    return (*camera.lookat, camera.distance)


def mujocos_own(model: Any) -> tuple[float, ...]:
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    return place(camera)


def seen_at_any_time(model: Any, camera: Any) -> bool:
    """Returns whether the hand is in the picture in all of 200 random poses."""
    data, widest = mujoco.MjData(model), np.sin(np.radians(model.vis.global_.fovy / 2))
    for pose in np.random.default_rng(1).uniform(-2.7, 2.7, (200, 2)):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        if np.linalg.norm(data.site("hand").xpos - camera.lookat) > camera.distance * widest:
            return False
    return True


def test_the_on_reach_camera_shows_the_whole_reach_of_a_fixed_robot():
    model = links()
    by_default, chosen = (camera_of("Links", model, OPTIONS, each) for each in (Camera(), Camera(on_reach=True)))
    assert place(by_default) == mujocos_own(model)  # which dm_control's tasks are rendered with
    assert not seen_at_any_time(model, by_default)
    assert seen_at_any_time(model, chosen)
    assert np.abs(chosen.lookat).max() < 0.1 and chosen.distance < 1.5
    assert place(chosen) == place(camera_of("Links", model, OPTIONS, Camera(on_reach=True)))
    closer = camera_of("Links", model, OPTIONS, Camera(on_reach=True, distance=0.3))
    assert place(closer) == (*chosen.lookat, 0.3)


@pytest.mark.parametrize(
    ("joint", "statistic"),
    [("<freejoint/>", ""), ('<joint type="slide" limited="false"/>', ""), ("<joint/>", '<statistic extent="2"/>')],
    ids=["flies", "runs", "its author knows"],
)
def test_the_on_reach_camera_of_other_robots_is_mujocos_default(joint, statistic):
    model = links(joint, statistic)
    assert place(camera_of("Links", model, OPTIONS, Camera(on_reach=True))) == mujocos_own(model)

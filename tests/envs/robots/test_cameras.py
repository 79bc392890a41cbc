"""Robots are followed by two cameras: one stays at their side, the other turns with them."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from headrace.envs.robots.models import ROBOTS
from headrace.envs.robots.specs import compiled

BODY = "<body pos='0 0 1'><freejoint/><geom size='.1'/></body>"


def model_of(file: str) -> mujoco.MjModel:
    return compiled(None, {"xml_file": file, "collisions": "feet", "render_looks": ""})


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_chase_camera_is_behind_a_robot_wherever_it_goes(robot: str) -> None:
    model = model_of(f"{robot}.xml")
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    aside = []
    for heading in (0.0, 2.0):
        data.qpos[:2], data.qpos[3:7] = (heading, 1.0), (np.cos(heading / 2), 0, 0, np.sin(heading / 2))
        mujoco.mj_forward(model, data)
        camera = data.camera("chase")
        way = data.xpos[1] - camera.xpos
        assert np.arctan2(way[1], way[0]) == pytest.approx(heading)
        assert camera.xmat.reshape(3, 3)[:, 2] == pytest.approx(-way / np.linalg.norm(way))  # it looks along its -z
        assert camera.xpos[2] > data.xpos[1, 2] and 1 < np.linalg.norm(way) < 3
        aside.append(data.camera("track").xmat.copy())
    assert aside[0] == pytest.approx(aside[1])


def test_a_file_without_cameras_has_both_and_ones_own_stay(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    for own, keys, cameras in (
        ("", "<keyframe><key name='home'/></keyframe>", ["track", "chase"]),
        ("<camera name='chase' pos='-5 0 0'/>", "<keyframe><key name='home'/></keyframe>", ["chase", "track"]),
        ("", "", ["track", "chase"]),
    ):
        body = BODY.replace("<geom", f"{own}<geom")
        file.write_text(f"<mujoco><worldbody>{body}</worldbody>{keys}</mujoco>")
        model = model_of(str(file))
        assert [model.camera(i).name for i in range(model.ncam)] == cameras
        assert not own or model.camera("chase").pos[0] == -5

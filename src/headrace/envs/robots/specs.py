"""The file of a robot's model, with what its task adds: the shapes that collide, and cameras that follow the robot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.envs.mujoco.common import model_path, warnings_dropped
from headrace.envs.robots.looks import COLLISION, LOOK, dress
from headrace.envs.robots.models import FOLDER
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.options import Options

QPOS = 7  # where angles of joints begin, after the free one
ALL = "all"
"""the value of the option ``collisions`` with which a robot's whole body touches the ground"""
TRACK, CHASE = "track", "chase"  # cameras that follow the robot; the second, from behind, turns with it


def spec_of(options: Options) -> Any:
    """Returns the `mujoco.MjSpec` of the option ``xml_file``, with the shapes colliding that ``collisions`` wants.

    All are those for collisions of a body, or else those by which it is drawn. They touch the ground alone. The option
    ``render_looks`` adds meshes to be drawn in their place.
    """
    spec = library().MjSpec.from_file(str(model_path(options, FOLDER)))
    add_cameras(spec)
    if options["collisions"] == ALL:
        ground = {geom.name for geom in spec.worldbody.geoms}
        pairs = [{pair.geomname1, pair.geomname2} for pair in spec.pairs]
        touching = {name for pair in pairs if pair & ground for name in pair}
        for body in spec.bodies[1:]:
            groups = [[geom for geom in body.geoms if geom.group == group] for group in (COLLISION, LOOK)]
            for geom in groups[0] or groups[1]:
                if not (geom.contype or geom.conaffinity or geom.name in touching - {""}):
                    geom.conaffinity = 1
    if options["render_looks"]:
        dress(spec, options["render_looks"])
    return spec


def add_cameras(spec: Any) -> None:
    """Adds the cameras `TRACK` and `CHASE` to a `mujoco.MjSpec` that lacks them, as far away as fits its robot."""
    kinds, trunk = library().mjtCamLight, spec.worldbody.first_body()
    if trunk is None:  # `check_model` says so
        return
    have = {camera.name for camera in spec.cameras}
    away = 0.8 + 2 * next((key.qpos[2] for key in spec.keys if len(key.qpos) > QPOS), 0.5)
    if TRACK not in have:
        trunk.add_camera(
            name=TRACK, mode=kinds.mjCAMLIGHT_TRACKCOM, pos=away * np.array((0.63, -0.75, 0.23)),
            xyaxes=(0.77, 0.638, 0, -0.17, 0.205, 0.964),
        )  # fmt: skip
    if CHASE not in have:
        trunk.name = trunk.name or "trunk"
        trunk.add_camera(
            name=CHASE, mode=kinds.mjCAMLIGHT_TARGETBODY, targetbody=trunk.name, pos=away * np.array((-0.95, 0, 0.3))
        )


def compiled(settle: Callable[[Any], None] | None, options: Options) -> Any:
    """Returns the model of `spec_of`, which ``settle`` changes first."""
    spec = spec_of(options)
    if settle is not None:
        settle(spec)
    with warnings_dropped():
        return spec.compile()

"""Pictures of MuJoCo tasks: their options, and the camera that they are seen by.

Options are EnvPool's, and Gymnasium's where EnvPool has none. Native code draws
(``native/mujoco/painter.hpp``), so that pictures may be observations too, made by the threads that step.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.executors.mujoco.fields import MjModel, MjvCamera, library
from headrace.pool.options import Checked, Option, Options

SEEN_SIDE, DRAWN_SIDE = 84, 480  # pixels: as an observation, as EnvPool has it; for people, as Gymnasium has it
MOST = 8192  # pixels a side
MOST_GEOMS = 10_000  # in a scene, as in MuJoCo's own Renderer
POSES = 100  # of which a reach is made
CAMERA_ID, CAMERA_NAME = "render_camera_id", "render_camera_name"


@dataclass(frozen=True)
class Camera:
    """Where a task is seen from, unless its options name a camera of the model.

    Attributes:
        name: a camera of the model, if it has one of this name; else the free camera is taken.
        distance, azimuth, elevation, lookat: the free camera's, where not MuJoCo's own; m, degrees, m.
        on_geoms: whether the free camera looks at the geoms' median position, and from as far as the model is
            large, as Gymnasium's does; else it looks at the model's centre.
        on_reach: whether it looks at all that a model that is fixed somewhere reaches with its joints, where
            MuJoCo's own view, of the pose of the beginning or as ``<statistic>`` says, shows less.
    """

    name: str = ""
    distance: float | None = None
    azimuth: float | None = None
    elevation: float | None = None
    lookat: tuple[float, float, float] | None = None
    on_geoms: bool = False
    on_reach: bool = False


def picture_options(given: Options) -> dict[str, Option]:
    """The options that every task has; sizes' defaults differ between pictures for agents and for people."""
    kinds = range(int(library().mjtVisFlag.mjNVISFLAG))
    side = SEEN_SIDE if given.get("from_pixels") is True else DRAWN_SIDE
    return {
        "from_pixels": Option(False),
        "render_width": Option(side, 1, MOST),
        "render_height": Option(side, 1, MOST),
        CAMERA_ID: Option(-1, -1),
        CAMERA_NAME: Checked("", check=_name, wanted="a name"),
        "render_effects": Option(True),
        "max_geom": Option(MOST_GEOMS, 1, 100 * MOST_GEOMS),
        "visual_options": Checked({}, check=partial(_flags, kinds), wanted="a dict: mujoco.mjtVisFlag → True or False"),
    }


def picture_space(options: Options, depth: int = 1) -> gym.spaces.Box:
    """Pixels uint8[3 · depth, height, width]: red, green and blue of the latest pictures, oldest first."""
    return gym.spaces.Box(0, 255, (3 * depth, options["render_height"], options["render_width"]), np.uint8)


def camera_of(task: str, model: MjModel, options: Mapping[str, Any], chosen: Camera) -> MjvCamera:
    """The `mujoco.MjvCamera` that the options name, or the task's; raises `OptionError` for one that is not there."""
    mujoco = library()
    number, name = options[CAMERA_ID], options[CAMERA_NAME]
    if number >= 0 and name:
        raise OptionError(f"{task}: give {CAMERA_ID} or {CAMERA_NAME}, not both")
    if name:
        number = named(model, name)
        if number < 0:
            raise OptionError(f"{task} has no camera {name!r}; {cameras(model)}")
    if number >= model.ncam:
        raise OptionError(f"{task} has no camera {number}; {cameras(model)}")
    if number < 0 and chosen.name:
        number = named(model, chosen.name)
    camera = mujoco.MjvCamera()
    if number >= 0:
        camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
        return camera
    mujoco.mjv_defaultFreeCamera(model, camera)
    if chosen.on_geoms:
        mujoco.mjv_defaultCamera(camera)
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        camera.lookat, camera.distance = np.median(data.geom_xpos, axis=0), model.stat.extent
    elif chosen.on_reach and (view := _reach(model)) is not None:
        camera.lookat, camera.distance = view
    for field in ("distance", "azimuth", "elevation", "lookat"):
        if getattr(chosen, field) is not None:
            setattr(camera, field, getattr(chosen, field))
    return camera


def _reach(model: MjModel) -> tuple[np.ndarray, float] | None:
    """Where a free camera looks, and from how far, to see all that a model that is fixed somewhere can reach.

    None for a model that runs or flies, and where MuJoCo's own view, of the pose of the beginning, shows all.
    """
    mujoco, data, chance = library(), library().MjData(model), np.random.default_rng(0)
    hinge, slide = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
    kinds, limited = model.jnt_type, model.jnt_limited.astype(bool)
    moves = (model.body_weldid[model.geom_bodyid] != 0) & (model.geom_rbound > 0)
    if not moves.any() or not np.isin(kinds, (hinge, slide)).all() or not limited[kinds == slide].all():
        return None
    low, high = np.where(limited[:, None], model.jnt_range, (-np.pi, np.pi)).T
    ends, size = [], model.geom_rbound[moves, None]
    for _ in range(POSES):
        data.qpos[model.jnt_qposadr] = chance.uniform(low, high)
        mujoco.mj_kinematics(model, data)
        ends += [data.geom_xpos[moves] - size, data.geom_xpos[moves] + size]
    least, most = np.concatenate(ends).min(0), np.concatenate(ends).max(0)
    shown = model.stat.extent / 2
    if (least >= model.stat.center - shown).all() and (most <= model.stat.center + shown).all():
        return None
    return (least + most) / 2, 1.5 * (most - least).max()  # as far for its size as MuJoCo's own


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flags(kinds: range, value: Any) -> dict[int, bool]:
    """What to draw, by the number of its `mujoco.mjtVisFlag`, which JSON writes as a string."""
    if not isinstance(value, Mapping):
        raise TypeError
    flags = {int(flag) if isinstance(flag, str) else operator.index(flag): on for flag, on in value.items()}
    if not all(flag in kinds and isinstance(on, bool | np.bool_) for flag, on in flags.items()):
        raise ValueError
    return {flag: bool(flags[flag]) for flag in sorted(flags)}


def named(model: MjModel, name: str) -> int:
    """The number of a camera, or -1."""
    mujoco = library()
    return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)


def cameras(model: MjModel) -> str:
    """What cameras there are."""
    if not model.ncam:
        return "its model has none"
    return "it has " + ", ".join(f"{i} ({model.camera(i).name!r})" for i in range(model.ncam))

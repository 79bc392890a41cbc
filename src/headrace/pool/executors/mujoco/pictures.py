"""Rendering options and cameras of MuJoCo tasks.

Options have EnvPool's names, and Gymnasium's if EnvPool has none. Native code (``native/mujoco/painter.hpp``) renders,
so that the threads that step can also render observations.
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

SEEN_SIDE, DRAWN_SIDE = 84, 480  # default width and height: of an observation, as in EnvPool; a frame, as in Gymnasium
MOST = 8192  # greatest width and height in pixels
MOST_GEOMS = 10_000  # default limit of geoms in a scene, as in MuJoCo's own Renderer
POSES = 100  # random poses from which a model's reach is computed
CAMERA_ID, CAMERA_NAME = "render_camera_id", "render_camera_name"


@dataclass(frozen=True)
class Camera:
    """The default camera of a task, used unless its options name a camera of the model.

    Attributes:
        name: the name of a camera of the model; if the model has none of this name, the free camera is used.
        distance, azimuth, elevation, lookat: parameters of the free camera, in m, degrees, degrees and m; None for
            MuJoCo's defaults.
        on_geoms: whether the free camera looks at the geoms' median position, at a distance of the model's extent, as
            in Gymnasium; otherwise it looks at the model's centre.
        on_reach: whether the free camera shows everything that a model with a fixed base can reach with its joints,
            if MuJoCo's own view, of the initial pose or from ``<statistic>``, shows less.
    """

    name: str = ""
    distance: float | None = None
    azimuth: float | None = None
    elevation: float | None = None
    lookat: tuple[float, float, float] | None = None
    on_geoms: bool = False
    on_reach: bool = False


def picture_options(given: Options) -> dict[str, Option]:
    """Returns the rendering options of every task; default sizes differ between observations and frames."""
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
    """Returns the space of pixels uint8[3 · depth, height, width]: red, green, blue of each picture, oldest first."""
    return gym.spaces.Box(0, 255, (3 * depth, options["render_height"], options["render_width"]), np.uint8)


def camera_of(task: str, model: MjModel, options: Mapping[str, Any], chosen: Camera) -> MjvCamera:
    """Returns the `mujoco.MjvCamera` that the options name, or the task's default.

    Raises:
        OptionError: there is no such camera, or the options name two.
    """
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
    """Returns the point [3] and distance in m of a free camera that shows all that a model with a fixed base can reach.

    Returns None for a model with other joints than hinges and limited slides, or if MuJoCo's default view shows all.
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
    return (least + most) / 2, 1.5 * (most - least).max()  # the ratio of distance to size of MuJoCo's default view


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flags(kinds: range, value: Any) -> dict[int, bool]:
    """Returns number of a `mujoco.mjtVisFlag` → visibility; keys may be strings, as in JSON."""
    if not isinstance(value, Mapping):
        raise TypeError
    flags = {int(flag) if isinstance(flag, str) else operator.index(flag): on for flag, on in value.items()}
    if not all(flag in kinds and isinstance(on, bool | np.bool_) for flag, on in flags.items()):
        raise ValueError
    return {flag: bool(flags[flag]) for flag in sorted(flags)}


def named(model: MjModel, name: str) -> int:
    """Returns the number of the camera of this name, or -1."""
    mujoco = library()
    return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)


def cameras(model: MjModel) -> str:
    """Returns a description of the model's cameras, for messages."""
    if not model.ncam:
        return "its model has none"
    return "it has " + ", ".join(f"{i} ({model.camera(i).name!r})" for i in range(model.ncam))

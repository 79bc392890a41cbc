"""Arrows over pictures of robots: how they are commanded to move, and how they do.

Rendered pictures, videos and pages have them; observations of pixels have not, as nobody is to learn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from headrace.errors import KernelError
from headrace.pool.executors.mujoco.fields import MjModel, begin, library

OPTION = "render_arrows"
COMMANDED, DONE = (0.1, 0.75, 0.3, 1.0), (0.2, 0.45, 1.0, 1.0)  # red, green, blue, opacity
FORESEEN = 0.6  # seconds of moving that an arrow shows; an arc shows a whole second of turning
LEAST = 0.05  # m/s or rad/s that are drawn
MOST = 2.7  # m/s or rad/s that are drawn
PIECES = 6  # of an arc
HEAD_LENGTH, HEAD_WIDTH = 6.0, 2.4  # of an arrow's head, in widths of its rod
ARROW = 12  # numbers of a row: from and to (m), radius (m), whether it is a head, colour; see native/mujoco/painter.hpp
WIDTH, HEADED, COLOUR = 6, 7, slice(8, 12)

Arrows = Callable[[Mapping[str, np.ndarray], np.ndarray], np.ndarray]
"""a function (arrays of the state, ids of K environments) → float32 [K, n, `ARROW`], for any K the same n"""


def velocity_arrows(model: MjModel) -> Arrows:
    """Returns the arrows of a robot that moves by commands, above it: green what is commanded, blue what it does.

    Straight ones are velocities, as long as the way of 0.6 s; arcs are turning, as long as that of a second.
    The first joint must be free, and the task's state has to have an array ``command`` float64 [N, 3]: m/s forwards,
    m/s to the left, rad/s to the left.

    Raises:
        KernelError: the first joint is not free.
    """
    mujoco = library()
    if not model.njnt or model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE:
        raise KernelError("velocity_arrows are for a robot whose first joint is free")
    height, size = _extent(model)

    def arrows(state: Mapping[str, np.ndarray], env_ids: np.ndarray) -> np.ndarray:
        if "command" not in state or state["command"].shape[1:] != (3,):
            raise KernelError("velocity_arrows need an array command of the task's state, with 3 numbers a row")
        place, command = state["qpos"][env_ids], state["command"][env_ids]
        speed, (w, x, y, z) = state["qvel"][env_ids], place[:, 3:7].T
        heading = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        above, up = place[:, :3] + (0.0, 0.0, height), np.array((0.0, 0.0, 0.1 * size))
        ahead, left = _at(heading), _at(heading + np.pi / 2)
        wanted = command[:, :1] * ahead + command[:, 1:2] * left
        moving = np.concatenate((speed[:, :2], np.zeros_like(heading)[:, None]), 1)
        thin, thick = 0.024 * size, 0.032 * size
        return np.concatenate(
            (
                _straight(above, wanted, thick, COMMANDED),
                _straight(above + up, moving, thin, DONE),
                _arc(above, heading, command[:, 2], 1.0 * size, thick, COMMANDED),
                _arc(above, heading, speed[:, 5], 0.85 * size, thin, DONE),
            ),
            1,
        ).astype(np.float32)

    return arrows


def _extent(model: MjModel) -> tuple[float, float]:
    """Returns how far above its root a robot's arrows are in its first pose, and a size for them (m)."""
    mujoco, data = library(), library().MjData(model)
    begin(model, data, 0 if model.nkey else -1)
    mujoco.mj_kinematics(model, data)
    moves = model.body_weldid[model.geom_bodyid] != 0
    top = (data.geom_xpos[moves, 2] + model.geom_rbound[moves]).max(initial=data.qpos[2]) - data.qpos[2]
    return float(top), float(np.clip(data.qpos[2], 0.35, 0.55))


def _at(angle: np.ndarray) -> np.ndarray:
    """Returns the points […, 3] of a level circle of radius 1 at these angles […]."""
    return np.stack((np.cos(angle), np.sin(angle), np.zeros_like(angle)), -1)


def _straight(start: np.ndarray, velocity: np.ndarray, width: float, colour: tuple[float, ...]) -> np.ndarray:
    """Returns pieces [K, 2, 12] of an arrow from a point [K, 3] along a velocity [K, 3]."""
    fast = np.linalg.norm(velocity, axis=1)
    way = velocity / np.maximum(fast, LEAST)[:, None]
    length = FORESEEN * np.minimum(fast, MOST)
    rod = np.maximum(length - HEAD_LENGTH * width, 0.3 * length)
    points = np.stack((start, start + way * rod[:, None], start + way * length[:, None]), 1)
    return _rows(points, np.where(fast >= LEAST, width, 0.0), colour)


def _arc(
    centre: np.ndarray, heading: np.ndarray, turning: np.ndarray, radius: float, width: float, colour: tuple[float, ...]
) -> np.ndarray:
    """Returns pieces [K, n, 12] of an arc about a point [K, 3], from ahead, to where ``turning`` [K] leads."""
    angles = heading[:, None] + np.linspace(0.0, 1.0, PIECES + 1) * np.clip(turning, -MOST, MOST)[:, None]
    points = centre[:, None] + radius * _at(angles)
    onwards = np.sign(turning)[:, None] * HEAD_LENGTH * width * _at(angles[:, -1] + np.pi / 2)
    points = np.concatenate((points, (points[:, -1] + onwards)[:, None]), 1)
    return _rows(points, np.where(abs(turning) >= LEAST, width, 0.0), colour)


def _rows(points: np.ndarray, width: np.ndarray, colour: tuple[float, ...]) -> np.ndarray:
    """Returns rods [K, n, 12] between points [K, n + 1, 3], of a width [K], the last of which is an arrow's head."""
    rows = np.zeros((len(points), points.shape[1] - 1, ARROW))
    rows[..., :3], rows[..., 3:6], rows[..., WIDTH], rows[..., COLOUR] = (
        points[:, :-1],
        points[:, 1:],
        width[:, None],
        colour,
    )
    rows[:, -1, HEADED] = 1.0
    length = np.linalg.norm(points[:, -1] - points[:, -2], axis=1)
    rows[:, -1, WIDTH] = HEAD_WIDTH * np.minimum(width, length / HEAD_LENGTH)  # of a short arrow it is small
    return rows

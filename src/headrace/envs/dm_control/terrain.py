"""The bumpy bowl from which the quadruped is rewarded for escaping.

dm_control draws a coarse grid of random heights and interpolates it with `scipy.ndimage.zoom`. The interpolation is
linear in the heights, and therefore a matrix product, with the same matrix for rows and columns.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import numpy as np
import warp as wp

from headrace.pool.executors.mujoco import Streams, uniform

BUMPS = 30  # knots along each side, one every two meters
FLATTEST = wp.constant(wp.float64(0.15))  # least relative height of a knot
ZERO = wp.constant(wp.float64(0.0))


def spline(knots: int, points: int) -> np.ndarray:
    """Returns the matrix of a cubic spline's interpolation, float64[points, knots].

    Multiplied by the values at ``knots`` evenly spaced positions, it gives the spline's values at ``points`` evenly
    spaced positions of the same interval. The values are mirrored at the interval's ends.
    """
    mirrored = np.abs((np.arange(-1, knots + 1) + knots - 1) % (2 * knots - 2) - (knots - 1))
    # a B-spline is 4/6 at its own knot and 1/6 at the adjacent ones
    values = np.zeros((knots, knots))
    for i in range(knots):
        for at, worth in ((i, 1 / 6), (i + 1, 4 / 6), (i + 2, 1 / 6)):
            values[i, mirrored[at]] += worth
    places = np.linspace(0, knots - 1, points)
    contributions = np.zeros((points, knots))
    for knot in range(-1, knots + 1):
        distance = np.abs(places - knot)
        near = (4 - 6 * distance**2 + 3 * distance**3) / 6
        far = np.maximum(2 - distance, 0) ** 3 / 6
        contributions[:, mirrored[knot + 1]] += np.where(distance < 1, near, far)
    return contributions @ np.linalg.inv(values)


def tables(resolution: int) -> dict[str, np.ndarray]:
    """Returns the tables of a height field of this resolution.

    ``spline`` is float64[resolution, BUMPS]. ``bowl``, float64[resolution, resolution], is the relative height of the
    bowl without bumps, which is about 0 in the middle and 0 from the circle of the rim on.
    """
    side = np.linspace(-1, 1, resolution)
    radius = np.clip(np.hypot(side[:, None], side[None]), 0.04, 1)
    return {"spline": spline(BUMPS, resolution), "bowl": 0.5 - np.cos(2 * np.pi * radius) / 2}


@wp.func
def draw_terrain(physics: Any, state: Any, env: int, streams: Streams):
    """Writes a random terrain into ``hfield_data``.

    ``state`` has the tables, and the buffers ``bumps`` float64[envs, BUMPS, BUMPS] and ``profile``
    float64[envs, BUMPS].
    """
    knots = state.spline.shape[1]
    points = state.spline.shape[0]
    for i in range(knots):
        for j in range(knots):
            state.bumps[env, i, j] = uniform(streams, env, FLATTEST, wp.float64(1.0))
    for row in range(points):
        for j in range(knots):
            height = ZERO
            for i in range(knots):
                height += state.spline[row, i] * state.bumps[env, i, j]
            state.profile[env, j] = height
        for column in range(points):
            height = ZERO
            for j in range(knots):
                height += state.spline[column, j] * state.profile[env, j]
            physics.hfield_data[env, row * points + column] = wp.float32(height * state.bowl[row, column])

"""The bowl of random bumps that a quadruped is to escape from.

dm_control draws a coarse grid of random heights and lets `scipy.ndimage.zoom` make a fine one of it. That is
linear in the heights: a matrix, the same for rows and columns.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import numpy as np
import warp as wp

from headrace.pool.executors.mujoco import Streams, uniform

BUMPS = 30  # along each side: one every two metres
FLATTEST = wp.constant(wp.float64(0.15))
ZERO = wp.constant(wp.float64(0.0))


def spline(knots: int, points: int) -> np.ndarray:
    """What values at ``knots`` evenly spaced places contribute to those at ``points``, both with the two ends.

    The cubic spline through the values, mirrored at the ends; [points, knots].
    """
    mirrored = np.abs((np.arange(-1, knots + 1) + knots - 1) % (2 * knots - 2) - (knots - 1))
    # a B-spline is worth 4/6 at its own knot and 1/6 at its neighbours'
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
    """``spline``, and the heights of the bowl without bumps: 0 in the middle and at the rim's circle."""
    side = np.linspace(-1, 1, resolution)
    radius = np.clip(np.hypot(side[:, None], side[None]), 0.04, 1)
    return {"spline": spline(BUMPS, resolution), "bowl": 0.5 - np.cos(2 * np.pi * radius) / 2}


@wp.func
def draw_terrain(physics: Any, state: Any, env: int, streams: Streams):
    """Write a random terrain into hfield_data; `state` has the tables, and ``bumps`` and ``profile`` to work on."""
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

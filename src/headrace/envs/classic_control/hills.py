"""The observation space, its parts and the rendering that both mountain car tasks share, as in Gymnasium."""

import math

import gymnasium as gym
import numpy as np

from headrace.envs.drawing import BLACK, Canvas, Point, box
from headrace.pool.signals import numbers

LEFT, RIGHT = -1.2, 0.6
SCALE = 600 / (RIGHT - LEFT)
OBSERVATION = gym.spaces.Box(np.array([LEFT, -0.07], np.float32), np.array([RIGHT, 0.07], np.float32), dtype=np.float32)
SEEN = numbers(position="", velocity="1/step")
"""the track has no unit, and the world no time of its own"""


def draw(position: float, goal: float) -> np.ndarray:
    """Returns a frame of the track, the car and the flag at the goal, uint8[400, 600, 3]."""
    canvas = Canvas(600, 400)
    canvas.line([_at(x) for x in np.linspace(LEFT, RIGHT, 100)])

    x, y = _at(position)
    tilt = math.cos(3 * position)
    canvas.polygon(box(-20, 20, 0, 20, tilt, (x, y + 10)), BLACK)
    for wheel in box(-10, 10, 0, 0, tilt, (x, y + 10))[::2]:
        canvas.circle(wheel, 8, (128, 128, 128))

    x, y = _at(goal)
    canvas.line([(x, y), (x, y + 50)])
    canvas.polygon([(x, y + 50), (x, y + 40), (x + 25, y + 45)], (204, 204, 0))
    return canvas.array()


def _at(position: float) -> Point:
    return (position - LEFT) * SCALE, (math.sin(3 * position) * 0.45 + 0.55) * SCALE

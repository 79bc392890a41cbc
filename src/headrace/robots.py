"""The public names for those who bring a robot of their own that walks.

    from headrace.robots import Robot, walking

`Robot` has the numbers of a robot, and `walking` makes of them a task, which is what `headrace.register` takes.
``docs/own-robot.md`` is a tutorial.
"""

from headrace.envs.robots.quadruped import SCALES
from headrace.envs.robots.robot import Robot, walking

__all__ = ["SCALES", "Robot", "walking"]

"""Unitree's Go2: the task of the Go1, with the servos, pose and commands of Unitree's own policy."""

from dataclasses import replace

from headrace.envs.robots.go1 import GO1
from headrace.envs.robots.quadruped import TERMS, step
from headrace.envs.robots.robot import walking

GO2 = replace(GO1, name="Go2", model="go2.xml", radius=0.022, limits=(1.0, 0.5, 1.0))
TASKS = {"Go2Flat-v0": walking(GO2, step, TERMS)}

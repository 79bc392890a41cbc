"""Unitree's Go1: MuJoCo Playground's Go1JoystickFlatTerrain."""

from headrace.envs.robots.quadruped import SCALES, TERMS, soft_limits, step
from headrace.envs.robots.robot import Robot, walking

GO1 = Robot(
    name="Go1",
    model="go1.xml",
    start="home",
    frame_skip=5,
    feet=("FR", "FL", "RR", "RL"),
    sole=((0.0, 0.0, 0.0),),
    radius=0.023,
    limits=(1.5, 0.8, 1.2),
    kept=(0.9, 0.25, 0.5),
    changed=0.5,
    period=5.0,
    regular=False,
    weights=(1.0, 1.0, 0.1) * 4,
    soft_limits=soft_limits,
    foot_height=0.1,
    scales=SCALES,
    action_scale=0.5,
    fall=1.0,
)
TASKS = {"Go1Flat-v0": walking(GO1, step, TERMS)}

"""Unitree's Go1: MuJoCo Playground's Go1JoystickFlatTerrain, and its Go1JoystickRoughTerrain."""

from dataclasses import replace
from typing import Any

from headrace.envs.mujoco.common import warnings_dropped
from headrace.envs.robots.ground import HALF, POINTS, heights
from headrace.envs.robots.quadruped import SCALES, TERMS, soft_limits, step, step_on_rough_ground
from headrace.envs.robots.robot import Robot, files, walking
from headrace.envs.robots.specs import spec_of
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.options import Option, Options

ABOVE = 0.3  # the height of the trunk over the highest point where an episode starts, m


def on_rough_ground(options: Options) -> Any:
    """Returns the model with a height field in place of its floor."""
    mujoco = library()
    spec = spec_of(options)
    size = (HALF, HALF, options["roughness"], 1.0)
    field = heights(options["ground"])
    spec.add_hfield(name="ground", nrow=POINTS, ncol=POINTS, size=size, userdata=field.ravel())
    floor = spec.geom("floor")
    floor.type, floor.hfieldname, floor.friction = mujoco.mjtGeom.mjGEOM_HFIELD, "ground", (1.0, *floor.friction[1:])
    qpos = spec.key("home").qpos
    qpos[2] = ABOVE + options["roughness"]
    spec.key("home").qpos = qpos
    with warnings_dropped():
        return spec.compile()


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
ROUGH = replace(
    GO1,
    name="Go1Rough",
    model=on_rough_ground,
    forces=tuple(f"{foot}_floor_found" for foot in GO1.feet),
    reads=("sensordata",),
)
ROUGHNESS: dict[str, Any] = files("go1.xml") | {"roughness": Option(0.05, 0.001, 1.0), "ground": Option(0, 0)}
TASKS = {
    "Go1Flat-v0": walking(GO1, step, TERMS),
    "Go1Rough-v0": walking(ROUGH, step_on_rough_ground, TERMS, **ROUGHNESS),
}

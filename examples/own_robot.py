"""A robot of one's own, from its URDF to walking by commands: 12 joints, 6.4 kg, drawn in pup.urdf beside this file.

A URDF says what a robot weighs and how it bends. What it does not say is added here: that it is free, ground, feet,
servos, and the pose in which it stands. docs/own-robot.md explains each.

    python examples/own_robot.py [TOTAL_STEPS]

The commands know its task by the file's name: ``headrace train examples/own_robot.py``.
"""

import argparse
import math
from pathlib import Path

import mujoco
import numpy as np

import headrace
from headrace.robots import Robot, walking

LEGS = ("FL", "FR", "RL", "RR")
POSE = (0.0, 0.8, -1.6) * 4  # hip, thigh and knee of each leg, rad
STIFFNESS, DAMPING = 30.0, 0.6  # of the servos, N m/rad and N m s/rad
LENGTH, RADIUS = 0.17, 0.02  # of a thigh and of a lower leg, and of the ball at its end, m


def robot() -> mujoco.MjSpec:
    """Returns the robot of the URDF, free, with feet and sensors, servos, and the pose in which it stands."""
    spec = mujoco.MjSpec.from_file(str(Path(__file__).with_name("pup.urdf")))
    trunk = spec.body("trunk")
    trunk.add_freejoint()
    trunk.add_site(name="imu")
    trunk.add_camera(
        name="track", mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM, pos=(0.8, -1, 0.35),
        xyaxes=(0.78, 0.62, 0, -0.17, 0.21, 0.96),
    )  # fmt: skip
    chase = mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODY  # from behind, for those who drive it
    trunk.add_camera(name="chase", mode=chase, targetbody="trunk", pos=(-1.2, 0, 0.4))
    for geom in spec.geoms:  # only feet collide, which is fast, and enough to walk
        geom.contype = geom.conaffinity = 0
    for leg in LEGS:
        lower, place = spec.body(f"{leg}_lower"), (0, 0, -LENGTH)
        lower.add_site(name=leg, pos=place)
        lower.add_geom(
            name=leg,
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=(RADIUS, 0, 0),
            pos=place,
            mass=0,
            contype=1,
            conaffinity=0,
        )
        for part in ("hip", "thigh", "knee"):
            joint = spec.joint(f"{leg}_{part}")
            joint.armature, joint.frictionloss = 0.005, 0.1
            servo = spec.add_actuator(name=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint.name)
            servo.set_to_position(kp=STIFFNESS, kv=DAMPING)
    height = RADIUS + LENGTH * (math.cos(POSE[1]) + math.cos(POSE[1] + POSE[2]))
    spec.add_key(name="home", qpos=(0, 0, height, 1, 0, 0, 0, *POSE), ctrl=POSE)
    return spec


def robot_on_ground() -> mujoco.MjSpec:
    """Returns the robot on level ground, and how a step is computed."""
    spec = robot()
    spec.option.timestep, spec.option.integrator = 0.004, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    world = spec.worldbody
    world.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 1), contype=0, conaffinity=1,
        friction=(0.8, 0.005, 0.0001), material="floor",
    )  # fmt: skip
    world.add_light(type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, pos=(0, 0, 3), dir=(-0.3, 0.3, -1), castshadow=False)
    checker = mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    spec.add_texture(
        name="floor", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=checker, width=64, height=64,
        rgb1=(0.66, 0.71, 0.76), rgb2=(0.5, 0.56, 0.63),
    )  # fmt: skip
    floor = spec.add_material(name="floor", texuniform=True, texrepeat=(2, 2))
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
    return spec


def model(options) -> mujoco.MjModel:
    """Returns what MuJoCo makes of it."""
    return robot_on_ground().compile()


PUP = Robot(name="Pup", model=model, feet=LEGS, radius=RADIUS, weights=(1.0, 1.0, 0.1) * 4, foot_height=0.08)
headrace.register("PupFlat-v0", walking(PUP))


def played(run_dir, games=64, seconds=20):
    """Returns how close an agent keeps to its commands, 0 to 1, and the share of games in which it falls."""
    agent, steps = headrace.load(run_dir, which="newest"), 50 * seconds
    with headrace.make("PupFlat-v0", num_envs=games, seed=7) as pool:
        obs, _ = pool.reset()
        fell, kept = np.zeros(games, bool), []
        for _ in range(steps):
            obs, _, terminated, _, info = pool.step(agent.act(obs))
            fell |= terminated
            kept.extend(info["tracking"][~fell])
    return np.mean(kept), fell.mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("total_steps", nargs="?", type=int, default=3_000_000, help="agent steps (3,000,000)")
    result = headrace.train("PupFlat-v0", total_steps=parser.parse_args().total_steps, video=False)
    kept, fell = played(result.run_dir)
    print(f"tracking {kept:.2f} of 1, a fall in {fell:.0%} of 64 games of 20 s; run folder {result.run_dir}")

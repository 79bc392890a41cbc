"""A small robot with four legs learns to walk at the speed that it is told, and to bear pushes.

It shows what a robot's task says in a line each: servos as actions, a start from a keyframe, sensors by name, noise,
masses and friction that differ between episodes, and metrics. docs/mujoco-task.md explains them.

    python examples/walker.py [TOTAL_STEPS]

The commands know its task by the file's name: ``headrace train examples/walker.py``.
"""

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.mujoco import (
    Field,
    MujocoEnv,
    MujocoTask,
    Servo,
    Streams,
    normal,
    projected_gravity,
    scale,
    to_frame,
    uniform,
)

F = wp.float64
LEG = """
<body name="{0}" pos="{1} {2} 0"><joint name="{0}_hip"/><geom fromto="0 0 0 0 0 -.12"/>
  <body pos="0 0 -.12"><joint name="{0}_knee"/><geom fromto="0 0 0 0 0 -.12"/>
    <geom name="{0}_foot" type="sphere" pos="0 0 -.12" size=".02" contype="1" friction=".8"/></body></body>"""
LEGS = {
    "front_left": (0.15, 0.08),
    "front_right": (0.15, -0.08),
    "rear_left": (-0.15, 0.08),
    "rear_right": (-0.15, -0.08),
}
XML = f"""
<mujoco>
  <option timestep="0.004" integrator="implicitfast"/>
  <default>
    <joint axis="0 1 0" damping=".2" armature=".005" range="-120 120"/> <position kp="12" forcerange="-8 8"/>
    <geom type="capsule" size=".015" mass=".1" contype="0"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1" contype="0" conaffinity="1"/>
    <body name="trunk" pos="0 0 .22"><freejoint/><site name="imu"/>
      <geom type="box" size=".18 .06 .04" mass="3"/>{"".join(LEG.format(leg, *at) for leg, at in LEGS.items())}</body>
  </worldbody>
  <actuator>{"".join(f'<position joint="{leg}_hip"/><position joint="{leg}_knee"/>' for leg in LEGS)}</actuator>
  <sensor><gyro name="gyro" site="imu"/></sensor>
  <keyframe><key name="home" qpos="0 0 .22 1 0 0 0 {".5 -1 " * 4}" ctrl="{".5 -1 " * 4}"/></keyframe>
</mujoco>"""


@wp.struct
class State:
    command: wp.array[F]
    last: wp.array2d[F]
    home: wp.array[F]
    trunk: int
    nu: int
    noise: F
    push: F


@wp.struct
class View:
    obs: wp.array2d[wp.float32]
    tracking: wp.array[wp.float32]
    effort: wp.array[wp.float32]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    state.command[env] = uniform(streams, env, F(0.0), F(0.8))
    for i in range(state.nu):
        state.last[env, i] = F(0.0)
        physics.qpos[env, 7 + i] = physics.qpos[env, 7 + i] + uniform(streams, env, F(-0.1), F(0.1))


@wp.func
def velocity(physics: Any, state: State, env: int):
    moving = wp.vec3d(physics.qvel[env, 0], physics.qvel[env, 1], physics.qvel[env, 2])
    return to_frame(physics.xquat[env, state.trunk], moving)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View, streams: Streams):
    v, down = velocity(physics, state, env), projected_gravity(physics.xquat[env, state.trunk])
    off = (v[0] - state.command[env]) * (v[0] - state.command[env]) + v[1] * v[1]
    effort = F(0.0)
    for i in range(state.nu):
        change = actions[env, i] - state.last[env, i]
        effort += change * change
        state.last[env, i] = actions[env, i]
    view.tracking[env] = wp.float32(wp.exp(F(-8.0) * off))
    view.effort[env] = wp.float32(effort)
    if uniform(streams, env, F(0.0), F(1.0)) < F(0.005):  # a push, once in four seconds
        physics.qvel[env, 1] = physics.qvel[env, 1] + uniform(streams, env, -state.push, state.push)
    return view.tracking[env] - wp.float32(0.02) * view.effort[env], down[2] > F(-0.6)


@wp.func
def observe(physics: Any, state: State, env: int, view: View, streams: Streams):
    down = projected_gravity(physics.xquat[env, state.trunk])
    turning = physics.sensor.gyro[env]
    for i in range(3):
        view.obs[env, i] = wp.float32(normal(streams, env, down[i], F(0.05) * state.noise))
        view.obs[env, 3 + i] = wp.float32(normal(streams, env, turning[i], F(0.2) * state.noise))
    for i in range(state.nu):
        view.obs[env, 6 + i] = wp.float32(
            normal(streams, env, physics.qpos[env, 7 + i] - state.home[i], F(0.03) * state.noise)
        )
        view.obs[env, 14 + i] = wp.float32(physics.qvel[env, 6 + i] * F(0.1))
        view.obs[env, 22 + i] = wp.float32(state.last[env, i])
    view.obs[env, 30] = wp.float32(state.command[env])


def walker(options, model):
    return MujocoEnv(
        "Walker", ("qpos", "qvel", "xquat"), State, View, reset, step, observe, fresh=True, sensors=("gyro",),
        start="home", actions=Servo(scale=0.4), metrics=("tracking", "effort"), shapes={"last": (8,)},
        constants={"trunk": model.body("trunk").id}, tables={"home": model.key("home").ctrl},
        randomise={("body_mass", "body_inertia"): scale(0.9, 1.1), "geom_friction": scale(0.5, 1.2, only=("*_foot",))},
    )  # fmt: skip


SINGLE = np.dtype(np.float32)
WALKER = MujocoTask(
    walker, XML, gym.spaces.Box(-np.inf, np.inf, (31,), np.float32),
    (Field("tracking", SINGLE), Field("effort", SINGLE)), {"noise": 1.0, "push": 0.3}, frame_skip=5,
)  # fmt: skip
headrace.register("LittleWalker-v0", WALKER)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("total_steps", nargs="?", type=int, default=1_500_000, help="agent steps (1,500,000)")
    steps = parser.parse_args().total_steps
    result = headrace.train("LittleWalker-v0", total_steps=steps, video=False)
    print(f"mean return {result.mean_return:.0f} of at most 1,000; run folder {result.run_dir}")

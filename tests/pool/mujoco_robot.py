"""A small legged robot, and a task of it that uses what a task may declare, for tests."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import warp as wp

import headrace
from headrace.mujoco import Field, MujocoEnv, MujocoTask, Streams, uniform
from headrace.pool.torch.pool import TorchPool

F = wp.float64
# a trunk on two legs of a hinge each, with position servos, touching feet, and a keyframe that stands
XML = """
<mujoco>
  <option timestep="0.004" integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="trunk" pos="0 0 .5"><freejoint/><site name="imu"/>
      <geom name="trunk" type="box" size=".2 .1 .05" mass="3"/>
      <body name="front" pos=".15 0 0"><joint name="front" axis="0 1 0" range="-90 90" damping=".5"/>
        <geom name="front" type="capsule" size=".03" fromto="0 -.1 -.2 0 .1 -.2" mass=".5"/>
        <site name="front_foot" pos="0 0 -.2" type="sphere" size=".15"/></body>
      <body name="rear" pos="-.15 0 0"><joint name="rear" axis="0 1 0" range="-90 90" damping=".5"/>
        <geom name="rear" type="capsule" size=".03" fromto="0 -.1 -.2 0 .1 -.2" mass=".5"/>
        <site name="rear_foot" pos="0 0 -.2" type="sphere" size=".15"/></body>
    </body>
  </worldbody>
  <default><position kp="40" ctrlrange="-2 2"/></default>
  <actuator><position joint="front"/><position joint="rear"/></actuator>
  <sensor>
    <gyro name="imu_gyro" site="imu"/> <framequat name="imu_quat" objtype="site" objname="imu"/>
    <touch name="front_touch" site="front_foot"/> <touch name="rear_touch" site="rear_foot"/>
  </sensor>
  <keyframe>
    <key name="home" time="3" qpos="0 0 .23 1 0 0 0 .2 -.3" ctrl=".2 -.3"/>
    <key name="moving" qpos="0 0 .6 1 0 0 0 .4 .4" qvel="1 0 0 0 0 0 2 -2"/>
  </keyframe>
</mujoco>"""


@wp.struct
class State:
    command: wp.array[F]
    steps: wp.array[wp.int32]
    nq: int
    nv: int


@wp.struct
class View:
    obs: wp.array2d[F]
    noise: wp.array[F]
    command: wp.array[F]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qvel[env, 0] = uniform(streams, env, F(-1.0), F(1.0))
    state.command[env] = uniform(streams, env, F(-1.0), F(1.0))
    state.steps[env] = 0


@wp.func
def act(physics: Any, state: State, env: int, actions: wp.array2d[F], streams: Streams):
    for i in range(2):
        physics.ctrl[env, i] = actions[env, i] + uniform(streams, env, F(-0.1), F(0.1))


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View, streams: Streams):
    state.steps[env] = state.steps[env] + 1
    if state.steps[env] % 5 == 0:
        state.command[env] = uniform(streams, env, F(-1.0), F(1.0))
        physics.qvel[env, 0] = physics.qvel[env, 0] + uniform(streams, env, F(-0.3), F(0.3))
    return wp.float32(physics.qvel[env, 0] * state.command[env]), state.steps[env] >= 12


@wp.func
def observe(physics: Any, state: State, env: int, view: View, streams: Streams):
    view.noise[env] = uniform(streams, env, F(-0.1), F(0.1))
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i] + view.noise[env]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
    view.command[env] = state.command[env]


NUMBER = np.dtype(np.float64)
ENV = MujocoEnv("Pair", ("qpos", "qvel", "ctrl"), State, View, reset, step, observe, act, fresh=True)
INFO = (Field("noise", NUMBER), Field("command", NUMBER))
SEEN = gym.spaces.Box(-np.inf, np.inf, (17,), np.float64)
TASK = MujocoTask(ENV, XML, SEEN, INFO, frame_skip=5, max_episode_steps=50)


def with_env(task: MujocoTask = TASK, **changes: Any) -> MujocoTask:
    return replace(task, env=replace(task.env, **changes))


@contextmanager
def pool_of(task: MujocoTask = TASK, on_torch: bool = False, **options: Any) -> Iterator[Any]:
    """Makes a pool of a task, of torch's tensors on the CPU by MuJoCo Warp if ``on_torch``."""
    headrace.register("Pair-v0", task, replace=True)
    make = headrace.make_torch if on_torch else headrace.make
    with make("Pair-v0", **({"device": "cpu"} if on_torch else {}), **options) as pool:
        yield pool


def played(pool: Any, steps: int = 20, seed: int | None = None) -> list[dict[str, np.ndarray]]:
    """Resets and plays at random; returns observation, reward and info of the reset and of every step, in NumPy."""
    random = np.random.default_rng(0)
    rows = [recorded(*pool.reset(seed=seed))]
    for _ in range(steps):
        actions = random.uniform(-1, 1, (pool.num_envs, *pool.action_space.shape))
        obs, reward, _, _, info = pool.step(torch.as_tensor(actions) if isinstance(pool, TorchPool) else actions)
        rows.append(recorded(obs, info, reward=np.asarray(reward).copy()))
    return rows


def recorded(obs: Any, info: Any, **more: np.ndarray) -> dict[str, np.ndarray]:
    seen = {f"obs:{k}": v for k, v in obs.items()} if isinstance(obs, dict) else {"obs": obs}
    return {k: np.asarray(v).copy() for k, v in (seen | info).items() if not isinstance(v, dict)} | more


def same(ours: Any, theirs: Any, **near: float) -> None:
    """Asserts that two games are equal, or near where a name has a tolerance."""
    for mine, other in zip(ours, theirs, strict=True):
        for name in mine:
            np.testing.assert_allclose(mine[name], other[name], rtol=0, atol=near.get(name, 0), err_msg=name)

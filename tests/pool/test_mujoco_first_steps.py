"""A user's robot task is played in debug mode before compiled code takes its first step."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

pytest.importorskip("mujoco")

import headrace
from headrace.errors import KernelError
from headrace.mujoco import Field, MujocoEnv, MujocoTask, Streams, uniform
from headrace.pool.executors.kernels.diagnostics.patience import tried_out
from headrace.pool.executors.mujoco.first_steps import _Play
from headrace.pool.registry import build_task

XML = """
<mujoco>
  <worldbody>
    <site name="target"/>
    <body><joint name="lift" type="slide"/><geom size="0.1"/><site name="top" pos="0 0 0.1"/></body>
  </worldbody>
  <actuator><motor joint="lift" ctrlrange="-1 1"/></actuator>
</mujoco>"""


@wp.struct
class State:
    effort: wp.array[wp.float64]
    steps: wp.array2d[wp.vec3d]
    table: wp.array[wp.float64]
    top: int
    weight: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    effort: wp.array[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qpos[env, 0] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))
    physics.site_pos[env, 0] = wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(0.5))
    state.effort[env] = state.table[0]
    state.steps[env, 0] = wp.vec3d()


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    state.effort[env] = state.effort[env] + state.weight * actions[env, 0]
    state.steps[env, 0][1] = state.steps[env, 0][1] + wp.float64(1.0)
    view.effort[env] = state.effort[env]
    turn = physics.xmat[env, 1]
    return wp.float32(turn[0, 0]), physics.time[env] > wp.float64(0.05)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    place = physics.site_xpos[env, state.top]
    view.obs[env, 0] = place[2] - physics.site_pos[env, 0][2]
    view.obs[env, 1] = physics.qvel[env, 0]


LIFT = MujocoEnv(
    "Lift",
    ("qpos", "qvel", "xmat", "site_xpos", "site_pos", "time"),
    State,
    View,
    reset,
    step,
    observe,
    varies=("site_pos",),
    shapes={"steps": (1,)},
    constants={"top": 1},
    tables={"table": np.zeros(1)},
)


def task(env: MujocoEnv, width: int = 2) -> MujocoTask:
    seen = gym.spaces.Box(-np.inf, np.inf, (width,), np.float64)
    return MujocoTask(env, XML, seen, (Field("effort", np.dtype(np.float64)),), {"weight": 0.5}, 2, 20)


@wp.func
def observe_too_much(physics: Any, state: State, env: int, view: View):
    view.obs[env, 0] = physics.qpos[env, 0]
    view.obs[env, 2] = physics.qvel[env, 0]


@wp.func
def observe_another(physics: Any, state: State, env: int, view: View):
    view.obs[env, 0] = physics.qpos[env, 0]
    view.obs[env, 1] = physics.qvel[env, 7]


@wp.func
def reset_by_halves(physics: Any, state: State, env: int, streams: Streams):
    state.effort[env] = wp.float64(0.0)


@wp.func
def step_without_info(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    return wp.float32(1.0), wp.bool(False)


@wp.func
def step_to_no_number(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    view.effort[env] = wp.float64(0.0)
    return wp.float32(wp.log(-physics.qpos[env, 0] * physics.qpos[env, 0])), wp.bool(False)


@pytest.mark.parametrize(
    ("changes", "width", "told"),
    [
        ({"observe": observe_too_much}, 2, r"view\.obs\[0, 2\] is out of range: axis 1 of view\.obs has 2 elements"),
        ({}, 3, r"view\.obs\[env, 2\] is not set: observe must set all 3 numbers of view\.obs\[env\]"),
        ({"observe": observe_another}, 2, r"physics\.qvel\[0, 7\] is out of range: axis 1 .* has 1 elements"),
        ({"reset": reset_by_halves}, 2, r"state\.steps\[0, 0\] is read, but was never set"),
        ({"step": step_without_info}, 2, r"view\.effort\[env\] is not set"),
        ({"step": step_to_no_number}, 2, "the reward is nan"),
        ({"constants": {"top": 5}}, 2, r"physics\.site_xpos\[0, 5\] is out of range: axis 1 .* has 2 elements"),
        ({"tables": {"table": np.zeros(0)}}, 2, r"axis 0 of state\.table has 0 elements"),
    ],
)
def test_make_refuses_mistakes_that_compiled_code_would_not_report(changes, width, told):
    headrace.register("Lift-v0", task(replace(LIFT, **changes), width), replace=True)
    with pytest.raises(KernelError, match=told) as found:
        headrace.make("Lift-v0", num_envs=2)
    assert f"{Path(__file__).name}:" in str(found.value)


def test_the_first_steps_of_a_correct_task_run_once_per_option_value(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    headrace.register("Lift-v0", task(LIFT), replace=True)
    for weight in (0.5, 0.5, 0.6):
        headrace.make("Lift-v0", num_envs=2, weight=weight).close()
    assert len(list((tmp_path / "headrace" / "played").glob("*"))) == 2


@pytest.mark.parametrize("name", ["Lift-v0", "HalfCheetah-v5", "Humanoid-v5", "CartpoleSwingup-v1", "ReacherEasy-v1"])
def test_correct_tasks_pass_their_first_steps(name):
    headrace.register("Lift-v0", task(LIFT), replace=True)
    built: Any = build_task(name)
    env, model, observation, _ = built.make_on_device.args
    with tried_out(1000.0):
        _Play(env, model, observation, built.spec).run()

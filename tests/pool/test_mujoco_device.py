"""MuJoCo tasks over MuJoCo Warp: the same code as on a GPU, here on Warp's CPU device."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import torch
import warp as wp

import headrace
from headrace.errors import OptionError, SequenceError
from headrace.mujoco import Field, MujocoEnv, MujocoTask, Streams, uniform
from nightly import rest_nightly

# a ball that is thrown at a plane, and a driven pendulum
XML = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="3 3 1"/>
    <body pos="0 0 0.4"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <geom type="sphere" size=".1" mass="1"/></body>
    <body pos="1 0 1"><joint name="swing" axis="0 1 0" damping=".1"/>
      <geom type="capsule" size=".03" fromto="0 0 0 0 0 -.4" mass="1"/><site name="tip" pos="0 0 -.4"/></body>
  </worldbody>
  <actuator><motor joint="swing" gear="3" ctrllimited="true" ctrlrange="-1 1"/></actuator>
  <sensor><framepos objtype="site" objname="tip"/></sensor>
</mujoco>"""
WIDTH = 3 + 3 + 3 + 1


@wp.struct
class State:
    steps: wp.array[wp.int32]
    length: wp.int32
    reverse: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    mass: wp.array[wp.float64]
    effort: wp.array[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qpos[env, 2] = uniform(streams, env, wp.float64(-2.0), wp.float64(2.0))
    physics.qvel[env, 0] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))
    physics.body_mass[env, 2] = uniform(streams, env, wp.float64(0.5), wp.float64(2.0))
    state.steps[env] = 0


@wp.func
def act(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64]):
    physics.ctrl[env, 0] = state.reverse * actions[env, 0]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    state.steps[env] = state.steps[env] + 1
    view.effort[env] = actions[env, 0] * actions[env, 0]
    return wp.float32(physics.sensordata[env, 2]), state.steps[env] >= state.length


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(3):
        view.obs[env, i] = physics.qpos[env, i]
        view.obs[env, 3 + i] = physics.qvel[env, i]
        view.obs[env, 6 + i] = physics.site_xpos[env, 0][i]
    view.obs[env, 9] = physics.time[env]
    view.mass[env] = physics.body_mass[env, 2]


READS = ("qpos", "qvel", "ctrl", "site_xpos", "sensordata", "body_mass", "time")
ENV = MujocoEnv("Throw", READS, State, View, reset, step, observe, act, varies=("body_mass",), fresh=True)
INFO = (Field("mass", np.dtype(np.float64)), Field("effort", np.dtype(np.float64)))
OPTIONS = {"length": 1000, "reverse": 1.0}
TASK = MujocoTask(ENV, XML, gym.spaces.Box(-np.inf, np.inf, (WIDTH,), np.float64), INFO, OPTIONS, 4, 1000)


@pytest.fixture
def throw() -> Callable[..., tuple[Any, Any]]:
    """A function that makes a pool on a device and its twin on threads."""

    def make(task: MujocoTask = TASK, **options: Any) -> tuple[Any, Any]:
        headrace.register("Throw-v0", task, replace=True)
        return headrace.make_torch("Throw-v0", device="cpu", **options), headrace.make("Throw-v0", **options)

    return make


def actions_of(steps: int, num_envs: int) -> torch.Tensor:
    return torch.rand((steps, num_envs, 1), generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1


def host(result: Any) -> Any:
    """A result's tensors as arrays of their own."""
    if isinstance(result, dict):
        return {name: host(value) for name, value in result.items()}
    if isinstance(result, tuple):
        return tuple(map(host, result))
    return result.numpy().copy() if isinstance(result, torch.Tensor) else result


@pytest.mark.parametrize("fresh", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_device_pool_agrees_with_a_pool_on_threads(throw: Any, fresh: bool) -> None:
    device, threads = throw(replace(TASK, env=replace(ENV, fresh=fresh)), num_envs=5, seed=2)
    one, two = host(device.reset()), threads.reset()
    np.testing.assert_allclose(one[0], two[0], atol=1e-6)
    np.testing.assert_allclose(one[1]["mass"], two[1]["mass"], atol=1e-6)
    assert len(np.unique(one[1]["mass"])) == 5
    bounced = False
    for action in actions_of(60, 5):
        one, two = host(device.step(action)), threads.step(action.numpy())
        # float32 against float64, through a bounce
        np.testing.assert_allclose(one[0], two[0], atol=2e-3)
        np.testing.assert_allclose(one[1], two[1], atol=2e-3)
        np.testing.assert_allclose(one[4]["effort"], two[4]["effort"])
        assert one[4]["elapsed_step"].tolist() == two[4]["elapsed_step"].tolist()
        assert not one[4]["physics_warning"].any()
        bounced = bounced or bool((two[0][:, 4] > 0.01).any())
    assert bounced


@pytest.mark.parametrize("mode", rest_nightly(["next_step", "same_step", "disabled"], "same_step", "disabled"))
@pytest.mark.parametrize(
    ("length", "limit", "repeat"), [(4, 0, 1), pytest.param(1000, 5, 1, marks=pytest.mark.nightly), (6, 0, 4)]
)
def test_episodes_on_a_device_end_and_reset_as_on_threads(
    throw: Any, mode: str, length: int, limit: int, repeat: int
) -> None:
    options = {"length": length, "max_episode_steps": limit, "action_repeat": repeat}
    device, threads = throw(num_envs=3, seed=4, autoreset=mode, **options)
    device.reset()
    threads.reset()
    for action in actions_of(14, 3):
        one, two = host(device.step(action)), threads.step(action.numpy())
        for a, b in zip(one[2:4], two[2:4], strict=True):
            assert a.tolist() == b.tolist()
        np.testing.assert_allclose(one[0], two[0], atol=1e-3)
        np.testing.assert_allclose(one[1], two[1], atol=1e-3)
        assert one[4]["elapsed_step"].tolist() == two[4]["elapsed_step"].tolist()
        over = two[2] | two[3]
        if mode == "same_step" and over.any():
            np.testing.assert_allclose(one[4]["final_obs"][over], two[4]["final_obs"][over], atol=1e-3)
            last = one[4]["final_info"]["elapsed_step"]
            assert last[over].tolist() == two[4]["final_info"]["elapsed_step"][over].tolist()
        if mode == "disabled" and over.any():
            with pytest.raises(SequenceError):
                device.step(action)
            device.reset(np.flatnonzero(over))
            threads.reset(np.flatnonzero(over))


def test_partial_steps_and_resets_leave_other_environments_unchanged(throw: Any) -> None:
    device, threads = throw(num_envs=4, seed=3)
    device.reset()
    threads.reset()
    for i, action in enumerate(actions_of(12, 2)):
        ids = np.array([[0, 2], [3, 1]][i % 2])
        one, two = host(device.step(action, ids)), threads.step(action.numpy(), ids)
        assert one[4]["env_id"].tolist() == ids.tolist()
        np.testing.assert_allclose(one[0], two[0], atol=1e-3)
    before = device.state_arrays()
    device.reset([1], seed=9)
    after = device.state_arrays()
    for name, array in before.items():
        assert np.array_equal(array[[0, 2, 3]], after[name][[0, 2, 3]]), name
    assert not np.array_equal(before["qpos"][1], after["qpos"][1])


def test_a_pool_with_loaded_states_continues_like_the_saved_pool(throw: Any) -> None:
    device, _ = throw(num_envs=3, seed=3, frame_stack=2)
    other, _ = throw(num_envs=3, seed=30, frame_stack=2)
    device.reset()
    other.reset()
    actions = actions_of(12, 3)
    for action in actions[:5]:
        device.step(action)
    other.load_state(None, device.save_state(range(3)))
    for action in actions[5:]:
        one, two = host(device.step(action)), host(other.step(action))
        for a, b in zip(one[:4], two[:4], strict=True):
            assert np.array_equal(a, b)


def test_a_frame_stack_on_a_device_agrees_with_one_on_threads(throw: Any) -> None:
    device, threads = throw(num_envs=2, seed=3, frame_stack=3, max_episode_steps=4)
    np.testing.assert_allclose(host(device.reset()[0]), threads.reset()[0], atol=1e-5)
    for action in actions_of(8, 2):
        np.testing.assert_allclose(host(device.step(action)[0]), threads.step(action.numpy())[0], atol=1e-3)


def test_diverged_physics_terminates_the_episode_with_a_warning(throw: Any) -> None:
    device, _ = throw(num_envs=3)
    before = host(device.reset()[0])
    device._executor.state_arrays()["qvel"][1, 0] = float("nan")
    obs, reward, terminated, _, info = host(device.step(torch.zeros((3, 1), dtype=torch.float64)))
    assert terminated.tolist() == [False, True, False]
    assert info["physics_warning"][1] in (1 + mujoco.mjtWarning.mjWARN_BADQVEL, 1 + mujoco.mjtWarning.mjWARN_BADQPOS)
    assert np.array_equal(obs[1], before[1])
    assert np.isfinite(reward).all()
    obs, _, terminated, _, info = host(device.step(torch.zeros((3, 1), dtype=torch.float64)))
    assert np.isfinite(obs).all()
    assert not terminated.any()
    assert info["elapsed_step"].tolist() == [2, 0, 2]


def test_settling_steps_run_before_the_first_observation(throw: Any) -> None:
    device, threads = throw(replace(TASK, env=replace(ENV, settling_steps=30)), num_envs=3, seed=1)
    one, two = host(device.reset()[0]), threads.reset()[0]
    np.testing.assert_allclose(one, two, atol=1e-3)
    assert (one[:, 9] == 0).all()


def test_a_field_that_mujoco_warp_does_not_have_is_refused(throw: Any) -> None:
    with pytest.raises(OptionError, match="reads ncon, which MuJoCo Warp does not have"):
        throw(replace(TASK, env=replace(ENV, reads=(*READS, "ncon"))), num_envs=1)

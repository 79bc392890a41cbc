"""A user's MuJoCo tasks: physics equals MuJoCo's bit for bit, and every mistake is reported with its cause."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.errors import KernelError, OptionError
from headrace.mujoco import Field, MujocoEnv, MujocoTask, Streams, uniform

# falls, slides, rolls: contacts, a limited joint, an actuator with dynamics, a sensor of each stage
XML = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom type="plane" size="3 3 1"/>
    <body name="box" pos="0 0 0.25"><freejoint/>
      <geom name="box" type="box" size=".1 .1 .1" mass="1"/><site name="top" pos="0 0 .1"/></body>
    <body pos="0.5 0 0.4"><joint name="swing" axis="0 1 0" range="-90 90"/>
      <geom type="capsule" size=".03" fromto="0 0 0 -.3 0 -.1" mass="2"/></body>
  </worldbody>
  <actuator><general joint="swing" dyntype="filter" dynprm="0.05" gainprm="30" ctrlrange="-1 1"/></actuator>
  <sensor><framepos objtype="site" objname="top"/><subtreelinvel body="box"/><touch site="top"/></sensor>
</mujoco>"""


@wp.struct
class State:
    steps: wp.array[wp.int32]
    tries: wp.array[wp.int32]
    nq: int
    nv: int
    nsensordata: int
    refusals: int


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    tries: wp.array[wp.int32]
    mass: wp.array[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qpos[env, 2] = physics.qpos[env, 2] + uniform(streams, env, wp.float64(0.0), wp.float64(0.3))
    physics.qvel[env, 0] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))
    physics.body_mass[env, 1] = uniform(streams, env, wp.float64(0.5), wp.float64(2.0))
    state.steps[env] = 0
    state.tries[env] = state.tries[env] + 1


@wp.func
def accept(physics: Any, state: State, env: int):
    return physics.ncon[env] == 0 and state.tries[env] % (state.refusals + 1) == 0


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    state.steps[env] = state.steps[env] + 1
    return wp.float32(physics.sensordata[env, 3]), state.steps[env] >= 60


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
    for i in range(state.nsensordata):
        view.obs[env, state.nq + state.nv + i] = physics.sensordata[env, i]
    view.tries[env] = state.tries[env]
    view.mass[env] = physics.body_mass[env, 1]


ENV = MujocoEnv(
    "Tumble",
    ("qpos", "qvel", "sensordata", "body_mass", "ncon"),
    State,
    View,
    reset,
    step,
    observe,
    accept=accept,
    varies=("body_mass",),
)
INFO = (Field("tries", np.dtype(np.int32)), Field("mass", np.dtype(np.float64)))
WIDTH = 8 + 7 + 7
TASK = MujocoTask(ENV, XML, gym.spaces.Box(-np.inf, np.inf, (WIDTH,), np.float64), INFO, {"refusals": 0}, 5, 50)


@pytest.fixture
def tumble(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A function that makes a pool of a task, the one above or another."""

    def make(task: MujocoTask = TASK, **options: Any) -> Any:
        headrace.register("Tumble-v0", task, replace=True)
        return headrace.make("Tumble-v0", **options)

    return make


def fresh(env: MujocoEnv) -> MujocoTask:
    return replace(TASK, env=replace(env, fresh=True))


def reference(start: np.ndarray, mass: float, actions: np.ndarray, up_to_date: bool) -> np.ndarray:
    """Returns what one mjData of MuJoCo's own package computes from a start, [steps, WIDTH]."""
    model = mujoco.MjModel.from_xml_string(XML)
    model.body_mass[1] = mass
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    mujoco.mj_resetData(model, data)
    data.qpos[:], data.qvel[:] = start[:8], start[8:15]
    mujoco.mj_forward(model, data)
    rows = []
    for action in actions:
        data.ctrl[:] = action
        mujoco.mj_step(model, data, nstep=5)
        if up_to_date:
            touch = data.sensordata[6]
            mujoco.mj_step1(model, data)
            assert data.sensordata[6] == touch  # a sensor of the stage that only mj_step2 computes
        rows.append(np.concatenate([data.qpos, data.qvel, data.sensordata]))
    return np.stack(rows)


@pytest.mark.parametrize("up_to_date", [False, True])
@pytest.mark.parametrize(("num_threads", "batch_size"), [(1, 6), (3, 6), (2, 4)])
def test_steps_equal_those_of_mujoco_bit_for_bit(
    tumble: Any, up_to_date: bool, num_threads: int, batch_size: int
) -> None:
    task = fresh(ENV) if up_to_date else TASK
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 40, 1))
    seen: list[list[np.ndarray]] = [[] for _ in range(6)]
    masses = np.zeros(6)
    with tumble(task, num_envs=6, batch_size=batch_size, num_threads=num_threads, seed=3, physics="mujoco") as pool:
        pool.async_reset()
        while min(map(len, seen)) < 41:
            obs, *_, info = pool.recv()
            ids = info["env_id"]
            for row, i in enumerate(ids):
                if not seen[i]:  # of its first episode: others may be in a later one
                    masses[i] = info["mass"][row]
                seen[i].append(obs[row].copy())
            turn = np.array([min(len(seen[i]) - 1, 39) for i in ids])
            pool.send(actions[ids, turn], ids)
    for i in range(6):
        wanted = reference(seen[i][0], masses[i], actions[i], up_to_date)
        assert np.array_equal(np.stack(seen[i][1:41]), wanted)


def test_random_starts_differ_and_repeat_with_the_same_seed(tumble: Any) -> None:
    with tumble(num_envs=200, seed=1) as pool, tumble(num_envs=200, seed=1, num_threads=2) as twin:
        obs, info = pool.reset()
        again, _ = twin.reset()
        assert np.array_equal(obs, again)
        heights, masses = obs[:, 2] - 0.25, info["mass"]
        assert len(np.unique(heights)) == 200
        assert 0 <= heights.min() < 0.02
        assert 0.28 < heights.max() < 0.3
        assert abs(masses.mean() - 1.25) < 4 * 1.5 / math.sqrt(12 * 200)
        later, info = pool.reset()
        assert not np.array_equal(later, obs)
        assert not np.array_equal(info["mass"], masses)


def test_a_start_is_drawn_again_until_accept_returns_true(tumble: Any) -> None:
    with tumble(num_envs=3, refusals=4) as pool:
        assert pool.reset()[1]["tries"].tolist() == [5, 5, 5]


def test_terminated_episodes_are_reset_in_the_next_step(tumble: Any) -> None:
    with tumble(num_envs=2, max_episode_steps=80) as pool:
        pool.reset()
        for n in range(1, 60):
            *_, terminated, truncated, info = pool.step(np.zeros((2, 1)))
            assert info["elapsed_step"].tolist() == [n, n]
            assert not (terminated | truncated).any()
        *_, terminated, truncated, info = pool.step(np.zeros((2, 1)))
        assert terminated.all()
        assert not truncated.any()
        _, reward, terminated, truncated, info = pool.step(np.zeros((2, 1)))
        assert not (terminated | truncated).any()
        assert reward.tolist() == [0, 0]
        assert info["elapsed_step"].tolist() == [0, 0]


def test_a_frame_stack_holds_the_latest_observations(tumble: Any) -> None:
    with tumble(num_envs=3, seed=5) as single, tumble(num_envs=3, seed=5, frame_stack=4) as stack:
        assert stack.observation_space.shape == (4, WIDTH)
        one, many = single.reset()[0], stack.reset()[0]
        assert np.array_equal(many, np.stack([one] * 4, 1))
        last = [one.copy()] * 4
        for _ in range(6):
            action = np.ones((3, 1))
            last = [*last[1:], single.step(action)[0].copy()]
            assert np.array_equal(stack.step(action)[0], np.stack(last, 1))


def test_a_pool_with_loaded_states_continues_like_the_saved_pool(tumble: Any) -> None:
    actions = np.random.default_rng(1).uniform(-1, 1, (30, 4, 1))
    with tumble(num_envs=4, seed=7, frame_stack=2) as pool, tumble(num_envs=4, seed=8, frame_stack=2) as other:
        pool.reset()
        other.reset()
        for action in actions[:10]:
            pool.step(action)
        other.load_state(range(4), pool.save_state(range(4)))
        for action in actions[10:]:
            one, two = pool.step(action), other.step(action)
            for a, b in zip(one[:4], two[:4], strict=True):
                assert np.array_equal(a, b)
            assert np.array_equal(one[4]["mass"], two[4]["mass"])


def test_diverged_physics_terminates_the_episode_with_a_warning(tumble: Any) -> None:
    with tumble(num_envs=4) as pool:
        before = pool.reset()[0].copy()
        state = pool._executor.state_arrays()  # the live ones
        state["qvel"][1, 0] = 1e15
        state["qpos"][2, 0] = math.nan
        obs, reward, terminated, _, info = pool.step(np.zeros((4, 1)))
        assert terminated.tolist() == [False, True, True, False]
        bad = [0, 1 + mujoco.mjtWarning.mjWARN_BADQVEL, 1 + mujoco.mjtWarning.mjWARN_BADQPOS, 0]
        assert info["physics_warning"].tolist() == bad
        assert np.array_equal(obs[1:3], before[1:3])
        assert np.isfinite(reward).all()
        *_, terminated, _, info = pool.step(np.zeros((4, 1)))
        assert not terminated.any()
        assert not info["physics_warning"].any()


def test_an_unknown_physics_array_in_reads_is_refused(tumble: Any) -> None:
    with pytest.raises(KernelError, match="no array 'sensors'"):
        tumble(replace(TASK, env=replace(ENV, reads=(*ENV.reads, "sensors"))), num_envs=1)


def test_an_access_to_a_field_missing_in_reads_is_refused(tumble: Any) -> None:
    with pytest.raises(KernelError, match=r"physics has no field 'sensordata': .*reads"):
        tumble(replace(TASK, env=replace(ENV, reads=("qpos", "qvel", "body_mass", "ncon"))), num_envs=1)


def test_fields_that_cannot_vary_are_refused(tumble: Any) -> None:
    with pytest.raises(KernelError, match="'qpos'"):
        tumble(replace(TASK, env=replace(ENV, varies=("qpos",))), num_envs=1)
    with pytest.raises(KernelError, match="'geom_pos'"):
        tumble(replace(TASK, env=replace(ENV, varies=("geom_pos",))), num_envs=1)


def test_a_function_with_wrong_arguments_is_refused(tumble: Any) -> None:
    with pytest.raises(KernelError, match=r"step takes 5 arguments, but is called with \(physics"):
        tumble(replace(TASK, env=replace(ENV, observe=step)), num_envs=1)


def test_invalid_models_and_frame_skips_are_refused(tumble: Any, tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="cannot be compiled"):
        tumble(replace(TASK, model="<mujoco><worldbody><geom/></worldbody></mujoco>"), num_envs=1)
    with pytest.raises(OptionError, match="cannot be compiled"):
        tumble(replace(TASK, model=tmp_path / "missing.xml"), num_envs=1)
    with pytest.raises(OptionError, match="frame_skip"):
        tumble(num_envs=1, frame_skip=0)

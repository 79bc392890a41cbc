"""Models whose masses, joints, actuators and surfaces differ between environments, beside MuJoCo's own step."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import warp as wp

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

from mujoco_models import model_xml
from mujoco_quadruped import quadruped

import headrace
from headrace.errors import EnvironmentFailure, OptionError
from headrace.mujoco import MujocoEnv, MujocoTask, Streams, uniform
from headrace.pool.executors.mujoco import first_steps
from headrace.pool.executors.mujoco.fields import CAUSES, COMPUTED, native_module, varying_names
from nightly import rest_nightly

mujoco: Any = pytest.importorskip("mujoco")
needs_lanes = pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")

N, STEPS = 11, 5
VARIES = (
    "body_mass", "body_inertia", "body_ipos", "body_iquat", "dof_damping", "dof_frictionloss", "dof_armature",
    "actuator_gainprm", "actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange", "geom_friction", "jnt_range",
    "jnt_stiffness", "qpos0", "qpos_spring",
)  # fmt: skip
NEAR = {"lanes": 1e-9, "lanes32": 1e-3}  # of velocities after one step, by the largest


# -- a task that draws numbers of its robot when an episode begins ----------------------------------


@wp.struct
class State:
    nq: int
    nv: int
    nu: int
    nbody: int
    ngeom: int
    njnt: int
    pushes: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]


@wp.func
def scale(streams: Streams, env: int):
    return uniform(streams, env, wp.float64(0.7), wp.float64(1.4))


@wp.func
def shift(streams: Streams, env: int):
    return uniform(streams, env, wp.float64(-0.02), wp.float64(0.02))


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    for b in range(1, state.nbody):
        heavier = scale(streams, env)
        physics.body_mass[env, b] = physics.body_mass[env, b] * heavier
        physics.body_inertia[env, b] = physics.body_inertia[env, b] * heavier
        place = physics.body_ipos[env, b]
        turn = physics.body_iquat[env, b] * wp.quatd(
            wp.float64(1.0), shift(streams, env), shift(streams, env), shift(streams, env)
        )
        physics.body_ipos[env, b] = place + wp.vec3d(shift(streams, env), shift(streams, env), shift(streams, env))
        physics.body_iquat[env, b] = wp.normalize(turn)
    for i in range(state.nv):
        physics.dof_damping[env, i] = physics.dof_damping[env, i] * scale(streams, env)
        physics.dof_frictionloss[env, i] = physics.dof_frictionloss[env, i] * scale(streams, env)
        physics.dof_armature[env, i] = physics.dof_armature[env, i] * scale(streams, env)
    for i in range(state.nu):
        stiffer = scale(streams, env)
        physics.actuator_gainprm[env, i] = physics.actuator_gainprm[env, i] * stiffer
        physics.actuator_biasprm[env, i] = physics.actuator_biasprm[env, i] * stiffer
        physics.actuator_forcerange[env, i] = physics.actuator_forcerange[env, i] * scale(streams, env)
        physics.actuator_ctrlrange[env, i] = physics.actuator_ctrlrange[env, i] * scale(streams, env)
    for i in range(state.ngeom):
        physics.geom_friction[env, i] = physics.geom_friction[env, i] * scale(streams, env)
    for i in range(state.njnt):
        physics.jnt_range[env, i] = physics.jnt_range[env, i] * scale(streams, env)
    for i in range(1, state.njnt):
        physics.jnt_stiffness[env, i] = wp.float64(20.0) * scale(streams, env)
    for i in range(7, state.nq):
        physics.qpos0[env, i] = shift(streams, env)
        physics.qpos_spring[env, i] = shift(streams, env)
    for i in range(state.nv):
        physics.qvel[env, i] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))


@wp.func
def push(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64]):
    for i in range(state.nu):
        physics.ctrl[env, i] = actions[env, i]
    for b in range(1, state.nbody):
        x = state.pushes * wp.sin(physics.time[env] * wp.float64(100.0) + wp.float64(b))
        physics.xfrc_applied[env, b] = wp.spatial_vectord(x, -x, x * x, wp.float64(0.1) * x, x, -x)
    for i in range(state.nv):
        physics.qfrc_applied[env, i] = state.pushes * wp.cos(wp.float64(i) + physics.time[env])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    return wp.float32(0.0), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
    for b in range(state.nbody):
        view.obs[env, state.nq + state.nv + b] = physics.body_subtreemass[env, b]


READS = ("qpos", "qvel", "ctrl", "time", "body_subtreemass", *VARIES)
PUSHED = MujocoEnv("Pushed", (*READS, "xfrc_applied", "qfrc_applied"), State, View, reset, step, observe, push,
                   varies=VARIES, constants={"pushes": 5.0})  # fmt: skip
DRAWN = MujocoEnv("Drawn", READS, State, View, reset, step, observe, varies=VARIES, constants={"pushes": 0.0})
OPTIONS = ['integrator="Euler"', 'integrator="implicitfast"', 'integrator="RK4" cone="elliptic" impratio="10"',
           'cone="elliptic" density="1000" viscosity=".1"', 'integrator="implicitfast" cone="elliptic"']  # fmt: skip


def made(env: MujocoEnv, option: str = OPTIONS[0], **settings: Any) -> tuple[Any, Any]:
    """A pool of a task over the quadruped, and the model that its environments vary."""
    model = mujoco.MjModel.from_xml_string(quadruped(option))
    model.dof_frictionloss[:6], model.dof_frictionloss[7] = 0, 0
    size = model.nq + model.nv + model.nbody
    space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
    headrace.register("Drawn-v0", MujocoTask(env, lambda options: model, space, frame_skip=1), replace=True)
    given: dict[str, Any] = {"num_envs": N, "num_threads": 1, "seed": 3}
    return headrace.make("Drawn-v0", **(given | settings)), model


def own_model(model: Any, arrays: dict[str, np.ndarray], env: int) -> Any:
    """An environment's model: its own values, and what MuJoCo computes of them."""
    own = copy.copy(model)
    for name in VARIES:
        getattr(own, name).flat = arrays[name][env].ravel()
    mujoco.mj_setConst(own, mujoco.MjData(own))
    return own


def actions_of(pool: Any, steps: int = STEPS) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.5, 1.5, (steps, pool.num_envs, *pool.action_space.shape))


def exact(model: Any) -> Any:
    model.opt.tolerance, model.opt.iterations, model.opt.ls_iterations, model.opt.ls_tolerance = 0, 100, 50, 1e-10
    return model


# -- what follows from what ------------------------------------------------------------------------


def test_fields_that_follow_from_others_are_those_that_mujoco_computes() -> None:
    arrays = [name for name in dir(mujoco.MjModel) if not name.startswith("_")]
    moved = set()
    for seed in range(25):
        try:
            model = mujoco.MjModel.from_xml_string(model_xml(seed))
        except ValueError:  # MuJoCo's compiler refuses it
            continue
        rng, free = np.random.default_rng(seed), model.body_simple == 0
        model.body_mass *= 2
        model.body_inertia *= rng.uniform(0.5, 1.5, (model.nbody, 1))
        model.body_ipos[free] += 0.1
        model.body_iquat[free] = [0.6, 0, 0.8, 0]
        model.dof_armature *= 3
        model.qpos0[:] += rng.normal(size=model.nq)
        before = {name: value.copy() for name in arrays if isinstance(value := getattr(model, name), np.ndarray)}
        mujoco.mj_setConst(model, mujoco.MjData(model))
        moved |= {name for name, value in before.items() if not np.array_equal(value, getattr(model, name))}
    assert moved - {"bvh_aabb"} <= {*COMPUTED}  # without that, pools step: see native/mujoco/physics.cpp
    assert {*COMPUTED} - moved <= {"site_sameframe"}


def test_computed_fields_vary_where_they_follow_from_those_that_do() -> None:
    model = mujoco.MjModel.from_xml_string(quadruped())
    assert varying_names(model, ("geom_friction", "qpos_spring")) == ["geom_friction", "qpos_spring"]
    for cause in CAUSES:
        names = varying_names(model, (cause,))
        assert names[0] == cause
        assert "body_invweight0" in names and "tendon_length0" not in names  # the model has no tendon
    assert varying_names(model, ("body_mass", "body_subtreemass")).count("body_subtreemass") == 1


# -- pools of such models --------------------------------------------------------------------------


@pytest.mark.parametrize("env", [DRAWN, PUSHED], ids=lambda env: env.name)
def test_libmujoco_steps_each_environment_with_its_own_model_to_the_bit(env: MujocoEnv) -> None:
    pool, model = made(env, physics="mujoco", num_threads=2)
    with pool:
        for _ in range(2):  # the second episode's numbers follow upon the first's
            pool.reset()
            arrays = pool._executor.state_arrays()
            models = [own_model(model, arrays, i) for i in range(N)]
            for name in COMPUTED:
                if name in arrays:
                    kept = np.stack([getattr(own, name) for own in models])
                    assert np.array_equal(kept, arrays[name]), name
            assert len(np.unique(arrays["body_invweight0"][:, 1, 0])) == N
            datas = [mujoco.MjData(own) for own in models]
            for i, data in enumerate(datas):
                mujoco.mj_setState(models[i], data, pool._executor.record()[i], pool._executor._signature)
            for action in actions_of(pool):
                pool.step(action)
                after = pool._executor.record()
                for i, data in enumerate(datas):
                    data.ctrl[:] = action[i]
                    forces = {name: arrays[name][i] for name in ("xfrc_applied", "qfrc_applied") if name in arrays}
                    for name, values in forces.items():
                        getattr(data, name).flat = values
                    mujoco.mj_step(models[i], data)
                    row = np.empty_like(after[i])
                    mujoco.mj_getState(models[i], data, row, pool._executor._signature)
                    assert np.array_equal(row, after[i])


@needs_lanes
@pytest.mark.parametrize("physics", ["lanes", "lanes32"])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("env", [DRAWN, PUSHED], ids=lambda env: env.name)
def test_lanes_step_each_environment_with_its_own_model(env: MujocoEnv, option: str, physics: str) -> None:
    pool, model = made(env, option, physics=physics)
    with pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        models = [exact(own_model(model, arrays, i)) for i in range(N)]
        for action in actions_of(pool):
            before = pool._executor.record()
            obs = pool.step(action)[0]
            signature, theirs = pool._executor._signature, []
            for i, own in enumerate(models):
                data = mujoco.MjData(own)
                mujoco.mj_setState(own, data, before[i], signature)
                data.ctrl[:] = action[i]
                for name in ("xfrc_applied", "qfrc_applied"):
                    if name in arrays:
                        getattr(data, name).flat = arrays[name][i]
                mujoco.mj_step(own, data)
                theirs.append(np.concatenate([data.qpos, data.qvel, own.body_subtreemass]))
            size = model.nq + model.nv
            apart = np.abs(obs - theirs)[:, :size].max() / max(1.0, np.abs(np.stack(theirs)[:, :size]).max())
            assert apart < NEAR[physics]
            assert np.array_equal(obs[:, size:], np.stack(theirs)[:, size:])


@pytest.mark.parametrize("physics", ["mujoco", pytest.param("lanes", marks=needs_lanes)])
def test_a_saved_state_holds_an_environments_own_model(physics: str) -> None:
    (pool, _), (other, _) = made(PUSHED, physics=physics), made(PUSHED, physics=physics, seed=30)
    with pool, other:
        pool.reset()
        other.reset()
        actions = actions_of(pool)
        for action in actions[:3]:
            pool.step(action)
        other.load_state(None, pool.save_state())
        for name, rows in pool._executor.state_arrays().items():
            assert np.array_equal(rows, other._executor.state_arrays()[name]), name
        for action in actions[3:]:
            assert np.array_equal(pool.step(action)[0], other.step(action)[0])
        assert pool.save_state() == other.save_state()


@needs_lanes
@pytest.mark.parametrize("physics", ["lanes", "lanes32"])
def test_an_environments_own_model_does_not_depend_on_the_others(physics: str) -> None:
    (pool, _), (alone, _) = made(PUSHED, physics=physics), made(PUSHED, physics=physics, num_threads=2)
    with pool, alone:
        pool.reset()
        for i in range(N):
            alone.reset([i])
        for action in actions_of(pool):
            obs = pool.step(action)[0]
            each = [alone.step(action[[i]], np.array([i], np.int32))[0][0].copy() for i in range(N)]
            assert np.array_equal(obs, np.stack(each))


# -- other robots, and fields one by one -------------------------------------------------------------

ROBOTS = ["ant", "half_cheetah", "hopper", "humanoid", "walker2d_v5", "swimmer", "inverted_double_pendulum"]


def changed(own: Any, varies: tuple[str, ...], rng: np.random.Generator) -> None:
    """Draws values of a model's fields."""
    for name in varies:
        values = getattr(own, name)
        if name in ("body_ipos", "body_iquat"):
            values[own.body_simple == 0] += rng.normal(size=values.shape)[own.body_simple == 0] * 0.02
        elif name in ("qpos0", "qpos_spring"):
            values += rng.normal(size=values.shape) * 0.05
        else:
            values *= rng.uniform(0.6, 1.6, (len(values), *(1,) * (values.ndim - 1)))
    own.body_iquat /= np.linalg.norm(own.body_iquat, axis=1, keepdims=True)
    mujoco.mj_setConst(own, mujoco.MjData(own))


@needs_lanes
@pytest.mark.parametrize("robot", rest_nightly(ROBOTS, "ant", "humanoid", "swimmer"))
@pytest.mark.parametrize("varies", [VARIES, *((name,) for name in VARIES)], ids=lambda varies: "+".join(varies[:2]))
def test_lanes_step_robots_whose_models_differ_as_mujoco(robot: str, varies: tuple[str, ...]) -> None:
    path = Path(pytest.importorskip("gymnasium").__file__).parent / "envs/mujoco/assets" / f"{robot}.xml"
    model, rng = exact(mujoco.MjModel.from_xml_path(str(path))), np.random.default_rng(0)
    reads = ["qpos", "qvel", "xipos", "cinert", "qfrc_actuator", *varies]
    trial = native_module().Trial(
        model=model._address, reads=reads, varies=list(varies), kinematics=False, forces=True, sensors=[]
    )
    models = [copy.copy(model) for _ in range(trial.width)]
    for own in models:
        changed(own, varies, rng)
    ours, theirs = ([mujoco.MjData(own) for own in models] for _ in range(2))
    for data in theirs:
        data.qvel[:] = rng.normal(size=model.nv)
    for _ in range(10):
        for own, one, other in zip(models, ours, theirs, strict=True):
            other.ctrl[:] = rng.uniform(-2, 2, model.nu)
            row = np.empty(mujoco.mj_stateSize(own, mujoco.mjtState.mjSTATE_INTEGRATION))
            mujoco.mj_getState(own, other, row, mujoco.mjtState.mjSTATE_INTEGRATION)
            mujoco.mj_setState(own, one, row, mujoco.mjtState.mjSTATE_INTEGRATION)
        assert trial.in_lanes([d._address for d in ours], 1, [m._address for m in models]) == 0
        for own, one, other in zip(models, ours, theirs, strict=True):
            mujoco.mj_step(own, other)
            for name in ("qpos", "qvel", "xipos", "cinert", "qfrc_actuator"):
                values = getattr(other, name)
                near = 1e-9 * max(1.0, np.abs(values).max())
                np.testing.assert_allclose(getattr(one, name), values, rtol=0, atol=near, err_msg=name)


@needs_lanes
@pytest.mark.parametrize("what", ["a spring of a free joint", "bodies that are joined otherwise"])
def test_lanes_leave_to_libmujoco_an_environment_whose_model_they_cannot_step(what: str) -> None:
    free = "<body name='{}' pos='0 0 {}'><freejoint/><geom size='.1'/></body>"
    joined = "<equality><connect body1='a' body2='b' anchor='0 0 .2'/></equality>"
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{free.format('a', 1)}{free.format('b', 2)}</worldbody>{joined}</mujoco>"
    )
    varies = ["jnt_stiffness"] if "spring" in what else ["qpos0"]
    trial = native_module().Trial(
        model=model._address, reads=["qpos", *varies], varies=varies, kinematics=False, forces=False, sensors=[]
    )
    own, datas = copy.copy(model), [mujoco.MjData(model) for _ in range(trial.width)]
    own.jnt_stiffness[1], own.qpos0[7] = 3.0 * ("spring" in what), 0.5 * ("joined" in what)
    mujoco.mj_setConst(own, mujoco.MjData(own))
    models = [own, *[model] * (trial.width - 1)]
    assert trial.in_lanes([d._address for d in datas], 1, [m._address for m in models]) == 1


# -- what is refused --------------------------------------------------------------------------------


@needs_lanes
@pytest.mark.parametrize("field", ["geom_size", "jnt_axis", "actuator_gear", "tendon_stiffness", "eq_solref"])
def test_lanes_name_a_field_that_may_not_differ(field: str) -> None:
    env = MujocoEnv("Sized", (*READS, field), State, View, reset, step, observe, varies=(*VARIES, field))
    with pytest.raises(OptionError, match=f"physics='lanes'.*{field} differs between environments"):
        made(env, physics="lanes")


@wp.func
def reset_off_centre(physics: Any, state: State, env: int, streams: Streams):
    physics.body_ipos[env, 1] = wp.vec3d(wp.float64(0.1), wp.float64(0.0), wp.float64(0.0))


@wp.func
def observe_state(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]


def test_a_centre_of_mass_that_mujoco_does_not_move_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_steps, "play_new", lambda *args, **options: None)
    ball = "<mujoco><worldbody><body {}><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    env = MujocoEnv("OffCentre", ("qpos", "body_ipos"), State, View, reset_off_centre, step, observe_state,
                    varies=("body_ipos",), constants={"pushes": 0.0})  # fmt: skip
    space = gym.spaces.Box(-np.inf, np.inf, (7,), np.float64)
    headrace.register("Ball-v0", MujocoTask(env, ball.format(""), space), replace=True)
    with (
        headrace.make("Ball-v0", num_envs=2, physics="mujoco") as pool,
        pytest.raises(EnvironmentFailure, match=r"body 1 is compiled as simple .* use body/simple='false'"),
    ):
        pool.reset()
    headrace.register("Ball-v0", MujocoTask(env, ball.format('simple="false"'), space), replace=True)
    with headrace.make("Ball-v0", num_envs=2, physics="mujoco") as pool:
        pool.reset()
        assert (pool._executor._memory.varying["body_sameframe"][:, 1] != 1).all()  # MuJoCo reads body_ipos


def test_an_episode_starts_in_the_models_own_qpos0() -> None:
    pool, model = made(DRAWN, physics="mujoco")
    with pool:
        for _ in range(2):
            obs = pool.reset()[0]
            assert (obs[:, : model.nq] == model.qpos0).all()
            assert (pool._executor._memory.varying["qpos0"][:, 7:] != 0).all()


# -- on a device --------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_device_computes_what_follows_from_each_environments_model() -> None:
    pytest.importorskip("mujoco_warp")
    pool, model = made(DRAWN, physics="mujoco")
    with pool, headrace.make_torch("Drawn-v0", device="cpu", num_envs=N, seed=3) as device:
        pool.reset()
        device.reset()
        theirs, ours = pool._executor.state_arrays(), device._executor.state_arrays()
        for name in varying_names(model, VARIES):
            if name in ours:
                found = ours[name].numpy().reshape(theirs[name].shape)
                np.testing.assert_allclose(found, theirs[name], rtol=1e-3, atol=1e-5, err_msg=name)
        assert {"body_subtreemass", "body_invweight0", "dof_invweight0"} <= {*ours}
        actions = actions_of(pool, 1)[0]
        obs, moved = pool.step(actions)[0], device.step(torch.as_tensor(actions))[0].numpy()
        np.testing.assert_allclose(moved, obs, atol=2e-3)


@pytest.mark.nightly
def test_a_device_names_what_it_does_not_compute() -> None:
    pytest.importorskip("mujoco_warp")
    for env, said in (
        (replace(DRAWN, reads=(*READS, "dof_M0")), "reads dof_M0, which MuJoCo Warp does not compute"),
        (
            replace(DRAWN, reads=(*READS, "body_parentid"), varies=("body_parentid",)),
            "'body_parentid' is not a batched",
        ),
    ):
        pool, _ = made(env, physics="mujoco")
        pool.close()
        with pytest.raises(OptionError, match=said):
            headrace.make_torch("Drawn-v0", device="cpu", num_envs=2)

"""The robots' models are the published ones, but for their looks, and stand where their tasks begin."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robot_sources import source_of

from headrace.envs.robots.models import ROBOTS, model_file

SOURCED = ("go1", "g1", "t1")
BODIES = ("body_mass", "body_inertia", "body_ipos", "body_iquat", "body_pos", "body_quat")
JOINTS = ("jnt_type", "jnt_axis", "jnt_pos", "jnt_range", "jnt_limited", "jnt_actfrcrange", "jnt_actfrclimited")
DOFS = ("dof_damping", "dof_armature", "dof_frictionloss")
SERVOS = ("actuator_trnid", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange")
SENSORS = ("sensor_type", "sensor_dim", "sensor_adr")


def ours(robot: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(model_file(robot)))


def theirs(robot: str) -> mujoco.MjModel:
    """Playground's, whose solver stops after one to three iterations, with a solver that runs to the end."""
    model = mujoco.MjModel.from_xml_path(str(source_of(robot)))
    model.opt.iterations, model.opt.ls_iterations = 100, 50
    return model


@pytest.mark.parametrize("robot", SOURCED)
def test_masses_joints_servos_and_sensors_are_those_of_the_source(robot: str) -> None:
    mine, source = ours(robot), theirs(robot)
    for name in (*BODIES, *JOINTS, *DOFS, *SERVOS, *SENSORS, "key_qpos", "key_ctrl"):
        count = len(getattr(mine, name))  # the source may have further keyframes
        np.testing.assert_array_equal(getattr(mine, name), getattr(source, name)[:count], err_msg=name)
    for kind, count in (("body", mine.nbody), ("joint", mine.njnt), ("actuator", mine.nu), ("sensor", mine.nsensor)):
        names = [[getattr(each, kind)(i).name for i in range(count)] for each in (mine, source)]
        assert names[0] == names[1]
    for option in ("timestep", "integrator", "cone", "disableflags", "impratio"):
        assert getattr(mine.opt, option) == getattr(source.opt, option)


def thrown(model: mujoco.MjModel, rng: np.random.Generator) -> mujoco.MjData:
    """A state near the start, moved and turned at random, often with feet in the floor."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_integratePos(model, data.qpos, rng.normal(0, 0.1, model.nv), 1)
    data.qpos[2] += rng.uniform(-0.05, 0.05)
    data.qvel[:] = rng.normal(0, 1, model.nv)
    data.ctrl[:] = rng.normal(0, 0.5, model.nu)
    return data


@pytest.mark.parametrize("robot", SOURCED)
def test_a_step_is_that_of_the_source(robot: str) -> None:
    mine, source = ours(robot), theirs(robot)
    touched = 0
    for seed in range(20):
        data, beside = (thrown(model, np.random.default_rng(seed)) for model in (mine, source))
        for model, each in ((mine, data), (source, beside)):
            mujoco.mj_step(model, each)
        for name in ("qpos", "qvel", "sensordata", "actuator_force"):
            np.testing.assert_allclose(getattr(data, name), getattr(beside, name), rtol=1e-9, atol=1e-9, err_msg=name)
        for name in (mine.site(i).name for i in range(mine.nsite)):
            np.testing.assert_allclose(data.site(name).xpos, beside.site(name).xpos, rtol=0, atol=1e-9)
        assert data.ncon == beside.ncon
        touched += data.ncon
    assert touched > 30


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_robot_stands_where_its_task_begins(robot: str) -> None:
    model = ours(robot)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    height = data.qpos[2]
    while data.time < 0.3:
        mujoco.mj_step(model, data)
    assert data.ncon >= 4 and data.qpos[2] > 0.8 * height
    assert data.xmat[1][8] > 0.95  # upright


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_robot_is_drawn_by_shapes_that_have_no_mass_and_touch_nothing(robot: str) -> None:
    model = ours(robot)
    looks = (model.geom_group == 2) & (model.geom_bodyid > 0)
    assert model.nmesh == 0 and set(model.geom_bodyid[looks]) == set(range(1, model.nbody))
    assert not model.geom_contype[looks].any() and not model.geom_conaffinity[looks].any()


def test_the_licences_of_all_sources_are_beside_the_models() -> None:
    text = model_file("go1").with_name("LICENSES.txt").read_text()
    assert all(f"{robot}.xml" in text for robot in ROBOTS)
    assert "HangZhou YuShu" in text and "Apache License" in text and "DeepMind" in text

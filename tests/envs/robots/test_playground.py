"""Observations, rewards and ends of episodes are those of MuJoCo Playground, from recorded states."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import headrace
from headrace.envs.robots.models import model_file

HERE = Path(__file__).parent
TASKS = {"go1": "Go1Flat-v0", "go1_rough": "Go1Rough-v0", "g1": "G1Flat-v0", "t1": "T1Flat-v0"}
STATE = {  # ours → the record's
    "qpos": "qpos",
    "qvel": "qvel",
    "command": "command",
    "action": "last_act",
    "air_time": "feet_air_time",
    "touching": "last_contact",
    "peak": "swing_peak",
    "phase": "phase",
}


def stepped(robot: str, physics: str) -> tuple[dict[str, np.ndarray], tuple]:
    """A record, and what a pool returns for a step from all its states."""
    with np.load(HERE / f"playground_{robot}.npz") as file:
        record = dict(file)
    count = len(record["reward"])
    with headrace.make(TASKS[robot], num_envs=count, seed=1, noise=0.0, hold=True, physics=physics) as pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        for name, theirs in STATE.items():
            if theirs in record:
                arrays[name][:] = record[theirs]
        return record, pool.step(np.float64(record["action"]))


@pytest.mark.parametrize("robot", TASKS)
@pytest.mark.parametrize(("physics", "apart"), [("mujoco", 1e-5), ("lanes", 5e-5)])  # solvers that end within 1e-8
def test_a_step_is_that_of_playground(robot: str, physics: str, apart: float) -> None:
    record, (obs, reward, terminated, _, info) = stepped(robot, physics)
    names = import_module(f"headrace.envs.robots.{robot.partition('_')[0]}").TERMS
    theirs = {name.removeprefix("term "): value for name, value in record.items() if name.startswith("term ")}
    assert len(obs) >= 500
    lives = ~terminated  # of others, the observation is that of the next episode
    np.testing.assert_array_equal(terminated, record["done"].astype(bool))
    np.testing.assert_allclose(obs[lives], record["obs"][lives], rtol=1e-5, atol=apart)
    assert set(theirs) - {"alive"} == {name for name in names if name in theirs} >= {*names} - {"termination"}
    for i, name in enumerate(names):
        if name in theirs:
            assert theirs[name].std() > 0, name
            np.testing.assert_allclose(info["reward_terms"][:, i], theirs[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert (record["reward"] != 0).sum() > 100
    np.testing.assert_allclose(reward, record["reward"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("robot", [robot for robot in TASKS if "rough" not in robot])
def test_a_critic_sees_what_playgrounds_does(robot: str) -> None:
    """Playground reads it of sensors of these names, which MuJoCo itself computes here."""
    with np.load(HERE / f"playground_{robot}.npz") as file:
        record = {name: each[::50].astype(np.float64) for name, each in file.items()}
    how: Any = {"noise": 0.0, "hold": True, "push": 0.0, "physics": "mujoco", "critic": True, "flat_observation": True}
    with headrace.make(TASKS[robot], num_envs=len(record["reward"]), seed=1, **how) as pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        for name, theirs in STATE.items():
            if theirs in record:
                arrays[name][:] = record[theirs]
        whole, _, terminated, _, _ = pool.step(record["action"])
        part = whole[:, -pool.spec.critic :]
    task = import_module(f"headrace.envs.robots.{robot}")
    numbers, end = getattr(task, robot.upper()), "_pelvis" if robot == "g1" else ""
    model = mujoco.MjModel.from_xml_path(str(model_file(robot)))
    home, data = model.key(numbers.start).qpos[7:], mujoco.MjData(model)
    feet = [f"{name}_global_linvel" for name in numbers.feet]
    for i in np.flatnonzero(~terminated):
        mujoco.mj_resetData(model, data)
        data.qpos, data.qvel = record["qpos"][i], record["qvel"][i]
        data.ctrl = home + numbers.action_scale * record["action"][i]
        for _ in range(numbers.frame_skip):
            mujoco.mj_step(model, data)
        read = {
            name: data.sensor(name + end).data for name in ("gyro", "accelerometer", "local_linvel", "global_angvel")
        }
        down = -data.site(numbers.imu).xmat.reshape(3, 3)[2]
        wanted = [read["gyro"], read["accelerometer"], down, read["local_linvel"], read["global_angvel"]]
        wanted += [data.qpos[2:3], [0.0], data.qpos[7:] - home, data.qvel[6:], data.actuator_force]
        velocities = np.concatenate([data.sensor(name).data for name in feet])
        at = 17 + 3 * model.nu
        np.testing.assert_allclose(part[i, :at], np.concatenate(wanted), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(part[i, at + 2 * len(feet) :], velocities, rtol=1e-4, atol=1e-4)
        assert set(part[i, at : at + len(feet)]) <= {0.0, 1.0}
        np.testing.assert_array_equal(
            part[i, at + len(feet) : at + 2 * len(feet)] == 0, part[i, at : at + len(feet)] == 1
        )


@pytest.mark.parametrize("task", ["Go1Flat-v0", "G1Flat-v0"])
def test_a_game_is_the_same_with_what_a_critic_sees(task: str) -> None:
    games = []
    options: list[Any] = [{}, {"critic": True}]
    for how in options:
        with headrace.make(task, num_envs=5, seed=4, physics="lanes", push=0.5, **how) as pool:
            actions = np.random.default_rng(0).uniform(-1, 1, (40, 5, *pool.action_space.shape))
            seen = [pool.reset()[0], *(pool.step(each)[0] for each in actions)]
            games.append(np.stack([each["obs"] if how else each for each in seen]))
    np.testing.assert_array_equal(*games)

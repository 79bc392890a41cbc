"""Observations, rewards and ends of episodes are those of MuJoCo Playground, from recorded states."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import headrace

HERE = Path(__file__).parent
TASKS = {"go1": "Go1Flat-v0", "g1": "G1Flat-v0", "t1": "T1Flat-v0"}
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
    names = import_module(f"headrace.envs.robots.{robot}").TERMS
    theirs = {name.removeprefix("term "): value for name, value in record.items() if name.startswith("term ")}
    assert len(obs) == 1000
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

"""Go1's observations, rewards and ends of episodes by mjlab's settings are mjlab's, from recorded states.

`record_mjlab` has run mjlab's functions and its model of the robot, not its environment, which needs MuJoCo Warp.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.envs.robots.go1_mjlab import TERMS
from headrace.envs.robots.models import FOLDER

TASK = "Go1Mjlab-v0"
STATE = {"action": "last_action"} | {name: name for name in ("qpos", "qvel", "command", "touching", "peak")}
LANDED = ("foot_swing_height", "soft_landing")  # mjlab sees a foot that bounces between two steps


def stepped(physics: str, folder: Path) -> tuple[dict[str, np.ndarray], tuple]:
    """The record, and what a pool returns for a step from all its states, by a solver that runs to its end."""
    for name in ("go1.xml", "scene.xml"):
        (folder / name).write_text((FOLDER / name).read_text().replace("<option ", '<option tolerance="1e-14" '))
    with np.load(Path(__file__).with_name("mjlab_go1.npz")) as file:
        record = dict(file)
    options = {"noise": 0.0, "hold": True, "push": 0.0, "physics": physics, "xml_file": str(folder / "go1.xml")}
    with headrace.make(TASK, num_envs=len(record["reward"]), seed=1, **options) as pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        for name, theirs in STATE.items():
            arrays[name][:] = record[theirs]
        return record, pool.step(np.float64(record["action"]))


@pytest.mark.parametrize("physics", ["mujoco", "lanes"])
def test_a_step_is_that_of_mjlab(physics: str, tmp_path: Path) -> None:
    record, (obs, reward, terminated, _, info) = stepped(physics, tmp_path)
    assert len(obs) == 1000 and 5 < terminated.sum() < 200
    np.testing.assert_array_equal(terminated, record["done"])
    lives, seen = ~terminated, ~record["bounced"]
    assert seen.mean() > 0.8
    np.testing.assert_allclose(obs[lives], record["obs"][lives], rtol=1e-5, atol=1e-5)
    theirs = {name.removeprefix("term "): value for name, value in record.items() if name.startswith("term ")}
    assert set(theirs) == {*TERMS} - {"termination"}
    for i, name in enumerate(TERMS):
        if name in theirs:
            rows = seen if name in LANDED else slice(None)
            assert theirs[name].std() > 0, name
            ours = info["reward_terms"][rows, i]
            np.testing.assert_allclose(ours, theirs[name][rows], rtol=1e-5, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(reward[seen], record["reward"][seen], rtol=1e-5, atol=1e-5)

"""Go2's observations, rewards and ends of episodes by UniLab's settings are UniLab's, from recorded states.

`record_unilab` has run UniLab's own environment, on its own physics.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.envs.robots.go2_unilab import GO2_UNILAB, TERMS
from headrace.envs.robots.models import FOLDER

TASK = "Go2UniLab-v0"


def stepped(physics: str, folder: Path) -> tuple[dict[str, np.ndarray], tuple]:
    """The record, and what a pool returns for a step from all its states, by a solver that runs to its end."""
    for name in ("go2_unilab.xml", "go2_body.xml", "scene.xml"):
        (folder / name).write_text((FOLDER / name).read_text().replace("<option ", '<option tolerance="1e-14" '))
    with np.load(Path(__file__).with_name("unilab_go2.npz")) as file:
        record = dict(file)
    options = {"hold": True, "randomise": False, "physics": physics, "xml_file": str(folder / "go2_unilab.xml")}
    with headrace.make(TASK, num_envs=len(record["reward"]), seed=1, **options) as pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        for name, theirs in {"qpos": "qpos", "qvel": "qvel", "command": "command", "action": "last_action"}.items():
            arrays[name][:] = record[theirs]
        arrays["phase"][:] = math.tau * (record["clock"][:, None] + np.array(GO2_UNILAB.gait))
        return record, pool.step(np.float64(record["action"]))


@pytest.mark.parametrize("physics", ["mujoco", "lanes"])
def test_a_step_is_that_of_unilab(physics: str, tmp_path: Path) -> None:
    record, (obs, reward, terminated, _, info) = stepped(physics, tmp_path)
    assert len(obs) == 1000 and 10 < terminated.sum() < 100
    np.testing.assert_array_equal(terminated, record["done"])
    lives = record["lives"]  # of others, the observation is that of the next episode
    np.testing.assert_allclose(obs[lives], record["obs"][lives], rtol=1e-5, atol=1e-5)
    theirs = {name.removeprefix("term "): value for name, value in record.items() if name.startswith("term ")}
    assert set(theirs) == {*TERMS} - {"termination"}
    for i, name in enumerate(TERMS):
        if name in theirs:
            assert theirs[name].std() > 0, name
            np.testing.assert_allclose(info["reward_terms"][:, i], theirs[name], rtol=1e-5, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(reward, record["reward"], rtol=1e-5, atol=1e-5)

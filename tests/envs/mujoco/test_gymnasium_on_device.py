"""Gymnasium's MuJoCo tasks over MuJoCo Warp, on a device and in float32, give the results of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium_side import ASSETS

import headrace
from nightly import rest_nightly

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _mujoco_warp() -> None:
    """Imports mujoco_warp, which takes two seconds, when these tests run, not when they are collected."""
    pytest.importorskip("mujoco_warp")


def newton(name: str, folder: Path) -> str:
    """One of Gymnasium's models, under a solver that MuJoCo Warp has."""
    (folder / name).write_text((ASSETS / name).read_text().replace('solver="PGS"', 'solver="Newton"'))
    return str(folder / name)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "tolerance"), rest_nightly([("Reacher-v4", 1e-5), ("Hopper-v5", 1e-4)], ("Reacher-v4", 1e-5))
)
def test_equal_seeds_give_equal_steps_on_a_device_and_on_threads(make: Any, task: str, tolerance: float) -> None:
    """Before the first contacts, in which float32 and MuJoCo Warp give other results."""
    device, threads = headrace.make_torch(task, 3, "cpu", seed=2), make(task, num_envs=3, seed=2)
    actions = np.random.default_rng(1).uniform(-1, 1, (6, 3, *threads.action_space.shape))
    assert_alike(device.reset(), threads.reset(), tolerance)
    for action in actions:
        assert_alike(device.step(torch.as_tensor(action)), threads.step(action), tolerance)


@pytest.mark.nightly
def test_contact_forces_are_zero_before_the_first_step(make: Any, tmp_path: Path) -> None:
    xml = newton("humanoidstandup.xml", tmp_path)
    device = headrace.make_torch("HumanoidStandup-v5", 2, "cpu", seed=2, xml_file=xml)
    threads = make("HumanoidStandup-v5", num_envs=2, seed=2, xml_file=xml)
    forces = slice(-6 * 13, None)  # the last part of an observation
    for _ in range(2):
        obs, _ = device.reset()
        assert_alike([obs], [threads.reset()[0]], 1e-4)
        assert not obs[:, forces].any()
        obs, *_ = device.step(torch.zeros((2, 17), dtype=torch.float64))
        threads.step(np.zeros((2, 17)))
        assert obs[:, forces].any()


def assert_alike(ours: Any, theirs: Any, tolerance: float) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, dict):
            for name in set(other) - {"players"}:
                assert_alike([mine[name]], [other[name]], tolerance)
        else:
            np.testing.assert_allclose(mine.numpy(), other, tolerance, tolerance)

"""The robots over MuJoCo Warp, on its CPU device: the code of GPUs gives the results of MuJoCo on threads.

Warp compiles kernels of its own for each model, which takes a minute: by day only `test_mujoco_device.py`
runs one; the tests of `test_gymnasium_on_device.py` are nightly, too.
"""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
import torch
import warp as wp

import headrace
from headrace.envs import FAMILIES
from headrace.errors import OptionError

ROBOTS = [*FAMILIES["dm_control"].tasks, *(name for name in FAMILIES["mujoco"].tasks if name.endswith("-v5"))]
# tasks whose starts may be refused, which needs the host
REFUSING = ("BallInCup", "Finger", "Humanoid", "Manipulator", "Quadruped", "Stacker")
# models that need what MuJoCo Warp lacks: a field that varies, a solver
UNKNOWN = {"PointMassHard-v1": "wrap_prm", "Humanoid-v5": "PGS", "HumanoidStandup-v5": "PGS"}
RUNNING = [name for name in ROBOTS if not name.startswith(REFUSING) and name not in UNKNOWN]
TOLERANCE = 1e-3  # float32 beside float64, of numbers up to some tens
ANT = 0.1  # contact forces


def rows(obs: Any) -> np.ndarray:
    """Observations as one array [N, …]."""
    parts = obs.values() if isinstance(obs, dict) else [obs]
    return np.concatenate([np.asarray(part).reshape(len(part), -1) for part in parts], 1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", RUNNING)
def test_the_first_steps_equal_the_steps_on_threads(name: str) -> None:
    with headrace.make_torch(name, 2, "cpu", seed=3) as device, headrace.make(name, num_envs=2, seed=3) as threads:
        tolerance = ANT if name == "Ant-v5" else TOLERANCE
        np.testing.assert_allclose(rows(device.reset()[0]), rows(threads.reset()[0]), atol=TOLERANCE)
        random, space = np.random.default_rng(0), cast(gym.spaces.Box, threads.action_space)
        for _ in range(3):
            actions = random.uniform(np.maximum(space.low, -1), np.minimum(space.high, 1), (2, *space.shape))
            one, two = device.step(torch.from_numpy(actions)), threads.step(actions)
            np.testing.assert_allclose(rows(one[0]), rows(two[0]), atol=tolerance)
            np.testing.assert_allclose(one[1], two[1], atol=tolerance)
            assert not one[4]["physics_warning"].any()


@pytest.mark.parametrize("name", UNKNOWN)
def test_features_that_mujoco_warp_does_not_support_are_errors(name: str) -> None:
    with pytest.raises(OptionError, match=f"MuJoCo Warp cannot run this model: .*{UNKNOWN[name]}"):
        headrace.make_torch(name, 2, "cpu")


def test_38_robots_are_expected_to_run_on_devices() -> None:
    assert len(RUNNING) == 38


@pytest.mark.nightly
def test_a_step_of_ant_is_a_few_hundred_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are counted as in a graph: a loop that repeats until all worlds have converged counts once."""
    launched: list[str] = []

    def once(condition: Any, while_body: Any, **arguments: Any) -> None:
        while_body(**arguments)

    with headrace.make_torch("Ant-v5", 2, "cpu", seed=0, frame_skip=1) as pool:
        pool.reset()
        for name in ("launch", "launch_tiled"):
            plain = getattr(wp, name)
            monkeypatch.setattr(wp, name, lambda *a, plain=plain, **k: (launched.append(""), plain(*a, **k))[1])
        monkeypatch.setattr(wp, "capture_while", once)
        pool.step(torch.zeros((2, 8), dtype=torch.float64))
    assert 50 < len(launched) < 400


@pytest.mark.nightly
def test_a_step_frees_all_memory_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a graph of Warp's holds the temporary arrays of one physics step, however many steps it has."""
    held, most, given = {}, [0], []
    allocator: Any = type(wp.get_device("cpu").get_allocator())
    allocate, deallocate = allocator.allocate, allocator.deallocate

    def noted(self: Any, size: int) -> int:
        place = allocate(self, size)
        held[place] = size
        given.append(size)
        most[0] = max(most[0], sum(held.values()))
        return place

    def freed(self: Any, place: int, size: int) -> None:
        held.pop(place, None)
        deallocate(self, place, size)

    with headrace.make_torch("Ant-v5", 64, "cpu", seed=0) as pool:
        pool.reset()
        action = torch.zeros((64, 8), dtype=torch.float64)
        pool.step(action)
        monkeypatch.setattr(allocator, "allocate", noted)
        monkeypatch.setattr(allocator, "deallocate", freed)
        pool.step(action)
    assert given and not held
    assert most[0] < 64 * 64_000 < sum(given)

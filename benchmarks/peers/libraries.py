"""The libraries that train rows of the leaderboard for comparison."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CLEANRL = "CLEANRL"
"""environment variable: the folder of CleanRL's scripts"""


@dataclass(frozen=True)
class Library:
    """A library that can train.

    Attributes:
        module: the module beside this one whose ``train(request)`` trains with it.
        is_installed: whether it is there.
        missing: what to do where it is not.
    """

    module: str
    is_installed: Callable[[], bool]
    missing: str


def _has(package: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(package) is not None


def _names_a_folder(variable: str) -> bool:
    value = os.environ.get(variable)
    return bool(value) and Path(value).is_dir()


LIBRARIES = {
    "stable-baselines3": Library("sb3", _has("stable_baselines3"), "pip install stable-baselines3"),
    "sbx": Library("sb3", _has("sbx"), "pip install sbx-rl"),
    "CleanRL": Library(
        "cleanrl",
        lambda: _names_a_folder(CLEANRL) and _has("tensorboard")(),
        f"clone CleanRL, set {CLEANRL} to the folder of its scripts, and pip install tensorboard",
    ),
}
"""name → library"""

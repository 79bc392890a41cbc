"""Gymnasium-Robotics' own environments, mended where they do not run with MuJoCo 4."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("gymnasium_robotics")
mujoco: Any = pytest.importorskip("mujoco")
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

import gymnasium_robotics  # noqa: E402
from gymnasium_robotics.utils import mujoco_utils  # noqa: E402

from headrace.envs.mujoco.common import warnings_dropped  # noqa: E402

gym.register_envs(gymnasium_robotics)


class _Numbers:
    """An enumeration of MuJoCo 4 as the numbers that it was: NumPy's integers are in no tuple of its members."""

    def __init__(self, kind: Any):
        self._kind = kind

    def __getattr__(self, name: str) -> int:
        return int(getattr(self._kind, name))


def _place(model: Any, data: Any, name: str, value: Any) -> None:
    """Gymnasium-Robotics' own compares the shape of a free joint's value with a number."""
    data.joint(name).qpos[:] = value


@contextmanager
def mended() -> Iterator[None]:
    """A context in which Fetch runs."""
    named = {name: getattr(mujoco, name) for name in dir(mujoco) if not name.startswith("__")}
    kinds = {name: _Numbers(named[name]) for name in ("mjtJoint", "mjtEq", "mjtObj")}
    numbered = SimpleNamespace(**(named | kinds))
    with patch.object(mujoco_utils, "mujoco", numbered), patch.object(mujoco_utils, "set_joint_qpos", _place):
        yield


def official(task: str, **options: Any) -> Any:
    """Gymnasium-Robotics' environment, without wrappers; of Fetch, within `mended`."""
    with warnings.catch_warnings(), warnings_dropped():
        warnings.simplefilter("ignore")
        return gym.make(task, **options).unwrapped


def put_into(env: Any, data: Any, pool: Any, row: int = 0) -> None:
    """Puts Gymnasium-Robotics' environment where one of a pool's is."""
    state = pool.state_arrays()
    data.qpos[:], data.qvel[:] = state["qpos"][row], state["qvel"][row]
    if "mocap_pos" in state:
        data.mocap_pos[:] = state["mocap_pos"][row].reshape(-1, 3)
        data.mocap_quat[:] = state["mocap_quat"][row].reshape(-1, 4)
    data.ctrl[:] = state["ctrl"][row] if "ctrl" in state else 0
    env.goal = np.array(state["goal"][row])
    mujoco.mj_forward(env.model, data)
    data.qacc_warmstart[:] = state["warmstart"][row]
    if "hand" in state:  # where it was when it was seen last
        link = env.model.body("robot0:gripper_link").id
        data.xpos[link], data.xquat[link] = state["hand"][row], state["turn"][row]

"""dm_control's own environments, for tests in which they begin in the states of ours.

One synchronisation at the start of an episode, none after: MuJoCo's whole state, and the fields of the
model that are each environment's own.
"""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import warnings
from typing import Any

import mujoco
import numpy as np

import headrace
from headrace.envs.dm_control import SUITE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # GLFW's, of a display that is not there
    from dm_control import suite
    from dm_control.mujoco.wrapper.mjbindings import sizes
    from dm_control.suite import quadruped


def _forget_fields_that_are_no_more() -> None:
    """dm_control 1.0.50 lists fields of MuJoCo 3, and looks for all of them in MuJoCo 4's structs."""
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    for struct, of in (("mjmodel", model), ("mjdata", mujoco.MjData(model))):
        known = sizes.array_sizes[struct]
        for name in [name for name in known if not hasattr(of, name)]:
            del known[name]


_forget_fields_that_are_no_more()
quadruped.Physics.contexts = None  # otherwise the terrain is drawn at once, for which there may be no display


def load(task: str, seed: int = 0, flat_observation: bool = False, **task_options: Any) -> Any:
    """dm_control's environment for a task of ours, without MuJoCo's warnings of deprecated words in the models."""
    domain, name = SUITE[task]
    speak = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        loaded = suite.load(domain, name, {"random": seed, **task_options}, {"flat_observation": flat_observation})
    finally:
        mujoco.set_mju_user_warning(speak)
    loaded.reset()  # the dog tasks measure their model in the first reset
    return loaded


def begin(official: Any, pool: headrace.Pool, env_id: int = 0) -> dict[str, np.ndarray]:
    """Copies a state of our environments into dm_control's; returns what dm_control then observes."""
    official._reset_next_step, official._step_count = False, 0
    executor, model, data = pool._executor, official.physics.model, official.physics.data
    for name, rows in executor._memory.varying.items():
        ours = getattr(model, name)
        ours[:] = rows[env_id].reshape(ours.shape)
    mujoco.mj_resetData(model.ptr, data.ptr)
    for name, rows in executor._components.items():
        part = getattr(mujoco.mjtState, f"mjSTATE_{name.upper()}")
        mujoco.mj_setState(model.ptr, data.ptr, rows[env_id].copy(), part)
    official.physics.after_reset()
    return official.task.get_observation(official.physics)

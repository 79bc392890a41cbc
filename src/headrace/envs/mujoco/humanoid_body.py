"""The observations of Humanoid and HumanoidStandup.

They consist of positions and velocities of the joints, inertias and velocities of the bodies (``cinert``,
``cvel``), actuator forces (``qfrc_actuator``) and contact forces (``cfrc_ext``).
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.mujoco.common import box, check_size, copy_row, copy_vectors
from headrace.envs.mujoco.forward import skipped
from headrace.envs.mujoco.signals import FORCES, of_bodies
from headrace.pool.executors.mujoco import Part, Signals, joint_parts
from headrace.pool.spec import Field

SEEN = ("qpos", "qvel", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "ten_length", "ten_velocity")
TENDONS = {"tendon_length": ("ntendon",), "tendon_velocity": ("ntendon",)}  # info fields and their shapes
V5_OPTIONS = {f"include_{name}_in_observation": True for name in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")}


@wp.func
def observe_body(physics: Any, state: Any, env: int, view: Any):
    """Writes the observation, and the lengths and velocities of the tendons."""
    at = copy_row(physics.qpos, env, state.skipped, state.nq, view.obs, 0)
    at = copy_row(physics.qvel, env, 0, state.nv, view.obs, at)
    at = copy_vectors(physics.cinert, env, state.inertia_from, state.nbody, 10, view.obs, at)
    at = copy_vectors(physics.cvel, env, state.velocity_from, state.nbody, 6, view.obs, at)
    at = copy_row(physics.qfrc_actuator, env, state.actuator_from, state.nv, view.obs, at)
    copy_vectors(physics.cfrc_ext, env, state.contact_from, state.nbody, 6, view.obs, at)
    for i in range(state.ntendon):
        view.tendon_length[env, i] = physics.ten_length[env, i]
        view.tendon_velocity[env, i] = physics.ten_velocity[env, i]


def body_of(version: str, options: Mapping[str, Any], model: Any) -> dict[str, int]:
    """Returns the first body or joint of which each part of the observation is included.

    For a part that an option excludes, it is the number behind the last. Version v5 omits the entries of the world
    body and of the free joint, which are constant.
    """
    check_size(model, 7, 6, "a free joint comes first")
    world, root = (0, 0) if version == "v4" else (1, 6)
    first = {
        "inertia_from": ("cinert", world, model.nbody),
        "velocity_from": ("cvel", world, model.nbody),
        "actuator_from": ("qfrc_actuator", root, model.nv),
        "contact_from": ("cfrc_ext", world, model.nbody),
    }
    parts = {
        name: begin if options.get(f"include_{part}_in_observation", True) else end
        for name, (part, begin, end) in first.items()
    }
    return {"skipped": skipped(options, 2), **parts}


def observation(version: str, options: Mapping[str, Any], model: Any) -> gym.Space:
    """Returns the observation space for a model."""
    part = body_of(version, options, model)
    size = model.nq - part["skipped"] + model.nv + (model.nv - part["actuator_from"])
    size += 10 * (model.nbody - part["inertia_from"]) + 6 * (model.nbody - part["velocity_from"])
    return box(size + 6 * (model.nbody - part["contact_from"]))


def signals(version: str, options: Mapping[str, Any], model: Any) -> Signals:
    """Returns what observations consist of."""
    part = body_of(version, options, model)
    driven = tuple(dof_names(model)[part["actuator_from"] :])
    return Signals(
        (
            *joint_parts(model, part["skipped"]),
            *of_bodies(model, part["inertia_from"], "inertias of bodies", 10, ""),
            *of_bodies(model, part["velocity_from"], "turning and moving of bodies", 6, "rad/s, m/s"),
            *((Part("torques of actuators", (len(driven),), "N m", driven),) if driven else ()),
            *of_bodies(model, part["contact_from"], FORCES, 6, "N m, N"),
        )
    )


def dof_names(model: Any) -> list[str]:
    """Returns the joints of all degrees of freedom, by name."""
    return [model.joint(joint).name for joint in model.dof_jntid]


def fields(*names: str) -> Callable[[Mapping[str, Any], Any], tuple[Field, ...]]:
    """Returns a function (options, model) → float64 info fields of these names, scalar or [tendons]."""

    def for_model(options: Mapping[str, Any], model: Any) -> tuple[Field, ...]:
        return tuple(Field(name, np.dtype(np.float64), (model.ntendon,) if name in TENDONS else ()) for name in names)

    return for_model

"""Lanes beside MuJoCo's own step, over models and tasks made at random: all that a task can read must be equal.

A seed decides all: the model (`mujoco_models`), what is read and how, the states and the actions. A pool in lanes
steps its environments; `mj_step` repeats each step from the state that the pool had before it, on an `mjData` of its
own, with MuJoCo's solver let run to its end. Where they differ, MuJoCo steps from states that differ by rounding as
well, for contacts and stiff models amplify that: some times what its own results differ by is allowed.

``python tests/pool/mujoco_oracle.py SEED… [--shrink]`` repeats seeds; ``--shrink`` looks for the smallest model that
still differs, and prints it.
"""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import copy
import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np
from mujoco_models import model_xml
from mujoco_reading import Reading

import headrace
from headrace.pool.executors.mujoco import first_steps
from headrace.pool.executors.mujoco.fields import CAUSES
from headrace.pool.executors.mujoco.lanes import why_not_lanes

ENVS, STEPS = 11, 4  # more than there are lanes, and no multiple
MEASURED = 2  # environments of a step, the farthest from MuJoCo, of which it is measured how rounding is amplified
NEAR = 1e-6
"""of a field's largest number, or of 1: MuJoCo's solvers themselves end up to 1e-7 apart with elliptic cones"""
ROUNDING, NUDGE = 1e-13, 1e-9
"""how far from a state MuJoCo steps once more: as rounding is, and ten thousand times that"""
AMPLIFIED = 1e4  # times what its results then differ by are allowed
JUMP = 100.0  # times as many as of what the nudge changes, where that is a jump: a contact that only just holds, say
DRAWS = 6  # of ways to go from a state
EXPLODED = 1e3  # velocities of simulations that are not stable, before a step or after it

STATE = ("time", "qpos", "qvel", "act", "qacc_warmstart")
BODIES = ("xpos", "xquat", "xmat", "xipos", "ximat", "subtree_com", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat")
MOTION = ("cvel", "cdof", "cinert", "ten_length", "ten_velocity")
OTHERS = ("xanchor", "xaxis", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir", "cdof_dot")
SUBTREES = ("subtree_linvel", "subtree_angmom")
ACTUATION = ("actuator_length", "actuator_velocity", "qfrc_bias", "qfrc_passive")
LATER = (*BODIES, *MOTION, *OTHERS, *SUBTREES, *ACTUATION)
"""fields that are the new state's in a task with ``fresh=True``"""
FORCES = ("qacc", "qfrc_actuator", "actuator_force", "qfrc_constraint", "act_dot")
READS = (
    (*STATE, *BODIES, *MOTION, *FORCES, "ncon"),
    (*STATE, *BODIES, "sensordata"),
    (*STATE, *MOTION, "sensordata", "cfrc_ext"),
    (*STATE, *BODIES, *OTHERS, *MOTION, "sensordata"),
    (*STATE, "xpos", "cfrc_ext", "qfrc_constraint"),
    (*STATE, *ACTUATION, "xpos", "sensordata"),
    (*STATE, "xpos", "cacc", "cfrc_int", "cfrc_ext", "sensordata"),
    (*STATE, *ACTUATION, "xpos", "cfrc_ext", "cfrc_int", "qfrc_applied", "xfrc_applied", "sensordata"),
    # what lanes refuse, or must show as MuJoCo does
    (*STATE, "xpos", "cacc", *SUBTREES),
    (*STATE, "qfrc_bias", "qfrc_smooth", "qacc_smooth", "actuator_length", "energy", "xiquat"),
    (*STATE, "ctrl", "mocap_pos", "mocap_quat", "eq_active"),
)
"""fields that a task reads; a kernel is compiled for each of these, once"""
USUAL = 8  # so many of them are often read
VARIES = (
    *(("body_pos",), ("body_quat",), ("geom_pos",), ("site_pos",), ("jnt_stiffness",), ("wrap_prm",), ("geom_size",)),
    ("body_mass", "body_inertia", "body_ipos", "body_iquat"),
    ("dof_damping", "dof_frictionloss", "dof_armature"),
    ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange"),
    ("geom_friction", "pair_friction", "jnt_range"),
    ("qpos0", "qpos_spring", "body_mass"),
)
"""fields that differ between environments"""
MOVED = ("_pos", "_quat", "_ipos", "_iquat", "qpos0", "_spring", "wrap_prm")
"""ends of names of fields that are moved; others are scaled"""
PLACED = 0.05  # how far things are from each other's places where models differ


def reading(model: mujoco.MjModel, rng: np.random.Generator) -> Reading:
    """What a task reads of a model, at random."""
    names = [model.sensor(i).name for i in range(model.nsensor)]
    return Reading(
        READS[rng.integers(USUAL if rng.random() < 0.8 else len(READS))],
        VARIES[rng.integers(len(VARIES))] if rng.random() < 0.35 else (),
        tuple(name for name in names if rng.random() < 0.5) if rng.random() < 0.5 else (),
        fresh=bool(rng.random() < 0.5),
        forces=bool(rng.random() < 0.8 or (model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC).any()),
        skip=int(rng.integers(1, 6)),
    )


def accepted(model: mujoco.MjModel, task: Reading) -> tuple[Reading | None, str]:
    """The task, or as much of it as lanes accept, and why not more; None if they accept nothing."""
    bare = replace(task, varies=())
    lesser = (task, bare, replace(bare, reads=READS[0]), replace(bare, reads=READS[0][:-1]), replace(bare, reads=STATE))
    first = ""
    for each in lesser:
        why = why_not_lanes(each.env(), model)
        if not why:
            return each, first
        first = first or why
    return None, first


class Reference:
    """MuJoCo's own step of one environment, and what a task reads after it."""

    def __init__(self, model: mujoco.MjModel, task: Reading, signature: int):
        model = copy.copy(model)
        self.model, self.task, self.signature = model, task, signature
        if {"body_ipos", "body_iquat"} & {*task.varies}:  # as pools do: trees of volumes stand in frames of inertia
            model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE
        self.models = {"own": copy.copy(model), "Newton": copy.copy(model), "CG": copy.copy(model)}
        for name, iterations in (("Newton", 100), ("CG", 2000)):
            option = self.models[name].opt
            option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{name.upper()}")
            option.tolerance, option.iterations, option.ls_iterations, option.ls_tolerance = 0, iterations, 50, 1e-9

    def __call__(
        self,
        state: np.ndarray,
        control: np.ndarray,
        own: dict[str, np.ndarray],
        noise: tuple[float, int, bool] | None = None,
        solver: str = "Newton",
    ) -> dict[str, np.ndarray]:
        """Fields by name, after an agent step from a state; without any, MuJoCo warns.

        Args:
            state, control: where it begins, and its controls.
            own: the environment's own values of the model's fields.
            noise: how far from its state each substep begins, a seed of which way, and whether positions move, too.
            solver: which is let run to its end; or "own", the model's with its own options.
        """
        model, task = self.models[solver], self.task
        for name, values in own.items():
            getattr(model, name).flat = values.ravel()
        data = mujoco.MjData(model)
        if not CAUSES.isdisjoint(own):  # the trees of bounding boxes follow as well, which are not among these fields
            mujoco.mj_setConst(model, data)
            mujoco.mj_resetData(model, data)
        mujoco.mj_setState(model, data, state, self.signature)
        data.ctrl[:] = control
        rng = np.random.default_rng(noise[1] if noise else 0)
        for _ in range(task.skip):
            if noise:
                moved = noise[0] * rng.uniform(-1, 1, model.nv)
                data.qvel[:] += moved * np.maximum(1, np.abs(data.qvel))
                mujoco.mj_integratePos(model, data.qpos, moved, float(noise[2]))
            mujoco.mj_step(model, data)
        if task.forces:
            mujoco.mj_rnePostConstraint(model, data)
        fields = task.read(model, data)
        if not task.forces:
            fields |= {name: 0 * fields[name] for name in ("cacc", "cfrc_int", "cfrc_ext") if name in fields}
        if task.fresh:
            fields |= self.renewed(model, data)
        return {} if any(warning.number for warning in data.warning) else task.named(model, fields)

    def renewed(self, model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, np.ndarray]:
        """What follows from the new state's positions and velocities."""
        forces = data.sensordata.copy()
        data.flg_energypos = data.flg_energyvel = data.flg_subtreevel = False
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_sensorPos(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_sensorVel(model, data)
        for i in np.flatnonzero(model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC):
            part = slice(model.sensor_adr[i], model.sensor_adr[i] + model.sensor_dim[i])
            data.sensordata[part] = forces[part]
        fields = self.task.read(model, data)
        return {name: values for name, values in fields.items() if name in (*LATER, "sensordata")}


@dataclass
class Difference:
    """A field in which lanes and MuJoCo differ, by which part of its largest number, and what was allowed."""

    field: str
    apart: float
    allowed: float
    where: str

    def __str__(self) -> str:
        return f"{self.field} differs by {self.apart:.1e}, where {self.allowed:.1e} is allowed: {self.where}"


@dataclass
class Outcome:
    """What became of a seed: whether lanes stepped its model, what they refused, and where they differ."""

    stepped: bool
    refused: str
    differences: list[Difference]


def outcome(xml: str, seed: int, read: Reading | None = None) -> Outcome:
    """Lanes beside MuJoCo over a model, in the task, states and actions of a seed; ends with the first that differ.

    What the task reads is given, or at random as well.
    """
    rng = np.random.default_rng([seed, 1])
    try:
        model = mujoco.MjModel.from_xml_string(xml)
    except ValueError as why:
        return Outcome(False, f"MuJoCo: {why}", [])
    task, why = accepted(model, read or reading(model, rng))
    if task is None:
        return Outcome(False, why, [])
    headrace.register("Reading-v0", task.task(model), replace=True)
    settings: dict[str, Any] = {"num_envs": ENVS, "num_threads": 1, "seed": 1, "autoreset": "disabled"}
    with headrace.make("Reading-v0", physics="lanes", **settings) as pool:
        executor: Any = pool._executor
        pool.reset()
        _vary(model, task, executor._memory.varying, rng)
        for number in range(STEPS):
            if found := list(_differences(pool, Reference(model, task, executor._signature), rng, number)):
                return Outcome(True, why, found)
    return Outcome(True, why, [])


def _differences(pool: Any, reference: Reference, rng: np.random.Generator, number: int) -> Iterator[Difference]:
    """Step all environments, and yield where those differ that differ most."""
    executor, model = pool._executor, reference.model
    arrays = executor.state_arrays()
    moved = np.flatnonzero(rng.random(ENVS) < 0.6)
    for env in moved:
        _move({name: rows[env] for name, rows in arrays.items()}, model, rng)
    actions = rng.uniform(-1.5, 1.5, (ENVS, model.nu))
    before, varying = executor.record(), {name: rows.copy() for name, rows in executor._memory.varying.items()}
    stable = np.abs(arrays["qvel"]).max(axis=1) < EXPLODED
    obs, _, over, _, _ = pool.step(actions)
    controls = arrays["ctrl"].copy() if model.nu else actions
    found = []
    for env in np.flatnonzero(stable & ~over):
        step = before[env], controls[env], {name: rows[env] for name, rows in varying.items()}
        ours, theirs = reference.task.shown(model, obs[env]), reference(*step)
        if np.abs(theirs.get("qvel", 0.0)).max(initial=0.0) > EXPLODED:
            continue
        apart = {name: _distance(ours[name], values) for name, values in theirs.items()}
        if max(apart.values(), default=0.0) > NEAR:
            if _same(ours, reference(*step, solver="own")):
                continue  # libmujoco stepped it
            other = reference(*step, solver="CG")  # some minima one solver finds, and some the other
            if other and all(_distance(ours[name], values) <= NEAR for name, values in other.items()):
                continue
        found.append((max(apart.values(), default=0.0), int(env), step, theirs, apart))
    for most, env, step, theirs, apart in sorted(found, key=lambda each: -each[0])[:MEASURED]:
        exact = number == 0 and env not in moved and reference.task.skip == 1  # things may touch exactly there
        grown = dict.fromkeys(apart, 0.0) if most <= NEAR else _growth(reference, step, theirs, moves=not exact)
        for name, each in apart.items():
            allowed = NEAR + grown[name]
            if not each <= allowed:
                yield Difference(name, each, allowed, f"environment {env}, step {number}")
    if over.any():
        pool.reset(np.flatnonzero(over))


def _same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> bool:
    """Whether both have the same state bit by bit; what follows from a new state lanes may have computed."""
    return all(
        np.array_equal(ours[name], values, equal_nan=True) if name in STATE else _distance(ours[name], values) <= NEAR
        for name, values in theirs.items()
    )


def _growth(reference: Reference, step: Any, theirs: dict[str, np.ndarray], moves: bool) -> dict[str, float]:
    """How far from MuJoCo's results of a step others may be, by field, for what it makes of differences of rounding.

    Those of positions count if they may move (``moves``): things that touch exactly must do so in lanes, too.
    """
    grown = dict.fromkeys(theirs, 0.0)
    for seed in range(DRAWS):
        near, beside = (reference(*step, noise=(far, seed, moves)) for far in (ROUNDING, NUDGE))
        for name in grown:
            little, more = (_distance(each[name], theirs[name]) if each else np.inf for each in (near, beside))
            jumps = more > 100 * NUDGE / ROUNDING * little or more > 1e5 * NUDGE
            grown[name] = max(grown[name], AMPLIFIED * little, JUMP * more if jumps else 0.0)
    return grown


def _vary(model: mujoco.MjModel, task: Reading, varying: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Draws the fields that differ between environments, and has MuJoCo compute those that follow from them."""
    for env in range(ENVS):
        own = copy.copy(model)
        for name in task.varies:
            values = getattr(own, name)
            if not name.endswith(MOVED):
                values *= rng.uniform(0.5, 2, (len(values), *(1,) * (values.ndim - 1)))
                continue
            free = own.body_simple == 0 if name in ("body_ipos", "body_iquat") else slice(None)
            values[free] += (rng.normal(size=values.shape) * PLACED)[free]
            values /= np.linalg.norm(values, axis=-1, keepdims=True) if name.endswith("quat") else 1
        if not CAUSES.isdisjoint(task.varies):
            mujoco.mj_setConst(own, mujoco.MjData(own))
        for name, rows in varying.items():
            rows[env] = getattr(own, name)


def _move(arrays: dict[str, np.ndarray], model: mujoco.MjModel, rng: np.random.Generator) -> None:
    """Moves an environment's state, given by name, somewhere else."""
    qpos = arrays["qpos"].copy()
    mujoco.mj_integratePos(model, qpos, rng.normal(size=model.nv), float(rng.choice([0, 0.03, 0.3])))
    arrays["qpos"][:] = qpos
    arrays["qvel"] += rng.normal(size=model.nv) * rng.choice([0.1, 1.0, 3.0])
    pushes = (("qfrc_applied", rng.choice([0, 1])), ("xfrc_applied", rng.choice([0, 1])))
    for name, far in (*pushes, ("act", 0.5), ("mocap_pos", 0.05), ("mocap_quat", 0.3)):
        if name in arrays:
            arrays[name] += far * rng.normal(size=arrays[name].shape)


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, in parts of the second's largest number or of 1."""
    return float(np.abs(one - other).max(initial=0) / max(1.0, np.abs(other).max(initial=0)))


def prepare() -> None:
    """Leaves out what else is done with a new task: its functions are known, and faults are not to be avoided."""
    first_steps.play_new = lambda *args, **options: None
    os.environ["HEADRACE_UNCHECKED_LANES"] = "1"
    mujoco.set_mju_user_warning(lambda message: None)


def shrunk(xml: str, seed: int, found: Sequence[Difference]) -> str:
    """A model without the elements that the worst of these differences does not need."""
    worst = max(found, key=lambda each: (each.field in STATE, each.apart))

    def differs() -> bool:
        now = outcome(ET.tostring(tree, encoding="unicode"), seed).differences
        return any(each.field == worst.field and each.apart > worst.apart / 10 for each in now)

    tree, smaller = ET.fromstring(xml), True
    while smaller:
        smaller = False
        for parent in list(tree.iter()):
            for child in list(parent):
                at = list(parent).index(child)
                parent.remove(child)
                if differs():
                    smaller = True
                else:
                    parent.insert(at, child)
    ET.indent(tree)
    return ET.tostring(tree, encoding="unicode")


def main() -> None:
    prepare()
    for seed in map(int, (word for word in sys.argv[1:] if word.isdigit())):
        xml = model_xml(seed)
        found = outcome(xml, seed)
        print(f"{seed}:", found.refused or "all accepted", *found.differences, sep="\n    ", flush=True)
        if found.differences:
            print(shrunk(xml, seed, found.differences) if "--shrink" in sys.argv else xml)


if __name__ == "__main__":
    main()

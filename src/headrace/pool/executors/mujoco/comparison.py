"""Compares lanes with MuJoCo's own step at the first use of a model, and remembers what came out.

Lanes are an implementation of their own, and a task that they accept must not learn in other physics than MuJoCo's.
The robots that Headrace comes with are covered by its tests. Any other model is stepped both ways from random states
when it is first used, which takes about a tenth of a second. The verdict is kept in the user's cache, for the model,
for what the task reads and for the compiled module. States, and so verdicts, are the same on every machine.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from headrace.pool.cache import cache_folder
from headrace.pool.executors.kernels.diagnostics.first_steps import is_ours
from headrace.pool.executors.kernels.launch import told_after
from headrace.pool.executors.mujoco.fields import MjModel, library, native_module, saved, speechless
from headrace.pool.executors.mujoco.program import MujocoEnv, called, wanted
from headrace.pool.remarks import remark
from headrace.version import __version__

UNCHECKED = "HEADRACE_UNCHECKED_LANES"
"""an environment variable; if it is set, ``physics="lanes"`` is not refused for what a comparison found"""

SEEN_AT = (0, 1, 3, 8, 20, 45, 90, 150)  # physics steps of a trajectory after which its state is one to compare from
TRAJECTORIES = 4
NEAR = 1e-4
"""greatest difference of a field, in parts of its largest number, that counts as rounding"""
NUDGE = 1e-10  # by which states are moved, to see how much a difference of rounding grows to in one step
GROWTH = 10.0  # times of that growth that are rounding as well: where a contact only just holds, say
FAR = 1e-3  # from which the end of the solver's own iterations is far from the minimum

Numbers = dict[str, np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """What a comparison found.

    Attributes:
        differs: the field in which lanes differ from MuJoCo most, and by how much; empty if none does.
        stops: how far from the minimum that lanes compute the model's own solver options end; empty if they are near.
    """

    differs: str = ""
    stops: str = ""


def comes_with_headrace(env: MujocoEnv, model: Any) -> bool:
    """Returns whether a task's functions, and those that make its model, are Headrace's own."""
    makers = (model, *filter(callable, getattr(model, "args", ())))  # of a partial, whose arguments may be a user's
    return all(map(is_ours, makers)) and all(is_ours(function) for function, _ in called(env))


def verdict_of(task: str, env: MujocoEnv, model: MjModel) -> Verdict:
    """Returns what a comparison of lanes with MuJoCo says; compares unless a verdict on this model is kept.

    A remark tells of a difference when it is found. Lanes must be able to step the model.
    """
    digest = _digest(env, model)
    if (known := _VERDICTS.get(digest)) is not None:
        return known
    file = cache_folder() / "lanes" / f"{digest}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):  # none, or not whole
        return _VERDICTS.setdefault(digest, Verdict(**json.loads(file.read_text())))
    with told_after(f"headrace: comparing physics in lanes with MuJoCo's for {task}, this once …"), speechless():
        verdict = _VERDICTS.setdefault(digest, Comparison(env, model).run())
    with contextlib.suppress(OSError):  # without a record it is compared again the next time
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_name(f".{file.name}.{os.getpid()}")
        whole.write_text(json.dumps(asdict(verdict)))
        whole.replace(file)
    if verdict.differs:
        remark(f"{task} is not stepped in lanes: in them {verdict.differs}")
    return verdict


_VERDICTS: dict[str, Verdict] = {}


def _digest(env: MujocoEnv, model: MjModel) -> str:
    """Returns the hash of all that a verdict depends on."""
    read = repr((env.reads, env.varies, sorted(wanted(env).items())))
    whole = hashlib.sha256(f"{__version__} {library().__version__} {read} {_digest_of_module()}".encode())
    whole.update(saved(model))
    return whole.hexdigest()[:32]


@functools.cache
def _digest_of_module() -> str:
    return hashlib.sha256(Path(str(native_module().__file__)).read_bytes()).hexdigest()


class Comparison:
    """Simulations of a model in lanes, and the same by libmujoco with its constraint solver let run to the end."""

    def __init__(self, env: MujocoEnv, model: MjModel):
        self._model, self._exact = model, _to_the_end(model)
        self._trial = native_module().Trial(
            model=model._address, reads=list(env.reads), varies=list(env.varies), **wanted(env)
        )
        self._fields = _read(env, model)
        self._kind = library().mjtState.mjSTATE_INTEGRATION

    def run(self) -> Verdict:
        """Steps from all states both ways."""
        states = list(_states(self._model, self._kind))
        ours = list(self._in_lanes(states))
        exact = [self._by_mujoco(self._exact, state) for state in states]
        moved = [self._by_mujoco(self._exact, _nudged(self._model, state, self._kind)) for state in states]
        own = [self._by_mujoco(self._model, state) for state in states]
        largest = {name: max(np.abs(each[name]).max(initial=0) for each in exact) for name in self._fields}
        found, stop = (0.0, ""), 0.0
        for mine, theirs, beside, stopped in zip(ours, exact, moved, own, strict=True):
            for name, numbers in theirs.items():
                if mine is None or not np.isfinite(numbers).all():  # libmujoco steps it in a pool, too
                    continue
                size = max(np.abs(numbers).max(initial=0), 1e-2 * largest[name], 1e-6)
                apart, grown = (np.abs(each[name] - numbers).max(initial=0) for each in (mine, beside))
                if not apart <= NEAR * size + GROWTH * grown:
                    found = max(found, (float(apart / size), name))
                if name == "qvel":
                    stop = max(stop, float(np.abs(stopped[name] - numbers).max(initial=0) / size))
        size, name = found
        differs = f"{name} differs from MuJoCo's step by {size:.1g} of its largest value" if name else ""
        iterations = f"the model's own {self._model.opt.iterations} iterations"
        stops = f"{iterations} end up to {stop:.1g} of the velocities from the minimum, which lanes compute"
        return Verdict(differs, stops if stop > FAR else "")

    def _in_lanes(self, states: list[np.ndarray]) -> Iterator[Numbers | None]:
        mujoco, width = library(), self._trial.width
        datas = [mujoco.MjData(self._model) for _ in range(width)]
        for first in range(0, len(states), width):
            group = states[first : first + width]
            for data, state in zip(datas, group, strict=False):
                mujoco.mj_setState(self._model, data, state, self._kind)
            left = self._trial.in_lanes([data._address for data in datas[: len(group)]], 1)
            for i, data in enumerate(datas[: len(group)]):
                yield None if left >> i & 1 else self._numbers(data)

    def _by_mujoco(self, model: MjModel, state: np.ndarray) -> Numbers:
        data = library().MjData(model)
        library().mj_setState(model, data, state, self._kind)
        self._trial.by_mujoco(model._address, data._address, 1)
        return self._numbers(data)

    def _numbers(self, data: Any) -> Numbers:
        return {name: np.array(get(data), np.float64) for name, get in self._fields.items()}


def _read(env: MujocoEnv, model: MjModel) -> dict[str, Callable[[Any], Any]]:
    """Returns what is compared: name → a function of mjData. These are the state, and what the task reads of it."""
    data = library().MjData(model)
    names = {"qpos", "qvel", "act", *(name for name in env.reads if hasattr(data, name))} - {"sensordata"}
    fields: dict[str, Callable[[Any], Any]] = {name: attrgetter(name) for name in sorted(names)}
    if "sensordata" in env.reads:
        for i in range(model.nsensor):
            name, at = model.sensor(i).name, model.sensor_adr[i]
            if not env.sensors or name in env.sensors:
                part = slice(int(at), int(at + model.sensor_dim[i]))
                fields[f"sensor {i} {name!r}" if name else f"sensor {i}"] = partial(_sensor, part)
    return fields


def _sensor(part: slice, data: Any) -> Any:
    return data.sensordata[part]


def _to_the_end(model: MjModel) -> MjModel:
    """Returns the model with a constraint solver that ends at the minimum, whichever its own is."""
    exact = copy.copy(model)
    exact.opt.solver = library().mjtSolver.mjSOL_NEWTON
    exact.opt.iterations, exact.opt.tolerance = 100, 0
    exact.opt.ls_iterations, exact.opt.ls_tolerance = 50, 1e-10
    return exact


def _states(model: MjModel, kind: int) -> Iterator[np.ndarray]:
    """Yields states on trajectories under random controls from the model's starts, some of them moved at random."""
    mujoco, rng = library(), np.random.default_rng(0)
    data = mujoco.MjData(model)
    limited = model.actuator_ctrllimited.astype(bool)
    low, high = np.where(limited, model.actuator_ctrlrange.T, [[-1.0], [1.0]])
    for start in range(TRAJECTORIES):
        mujoco.mj_resetData(model, data)
        if start < model.nkey:
            mujoco.mj_resetDataKeyframe(model, data, start)
        for step in range(SEEN_AT[-1] + 1):
            if step % 4 == 0:
                data.ctrl[:] = rng.uniform(low, high)
            if step in SEEN_AT:
                if (SEEN_AT.index(step) + start) % 2:
                    _move(model, data, rng, 0.05, 0.5)
                row = np.empty(mujoco.mj_stateSize(model, kind))
                mujoco.mj_getState(model, data, row, kind)
                yield row
            mujoco.mj_step(model, data)
            if any(warning.number for warning in data.warning):
                break


def _nudged(model: MjModel, state: np.ndarray, kind: int) -> np.ndarray:
    """Returns the state, moved a little more than rounding does."""
    data, row = library().MjData(model), np.empty_like(state)
    library().mj_setState(model, data, state, kind)
    _move(model, data, np.random.default_rng(0), NUDGE, NUDGE)
    library().mj_getState(model, data, row, kind)
    return row


def _move(model: MjModel, data: Any, rng: np.random.Generator, positions: float, velocities: float) -> None:
    library().mj_integratePos(model, data.qpos, rng.normal(0, positions, model.nv), 1)
    data.qvel[:] += rng.normal(0, velocities, model.nv)
    data.mocap_pos[:] += rng.normal(0, positions, data.mocap_pos.shape)

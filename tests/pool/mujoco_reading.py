"""A task that reads what it is told to read of MuJoCo, and shows it: for comparing physics, in `mujoco_oracle`."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import functools
import linecache
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import warp as wp

from headrace.mujoco import MujocoEnv, MujocoTask, Streams
from headrace.pool.executors.mujoco.fields import field_array


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


@functools.cache
def observing(reads: tuple[str, ...]) -> Any:
    """A Warp function that copies these fields to the observation, one after the other."""
    lines = ["@wp.func", "def observe(physics: Any, state: State, env: int, view: View):", "    at = int(0)"]
    for name in reads:
        array, field = _array(mujoco.MjModel.from_xml_string("<mujoco/>"), name), f"physics.{name}"
        if name in ("time", "ncon"):
            lines += [f"    view.obs[env, at] = wp.float64({field}[env])", "    at += 1"]
            continue
        n = array.shape[1] if array.ndim == 2 else 1
        part = "" if array.ndim == 1 else "[k // 3, k % 3]" if n == 9 else "[k]"
        lines += [f"    for i in range({field}.shape[1]):", f"        for k in range({n}):"]
        lines += [f"            view.obs[env, at + {n} * i + k] = wp.float64({field}[env, i]{part})"]
        lines += [f"    at += {n} * {field}.shape[1]"]
    source, file = "\n".join(lines) + "\n", f"<reads {' '.join(reads)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # where Warp looks for it
    found: dict[str, Any] = {"wp": wp, "Any": Any, "State": State, "View": View, "__name__": __name__}
    exec(compile(source, file, "exec"), found)
    return found["observe"]


@dataclass(frozen=True)
class Reading:
    """What a task reads, and how.

    Attributes:
        reads, varies, sensors, fresh, forces: as of a `MujocoEnv`.
        skip: its frame skip.
    """

    reads: tuple[str, ...]
    varies: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    fresh: bool = False
    forces: bool = True
    skip: int = 1

    def env(self) -> MujocoEnv:
        reads = (*self.reads, *self.varies)
        sensors = self.sensors if "sensordata" in self.reads else ()
        how = {"varies": self.varies, "sensors": sensors, "fresh": self.fresh, "forces": self.forces}
        return MujocoEnv("Reading", reads, State, View, reset, step, observing(self.reads), **how)

    def task(self, model: mujoco.MjModel) -> MujocoTask:
        size = sum(_array(model, name).size for name in self.reads)
        space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        return MujocoTask(self.env(), lambda options: model, space, frame_skip=self.skip, max_episode_steps=0)

    def shown(self, model: mujoco.MjModel, row: np.ndarray) -> dict[str, np.ndarray]:
        """An observation's fields by name, and sensors each by its own."""
        fields, at = {}, 0
        for name in self.reads:
            size = _array(model, name).size
            fields[name], at = row[at : at + size], at + size
        return self.named(model, fields)

    def read(self, model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, np.ndarray]:
        """The same fields of mjData."""
        return {name: np.array(field_array(model, data, name), np.float64).ravel() for name in self.reads}

    def named(self, model: mujoco.MjModel, fields: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those sensors that are read, by their names, in place of ``sensordata``."""
        if (values := fields.pop("sensordata", None)) is None:
            return fields
        sensors = [model.sensor(i) for i in range(model.nsensor)]
        read = [sensor for sensor in sensors if not self.sensors or sensor.name in self.sensors]
        return fields | {f"sensor {s.name}": values[s.adr[0] : s.adr[0] + s.dim[0]] for s in read}


def _array(model: mujoco.MjModel, name: str) -> np.ndarray:
    return field_array(model, mujoco.MjData(model), name)

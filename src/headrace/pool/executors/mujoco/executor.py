"""Runs a MuJoCo task on the engine's threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.pool.batch import BatchRing
from headrace.pool.executors.kernels.changes import put_tables
from headrace.pool.executors.kernels.diagnostics.mistakes import mistakes_named
from headrace.pool.executors.kernels.launch import COMPILING, Compiled, compiled, view_of
from headrace.pool.executors.kernels.memory import unpacked_rows
from headrace.pool.executors.mujoco.arrows import ARROW, Arrows
from headrace.pool.executors.mujoco.declared import acts
from headrace.pool.executors.mujoco.fields import (
    APPLIED,
    SENSOR,
    MjModel,
    MjvCamera,
    keyframe_of,
    library,
    native_module,
    physics_over,
    physics_struct,
    sensors_of,
)
from headrace.pool.executors.mujoco.first_steps import load_and_try
from headrace.pool.executors.mujoco.lanes import MUJOCO, PHYSICS
from headrace.pool.executors.mujoco.memory import Memory, state_components
from headrace.pool.executors.mujoco.program import MujocoEnv, build_kernel, wanted
from headrace.pool.executors.threads import ThreadsExecutor
from headrace.pool.spec import PoolSettings, TaskSpec

SMALL = 128  # the side of pictures, in pixels, up to which Mesa's own threads make them no sooner
MESA_THREADS = "LP_NUM_THREADS"  # the environment variable; 0 has each thread draw by itself
PROGRESS, STREAM = 5, 16  # bytes of a saved state: the progress of the episode, and the random stream


class MujocoExecutor(ThreadsExecutor):
    """The executor of a `MujocoEnv` on the host.

    The state of an environment's simulation is one row of numbers, as `mujoco.mj_getState` returns them. A warning of
    MuJoCo in a step ends the episode, and is reported in ``info["physics_warning"]``: 0, or 1 + a `mujoco.mjtWarning`.

    Args:
        env: the task.
        model: its model.
        observation, shown: see `StepOutputs`.
        camera: the camera of pictures.
        arrows: what is drawn over pictures that people see; None for nothing.
        spec, settings, ring: as for every executor.
    """

    def __init__(
        self,
        env: MujocoEnv,
        model: MjModel,
        observation: gym.Space,
        shown: gym.Space,
        camera: MjvCamera,
        arrows: Arrows | None,
        spec: TaskSpec,
        settings: PoolSettings,
        ring: BatchRing,
    ):
        native, n = native_module(), settings.num_envs
        self.model, self._env, self._frame_skip = model, env, spec.options["frame_skip"]
        self._memory = memory = Memory(env, model, observation, shown, spec, n)
        self._functions = functions = _compile(env, model, observation, spec, memory, n)
        physics = _physics(native, env, model, functions, memory, spec.options[PHYSICS])
        self._signature = physics.signature
        self._rows = np.zeros((n, library().mj_stateSize(model, physics.signature)))
        self._components = state_components(model, self._rows, physics.signature)
        self._studio = _studio(native, physics, spec, camera)
        self._arrows = arrows
        self._over = None if arrows is None else np.repeat(self.arrows(np.zeros(1, np.int64)), n, 0)
        if memory.seen.pixels is not None:
            self._studio.open()  # otherwise the first picture opens it
        simulator = native.simulator(
            physics=physics,
            studio=self._studio,
            state=self._rows,
            actions=memory.actions,
            warning=memory.seen.warning,
            **memory.outcome.arrays,
            **memory.streams.arrays,
            kept=memory.kept(),
            pixels=memory.seen.pixels,
            arrows=self._over,
            reports=memory.seen.reports(),
            frame_skip=self._frame_skip,
            action_repeat=spec.options["action_repeat"],
            **wanted(env),
            acts=acts(env),
            may_refuse=env.accept is not None,
            settling_steps=env.settling_steps,
            starts_unactuated=env.starts_unactuated,
        )
        super().__init__(native, simulator, spec, settings, ring)

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        begin = PROGRESS + self._rows.strides[0] + STREAM  # as `MujocoEnv::save` orders them
        fields = self._memory.kept_fields(self._env.bounds)
        kept = [blob[begin : begin + sum(f.nbytes for f in fields)] for blob in blobs]
        if fields and min(map(len, kept)) == len(kept[0]):  # a state that is too short is refused below
            unpacked_rows(fields, env_ids, kept)
        super().load_state(env_ids, blobs)

    def close(self) -> None:
        super().close()
        self._studio.close()

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Returns the simulations' state and varying model fields by MuJoCo's names, and the task's state, [N, …]."""
        return {**self._components, **self._memory.varying, **self._memory.state.arrays}

    def arrows(self, env_ids: np.ndarray) -> np.ndarray:
        """Returns what is drawn over pictures of these K environments, float32 [K, n, 12], see `arrows.Arrows`."""
        if self._arrows is None:
            return np.zeros((len(env_ids), 0, ARROW), np.float32)
        return self._arrows(self.state_arrays(), env_ids)

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        if self._over is not None:
            self._over[env_ids] = self.arrows(env_ids)
        return super().render(env_ids)

    def put_tables(self, tables: Mapping[str, np.ndarray]) -> None:
        put_tables(self._memory.state.struct, tables)

    def record(self) -> np.ndarray:
        """Returns a copy of all simulations' state rows, float64 [N, …], for `bare_seconds`."""
        return self._rows.copy()

    def bare_seconds(
        self, states: np.ndarray, controls: np.ndarray, num_threads: int, physics: str = MUJOCO, width: int = 0
    ) -> float:
        """Returns the seconds that physics alone takes for the same steps, for comparison in benchmarks.

        Args:
            states: float64 [steps, N, …], from `record` before each agent step.
            controls: float64 [steps, N, nu].
            num_threads: number of threads that share the environments, each with one ``mjData``, or with one for each
                lane.
            physics: "mujoco", "lanes" or "lanes32", whichever the pool has.
            width: simulations that a thread steps at once in lanes; 0 for as many as the processor has registers for.

        Raises:
            OptionError: lanes cannot step the model, or the processor has no registers of that width.
        """
        return native_module().bare_loop(
            model=self.model._address,
            states=states,
            controls=controls,
            signature=self._signature,
            frame_skip=self._frame_skip,
            num_threads=num_threads,
            physics=physics,
            reads=list(self._env.reads),
            width=width,
            **wanted(self._env),
        )


def _physics(
    native: ModuleType, env: MujocoEnv, model: MjModel, functions: Compiled, memory: Memory, physics: str
) -> Any:
    """Returns the compiled description of a task's physics: its model, functions and arrays."""
    sensors = sensors_of(model, env.sensors)
    return native.Physics(
        model=model._address,
        function=functions.function,
        bounds=functions.bounds,
        arguments=functions.arguments,
        env_id=functions.offset("env_id"),
        command=functions.offset("command"),
        arrays=[
            *((functions.offset("physics", f), f, 0) for f in env.reads if f not in memory.varying),
            *((functions.offset("physics", f"{SENSOR}.{s.name}"), "sensordata", 8 * s.first) for s in sensors),
        ],
        varying=list(memory.varying.items()),
        keyframe=keyframe_of(model, env.start),
        keeps_forces=any(name in env.reads for name in APPLIED),
        physics=physics,
        **wanted(env),
    )


def _studio(native: ModuleType, physics: Any, spec: TaskSpec, camera: MjvCamera) -> Any:
    """Returns the renderer of a task's pictures."""
    options = spec.options
    if options["from_pixels"] and max(options["render_width"], options["render_height"]) <= SMALL:
        os.environ.setdefault(MESA_THREADS, "0")
    return native.Studio(
        physics=physics,
        width=options["render_width"],
        height=options["render_height"],
        camera=(camera.type, camera.fixedcamid, camera.trackbodyid),
        lookat=camera.lookat,
        distance=camera.distance,
        azimuth=camera.azimuth,
        elevation=camera.elevation,
        effects=options["render_effects"],
        most_geoms=options["max_geom"],
        flags=list(options["visual_options"].items()),
    )


def _compile(
    env: MujocoEnv, model: MjModel, observation: gym.Space, spec: TaskSpec, memory: Memory, num_envs: int
) -> Compiled:
    """Returns the task's functions for the CPU, over one simulation's memory, which each thread replaces by its own."""
    data = library().MjData(model)
    struct = physics_struct(model, data, env.reads, env.sensors)
    physics = physics_over(struct, model, data, num_envs, memory.varying, env.sensors)
    tables = (memory.state.struct, memory.streams.struct, view_of(memory.actions, wp.float64), memory.outcome.struct)
    with COMPILING, mistakes_named(env):
        kernel = build_kernel(env, struct)
    load_and_try(env, model, observation, spec, kernel, "cpu", 1)
    return compiled(kernel, [physics, *tables, memory.seen.view, memory.declared.struct, 0, 0])

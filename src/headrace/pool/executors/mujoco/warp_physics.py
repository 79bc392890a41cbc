"""The physics of a task in MuJoCo Warp: N worlds on one device, as tensors and as float64 arrays for the task.

MuJoCo Warp computes in float32. A task's functions are written once, in float64, so the fields that they read are
copied into float64 arrays after each physics step, and the fields that they may write are copied back. These are a few
hundred numbers for each world, which takes little time compared with the physics.

A physics step is hundreds of launches, and its solver ends when all worlds have converged, which only a graph's
conditional nodes decide without the host. On a GPU all physics therefore runs in graphs: in one of Warp's, or as a part
of the graph that torch captures, if Warp is told of it. A capture that Warp does not know of keeps each of its
temporary arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels.launch import COMPILING, _torch_stream, on_torch_stream, quiet
from headrace.pool.executors.mujoco.fields import (
    CAUSES,
    FORCES,
    SINGLE,
    MjModel,
    begin,
    field_array,
    keyframe_of,
    library,
    physics_struct,
    sensors_of,
    varying_names,
    varying_rows,
)
from headrace.pool.executors.mujoco.program import MujocoEnv

# the complete state of a world; all other fields follow from it
STATE = (
    "time qpos qvel act history plastic qacc_warmstart ctrl qfrc_applied xfrc_applied eq_active mocap_pos mocap_quat "
    "userdata"
).split()
NOT_COMPUTED = {"dof_M0", "dof_length", "actuator_length0", "body_sameframe", "geom_sameframe", "site_sameframe"}
"""fields that MuJoCo computes of a model's masses, and MuJoCo Warp has not or has once for all worlds"""
PLACES = {"geom_pos", "geom_quat", "body_pos", "body_quat"}
"""fields of the model on which the places of geoms depend"""
TRIED = 300  # physics steps in which constraint rows are counted
DEFAULT_ROWS = 64  # of MuJoCo Warp
MAX_VALUE = 1e10  # mjMAXVAL, above which MuJoCo reports divergence
NO_MEMORY = 0xFF  # bits of mujoco_warp's OverflowType for contacts or constraints that were left out

State = dict[str, torch.Tensor]


class WarpPhysics:
    """N worlds of one model.

    Args:
        varied: memory of fields of the model that the task varies, by name, float64 [N, …]; others have their own.

    Attributes:
        struct: the `warp.struct` of the fields that the task reads.
        arrays: the instance of the struct that the task's functions receive.
        initial: the model's initial state, of one world.
    """

    def __init__(self, env: MujocoEnv, model: MjModel, num_envs: int, device: torch.device, varied: Mapping[str, Any]):
        self._mjw, self._device = _mujoco_warp(), str(device)
        self._env, self._varied = env, varied
        data = library().MjData(model)
        varying_rows(model, env.varies, env.reads, 1)  # raises the same errors as on threads
        self._varying = [name for name in varying_names(model, env.varies) if name not in NOT_COMPUTED]
        if lost := {*varying_names(model, env.varies)} & {*env.reads} & NOT_COMPUTED:
            names = " and ".join(sorted(lost))
            raise OptionError(f"{env.name} reads {names}, which MuJoCo Warp does not compute: it runs on the CPU")
        with quiet(), wp.ScopedDevice(self._device):
            try:
                self._model = self._mjw.put_model(model, batch_sizes=dict.fromkeys(self._varying, num_envs))
                self._data = self._mjw.make_data(model, nworld=num_envs, njmax=_constraint_rows(model))
            except (NotImplementedError, ValueError) as error:
                raise OptionError(f"{env.name}: MuJoCo Warp cannot run this model: {error}") from error
            self._mjw.step(self._model, self._data)  # compiles its kernels before any capture
        self._sliding = torch.as_tensor(np.flatnonzero(model.body_simple == 2), device=self._device)
        self._graphs: dict[Hashable, Any] = {}
        self._captured: list[Any] = []
        self._placing = self._with_moved_geoms()
        self._overflow = wp.to_torch(self._data.overflow)
        self._state = {name: t for name in STATE if (t := self._tensor(name)) is not None and t.numel()}
        self.initial = self._initial(data)
        self._constant: list[torch.Tensor] = []
        self.struct = physics_struct(model, data, env.reads, env.sensors)
        self.arrays, self._mirrors = self._mirrored(model, data, num_envs)

    # -- state -----------------------------------------------------------------------------------

    def save(self) -> State:
        """Returns copies of the worlds' state."""
        return {name: tensor.clone() for name, tensor in self._state.items()}

    def restore(self, state: State, picked: torch.Tensor) -> None:
        """Sets the worlds picked, bool [N], to ``state``, which holds one world or all N."""
        for name, tensor in self._state.items():
            where = picked.view(-1, *(1,) * (tensor.dim() - 1))
            tensor.copy_(torch.where(where, state[name], tensor))

    def rows(self) -> State:
        """Returns the worlds' state, not copied, and the model's varying fields, by MuJoCo's names."""
        return {**self._state, **{name: self._tensor(name) for name in self._varying}}

    def set_controls(self, actions: torch.Tensor, picked: torch.Tensor) -> None:
        """Sets the controls of the worlds picked, bool [N], to actions float64 [N, nu]."""
        ctrl = self._state["ctrl"]
        ctrl.copy_(torch.where(picked.view(-1, 1), actions.to(ctrl.dtype), ctrl))

    def pull(self) -> None:
        """Copies the fields that the task reads into its arrays."""
        for name, mirror in self._mirrors.items():
            tensor = self._tensor(name)
            mirror.copy_(tensor.reshape(tensor.shape[0], *mirror.shape[1:]))

    def push(self) -> None:
        """Copies the fields that the task's functions may have written back to physics."""
        for name, mirror in self._mirrors.items():
            if name in self._state or name in self._env.varies:
                tensor = self._tensor(name)
                tensor.copy_(mirror.view(tensor.shape))

    # -- physics ---------------------------------------------------------------------------------

    def step(self, steps: int) -> None:
        """Advances all worlds by ``steps`` physics steps, and recomputes the fields that the task needs up to date."""
        self._overflow.zero_()
        self._run(("step", steps), lambda: self._advance(steps))

    def _advance(self, steps: int) -> None:
        mjw, model, data = self._mjw, self._model, self._data
        self._place()
        for _ in range(steps):
            mjw.step(model, data)
        if self._reads_forces:
            mjw.rne_postconstraint(model, data)
        if self._env.fresh:
            mjw.fwd_kinematics(model, data)
            mjw.sensor_pos(model, data)
            mjw.com_vel(model, data)
            mjw.sensor_vel(model, data)

    def compute_constants(self) -> None:
        """Computes the fields of the model that follow from those that vary, as `mujoco.mj_setConst`; then `begin`."""
        if CAUSES.isdisjoint(self._env.varies):
            return
        self._run("constants", lambda: self._mjw.set_const(self._model, self._data, restore=False))
        weights, masses = (
            self._tensor("body_invweight0"),
            self._tensor("body_mass"),
        )  # MuJoCo Warp does all bodies alike
        weights[:, self._sliding, 0] = 1 / masses[:, self._sliding].clamp(min=1e-15)

    def begin(self, steps: int = 0) -> None:
        """Computes all fields that follow from the worlds' state, after ``steps`` settling steps."""
        self._run(("begin", steps), lambda: self._begin(steps))
        for name in FORCES:
            self._tensor(name).zero_()  # until the next step, as on threads

    def _begin(self, steps: int) -> None:
        mjw, model, data = self._mjw, self._model, self._data
        self._place()
        for _ in range(steps):
            mjw.step(model, data)
        if steps:
            data.time.zero_()
        flags, actuation = model.opt.disableflags, int(library().mjtDisableBit.mjDSBL_ACTUATION)
        model.opt.disableflags = flags | actuation if self._env.starts_unactuated else flags
        mjw.forward(model, data)
        model.opt.disableflags = flags

    def _with_moved_geoms(self) -> Any:
        """Returns the model in which no geom counts as fixed to the world; None if the task moves none of those.

        MuJoCo Warp places geoms that are fixed to the world only once, when its data are made.
        """
        if PLACES.isdisjoint(self._env.varies):
            return None
        with wp.ScopedDevice(self._device):
            return replace(self._model, body_weldid=wp.ones_like(self._model.body_weldid))

    def _place(self) -> None:
        if self._placing is not None:
            self._mjw.kinematics(self._placing, self._data)

    def warnings(self) -> torch.Tensor:
        """Returns each world's warning, int32 [N]: 0, or 1 + a `mujoco.mjtWarning`."""
        kinds = library().mjtWarning
        found = torch.zeros_like(self._overflow, dtype=torch.int32)
        full = (self._overflow & NO_MEMORY) != 0
        found.masked_fill_(full, 1 + int(kinds.mjWARN_CNSTRFULL))
        for name, kind in (("qacc_warmstart", kinds.mjWARN_BADQACC), ("qvel", kinds.mjWARN_BADQVEL),
                           ("qpos", kinds.mjWARN_BADQPOS)):  # fmt: skip
            if name in self._state:
                sound = (self._state[name].abs() <= MAX_VALUE).all(1)  # false for NaN
                found.masked_fill_(~sound, 1 + int(kind))
        return found

    # -- access to MuJoCo Warp -------------------------------------------------------------------

    @property
    def _reads_forces(self) -> bool:
        return self._env.forces and any(name in FORCES for name in self._env.reads)

    def _run(self, key: Hashable, launches: Callable[[], None]) -> None:
        """Runs launches of MuJoCo Warp: on a GPU as a graph, that of ``key``, or in the graph that torch captures."""
        with quiet(), wp.ScopedDevice(self._device), on_torch_stream(self._device):
            if self._device == "cpu":
                launches()
                return
            stream = _torch_stream(wp.get_device(self._device))
            if stream.is_capturing:
                with self._known_to_warp(stream):
                    launches()
            else:
                if key not in self._graphs:
                    self._graphs[key] = self._captured_apart(launches)
                wp.capture_launch(self._graphs[key], stream=stream)

    @contextmanager
    def _known_to_warp(self, stream: wp.Stream) -> Iterator[None]:
        """Returns a context in which Warp knows that torch captures its current stream."""
        if stream in stream.device.captures:  # whoever captures has told Warp
            yield
            return
        wp.capture_begin(stream=stream, external=True)
        try:
            yield
        finally:
            self._captured.append(wp.capture_end(stream=stream))  # holds memory that the graph uses

    def _captured_apart(self, launches: Callable[[], None]) -> Any:
        """Returns a graph of these launches, captured on a stream of its own: torch's default stream cannot be."""
        with COMPILING, wp.ScopedStream(wp.Stream(self._device)), wp.ScopedCapture() as capture:
            launches()
        return capture.graph

    def _tensor(self, name: str) -> Any:
        """Returns MuJoCo Warp's array of this name as a tensor; None if there is none."""
        array: Any = getattr(self._data, name, None)
        array = getattr(self._model, name, None) if array is None else array
        return wp.to_torch(array) if wp.types.is_array(array) else None

    def _initial(self, data: Any) -> State:
        begin(data.model, data, keyframe_of(data.model, self._env.start))
        initial = {}
        for name, tensor in self._state.items():
            numbers = torch.as_tensor(getattr(data, name), dtype=tensor.dtype, device=tensor.device)
            initial[name] = numbers.reshape(1, *tensor.shape[1:])
        return initial

    def _mirrored(self, model: MjModel, data: Any, num_envs: int) -> tuple[Any, dict[str, torch.Tensor]]:
        """Returns the struct of the fields that the task reads, and the memory of those that change: name → float64."""
        arrays, mirrors = self.struct(), {}
        for name in self._env.reads:
            field, dtype = field_array(model, data, name), self.struct.vars[name].type.dtype
            if hasattr(model, name) and name not in self._varying:  # the same in all worlds
                memory = torch.as_tensor(field.copy(), device=self._device)
                self._constant.append(memory)
                with quiet():
                    row = memory.element_size() * memory[0].numel() if len(memory) else 0
                    view = wp.array(ptr=memory.data_ptr(), shape=(num_envs, len(memory)), strides=(0, row), dtype=dtype,
                                    device=self._device)  # fmt: skip
                setattr(arrays, name, view)
                continue
            tensor = self._tensor(name)
            if tensor is None or not tensor.is_floating_point():
                raise OptionError(f"{self._env.name} reads {name}, which MuJoCo Warp does not have: it runs on the CPU")
            shape = (num_envs,) if name in SINGLE else (num_envs, *field.shape)
            mirrors[name] = self._varied.get(name, torch.zeros(shape, dtype=torch.float64, device=tensor.device))
            with quiet():
                extent = shape[:1] if name in SINGLE else shape[:2]
                view = wp.array(ptr=mirrors[name].data_ptr(), shape=extent, dtype=dtype, device=self._device)
            setattr(arrays, name, view)
        for sensor in sensors_of(model, self._env.sensors):
            rows = mirrors["sensordata"]
            array = sensor.over(rows.data_ptr(), num_envs, rows[0].numel() * rows.element_size(), self._device)
            setattr(arrays.sensor, sensor.name, array)
        return arrays, mirrors


def _constraint_rows(model: MjModel) -> int | None:
    """Returns the constraint rows to allocate for a world: twice what random controls need; None for the default.

    MuJoCo Warp's default does not depend on the number of joints and geoms, unless there is a height field.
    """
    data, random, most = library().MjData(model), np.random.default_rng(0), 0
    for _ in range(TRIED):
        data.ctrl[:] = random.uniform(-1, 1, model.nu)
        library().mj_step(model, data)
        most = max(most, data.nefc)
    return None if model.nhfield or 2 * most <= DEFAULT_ROWS else 2 * most


def _mujoco_warp() -> Any:
    try:
        with quiet():
            return import_module("mujoco_warp")
    except ImportError as error:
        raise OptionError(
            f"MuJoCo on a GPU needs mujoco-warp: pip install 'headrace[mujoco-warp]' ({error})"
        ) from error

"""The physics of a task in MuJoCo Warp: N worlds on one device, as tensors and as float64 arrays for the task.

MuJoCo Warp computes in float32. A task's functions are written once, in float64, so the fields that they read are
copied into float64 arrays after each physics step, and the fields that they may write are copied back. These are a few
hundred numbers for each world, which takes little time compared with the physics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels.launch import on_torch_stream, quiet
from headrace.pool.executors.mujoco.fields import (
    FORCES,
    SINGLE,
    MjModel,
    field_array,
    field_dtype,
    library,
    physics_struct,
    varying_rows,
)
from headrace.pool.executors.mujoco.program import MujocoEnv

# the complete state of a world; all other fields follow from it
STATE = (
    "time qpos qvel act history plastic qacc_warmstart ctrl qfrc_applied xfrc_applied eq_active mocap_pos mocap_quat "
    "userdata"
).split()
MAX_VALUE = 1e10  # mjMAXVAL, above which MuJoCo reports divergence
NO_MEMORY = 0xFF  # bits of mujoco_warp's OverflowType for contacts or constraints that were left out

State = dict[str, torch.Tensor]


class WarpPhysics:
    """N worlds of one model.

    Attributes:
        struct: the `warp.struct` of the fields that the task reads.
        arrays: the instance of the struct that the task's functions receive.
        initial: the model's initial state, of one world.
    """

    def __init__(self, env: MujocoEnv, model: MjModel, num_envs: int, device: torch.device):
        self._mjw, self._device = _mujoco_warp(), str(device)
        self._env = env
        data = library().MjData(model)
        varying_rows(model, env.varies, env.reads, 1)  # raises the same errors as on threads
        with quiet(), wp.ScopedDevice(self._device):
            try:
                self._model = self._mjw.put_model(model, batch_sizes=dict.fromkeys(env.varies, num_envs))
                self._data = self._mjw.make_data(model, nworld=num_envs)
            except (NotImplementedError, ValueError) as error:
                raise OptionError(f"{env.name}: MuJoCo Warp cannot run this model: {error}") from error
            self._mjw.forward(self._model, self._data)  # compiles its kernels, which is impossible in a CUDA graph
        self._model.opt.graph_conditional = False  # CUDA graphs are captured by torch
        self._overflow = wp.to_torch(self._data.overflow)
        self._state = {name: t for name in STATE if (t := self._tensor(name)) is not None and t.numel()}
        self.initial = self._initial(data)
        self.struct = physics_struct(model, data, env.reads)
        self.arrays, self._mirrors = self._mirrored(model, data, num_envs)
        self._constant = [name for name in env.reads if hasattr(self._model, name) and name not in env.varies]
        self._pull(self._constant)

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
        return {**self._state, **{name: self._tensor(name) for name in self._env.varies}}

    def set_controls(self, actions: torch.Tensor, picked: torch.Tensor) -> None:
        """Sets the controls of the worlds picked, bool [N], to actions float64 [N, nu]."""
        ctrl = self._state["ctrl"]
        ctrl.copy_(torch.where(picked.view(-1, 1), actions.to(ctrl.dtype), ctrl))

    def pull(self) -> None:
        """Copies the fields that the task reads into its arrays."""
        self._pull([name for name in self._mirrors if name not in self._constant])

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
        with self._running() as (mjw, model, data):
            for _ in range(steps):
                mjw.step(model, data)
            if self._env.fresh:
                mjw.fwd_kinematics(model, data)
                mjw.sensor_pos(model, data)
                mjw.com_vel(model, data)
                mjw.sensor_vel(model, data)
            if self._reads_forces:
                mjw.rne_postconstraint(model, data)

    def begin(self, steps: int = 0) -> None:
        """Computes all fields that follow from the worlds' state, after ``steps`` settling steps."""
        with self._running() as (mjw, model, data):
            for _ in range(steps):
                mjw.step(model, data)
            if steps:
                self._state["time"].zero_()
            flags, actuation = model.opt.disableflags, int(library().mjtDisableBit.mjDSBL_ACTUATION)
            model.opt.disableflags = flags | actuation if self._env.starts_unactuated else flags
            mjw.forward(model, data)
            model.opt.disableflags = flags
        for name in FORCES:
            self._tensor(name).zero_()  # until the next step, as on threads

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

    @contextmanager
    def _running(self) -> Iterator[tuple[Any, Any, Any]]:
        with quiet(), wp.ScopedDevice(self._device), on_torch_stream(self._device):
            yield self._mjw, self._model, self._data

    def _tensor(self, name: str) -> Any:
        """Returns MuJoCo Warp's array of this name as a tensor; None if there is none."""
        array: Any = getattr(self._data, name, None)
        array = getattr(self._model, name, None) if array is None else array
        return wp.to_torch(array) if wp.types.is_array(array) else None

    def _initial(self, data: Any) -> State:
        library().mj_resetData(data.model, data)
        initial = {}
        for name, tensor in self._state.items():
            numbers = torch.as_tensor(getattr(data, name), dtype=tensor.dtype, device=tensor.device)
            initial[name] = numbers.reshape(1, *tensor.shape[1:])
        return initial

    def _mirrored(self, model: MjModel, data: Any, num_envs: int) -> tuple[Any, dict[str, torch.Tensor]]:
        arrays, mirrors = self.struct(), {}
        for name in self._env.reads:
            field, tensor = field_array(model, data, name), self._tensor(name)
            if tensor is None or not tensor.is_floating_point():
                raise OptionError(f"{self._env.name} reads {name}, which MuJoCo Warp does not have: it runs on the CPU")
            shape = (num_envs,) if name in SINGLE else (num_envs, *field.shape)
            mirrors[name] = torch.zeros(shape, dtype=torch.float64, device=tensor.device)
            with quiet():
                extent = shape[:1] if name in SINGLE else shape[:2]
                dtype = field_dtype(name, field)
                view = wp.array(ptr=mirrors[name].data_ptr(), shape=extent, dtype=dtype, device=self._device)
            setattr(arrays, name, view)
        return arrays, mirrors

    def _pull(self, names: list[str]) -> None:
        for name in names:
            tensor, mirror = self._tensor(name), self._mirrors[name]
            mirror.copy_(tensor.reshape(tensor.shape[0], *mirror.shape[1:]))


def _mujoco_warp() -> Any:
    try:
        with quiet():
            return import_module("mujoco_warp")
    except ImportError as error:
        raise OptionError(
            f"MuJoCo on a GPU needs mujoco-warp: pip install 'headrace[mujoco-warp]' ({error})"
        ) from error

"""Arrays of MuJoCo's fields for a task's functions: ``physics.qpos[env, i]``, ``physics.xpos[env, body]``.

Names, shapes and meanings are those of ``mjData`` and ``mjModel``, with the environment as first index, which is also
MuJoCo Warp's layout. On the CPU the arrays' memory is a thread's single mjData: their first stride is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from headrace.errors import KernelError, OptionError
from headrace.native_modules import MUJOCO
from headrace.pool.executors.kernels.launch import quiet

MjModel = Any  # mujoco.MjModel; the package has no type annotations
MjData = Any  # mujoco.MjData
MjvCamera = Any  # mujoco.MjvCamera

SINGLE = {"time": np.float64, "ncon": np.int32}  # fields of one number
FORCES = ("cacc", "cfrc_int", "cfrc_ext")  # fields that mj_rnePostConstraint computes
SENSOR = "sensor"
"""the field of the struct of physics in which a task's sensors are by name"""
APPLIED = ("qfrc_applied", "xfrc_applied")  # forces that a task may set
CAUSES = frozenset({"body_mass", "body_inertia", "body_ipos", "body_iquat", "dof_armature", "qpos0"})
"""fields of the model of which MuJoCo computes others; see `COMPUTED`"""
COMPUTED = (
    "body_subtreemass", "body_invweight0", "body_sameframe", "geom_sameframe", "site_sameframe", "dof_invweight0",
    "dof_M0", "dof_length", "tendon_length0", "tendon_invweight0", "actuator_length0", "actuator_acc0", "eq_data",
    "cam_pos0", "cam_poscom0", "cam_mat0", "light_pos0", "light_poscom0", "light_dir0",
)  # fmt: skip
"""fields that `mujoco.mj_setConst` computes of `CAUSES`, and of the model's shape"""
VECTORS = {2: wp.vec2d, 3: wp.vec3d, 4: wp.vec4d, 6: wp.spatial_vectord, 9: wp.mat33d}
SCALARS = {
    np.dtype(np.float64): wp.float64,
    np.dtype(np.float32): wp.float32,
    np.dtype(np.int32): wp.int32,
    np.dtype(np.uint8): wp.uint8,
    np.dtype(np.bool_): wp.uint8,
}


def library() -> Any:
    """Returns the module `mujoco`; raises `OptionError` if it is not installed."""
    try:
        return import_module("mujoco")
    except ImportError as error:
        raise OptionError(f"this task needs MuJoCo: pip install 'headrace[mujoco]' ({error})") from error


def native_module() -> ModuleType | Any:
    """Returns the compiled module; raises `OptionError` if it cannot be loaded."""
    library()  # MuJoCo's library must be loaded first
    return MUJOCO.load()


@contextmanager
def speechless() -> Iterator[None]:
    """Returns a context in which MuJoCo's warnings, which random actions may cause, are discarded."""
    mujoco = library()
    spoken = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(spoken)


def saved(model: MjModel) -> bytes:
    """Returns a model as MuJoCo saves it, which identifies it."""
    mujoco = library()
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


def begin(model: MjModel, data: MjData, keyframe: int) -> None:
    """Sets a simulation to the beginning of an episode: that of a keyframe, or the model's own where it is -1."""
    library().mj_resetData(model, data)
    if keyframe >= 0:
        library().mj_resetDataKeyframe(model, data, keyframe)
        data.time = 0


def keyframe_of(model: MjModel, name: str) -> int:
    """Returns the number of a keyframe, -1 for the empty name; raises `KernelError` if the model has none of it."""
    names = [model.key(i).name for i in range(model.nkey)]
    if name and name not in names:
        raise KernelError(f"start={name!r} is no keyframe of the model; it has {', '.join(map(repr, names)) or 'none'}")
    return names.index(name) if name else -1


def field_array(model: MjModel, data: MjData, name: str) -> np.ndarray:
    """Returns a field's array, [n] or [n, k]; raises `KernelError` if MuJoCo has no such field."""
    if name in SINGLE:
        return np.array([getattr(data, name)], SINGLE[name])
    for owner in (data, model):
        if isinstance(found := getattr(owner, name, None), np.ndarray):
            return found
    raise KernelError(f"MuJoCo's mjData and mjModel have no array {name!r} that a task could read")


def varying_names(model: MjModel, names: Sequence[str]) -> list[str]:
    """Returns the fields that differ between environments if these do: with those that MuJoCo computes of them."""
    computed = () if CAUSES.isdisjoint(names) else COMPUTED
    return [*names, *(name for name in computed if name not in names and getattr(model, name).size)]


def varying_rows(model: MjModel, names: Sequence[str], reads: Sequence[str], num_envs: int) -> dict[str, np.ndarray]:
    """Returns copies of model fields for each environment: name → [N, n] or [N, n, k], with those computed of them.

    Raises:
        KernelError: a name is not a field of the model, or not among ``reads``.
    """
    for name in names:
        if name not in reads or not isinstance(getattr(model, name, None), np.ndarray):
            raise KernelError(f"varies: {name!r} must be a field of mjModel that the task names in reads=(…) too")
    return {name: np.stack([getattr(model, name)] * num_envs) for name in varying_names(model, names)}


def field_dtype(name: str, array: np.ndarray) -> Any:
    """Returns the Warp type of one element: a number, or for a field [n, k] a vector, quaternion or matrix.

    Raises:
        KernelError: kernels cannot read the field's dtype.
    """
    scalar = SCALARS.get(array.dtype)
    if scalar is None:
        raise KernelError(f"MuJoCo's field {name!r} holds {array.dtype}, which kernels do not read")
    if array.ndim == 1:
        return scalar
    width = array.shape[1]
    if name.endswith("quat"):
        return wp.quatd
    if scalar is wp.float64:
        return VECTORS.get(width) or wp.types.vector(width, wp.float64)
    return wp.types.vector(width, scalar)


class Sensor(NamedTuple):
    """Where a sensor is in ``sensordata``: its first number, and how many it has; its Warp array for N environments."""

    name: str
    first: int
    size: int
    kind: Any

    def over(self, address: int, num_envs: int, stride: int, device: str = "cpu") -> Any:
        """Returns the array over the numbers of N environments, ``stride`` bytes from one to the next."""
        shape, strides = ((num_envs,), (stride,)) if self.kind.ndim == 1 else ((num_envs, self.size), (stride, 8))
        with quiet():
            return wp.array(
                ptr=address + 8 * self.first, shape=shape, dtype=self.kind.dtype, strides=strides, device=device
            )


def sensors_of(model: MjModel, names: Sequence[str]) -> list[Sensor]:
    """Returns these sensors of a model, except for those whose names are no identifiers.

    A number is float64 [N], three are vec3d [N], a quaternion is quatd [N]; anything else is float64 [N, size].

    Raises:
        KernelError: the model has no sensor of one of the names.
    """
    known = {model.sensor(i).name: i for i in range(model.nsensor)}
    for name in names:
        if name not in known:
            there = ", ".join(map(repr, filter(None, known))) or "none"
            raise KernelError(f"sensors names {name!r}, which is no sensor of the model; it has {there}")
    turns = [int(getattr(library().mjtSensor, f"mjSENS_{kind}")) for kind in ("FRAMEQUAT", "BALLQUAT")]
    found = []
    for name in filter(str.isidentifier, names):
        first, size, kind = (int(of[known[name]]) for of in (model.sensor_adr, model.sensor_dim, model.sensor_type))
        one = {1: wp.float64, 3: wp.vec3d, 4: wp.quatd if kind in turns else None}.get(size)
        found.append(Sensor(name, first, size, wp.array(dtype=one or wp.float64, ndim=1 if one else 2)))
    return found


def physics_struct(model: MjModel, data: MjData, names: Sequence[str], sensors: Sequence[str] = ()) -> Any:
    """Returns a `warp.struct` with an array for each of these fields, and in ``sensor`` one for each of the sensors."""
    fields = {name: field_array(model, data, name) for name in names}
    kinds = tuple((sensor.name, sensor.kind.dtype, sensor.kind.ndim) for sensor in sensors_of(model, sensors))
    return _struct_of(tuple((name, f.dtype, f.shape[1] if f.ndim == 2 else 0) for name, f in fields.items()), kinds)


@functools.cache
def _struct_of(fields: tuple[tuple[str, np.dtype, int], ...], sensors: tuple[tuple[str, Any, int], ...]) -> Any:
    """Returns the struct of fields (name, dtype, width) and sensors (name, Warp type, dimensions).

    It is cached, so that equal fields share a compiled kernel.
    """
    kinds: dict[str, Any] = {}
    for name, dtype, width in fields:
        element = field_dtype(name, np.empty((0, width) if width else 0, dtype))
        kinds[name] = wp.array(dtype=element, ndim=1 if name in SINGLE else 2)
    if sensors:
        arrays = {name: wp.array(dtype=dtype, ndim=ndim) for name, dtype, ndim in sensors}
        kinds[SENSOR] = wp.struct(type("Sensors", (), {"__annotations__": arrays, "__module__": __name__}))
    return wp.struct(type("Physics", (), {"__annotations__": kinds, "__module__": __name__}))


def physics_over(
    struct: Any,
    model: MjModel,
    data: MjData,
    num_envs: int,
    varying: dict[str, np.ndarray],
    sensors: Sequence[str] = (),
) -> Any:
    """Returns an instance of `physics_struct` over one simulation and the N rows of the varying model fields."""
    instance = struct()
    for sensor in sensors_of(model, sensors):
        setattr(instance.sensor, sensor.name, sensor.over(data.sensordata.ctypes.data, num_envs, 0))
    for name, variable in struct.vars.items():
        if name == SENSOR:
            continue
        array, dtype = field_array(model, data, name), variable.type.dtype
        size = array.itemsize * (array.shape[1] if array.ndim == 2 else 1)
        shape, strides = (num_envs, array.shape[0]), (0, size)
        if name in SINGLE:
            shape, strides = (num_envs,), (0,)
        if name in varying:
            strides = (size * array.shape[0], size)
        memory = varying.get(name, array)
        with quiet():
            view = wp.array(ptr=memory.ctypes.data, shape=shape, dtype=dtype, strides=strides, device="cpu")
        setattr(instance, name, view)
    return instance

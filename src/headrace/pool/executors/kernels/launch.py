"""Launches of Warp kernels with minimal overhead.

A step of one CartPole takes 30 ns. Launching it takes 50 µs with `warp.launch`, 1.8 µs with Warp's recorded launch,
and 0.2 µs by calling Warp's compiled function with arguments that were packed before. The last uses a private interface
of Warp: it is used only here, and if it differs from what is expected, the recorded launch is used instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from headrace.machine import is_own
from headrace.pool.remarks import remark

Run = Callable[[], object]

COMPILING = threading.RLock()  # Warp compiles and loads kernels in one thread at a time
WORD = 8  # bytes of an address
PATIENCE = 1.0  # seconds after which a message is printed


def load(kernel: Any, device: str, block_dim: int, what: str) -> None:
    """Compiles a kernel for blocks of ``block_dim`` threads, or loads it from Warp's cache.

    Warp raises here for mistakes in the environment's functions, with the line that it could not translate. After
    `PATIENCE` seconds, a message says that ``what`` (a task's name) is being compiled.
    """
    note = f"headrace: compiling {what} for {device}, this once …"
    with told_after(note), COMPILING, quiet():
        wp.load_module(kernel.module, device=device, block_dim=block_dim)


@contextlib.contextmanager
def told_after(note: str) -> Iterator[None]:
    """Prints ``note`` on standard error if the body of the context takes longer than `PATIENCE` seconds."""
    told = threading.Timer(PATIENCE, print, (note,), {"file": sys.stderr})
    told.daemon = True
    try:
        told.start()  # in here, as Ctrl-C may interrupt it
        yield
    finally:
        told.cancel()


def fingerprint(kernel: Any, block_dim: int) -> bytes:
    """Returns Warp's hash of a loaded kernel, which covers all functions and constants that are part of it."""
    return kernel.module.get_module_hash(block_dim)


def record(kernel: Any, threads: int, arguments: Sequence[Any], device: str, block_dim: int) -> Run:
    """Returns a function that launches the kernel over ``threads`` threads.

    On a CPU the function releases the GIL and returns when the kernel is done; on a GPU it launches on the stream that
    is torch's current stream when it is called. It refers to arrays by address only, so the caller must keep them.
    """
    recorded = _recorded(kernel, threads, arguments, device, block_dim)
    if device == "cpu":
        return _direct_call(recorded) or recorded.launch
    return lambda: _launch(recorded)


class Call(functools.partial[Any]):
    """A launch on the CPU, ready for calls from Python and from native code.

    Attributes:
        function: the address of Warp's compiled function.
        layout: the type of the kernel's packed arguments.
        module: a reference that keeps the code loaded.
    """

    function: int
    layout: Any
    module: Any

    @property
    def addresses(self) -> tuple[int, int, int]:
        """The addresses of Warp's compiled function and of its two arguments."""
        bounds, packed = self.args
        return self.function, ctypes.addressof(bounds._obj), _address(packed)

    def offset(self, argument: str) -> int:
        """Returns the offset in bytes of an argument in the packed ones."""
        return _offset(self.layout, argument)


class Movable:
    """A launch on the CPU that is prepared once, and then costs little over other arrays of the same shapes.

    Args:
        call: the launch over some arrays.
        places: for each array (or number of 64 bits) that changes, its argument, its field in it or "", and its
            position in the sequences that `over` takes.
    """

    def __init__(self, call: Call, places: Iterable[tuple[str, str, int]]):
        self._forward, (self._bounds, packed), self._rest = call.func, call.args, vars(call)
        starts = sorted((_offset(call.layout, argument, field), position) for argument, field, position in places)
        end, form, self._words = 0, "=", []
        for start, _ in starts:
            form += f"{start - end}sQ"
            self._words += [packed[end:start], 0]
            end = start + WORD
        self._words.append(packed[end:])
        self._pack, self._positions = struct.Struct(f"{form}{len(packed) - end}s").pack, [at for _, at in starts]

    def over(self, values: Sequence[int]) -> Call:
        """Returns the launch over the arrays at these addresses, or with these numbers."""
        words = self._words.copy()
        words[1::2] = [values[at] for at in self._positions]
        call = Call(self._forward, self._bounds, self._pack(*words))
        call.__dict__ = self._rest
        return call


def _direct_call(recorded: Any) -> Call | None:
    """Returns Warp's compiled CPU function with packed arguments; None if this version of Warp lacks the interface."""
    parts = _compiled_parts(recorded)
    if parts is None:
        return None
    forward, bounds, packed = parts
    call = Call(forward, ctypes.byref(bounds), bytes(packed))
    call.function, call.layout, call.module = _address(forward), type(packed), recorded.module_exec
    return call


def _offset(packed: Any, argument: str, field: str = "") -> int:
    """Returns the offset in bytes of an argument, or of the address of the array in one of its fields."""
    place, kind = getattr(packed, argument).offset, dict(packed._fields_)[argument]
    for name in field.split(".") if field else ():  # of structs in structs
        place, kind = place + getattr(kind, name).offset, dict(kind._fields_)[name]
    return place + kind.data.offset if field else place


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _compiled_parts(recorded: Any) -> tuple[Any, ctypes.Structure, ctypes.Structure] | None:
    """Returns Warp's compiled CPU function, the launch's bounds and its packed arguments; None as `_direct_call`."""
    try:
        from warp._src.context import _build_cpu_args_structs

        forward, bounds = recorded.hooks.forward, recorded.params[0]
        if not recorded.device.is_cpu or recorded.block_dim != 1 or not callable(forward):
            return None
        packed, _ = _build_cpu_args_structs(recorded.kernel, recorded.hooks, recorded.params, False)
        return (forward, bounds, packed) if len(packed._fields_) == len(recorded.kernel.adj.args) else None
    except (ImportError, AttributeError, TypeError):
        return None


@dataclass(frozen=True)
class Compiled:
    """A kernel of one thread, for calls from native code: ``function(bounds, arguments)``.

    Attributes:
        function: the function's address.
        bounds, arguments: the two blocks of bytes whose addresses the function takes.
        module: a reference that keeps the code loaded.
    """

    function: int
    bounds: bytes
    arguments: bytes
    module: Any
    _layout: Any

    def offset(self, argument: str, field: str = "") -> int:
        """Returns the offset in bytes of an argument, or of the address of the array in one of its fields."""
        return _offset(self._layout, argument, field)


def compiled(kernel: Any, arguments: Sequence[Any]) -> Compiled:
    """Returns a kernel for the CPU, with its arguments packed.

    Raises:
        RuntimeError: this version of Warp lacks the private interface.
    """
    recorded = _recorded(kernel, 1, arguments, "cpu", 1)
    parts = _compiled_parts(recorded)
    if parts is None:
        raise RuntimeError(f"headrace cannot reach the compiled kernels of warp {wp.__version__} from native code")
    forward, bounds, packed = parts
    return Compiled(_address(forward), bytes(bounds), bytes(packed), recorded.module_exec, type(packed))


def record_over(
    kernel: Any, threads: int, arguments: Sequence[Any], device: str, block_dim: int
) -> Callable[[int], None]:
    """Returns a function like that of `record`, which takes the address of the first argument's array at each call."""
    recorded = _recorded(kernel, threads, arguments, device, block_dim)
    first = recorded.params[1]  # params[0] holds the launch's bounds

    def run(address: int) -> None:
        first.data = address
        recorded.launch() if device == "cpu" else _launch(recorded)

    return run


def _launch(recorded: Any) -> None:
    """Launches on torch's current stream of a GPU, which Warp would leave as the current device."""
    import torch

    stream = _torch_stream(recorded.device)
    if torch.cuda.current_device() == recorded.device.ordinal:
        recorded.launch(stream)
        return
    with torch.cuda.device(recorded.device.ordinal):
        recorded.launch(stream)


def _recorded(kernel: Any, threads: int, arguments: Sequence[Any], device: str, block_dim: int) -> Any:
    with COMPILING, quiet():
        recorded: Any = wp.launch(
            kernel, dim=threads, inputs=arguments, device=device, record_cmd=True, block_dim=block_dim
        )
    recorded.fwd_args = None  # used for graph capture only, and would keep all arrays alive
    return recorded


@contextlib.contextmanager
def on_torch_stream(device: str) -> Iterator[None]:
    """Returns a context in which Warp launches on torch's current stream, if the device is a GPU."""
    if device == "cpu":
        yield
        return
    import torch

    with torch.cuda.device(device), wp.ScopedStream(_torch_stream(wp.get_device(device)), sync_enter=False):
        yield


_streams: dict[int, wp.Stream] = {}


def _torch_stream(device: Any) -> wp.Stream:
    """Returns torch's current stream as a Warp stream."""
    import torch

    handle = torch.cuda.current_stream(device.ordinal).cuda_stream
    key = handle << 8 | device.ordinal  # the default stream has the same handle on every device
    if key not in _streams:
        _streams[key] = wp.Stream(device, cuda_stream=handle)
    return _streams[key]


def view_of(array: Any, dtype: Any) -> wp.array:
    """Returns a Warp array over the memory of a NumPy array or a tensor, which the caller must keep alive."""
    if isinstance(array, np.ndarray):
        return wp.array(ptr=array.ctypes.data, shape=array.shape, dtype=dtype, strides=array.strides, device="cpu")
    strides = tuple(array.element_size() * step for step in array.stride())
    return wp.array(
        ptr=array.data_ptr(), shape=tuple(array.shape), dtype=dtype, strides=strides, device=str(array.device)
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Returns a context without Warp's banner and its messages about loading kernels; initialises Warp."""
    level = wp.config.log_level
    wp.config.log_level = max(level, wp.LOG_WARNING)
    try:
        _initialize()
        yield
    finally:
        wp.config.log_level = level


@functools.cache
def _initialize() -> None:
    """Calls `warp.init`, without its warning about a missing driver on machines without a GPU."""
    with contextlib.nullcontext() if _has_driver() else _native_stderr_dropped():
        wp.init()
    if not is_own(folder := Path(str(wp.config.kernel_cache_dir))):
        remark(
            f"other users can write compiled kernels in {folder}, which run as yours: set WARP_CACHE_PATH to your own"
        )


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _native_stderr_dropped() -> Iterator[None]:
    """Returns a context in which all output to file descriptor 2 is discarded."""
    try:
        kept = os.dup(2)
    except OSError:  # the process has no standard error
        yield
        return
    try:
        with Path(os.devnull).open("wb") as nowhere:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

"""A policy's C file as a function of arrays, by the machine's own compiler, to compare it with the agent."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import forbidden, masked
from headrace.train.play.export.c import identifier
from headrace.train.play.export.network import Network

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O2")
TYPES = {"float": np.float32, "double": np.float64, "uint8_t": np.uint8, "int32_t": np.int32}
SECONDS = 300  # that a compiler may take

Answer = tuple[np.ndarray, np.ndarray, np.ndarray]
Run = Callable[[np.ndarray, np.ndarray | None, np.ndarray | None], Answer]


def compiler() -> str | None:
    """Returns the path of a compiler for C; None if there is none."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def compiled(path: Path, network: Network, scratch: int, flags: Sequence[str] = FLAGS) -> Run:
    """Returns the policy in a file as a function of observations, memory and masks.

    It returns the network's outputs float32[B, n], actions [B, k] and the memory after the step float32[B, H], for
    observations [B, …], memory float32[B, H] or None for zeros, and masks int8[B, K] or None.

    Args:
        path: the file ``.c``, whose header is beside it.
        network: what it was written from.
        scratch: bytes of the struct that the caller keeps.

    Raises:
        RuntimeError: there is no compiler, it refuses the file, or what it makes cannot be loaded.
    """
    cc, prefix = compiler(), identifier(path.stem)
    if cc is None:
        raise RuntimeError(f"there is no C compiler ({', '.join(COMPILERS)})")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "policy.so"
        command = [cc, *flags, "-shared", "-fPIC", "-o", str(made), str(path.absolute()), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"{cc} cannot be run: {error}") from error
        if done.returncode:
            raise RuntimeError(f"{cc} refuses it: {done.stderr.strip().partition(chr(10))[0]}")
        try:
            library = ctypes.CDLL(str(made))
        except OSError as error:  # of a compiler for another computer, or of a folder from which nothing may run
            raise RuntimeError(f"what {cc} makes cannot be loaded: {error}") from error
    outputs, act, choice = library[f"{prefix}_outputs"], library[f"{prefix}_act"], network.choice
    outputs.restype = ctypes.POINTER(ctypes.c_float)
    act.restype = ctypes.c_int32 if choice.single else None

    def step(seen: np.ndarray, memory: np.ndarray | None, mask: np.ndarray | None) -> Answer:
        row = np.ascontiguousarray(seen.reshape(-1), TYPES[network.source])
        given = ctypes.c_int32(int(row[0])) if network.source == "int32_t" else _pointer(row)
        state = np.zeros(scratch // 4, np.float32)
        state[: network.memory] = 0.0 if memory is None else memory
        before = state.copy()
        found = np.ctypeslib.as_array(outputs(_pointer(state), given), (choice.outputs,)).copy()
        action, after = np.zeros(choice.actions, TYPES[choice.kind]), state[: network.memory].copy()
        closed = (
            () if not choice.masked else (_pointer(mask if mask is not None else np.ones(choice.outputs, np.int8)),)
        )
        chosen = act(_pointer(before), given, *closed, *(() if choice.single else (_pointer(action),)))
        if choice.single:
            action[0] = chosen
        return found, action, after

    def run(seen: np.ndarray, memory: np.ndarray | None = None, mask: np.ndarray | None = None) -> Answer:
        given = (seen, *(itself if itself is not None else [None] * len(seen) for itself in (memory, mask)))
        found = zip(*(step(*row) for row in zip(*given, strict=True)), strict=True)
        rows, chosen, after = map(np.stack, found)
        return rows, chosen, after

    return run


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def difference_of(run: Run, played: Policy, network: Network, given: tuple[Tensor, ...]) -> float:
    """Returns the largest difference between what a C file and the agent answer, in parts of a row's largest number.

    Where no number of a row is above 1, differences are absolute.

    Actions are compared with the most likely ones by the file's own outputs, so that ties make no difference.

    Args:
        given: observations [B, …], then memory float32[B, H] and masks int8[B, K] where the policy takes them.
    """
    module, (seen, *rest) = played.module, given
    memory = rest.pop(0) if module.memory_size else None
    mask = rest.pop(0) if rest else None
    arrays = (None if each is None else each.numpy() for each in (memory, mask))
    outputs, action, after = (torch.from_numpy(array) for array in run(seen.numpy(), *arrays))
    params, _, *remembered = module(seen, memory)
    worst = _difference(outputs, params[:, : network.choice.outputs])
    if remembered:
        worst = max(worst, _difference(after, remembered[0]))
    logits = outputs if mask is None else masked(outputs, forbidden(mask, module.heads))
    chosen = module.distribution.to_env(module.distribution.mode(logits))
    return max(worst, _difference(action, chosen.reshape(action.shape)))


def _difference(theirs: Tensor, ours: Tensor) -> float:
    theirs, ours = theirs.double(), ours.double()
    return float(((theirs - ours).abs() / ours.abs().amax(1, keepdim=True).clamp(min=1.0)).max())

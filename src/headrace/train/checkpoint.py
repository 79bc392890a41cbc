"""Checkpoints: three plain kinds of file in a folder that appears whole or not at all.

A run may be killed at any moment, also while it writes. So a checkpoint is written into a
temporary folder, flushed to disk, and renamed into place: one that exists is complete.

``model.safetensors`` the network and its observation statistics (all that is needed to play) ·
``optimizer.safetensors`` Adam's moments · ``state.safetensors`` environments, random generator, current
observations, reward statistics, unfinished episodes · ``state.json`` counters.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headrace.errors import StateError

FORMAT = 1
BEST = "best"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: tensors by name in three groups, and counters that JSON can express."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    counters: dict[str, Any]


def save(folder: Path, name: str, checkpoint: Checkpoint) -> Path:
    """Write ``folder/name`` atomically, replacing one of that name, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target, temporary = folder / name, folder / f".{name}.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for group in ("model", "optimizer", "state"):
        tensors = {
            key: tensor.detach().cpu().contiguous().clone() for key, tensor in getattr(checkpoint, group).items()
        }
        save_file(tensors, temporary / f"{group}.safetensors")
    (temporary / "state.json").write_text(json.dumps({"format": FORMAT, **checkpoint.counters}, indent=1) + "\n")
    for file in temporary.iterdir():
        _flush(file)
    _flush(temporary)
    if target.exists():
        # a folder cannot be replaced in one call; a crash between the two leaves the older checkpoints
        _discard(target)
    temporary.rename(target)
    _flush(folder)
    return target


def load(path: Path) -> Checkpoint:
    """Read what `save` wrote.

    Raises:
        StateError: a file is missing or damaged, or of another version.
    """
    try:
        counters = json.loads((path / "state.json").read_text())
        if counters.pop("format", None) != FORMAT:
            raise StateError(f"checkpoint {path} is of another version")
        model, optimizer, state = (
            load_file(path / f"{group}.safetensors") for group in ("model", "optimizer", "state")
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise StateError(f"checkpoint {path} cannot be read: {error}") from error
    return Checkpoint(model, optimizer, state, counters)


def step_name(step: int) -> str:
    """Name of the checkpoint after so many agent steps; sorts by age."""
    return f"step-{step:012d}"


def newest(folder: Path) -> Path | None:
    """The latest complete checkpoint of a run, or None."""
    return max(folder.glob("step-*"), default=None)


def best(folder: Path) -> Path | None:
    """The checkpoint with the highest mean return, or the newest if none was noted as best."""
    path = folder / BEST
    return path if path.is_dir() else newest(folder)


def prune(folder: Path, keep: int) -> None:
    """Remove what crashes left behind, and all but the newest ``keep`` (at least one)."""
    for leftover in folder.glob(".*.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for path in sorted(folder.glob("step-*"))[: -max(keep, 1)]:
        _discard(path)


def _discard(path: Path) -> None:
    """Remove a checkpoint; a crash on the way never leaves a part of it under its own name."""
    discarded = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(discarded, ignore_errors=True)
    path.rename(discarded)
    shutil.rmtree(discarded)


def pack_blobs(blobs: list[bytes]) -> dict[str, Tensor]:
    """Byte strings as two tensors, so that a thousand environments are one entry of a file."""
    data = np.frombuffer(b"".join(blobs), np.uint8).copy()
    sizes = np.array([len(blob) for blob in blobs], np.int64)
    return {"environments": torch.from_numpy(data), "environment_sizes": torch.from_numpy(sizes)}


def unpack_blobs(state: Mapping[str, Tensor]) -> list[bytes]:
    """What `pack_blobs` packed."""
    data, ends = state["environments"].numpy().tobytes(), np.cumsum(state["environment_sizes"].numpy()).tolist()
    return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under ``prefix.name``."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def group(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that `prefixed` put under ``prefix``."""
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

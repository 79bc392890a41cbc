"""Checkpoints: a folder of files in standard formats, written atomically.

A run may be killed at any moment, also during a write. A checkpoint is therefore written into a temporary folder,
flushed to disk, and renamed: a checkpoint that exists is complete.

The files are:

- ``model.safetensors``: the network and its observation statistics, all that acting requires
- ``optimizer.safetensors``: Adam's moments
- ``state.safetensors``: environments, random generator, current observations, reward statistics, unfinished episodes
- ``state.json``: counters
- ``SHA256SUMS``: checksums of these files, in the format of ``sha256sum --check``
"""

from __future__ import annotations

import hashlib
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
from headrace.train.runs import files
from headrace.train.runs.writing import flush, writing

FORMAT = 2
BEFORE_SUMS = 1  # a format without checksums, which is still read
BEST = "best"
GROUPS = ("model", "optimizer", "state")
COUNTERS = "state.json"
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint: tensors by name in three groups, and counters that JSON can represent."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    counters: dict[str, Any]

    def copied(self) -> Checkpoint:
        """Returns a copy of the checkpoint on the CPU."""
        model, optimizer, state = (
            {name: tensor.detach().to("cpu", copy=True) for name, tensor in group.items()}
            for group in (self.model, self.optimizer, self.state)
        )
        return Checkpoint(model, optimizer, state, self.counters)


def save(folder: Path, name: str, checkpoint: Checkpoint) -> Path:
    """Writes ``folder/name`` atomically, replacing one of that name, and returns its path.

    Raises:
        StorageError: the checkpoint cannot be written, for instance because the disk is full; an earlier checkpoint is
            still complete.
    """
    target, temporary = folder / name, folder / f".{name}.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with writing(target):
            temporary.mkdir(parents=True)
            _write(temporary, checkpoint)
            if target.exists():
                # a folder cannot be replaced in one call; a crash between the two calls leaves the older checkpoints
                _discard(target)
            temporary.rename(target)
            flush(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint's files, and flushes them to the disk."""
    for group in GROUPS:
        tensors = {
            key: tensor.detach().cpu().contiguous().clone() for key, tensor in getattr(checkpoint, group).items()
        }
        save_file(tensors, folder / f"{group}.safetensors")
    (folder / COUNTERS).write_text(json.dumps({"format": FORMAT, **checkpoint.counters}, indent=1) + "\n")
    sums = {file.name: _sum(file) for file in sorted(folder.iterdir())}
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    for file in folder.iterdir():
        flush(file)
    flush(folder)


def load(path: Path) -> Checkpoint:
    """Returns the checkpoint that `save` wrote.

    Raises:
        StateError: a file is missing, damaged, or of another version; the message names the file.
    """
    try:
        counters = json.loads(files.read(path / COUNTERS))
        if not isinstance(counters, dict):
            raise StateError(f"checkpoint {path} is damaged: {COUNTERS} holds no counters")
        written = counters.pop("format", None)
        if written not in (BEFORE_SUMS, FORMAT):
            raise StateError(
                f"checkpoint {path} has format {written}; this version reads {BEFORE_SUMS} and {FORMAT}: use the one "
                "that wrote it"
            )
        if written != BEFORE_SUMS:
            _check_sums(path)
        model, optimizer, state = (load_file(files.regular(path / f"{group}.safetensors")) for group in GROUPS)
    except StateError:
        raise
    except (OSError, ValueError, SafetensorError, RecursionError) as error:
        raise StateError(f"checkpoint {path} cannot be read: {error}") from error
    return Checkpoint(model, optimizer, state, counters)


def _check_sums(path: Path) -> None:
    lines = (line.partition("  ") for line in files.read(path / SUMS).decode().splitlines())
    sums = {name: digest for digest, _, name in lines}
    for name in (COUNTERS, *(f"{group}.safetensors" for group in GROUPS)):
        if sums.get(name) != _sum(path / name):
            raise StateError(f"checkpoint {path} is damaged: {name} is not what was written ({SUMS})")


def _sum(file: Path) -> str:
    with os.fdopen(files.opened(file), "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def step_name(step: int) -> str:
    """Returns the name of the checkpoint after ``step`` agent steps; the order of names is that of steps."""
    return f"step-{step:012d}"


def newest(folder: Path) -> Path | None:
    """Returns the latest complete checkpoint of a run; None if there is none."""
    return max(folder.glob("step-*"), default=None)


def newest_learnt(folder: Path) -> Path | None:
    """Returns the latest complete checkpoint; None also if it is of step 0 and the run has no metrics."""
    path, metrics = newest(folder), folder.parent / "metrics.jsonl"
    began_only = path is not None and path.name == step_name(0) and not (metrics.exists() and metrics.stat().st_size)
    return None if began_only else path


def best(folder: Path) -> Path | None:
    """Returns the checkpoint with the highest mean return, or the newest if none is marked as best, or None."""
    path = folder / BEST
    return path if path.is_dir() else newest(folder)


def prune(folder: Path, keep: int) -> None:
    """Removes incomplete checkpoints left by crashes, and all but the newest ``keep`` (at least one)."""
    for leftover in folder.glob(".*.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for path in sorted(folder.glob("step-*"))[: -max(keep, 1)]:
        _discard(path)


def _discard(path: Path) -> None:
    """Removes a checkpoint, so that a crash never leaves a part of it under its own name."""
    discarded = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(discarded, ignore_errors=True)
    path.rename(discarded)
    shutil.rmtree(discarded)


def pack_blobs(blobs: list[bytes]) -> dict[str, Tensor]:
    """Returns byte strings as two tensors, so that many environments are one entry of a file."""
    data = np.frombuffer(b"".join(blobs), np.uint8).copy()
    sizes = np.array([len(blob) for blob in blobs], np.int64)
    return {"environments": torch.from_numpy(data), "environment_sizes": torch.from_numpy(sizes)}


def unpack_blobs(state: Mapping[str, Tensor]) -> list[bytes]:
    """Returns the byte strings that `pack_blobs` packed."""
    data, ends = state["environments"].numpy().tobytes(), np.cumsum(state["environment_sizes"].numpy()).tolist()
    return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors with ``prefix.`` before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def group(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names start with ``prefix.``, without it; the inverse of `prefixed`."""
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}

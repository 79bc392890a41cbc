"""Checkpoints: a folder of files in standard formats, written atomically.

A run may be killed at any moment, also during a write. A checkpoint is therefore written into a temporary folder,
flushed to disk, and renamed: a checkpoint that exists is complete.

The files are:

- ``model.safetensors``: the network and its observation statistics, all that acting requires
- ``optimizer.safetensors``: Adam's moments, and target networks
- ``state.safetensors``: environments, random generators, current observations, reward statistics, unfinished episodes,
  statistics of the last update, the replay of transitions; of several processes, those of each
- ``state.json``: counters
- ``SHA256SUMS``: checksums of these files, in the format of ``sha256sum --check``
- ``SEAL``: shows that this user wrote the checksums on this machine

A checkpoint holds the states of Python environments as pickles, and loading a pickle may run any code. A checksum shows
damage only, as whoever sends a folder can compute it as well. A seal is an HMAC-SHA256 with a random key that only this
user can read, in the user's cache.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headrace.errors import StateError
from headrace.machine import is_own, readable
from headrace.pool.cache import cache_folder
from headrace.pool.state import BLOCK
from headrace.train.runs import files
from headrace.train.runs.files import flush, writing

FORMAT = 2
BEFORE_SUMS = 1  # a format without checksums, which is still read
BEST = "best"
GROUPS = ("model", "optimizer", "state")
COUNTERS = "state.json"
SUMS, SEAL = "SHA256SUMS", "SEAL"
KEY, SIZE = Path("seal", "key"), 32  # of seals


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint: tensors by name in three groups, and counters that JSON can represent.

    Attributes:
        trusted: whether this user wrote it on this machine, or trusts who did, so that its pickles may be loaded.
    """

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)
    trusted: bool = False

    def copied(self) -> Checkpoint:
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
    for group in GROUPS:
        tensors = {
            key: tensor.detach().cpu().contiguous().clone() for key, tensor in getattr(checkpoint, group).items()
        }
        save_file(tensors, folder / f"{group}.safetensors")
    (folder / COUNTERS).write_text(json.dumps({"format": FORMAT, **checkpoint.counters}, indent=1) + "\n")
    sums = {file.name: _sum(file) for file in sorted(folder.iterdir())}
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    (folder / SUMS).write_text(text)
    if (seal := sealed(text.encode())) is not None:
        (folder / SEAL).write_text(seal)
    for file in folder.iterdir():
        flush(file)
    flush(folder)


def load(path: Path, trust: bool = False) -> Checkpoint:
    """Returns the checkpoint that `save` wrote.

    Args:
        trust: whether its pickles may be loaded even if another user wrote it, or an older version without a seal.

    Raises:
        StateError: a file is missing, damaged, or of another version; the message names the file.
    """
    try:
        counters = read_counters(path)
        written = counters.pop("format", None)
        if written not in (BEFORE_SUMS, FORMAT):
            raise StateError(
                f"checkpoint {path} has format {written}; this version reads {BEFORE_SUMS} and {FORMAT}: use the one "
                "that wrote it"
            )
        trusted = (written != BEFORE_SUMS and _check_sums(path)) or trust
        model, optimizer, state = (load_file(files.regular(path / f"{group}.safetensors")) for group in GROUPS)
    except StateError:
        raise
    except (OSError, ValueError, SafetensorError, RecursionError) as error:
        raise StateError(f"checkpoint {path} cannot be read: {error}{_or_earlier(path)}") from error
    return Checkpoint(model, optimizer, state, counters, trusted)


def read_counters(path: Path) -> dict[str, Any]:
    """Returns a checkpoint's counters alone, with its ``format``; raises `StateError` if they cannot be read."""
    try:
        content = files.read(path / COUNTERS)
    except OSError as error:
        raise StateError(f"checkpoint {path} cannot be read: {error}{_or_earlier(path)}") from error
    with suppress(ValueError, RecursionError):
        if isinstance(counters := json.loads(content), dict):
            return counters
    raise StateError(f"checkpoint {path} is damaged: {COUNTERS} has no counters{_or_earlier(path)}")


def _or_earlier(path: Path) -> str:
    """Returns in words what to do about a damaged checkpoint that has an earlier one beside it."""
    earlier = max((each.name for each in path.parent.glob("step-*") if each.name < path.name), default="")
    return f"; remove this folder to go on from {earlier}" if earlier and path.name != BEST else ""


def _check_sums(path: Path) -> bool:
    """Raises `StateError` if a file is not what was written; returns whether this user wrote the checksums."""
    text = files.read(path / SUMS).decode()
    lines = (line.partition("  ") for line in text.splitlines())
    sums = {name: digest for digest, _, name in lines}
    for name in (COUNTERS, *(f"{group}.safetensors" for group in GROUPS)):
        if sums.get(name) != _sum(path / name):
            raise StateError(
                f"checkpoint {path} is damaged: {name} is not what was written ({SUMS}){_or_earlier(path)}"
            )
    return (path / SEAL).is_file() and is_sealed(text.encode(), files.read(path / SEAL))


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


def pack_blobs(blobs: Iterable[bytes], most: float = math.inf) -> dict[str, Tensor]:
    """Returns the states of environments as a few tensors, in which blocks that are equal are stored once.

    Raises:
        StateError: they need more than ``most`` bytes.
    """
    blocks: dict[bytes, int] = {}
    numbers, sizes, stored = [], [], 0
    for blob in blobs:
        sizes.append(len(blob))
        for low, high in _blocks(len(blob)):
            block = blob[low:high]
            stored += 0 if block in blocks else len(block)
            numbers.append(blocks.setdefault(block, len(blocks)))
        if stored > most:
            raise StateError(f"the states of the environments take more than {readable(most)} in a checkpoint")
    packed = {"environments": torch.from_numpy(np.frombuffer(b"".join(blocks), np.uint8).copy())}
    packed["environment_sizes"] = torch.tensor(sizes, dtype=torch.int64)
    if len(blocks) < len(numbers):
        packed["environment_blocks"] = torch.tensor(numbers, dtype=torch.int64)
    return packed


def unpack_blobs(state: Mapping[str, Tensor]) -> list[bytes]:
    """Returns the byte strings that `pack_blobs` packed; raises `StateError` for tensors that do not fit together."""
    data, sizes = state["environments"].numpy().tobytes(), state["environment_sizes"].tolist()
    numbers = state["environment_blocks"].tolist() if "environment_blocks" in state else itertools.count()
    blobs, starts, numbered = [], [0], iter(numbers)
    for size in sizes:
        parts = []
        for low, high in _blocks(size):
            number = next(numbered, -1)
            if number == len(starts) - 1:
                starts.append(starts[-1] + high - low)
            if not 0 <= number < len(starts) - 1 or starts[-1] > len(data):
                raise StateError("the states of the environments in the checkpoint are damaged")
            parts.append(data[starts[number] : starts[number + 1]])
        blobs.append(b"".join(parts))
    return blobs


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    """Yields where the blocks of a state of this size begin and end; they are counted from its end."""
    return itertools.pairwise(itertools.chain((0,), range(size % BLOCK or BLOCK, size + 1, BLOCK)))


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors with ``prefix.`` before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def group(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names start with ``prefix.``, without it; the inverse of `prefixed`."""
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


# -- seals ---------------------------------------------------------------------------------------


def sealed(content: bytes) -> str | None:
    """Returns the seal of ``content``; None where no key can be kept, as in a home that cannot be written."""
    key = _key(cache_folder() / KEY)
    return None if key is None else hmac.digest(key, content, hashlib.sha256).hex()


def is_sealed(content: bytes, seal: bytes) -> bool:
    """Returns whether this user sealed ``content`` with this seal."""
    own = sealed(content)
    return own is not None and hmac.compare_digest(own.encode(), seal)


def _key(file: Path) -> bytes | None:
    """Returns this user's key, which the first call makes; of several processes that make one, the first wins."""
    with suppress(OSError):
        if not file.exists():
            file.parent.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=file.parent.parent, ignore_cleanup_errors=True) as made:
                own = Path(made, file.name)
                own.touch(0o600)  # in a folder that only this user can open
                own.write_bytes(secrets.token_bytes(SIZE))
                with suppress(OSError):
                    own.parent.rename(file.parent)  # fails if there is one by now
        key = file.read_bytes()
        return key if len(key) == SIZE and is_own(file) and is_own(file.parent) else None
    return None

"""Environments' states as a caller sees them: sealed bytes to save, named arrays to look at.

Executors know how to write an environment down; this module makes sure that what is
read back is whole, and was written by the same task with the same options.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from headrace.errors import OptionError, StateError
from headrace.pool.spec import TaskSpec

MAGIC = b"HRS1"
HEADER = struct.Struct("<4s8s?I")  # magic, which task, episode over, checksum of the payload


def task_key(spec: TaskSpec, autoreset: str) -> bytes:
    """Eight bytes that differ between tasks, options, and autoreset modes; how pictures are drawn is no state."""
    options = [(name, value) for name, value in sorted(spec.options.items()) if not name.startswith("render_")]
    text = repr((spec.task, options, spec.max_episode_steps, autoreset))
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def seal(payload: bytes, key: bytes, finished: bool) -> bytes:
    return HEADER.pack(MAGIC, key, finished, zlib.crc32(payload)) + payload


def unseal(blob: bytes, key: bytes, env_id: int) -> tuple[bytes, bool]:
    """The payload and whether its episode is over; raises `StateError` naming the environment."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise StateError(f"the state for environment {env_id} must be bytes, not {type(blob).__name__}")
    blob = bytes(blob)
    if len(blob) < HEADER.size or blob[:4] != MAGIC:
        raise StateError(f"what was given for environment {env_id} is not a saved state")
    _, written_by, finished, checksum = HEADER.unpack_from(blob)
    if written_by != key:
        raise StateError(f"the state for environment {env_id} was saved by another task or with other options")
    payload = blob[HEADER.size :]
    if zlib.crc32(payload) != checksum:
        raise StateError(f"the state for environment {env_id} is damaged")
    return payload, finished


def unseal_all(blobs: Sequence[bytes], key: bytes, env_ids: np.ndarray) -> list[tuple[bytes, bool]]:
    """`unseal` for one state an environment; raises `OptionError` where there are not as many, or is no list."""
    if isinstance(blobs, bytes | bytearray | memoryview | str) or not isinstance(blobs, Sequence | np.ndarray):
        raise OptionError(f"states must be a list of what save_state returned, not {type(blobs).__name__}")
    if len(blobs) != len(env_ids):
        raise OptionError(f"{len(blobs)} states were given for {len(env_ids)} environments")
    return [unseal(blob, key, int(i)) for i, blob in zip(env_ids, blobs, strict=True)]


def chosen_arrays(task: str, known: Iterable[str], names: Sequence[str] | None) -> list[str]:
    """The names of state arrays that are asked for, all by default; raises `OptionError` where there is no such."""
    known = list(known)
    if not known:
        raise OptionError(f"{task} has no named state arrays: only kernel environments have; save_state works for all")
    chosen = known if names is None else [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in known:
            raise OptionError(f"{task} has no state array {name!r}; it has {', '.join(known)}")
    return chosen

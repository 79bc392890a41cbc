"""The public form of environments' states: bytes with a header to save, and named arrays to inspect.

Executors serialise environments; this module verifies that a state to be loaded is undamaged and was saved by the same
task with the same options.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from headrace.errors import OptionError, StateError
from headrace.pool.spec import TaskSpec

MAGIC, EARLIER = b"HRS2", b"HRS1"  # the checksum of an earlier version's state is of its payload alone
BLOCK = 1 << 14  # bytes; from the end of a state on, whole blocks that are equal in several states are kept once
FREE = re.compile("render_|physics$")
"""options of tasks whose values may differ where a state is loaded"""
HEADER = struct.Struct("<4s8s?I")  # magic number, `task_key`, whether the episode is over, checksum of all the rest


def task_key(spec: TaskSpec, mode: str) -> bytes:
    """Returns eight bytes that identify a task, its options, and a pool's mode.

    Options of rendering are left out, as well as a robot's physics: they have no part in a state.
    """
    options = [(name, value) for name, value in sorted(spec.options.items()) if not FREE.match(name)]
    text = repr((spec.task, options, spec.max_episode_steps, mode))
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def seal(payload: bytes, key: bytes, finished: bool) -> bytes:
    """Returns an environment's state with a header: the task's `task_key`, whether its episode is over, a checksum."""
    head = HEADER.pack(MAGIC, key, finished, 0)
    return HEADER.pack(MAGIC, key, finished, _checksum(head, payload)) + payload


def _checksum(head: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(head[: HEADER.size - 4]))


def unseal(blob: bytes, key: bytes, env_id: int) -> tuple[bytes, bool]:
    """Returns the payload of a sealed state and whether its episode is over.

    Raises:
        StateError: the state is damaged or belongs to another task; the message names environment ``env_id``.
    """
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise StateError(f"the state for environment {env_id} must be bytes, not {type(blob).__name__}")
    blob = bytes(blob)
    if len(blob) < HEADER.size or blob[:4] not in (MAGIC, EARLIER):
        raise StateError(f"what was given for environment {env_id} is not a saved state")
    _, written_by, finished, checksum = HEADER.unpack_from(blob)
    if written_by != key:
        raise StateError(f"the state for environment {env_id} was saved by another task or with other options")
    payload = blob[HEADER.size :]
    if _checksum(blob if blob[:4] == MAGIC else b"", payload) != checksum:
        raise StateError(f"the state for environment {env_id} is damaged")
    return payload, finished


def unseal_all(blobs: Sequence[bytes], key: bytes, env_ids: np.ndarray) -> list[tuple[bytes, bool]]:
    """Returns the payload of each sealed state and whether its episode is over.

    Raises:
        OptionError: ``blobs`` is not a sequence with one state for each of ``env_ids``, int32[k].
        StateError: as in `unseal`.
    """
    listed = isinstance(blobs, Sequence) or (isinstance(blobs, np.ndarray) and blobs.ndim > 0)
    if not listed or isinstance(blobs, bytes | bytearray | memoryview | str):
        raise OptionError(f"states must be a list of what save_state returned, not {type(blobs).__name__}")
    if len(blobs) != len(env_ids):
        raise OptionError(f"{len(blobs)} states were given for {len(env_ids)} environments")
    return [unseal(blob, key, int(i)) for i, blob in zip(env_ids, blobs, strict=True)]


def chosen_arrays(task: str, known: Iterable[str], names: Sequence[str] | None) -> list[str]:
    """Returns the requested names of state arrays, all by default; raises `OptionError` for an unknown name."""
    known = list(known)
    if not known:
        raise OptionError(f"{task} has no named state arrays: only kernel environments have; save_state works for all")
    chosen = known if names is None else [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in known:
            raise OptionError(f"{task} has no state array {name!r}; it has {', '.join(known)}")
    return chosen

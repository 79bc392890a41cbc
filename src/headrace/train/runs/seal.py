"""Seals of checkpoints that this user wrote on this machine.

A checkpoint holds the states of Python environments as pickles, and loading a pickle may run any code. A checksum shows
damage only, as whoever sends a folder can compute it as well. A seal is an HMAC-SHA256 with a random key that only this
user can read, in the user's cache.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from headrace.pool.cache import cache_folder

KEY, SIZE = Path("seal", "key"), 32


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
        return key if len(key) == SIZE else None
    return None

"""A cache of results of measurements on this machine, in files of the user's cache.

The key of a result is the machine, and everything else on which the result depends. Unreadable files are treated as
missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from headrace.machine import alone, cpu_model, is_own, usable_cores
from headrace.pool.cache import cache_folder
from headrace.train.runs.files import replacing

Key = dict[str, Any]
T = TypeVar("T")


class MeasurementCache(Generic[T]):
    """All cached results of one kind.

    Attributes:
        encode: converts a result to a dict that JSON can represent.
        decode: converts that dict, as keyword arguments, to a result; raises TypeError or ValueError if it is invalid.
    """

    def __init__(self, name: str, encode: Callable[[T], dict[str, Any]], decode: Callable[..., T]):
        self._name, self._encode, self._decode = name, encode, decode

    @property
    def file(self) -> Path:
        """The file ``$XDG_CACHE_HOME/headrace/NAME.json``, by default in ``~/.cache``."""
        return cache_folder() / f"{self._name}.json"

    def recall(self, key: Key) -> T | None:
        return next((found for other, found in self._all() if other == plain(key)), None)

    def remember(self, key: Key, found: T) -> None:
        """Stores a result for this key in place of an earlier one; raises OSError if the file cannot be written."""
        key = plain(key)
        with self._alone():
            self._write([*((other, kept) for other, kept in self._all() if other != key), (key, found)])

    def forget(self, chosen: Callable[[Key], bool]) -> int:
        """Removes the results for whose keys ``chosen`` returns True; returns their number."""
        if not self.file.exists():
            return 0
        with self._alone():
            entries = self._all()
            kept = [entry for entry in entries if not chosen(entry[0])]
            if len(kept) < len(entries):
                self._write(kept)
        return len(entries) - len(kept)

    def _alone(self) -> AbstractContextManager[None]:
        """Returns a context in which no other process writes, so that none of their results is lost."""
        self.file.parent.mkdir(0o700, parents=True, exist_ok=True)
        return alone(self.file.with_suffix(".lock"))

    def _all(self) -> list[tuple[Key, T]]:
        """Returns all keys and results; an empty list if the file is missing or damaged, or another user's."""
        if not is_own(self.file):
            return []
        try:
            entries = [dict(entry) for entry in json.loads(self.file.read_text())]
            return [(dict(entry.pop("key")), self._decode(**entry)) for entry in entries]
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def _write(self, entries: list[tuple[Key, T]]) -> None:
        encoded = [{"key": key, **self._encode(found)} for key, found in entries]
        with replacing(self.file) as temporary:
            temporary.touch(0o600)  # whatever the user's umask is
            temporary.write_text(json.dumps(encoded, indent=1) + "\n")


def machine(device: torch.device) -> dict[str, Any]:
    """Returns the machine's part of a key: the model of the GPU or processor, and the number of usable cores."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model()
    return {"device": name, "cores": usable_cores()}


def plain(key: Key) -> Key:
    """Returns a key as JSON represents it, with lists in place of tuples."""
    return json.loads(json.dumps(key))

"""Mailboxes for data that does not fit an array: infos, objects and exceptions, pickled into an anonymous file.

An environment has at most one message in its worker's mailbox. Each environment has a fixed place in the file, which
moves when it becomes too small.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, NamedTuple

import numpy as np

from headrace.pool import by_value
from headrace.pool.shared import AnonymousFile

LEAST = 256


class InfoMessage(NamedTuple):
    """The part of an environment's result that is not in its row.

    Attributes:
        info: the step's info dict.
        final: the info dict of an episode's last step, if another episode has begun since.
        objects: field name → a part of the observation that is not an array.
        error: the exception that the environment raised (None if it cannot be pickled), and its traceback as text; the
            other attributes are then empty.
    """

    info: dict[str, Any]
    final: dict[str, Any] | None = None
    objects: dict[str, Any] | None = None
    error: tuple[BaseException | None, str] | None = None


class Mailbox(AnonymousFile):
    """One worker's messages, which it writes and the pool's process reads.

    The methods' argument ``messages`` is int64[N, 2], the place and length of each environment's message; length 0
    means that there is none.
    """

    def __init__(self) -> None:
        super().__init__(LEAST)
        self.forget()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.forget()

    def write(self, env_id: int, message: InfoMessage, messages: np.ndarray) -> None:
        """Writes an environment's message and records its place in ``messages``."""
        text = _pickled(message)
        place, room = self._room.get(env_id, (0, 0))
        if len(text) > room:
            place, room = self._end, max(LEAST, 2 * len(text))
            self._room[env_id], self._end = (place, room), place + room
        os.pwrite(self.descriptor, text, place)
        messages[env_id] = place, len(text)

    def read(self, env_id: int, messages: np.ndarray) -> InfoMessage | None:
        """Returns an environment's message and removes it; None if there is none."""
        place, length = messages[env_id].tolist()
        if not length:
            return None
        messages[env_id, 1] = 0
        return InfoMessage(*pickle.loads(os.pread(self.descriptor, length, place)))

    def forget(self) -> None:
        """Clears all places, since a new process starts writing from the beginning."""
        self._room: dict[int, tuple[int, int]] = {}
        self._end = 0


def _pickled(message: InfoMessage) -> bytes:
    try:
        return pickle.dumps(tuple(message), pickle.HIGHEST_PROTOCOL)
    except Exception:
        return by_value.dumps(tuple(message))

"""Calls to a worker, beside its steps: a question and its answer, through an anonymous file.

An exception may end a call in its midst, as it comes from a signal's handler, and a process at any moment. A pipe would
keep what was half written then, and answers that nobody waits for any more. Here the next question is written over
them, once the worker has served what it was asked.
"""

from __future__ import annotations

import os
import struct
from multiprocessing import reduction
from typing import Any

from headrace.pool.executors.processes.shared import anonymous_file

HEAD = struct.Struct("<qq")  # whose turn it was, and how long the text is


class Sheet:
    """Where a question and then its answer is written; pickled, it is handed on to a process that is started.

    A text is there as a whole or not at all: its head is written last.
    """

    def __init__(self) -> None:
        self._file = anonymous_file(HEAD.size)

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._file)

    def __setstate__(self, descriptor: Any) -> None:
        self._file = descriptor.detach()

    def __del__(self) -> None:
        self.close()

    def ask(self, number: int, text: bytes) -> None:
        """Write question ``number``, which is 1 or above."""
        self._write(number, text)

    def question(self) -> tuple[int, bytes]:
        """The question that was asked last: its number and text."""
        return self._read()

    def answer(self, number: int, text: bytes) -> None:
        """Write the answer to question ``number`` in its place."""
        self._write(-number, text)

    def answer_to(self, number: int) -> bytes | None:
        """The answer to a question, once; None where there is none."""
        found, text = self._read()
        if found != -number:
            return None
        os.ftruncate(self._file, HEAD.size)  # saved states may be large
        return text

    def _write(self, number: int, text: bytes) -> None:
        place, rest = HEAD.size, memoryview(text)
        while rest:
            written = os.pwrite(self._file, rest, place)
            place, rest = place + written, rest[written:]
        os.pwrite(self._file, HEAD.pack(number, len(text)), 0)

    def _read(self) -> tuple[int, bytes]:
        number, length = HEAD.unpack(os.pread(self._file, HEAD.size, 0))
        parts, place = [], HEAD.size
        while place < HEAD.size + length:
            part = os.pread(self._file, HEAD.size + length - place, place)
            if not part:
                return 0, b""
            parts.append(part)
            place += len(part)
        return number, b"".join(parts)

    def close(self) -> None:
        """Let go of the file."""
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)
            self._file = -1

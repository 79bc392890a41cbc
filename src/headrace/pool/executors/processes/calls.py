"""Remote calls to a worker other than steps: a question and its answer, passed through an anonymous file.

An exception of a signal handler may interrupt a call, and a process may end at any time. A pipe would then hold
incomplete messages, and answers that no call waits for. In a file the next question overwrites them, once the worker
has served its earlier requests.
"""

from __future__ import annotations

import os
import struct

from headrace.pool.shared import AnonymousFile

HEAD = struct.Struct("<qq")  # number of the question (negated for an answer), length of the text


class CallFile(AnonymousFile):
    """The file that holds a question and later its answer; it can be passed to a new process.

    A text is either complete or absent, since its head is written last.
    """

    def __init__(self) -> None:
        super().__init__(HEAD.size)

    def ask(self, number: int, text: bytes) -> None:
        """Writes question ``number``, which is 1 or above."""
        self._write(number, text)

    def question(self) -> tuple[int, bytes]:
        """Returns the number and text of the last question."""
        return self._read()

    def answer(self, number: int, text: bytes) -> None:
        """Writes the answer to question ``number`` in its place."""
        self._write(-number, text)

    def answer_to(self, number: int) -> bytes | None:
        """Returns the answer to question ``number`` and drops it; None if there is none."""
        found, text = self._read()
        if found != -number:
            return None
        os.ftruncate(self.descriptor, HEAD.size)  # saved states may be large
        return text

    def _write(self, number: int, text: bytes) -> None:
        place, rest = HEAD.size, memoryview(text)
        while rest:
            written = os.pwrite(self.descriptor, rest, place)
            place, rest = place + written, rest[written:]
        os.pwrite(self.descriptor, HEAD.pack(number, len(text)), 0)

    def _read(self) -> tuple[int, bytes]:
        number, length = HEAD.unpack(os.pread(self.descriptor, HEAD.size, 0))
        parts, place = [], HEAD.size
        while place < HEAD.size + length:
            part = os.pread(self.descriptor, HEAD.size + length - place, place)
            if not part:
                return 0, b""
            parts.append(part)
            place += len(part)
        return number, b"".join(parts)

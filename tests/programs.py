"""Python programs in processes of their own that begin at once: forked from one that has imported everything.

A new interpreter takes three seconds of a core until it has imported PyTorch. Tests of what a process does, is told and
leaves behind take `Program` and `run` in place of `subprocess.Popen` and `subprocess.run`. Tests of how a program
begins, and of what it imports, start interpreters.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("program_server.py")


class Program(subprocess.Popen):
    """A `subprocess.Popen` of ``[sys.executable, "-c" or "-m" or a file, …]``, which does all that one does."""

    def _execute_child(self, *given: Any) -> None:
        popen: Any = subprocess.Popen
        asked = inspect.signature(popen._execute_child).bind(self, *given).arguments
        (executable, *words), pipes = asked["args"], ("p2cread", "c2pwrite", "errwrite")
        assert executable == sys.executable and not (asked["shell"] or asked["preexec_fn"])
        unbuffered = words[0] == "-u"
        kind, what, arguments = _program([os.fspath(word) for word in words[unbuffered:]])
        standard = [number if asked[name] == -1 else asked[name] for number, name in enumerate(pipes)]
        request = {
            "program": [kind, what, arguments],
            "unbuffered": unbuffered,
            "env": dict(os.environ if asked["env"] is None else asked["env"]),
            "cwd": os.fspath(asked["cwd"] or Path.cwd()),
            "session": asked["start_new_session"],
            "files": [0, 1, 2, *asked["pass_fds"]],
        }
        read, write = os.pipe()
        socket.send_fds(_server(), [json.dumps(request).encode()], [write, *standard, *asked["pass_fds"]])
        os.close(write)
        self._status = os.fdopen(read, "rb", buffering=0)
        self.pid = int(self._status.readline())
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        popen._close_pipe_fds(self, *(asked[end] for end in ends))

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            with self._status:  # without a word where what waits for the program was killed, too
                self.returncode = int(self._status.readline() or -signal.SIGKILL)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while self._internal_poll() is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            select.select([self._status], [], [], left)
        return self.returncode


def run(
    command: list[Any], *, input: str | None = None, timeout: float | None = None, check: bool = False,
    capture_output: bool = False, **options: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """`subprocess.run` of a `Program`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Program(command, **options) as program:
        try:
            told, complaints = program.communicate(input, timeout)
        except BaseException:
            program.kill()
            raise
    done = subprocess.CompletedProcess(command, program.returncode, told, complaints)
    if check:
        done.check_returncode()
    return done


def wait_for(done: Callable[[], Any], seconds: float = 90.0) -> Any:
    """Returns what ``done()`` returns once that is true."""
    until = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number that has not ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _program(words: list[str]) -> tuple[str, str, list[str]]:
    if words[0] in ("-c", "-m"):
        return words[0], words[1], words[2:]
    assert not words[0].startswith("-"), words
    return "", words[0], words[1:]


@functools.cache
def _server() -> socket.socket:
    """The server of this process, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        server = subprocess.Popen(
            [sys.executable, str(SERVER), str(its.fileno())],
            pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=2, close_fds=True,
        )  # fmt: skip

    @atexit.register
    def end() -> None:
        ours.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)

    return ours

"""Forks what `programs.Program` starts: a process that has imported what such programs import, and nothing else.

It has one thread. A forked process leaves `serve`, runs its program at the end of this file, and ends as every
interpreter does.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any

IMPORTED = """
    headrace.cli.train headrace.cli.play headrace.cli.sweep headrace.cli.watch headrace.envs.classic_control
    headrace.train.launch.run headrace.train.runners.assembly
    headrace.studies.jobs.child headrace.watch.player headrace.watch.serve
"""
LARGEST = 1 << 20  # bytes of a request
ABOVE = 100  # open files have at least this number until they get their own


def serve(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Forks a process for each request; returns only there, with the request and its open files."""
    waker, woken = socket.socketpair()
    for end in (waker, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nobody is woken
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    statuses: dict[int, int] = {}
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    selector.register(waker, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if waker in ready:
            waker.recv(1024)
            _report(statuses)
        if control not in ready:
            continue
        message, given, _, _ = socket.recv_fds(control, LARGEST, 16)
        if not message:  # the tests are over
            os._exit(0)
        status, *files = given
        pid = os.fork()
        if pid == 0:
            break
        statuses[pid] = status
        _tell(status, pid)
        for file in files:
            os.close(file)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in (selector, waker, woken, control):
        each.close()
    for each in (status, *statuses.values()):
        os.close(each)
    return json.loads(message), files


def _report(statuses: dict[int, int]) -> None:
    """Tells the exit statuses of those that have ended."""
    for pid, status in list(statuses.items()):
        ended, how = os.waitpid(pid, os.WNOHANG)
        if ended:
            _tell(statuses.pop(pid), os.waitstatus_to_exitcode(how))
            os.close(status)


def _tell(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{number}\n".encode())


def become(asked: dict[str, Any], files: list[int]) -> None:
    """Gives this process what is asked for: session, open files by number, environment, folder."""
    if asked["session"]:
        os.setsid()
    for file, number in zip([_moved(file) for file in files], asked["files"], strict=True):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    unbuffered = asked["unbuffered"] or bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout, sys.stderr = _writer(1, unbuffered), _writer(2, True)
    sys.path[0:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    sys.modules["numpy"].random.seed()


def _moved(file: int) -> int:
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    os.close(file)
    return moved


def _writer(file: int, unbuffered: bool) -> io.TextIOWrapper:
    raw = io.FileIO(file, "w", closefd=False)
    lines = unbuffered or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", line_buffering=lines, write_through=unbuffered)


def run(kind: str, what: str, arguments: list[str]) -> None:
    """Runs the program as ``python -c CODE …``, ``python -m MODULE …`` or ``python FILE …`` does."""
    if kind == "-m":
        sys.argv, sys.path[:0] = [what, *arguments], [str(Path.cwd())]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[:0] = ["-c", *arguments], [""]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec", dont_inherit=True), main.__dict__)
    else:
        sys.argv, sys.path[:0] = [what, *arguments], [str(Path(what).resolve().parent)]
        runpy.run_path(what, run_name="__main__")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for programs
    for name in IMPORTED.split():
        with contextlib.suppress(ModuleNotFoundError):  # of an extra, such as torch: what needs it says so itself
            importlib.import_module(name)
    gc.freeze()
    asked, files = serve(socket.socket(fileno=int(sys.argv[1])))
    become(asked, files)
    run(*asked["program"])

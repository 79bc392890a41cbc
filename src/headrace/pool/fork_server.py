"""The server that worker processes are forked from, and the signals that they hear.

`timeout`, SLURM, systemd, Ctrl-C and a closed terminal signal every process of a group. Only the process that started
the workers reacts, and ends them: the server never hears these signals, and workers ignore them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing import connection, forkserver, resource_tracker, util
from typing import Any

OF_GROUPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OURS = "headrace-"
"""the beginning of the names of all worker processes"""


def server_context(preloaded: str) -> Any:
    """Returns the `multiprocessing` context of workers; starts its server, and does not wait for it.

    Args:
        preloaded: the module that the server imports, unless it runs already.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preloaded])
    with _held():
        resource_tracker.ensure_running()  # which ends the hold on two of the signals
    with _held():
        forkserver.ensure_running()
    return context


@contextmanager
def starting(script: bool = False) -> Iterator[None]:
    """Returns a context in which processes are started; it may be within any thread.

    Args:
        script: whether they import this program's script, which must then have ``if __name__ == "__main__":``.
    """
    with _held(), nullcontext() if script else _as_library():
        yield


def heed_parent() -> None:
    """Makes this worker process ignore the signals of its group, and end with its parent.

    Programs and processes that it starts hear the signals as usual, except for Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _ignore)  # unlike SIG_IGN, it does not pass to programs that environments start
    os.register_at_fork(after_in_child=_hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OF_GROUPS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def allow_children() -> None:
    """Lets this worker process start processes by `multiprocessing`, as its environments do in a program of their own.

    `multiprocessing` refuses that to daemonic processes, which end with their parent; `heed_parent` sees to that. It
    would also start them in the way in which this process was started, instead of the system's.
    """
    multiprocessing.set_start_method(None, force=True)
    multiprocessing.current_process()._config["daemon"] = False  # pyright: ignore[reportAttributeAccessIssue]


def end_children() -> None:
    """Kills the processes that this one has started by `multiprocessing`, which nothing waits for any more."""
    for child in multiprocessing.active_children():
        child.kill()


def _ignore(*_: object) -> None:
    pass


def _hear() -> None:
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is _ignore:
            signal.signal(each, signal.SIG_DFL)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    end_children()
    os._exit(1)


@contextmanager
def _held() -> Iterator[None]:
    """Returns a context in which signals wait; new processes inherit that, and never hear them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_GROUPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _as_library() -> Iterator[None]:
    """Returns a context in which new processes do not run this program's main script again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = hidden = types.ModuleType("__main__")
    vars(hidden).update({name: value for name, value in vars(main).items() if name not in ("__file__", "__spec__")})
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _hear_unless_ours(_: object) -> None:
    """Ends the hold on signals in a process that another library forks from the server; `heed_parent` ends ours."""
    if not multiprocessing.current_process().name.startswith(OURS):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, OF_GROUPS)


def _forget_server() -> None:
    """Clears the reference to the parent's server in a forked child, which starts its own server if it needs one."""
    server: Any = forkserver._forkserver  # pyright: ignore[reportAttributeAccessIssue]
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None


util.register_after_fork(_hear_unless_ours, _hear_unless_ours)
os.register_at_fork(after_in_child=_forget_server)

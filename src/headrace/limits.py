"""Turns errors about the system's limits on a process into `LimitError`.

The system's own ``OSError`` is raised within a library, and names neither the operation that needed the resource nor
the limit to raise.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator

from headrace.errors import HeadraceError, LimitError
from headrace.machine import is_lack

try:
    import resource
except ImportError:  # a system without such limits
    resource = None

UNMAPPED = (os.strerror(errno.ENOMEM), "failed to map segment")  # error texts of glibc's loader


@contextlib.contextmanager
def limits_named(what: str) -> Iterator[None]:
    """Returns a context that turns errors about the system's limits into `LimitError`.

    ``what`` is the operation or object that needs the resource, for the message, e.g. ``"a pool"``.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        if reason := refusal(error) or _files_refused():
            raise LimitError(f"{what}: {reason}") from error
        raise


def refusal(error: BaseException) -> str:
    """Returns a description of the limit that caused an exception, with a remedy; empty if no limit did."""
    code, text = error.errno if isinstance(error, OSError) else None, str(error)
    unloaded = isinstance(error, OSError | ImportError) and code is None  # the loader of libraries sets no errno
    if code == errno.EMFILE or (unloaded and os.strerror(errno.EMFILE) in text):
        return f"too many open files; raise the limit, which is {_limit('RLIMIT_NOFILE')} for a process (ulimit -n)"
    if code == errno.ENFILE:
        return "too many open files, those of all programs together; close some"
    if code == errno.EAGAIN or text == "can't start new thread":
        most = _limit("RLIMIT_NPROC")
        return (
            f"the system starts no more processes or threads; raise the limit, which is {most} for a user (ulimit -u), "
            "or that on memory (ulimit -v)"
        )
    if code == errno.ENOMEM or (unloaded and any(words in text for words in UNMAPPED)):
        most = _limit("RLIMIT_AS")
        return f"the system gives no more memory; ask for less, or raise the limit, which is {most} bytes (ulimit -v)"
    if is_lack(error) and error.__cause__ is None:
        return f"there is not enough memory: {text.partition(chr(10))[0] or 'none is left'}; ask for less"
    return refusal(error.__cause__) if error.__cause__ else ""


def _files_refused() -> str:
    """Returns the `refusal` that opening a file meets now, or an empty string.

    Libraries report a lack of file descriptors in messages that `refusal` does not recognise.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return refusal(error)
    return ""


def need_files(number: int, what: str) -> None:
    """Raises `LimitError` unless ``number`` further files can be opened.

    It is called before many are needed: Python leaks file descriptors if none is left while it starts a process.
    """
    taken: list[int] = []
    try:
        with limits_named(f"{what} takes {number} more open files"):
            for _ in range(number):
                taken.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for descriptor in taken:
            os.close(descriptor)


def cause_of_death(code: int | None) -> str:
    """Returns a description of a process's exit status."""
    if code is not None and code < 0:
        name = {each.value: each.name for each in signal.Signals}.get(-code, f"signal {-code}")
        return f"killed by {name}" + (" (is there enough memory?)" if name == "SIGKILL" else "")
    return f"exit status {code}"


def _limit(name: str) -> str:
    if resource is None:
        return "unknown"
    soft, _ = resource.getrlimit(getattr(resource, name))
    return "unlimited" if soft == resource.RLIM_INFINITY else str(soft)

"""Remarks of pools for people: about environments that hang, which no result or exception can tell of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_hearers: list[Callable[[str], object]] = []


def remark(words: str) -> None:
    """Prints a remark on standard error, and passes it to those who hear remarks."""
    with suppress(OSError, ValueError, AttributeError):  # standard error may be closed
        print(f"headrace: {words}", file=sys.stderr, flush=True)
    tell(words)


def tell(words: str) -> None:
    """Passes a remark to those who hear remarks, without printing it."""
    for each in tuple(_hearers):
        each(words)


@contextmanager
def heard_by(hearer: Callable[[str], object]) -> Iterator[None]:
    """Returns a context in which ``hearer`` is called with every remark of this process."""
    _hearers.append(hearer)
    try:
        yield
    finally:
        _hearers.remove(hearer)

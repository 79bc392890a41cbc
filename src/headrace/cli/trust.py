"""Confirmation that what a run folder, or another file, asks for may be done, by ``--trust`` or on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headrace.errors import TrustError
from headrace.train.runs.folder import RunFolder

T = TypeVar("T")


def asked(act: Callable[[bool], T], trust: bool) -> tuple[T, bool]:
    """Returns what ``act(trust)`` returns, and whether the user trusts what it reads.

    If it raises `TrustError`, the user is asked on a terminal; if they agree, ``act(True)`` is called.

    Raises:
        TrustError: the user does not agree, or cannot be asked.
    """
    try:
        return act(trust), trust
    except TrustError as error:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        print(error)
        if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
            raise
        return act(True), True


def agreed(run: Path, trust: bool, *, training: bool = False) -> bool:
    """Returns whether the user trusts a run, after asking on a terminal about what they have not agreed to before.

    Returns ``trust`` if there is nothing to ask, and True if the user agrees.

    Raises:
        TrustError: the user does not agree, or cannot be asked.
    """
    return asked(lambda trust: RunFolder.open(run, trust=trust, training=training), trust)[1]

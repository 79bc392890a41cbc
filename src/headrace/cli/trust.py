"""Confirmation that what a run folder asks for may be done, by ``--trust`` or on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.errors import TrustError
from headrace.train.runs.folder import RunFolder


def agreed(run: Path, trust: bool, *, training: bool = False) -> bool:
    """Returns whether the user trusts a run, after asking on a terminal about what they have not agreed to before.

    Returns ``trust`` if there is nothing to ask, and True if the user agrees.

    Raises:
        TrustError: the user does not agree, or cannot be asked.
    """
    try:
        RunFolder.open(run, trust=trust, training=training)
        return trust
    except TrustError as error:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        print(error)
        if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
            raise
        RunFolder.open(run, trust=True)
        return True

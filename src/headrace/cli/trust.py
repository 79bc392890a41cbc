"""Confirmation that the code that a run folder names may be run, by ``--trust`` or on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.errors import TrustError
from headrace.train.runs.folder import RunFolder


def agreed(run: Path, trust: bool) -> bool:
    """Returns whether the user trusts the code of a run, after asking on a terminal if the code is unknown.

    Returns ``trust`` if the code is known, and True if the user agrees to run it.

    Raises:
        TrustError: the code is unknown, and the user does not agree or cannot be asked.
    """
    try:
        RunFolder.open(run, trust=trust)
        return trust
    except TrustError as error:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        print(error)
        if input("Run it? [y/N] ").strip().lower() not in ("y", "yes"):
            raise
        RunFolder.open(run, trust=True)
        return True

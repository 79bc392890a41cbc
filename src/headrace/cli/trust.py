"""Whether to run the code that a run folder names: given by ``--trust``, or asked on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.errors import TrustError
from headrace.train.runs.folder import RunFolder


def agreed(run: Path, trust: bool) -> bool:
    """Whether the user agrees to run the code of a run, by ``--trust`` or an answer; known code needs no answer.

    Raises:
        TrustError: the user does not agree.
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

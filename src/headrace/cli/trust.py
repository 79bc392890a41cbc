"""Whether to run code that a run folder names: said on the command line, or asked where somebody can answer."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.errors import TrustError
from headrace.train.runs.folder import RunFolder


def agreed(run: Path, trust: bool) -> bool:
    """Whether the code of a run was agreed to by ``--trust``, or by an answer; where it is known, nobody is asked.

    Raises:
        TrustError: it was not.
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

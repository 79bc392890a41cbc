"""Suggestions of names that are like a wrong one, for error messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST = 100  # characters of a wrong name; comparing takes their square, and a name from elsewhere may have any number
VERSION = re.compile(r"^ale/|(-ram)?(noframeskip|deterministic)?-v\d+$")  # the latter ends Gymnasium's names of games
ALIKE = 0.55  # least similarity, in [0, 1], of a task that is suggested


def close_names(name: str, names: Iterable[str], n: int = 3, likeness: float = 0.6) -> list[str]:
    """Returns up to ``n`` similar names, best first, of at least a similarity in [0, 1]; none for a very long name."""
    return difflib.get_close_matches(name, names, n, likeness) if len(name) <= LONGEST else []


def nearest(name: str, names: Iterable[str], n: int = 5) -> list[str]:
    """As `close_names`, for names of tasks: in any case, and versions (``-v1``) only break ties."""
    asked = str(name).lower()

    def likeness(candidate: str) -> tuple[float, float]:
        whole = candidate.lower()
        stem, theirs = (VERSION.sub("", each) for each in (asked, whole))
        alike = difflib.SequenceMatcher(None, stem, theirs).ratio()
        begun = stem and theirs.startswith(stem)
        return max(alike, ALIKE) if begun else alike, difflib.SequenceMatcher(None, asked, whole).ratio()

    near = {candidate: likeness(candidate) for candidate in (names if len(asked) <= LONGEST else ())}
    chosen = [candidate for candidate, (alike, _) in near.items() if alike >= ALIKE]
    return sorted(chosen, key=lambda candidate: near[candidate], reverse=True)[:n]

"""Cases of a parametrised test, of which a few run always and the rest nightly, where each proves the same again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_nightly(cases: Iterable[Any], *always: Any) -> list[Any]:
    """All of `cases`, in their order; those that are not among `always` are marked ``nightly``."""
    cases = list(cases)
    missing = [case for case in always if case not in cases]
    assert not missing, f"{missing} are no cases"
    return [case if case in always else _late(case) for case in cases]


def _late(case: Any) -> Any:
    """The case of one name, or a tuple of several names' values."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)

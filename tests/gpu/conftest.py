"""Tests that need a CUDA device; everywhere else they are skipped. ``make gpu-test`` runs them.

They import little: torch, warp, numpy, gymnasium and pytest are enough, the compiled core is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip everything in this folder where there is no CUDA device."""
    here = [item for item in items if "gpu" in item.path.parent.parts]
    if here and not _has_cuda():
        for item in here:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


@pytest.fixture
def make_torch() -> Iterator[Any]:
    """`headrace.make_torch`, closing what it made at the end of the test."""
    made: list[Any] = []

    def make_and_keep(*args: Any, **kwargs: Any) -> Any:
        made.append(headrace.make_torch(*args, **kwargs))
        return made[-1]

    yield make_and_keep
    for pool in made:
        pool.close()

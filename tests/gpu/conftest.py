"""Tests that need a CUDA device; everywhere else they are skipped. ``make gpu-test`` runs them.

They import little: torch, warp, numpy, gymnasium and pytest are enough, the compiled core is not needed.
"""

from __future__ import annotations

import pytest


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

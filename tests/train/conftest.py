"""What the tests of training share; its being here lets the folders below import this folder's helpers."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _full_precision():
    """A run sets the precision of products, and how sums are made, for the whole process; the next begins without."""
    torch.set_float32_matmul_precision("highest")
    if torch.are_deterministic_algorithms_enabled():  # to say so imports torch's compiler, seconds of it
        torch.use_deterministic_algorithms(False)

"""What the tests of training share; its being here lets the folders below import this folder's helpers."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _full_precision():
    """A run sets the precision of products for the whole process; the next test begins without."""
    torch.set_float32_matmul_precision("highest")

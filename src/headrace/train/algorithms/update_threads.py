"""The number of threads that torch's operations have in updates, which may be more than while acting.

Acting on few rows takes longer with several threads than with one, but updates from many rows use all cores well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headrace.machine import usable_cores

WORTHWHILE = 5_000_000
"""rows times parameters that make a further thread worthwhile"""


@contextmanager
def update_threads(rows: int, parameters: int) -> Iterator[None]:
    """Returns a context in which torch has as many threads as minibatches keep busy, and no fewer than before.

    Args:
        rows: the number of rows in a minibatch.
        parameters: the number of parameters of the network.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(max(before, min(usable_cores(), rows * parameters // WORTHWHILE)))
    try:
        yield
    finally:
        torch.set_num_threads(before)

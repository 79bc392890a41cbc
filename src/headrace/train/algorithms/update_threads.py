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


def threads_for(rows: int, parameters: int) -> int:
    """Returns as many threads as a minibatch keeps busy, and no fewer than torch has.

    Args:
        rows: the number of rows in a minibatch.
        parameters: the number of parameters of the network.
    """
    return max(torch.get_num_threads(), min(usable_cores(), rows * parameters // WORTHWHILE))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Returns a context in which torch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

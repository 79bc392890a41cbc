"""A stand-in for CUDA graphs on a CPU, so that what runs in graphs on a GPU is tested where there is none.

Once captured, a function runs again in each call, without waiting for a device, and what it returns is written into the
memory of its first result, as a graph's replay does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from device_waits import NothingWaits
from headrace.train.modules.graphs import Graph


@contextmanager
def graphs_on_a_cpu() -> Iterator[None]:
    """A context in which functions become such graphs on a CPU; for what is made within it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Graph, "possible", staticmethod(lambda device: True))
        patched.setattr(Graph, "_aside", lambda graph, arguments: graph._function(*arguments))
        patched.setattr(Graph, "_capture", _capture)
        yield


def _capture(graph: Any) -> Callable[[], object]:
    def replay() -> None:
        with NothingWaits():
            result = graph._function(*graph._arguments)
        if graph._answer is None:
            graph._answer = result
        else:
            with torch.inference_mode():
                _write(graph._answer, result)

    return replay


def _write(there: Any, new: Any) -> None:
    """Copies all tensors of a result to those of another one."""
    if isinstance(there, Tensor):
        if there.data_ptr() != new.data_ptr():
            there.copy_(new)
    elif dataclasses.is_dataclass(there):
        for field in dataclasses.fields(there):
            _write(getattr(there, field.name), getattr(new, field.name))
    elif isinstance(there, list | tuple):
        for kept, one in zip(there, new, strict=True):
            _write(kept, one)
    else:
        assert there == new, f"a graph would return {there!r} again, not {new!r}"

"""CUDA graphs: many small kernel launches as one.

A rollout of a small network is hundreds of kernels of a few microseconds each, which Python
cannot launch as fast as a GPU runs them. Captured once, they are launched together.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

EAGER_CALLS = 2  # calls before the capture, so that objects created at first use exist already


class Graph:
    """A function that becomes one CUDA graph after a few calls; on a CPU it stays a function.

    Its arguments are tensors, also in tuples, lists and dataclasses. Those of the captured call are the graph's memory,
    to which later ones are copied unless they are in it already. No shape may depend on values. From the capture on,
    the result is in the same memory after every call.

    Args:
        function: the function, which is called directly until it is captured.
        generators: generators on the device from which the function draws, in addition to the default one.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        device: torch.device,
        enabled: bool = True,
        generators: Sequence[torch.Generator] = (),
    ):
        self._function, self._device = function, device
        self._enabled = enabled and self.possible(device)
        self._generators = generators
        self._calls = 0
        self._replay: Callable[[], object] | None = None
        self._arguments: tuple[Any, ...] = ()
        self._answer: Any = None

    @staticmethod
    def possible(device: torch.device) -> bool:
        return device.type == "cuda"

    @property
    def captured(self) -> bool:
        """Whether calls replay a graph already."""
        return self._replay is not None

    def __call__(self, *arguments: Any) -> Any:
        if not self._enabled:
            return self._function(*arguments)
        if self._replay is None:
            self._calls += 1
            if self._calls <= EAGER_CALLS:
                return self._aside(arguments)
            self._arguments = arguments
            self._replay = self._capture()
        else:
            self._take(arguments)
        self._replay()
        return self._answer

    @torch.inference_mode()  # outside of which tensors made in it are read-only
    def _take(self, arguments: tuple[Any, ...]) -> None:
        """Copies arguments to where the graph reads them."""
        for kept, given in zip(tensors_in(self._arguments), tensors_in(arguments), strict=True):
            if kept.data_ptr() != given.data_ptr():
                kept.copy_(given)

    def _aside(self, arguments: tuple[Any, ...]) -> Any:
        """Calls the function on a side stream, as calls before a capture must be; returns its result."""
        main, side = torch.cuda.current_stream(self._device), _side_stream(self._device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            answer = self._function(*arguments)
        main.wait_stream(side)
        return answer

    def _capture(self) -> Callable[[], object]:
        """Captures the function, whose result stays in `_answer`; returns what replays it."""
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        # other threads, such as the one that monitors connections to other processes, may call CUDA during the capture
        capture = torch.cuda.graph(graph, stream=_side_stream(self._device), capture_error_mode="thread_local")
        with torch.cuda.device(self._device), _no_garbage(), capture:
            self._answer = self._function(*self._arguments)
        return graph.replay


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yields the tensors in tuples, lists and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from tensors_in(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors_in(each)


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns a device's stream for captures and calls before them: memory that one stream has freed, another lacks."""
    return torch.cuda.Stream(device)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Returns a context in which Python collects no garbage: to free another graph's memory ends a capture."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

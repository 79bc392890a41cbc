"""A step replay whose rows are copied to a device, so that minibatches are assembled on the learner's device.

Every row is copied to the device once, when it is new, rather than each time it is drawn: through pinned memory and on
a separate stream, concurrently with updates. The host waits for the device only if the device is still reading a pinned
buffer two copies later.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headrace.train.modules.graphs import Graph
from headrace.train.storage.reader import StepReader
from headrace.train.storage.step_replay import MARGIN, StepReplay
from headrace.train.storage.transitions import Transitions, to_device

STAGED = 16 << 20  # maximum size of one copy, in bytes


class DeviceStepReplay(StepReplay):
    """A step replay whose transitions are read on a device; only the process that learns uses it.

    Numbers of transitions stay on the CPU. `draw` first copies new rows to the device.

    Args:
        device: the device of the copy, which takes as much memory as the replay itself.
        graphs: whether transitions are gathered by CUDA graphs on a device that has them.
    """

    def __init__(self, replay: StepReplay, device: torch.device | str, graphs: bool = False):
        self.__setstate__(replay.__getstate__())
        self.device = torch.device(device)
        host = {name: torch.from_numpy(self.arrays[name]) for name in StepReader.NEEDED if name in self.arrays}
        self._copies = [
            (there, torch.zeros(there.shape, dtype=there.dtype, device=self.device)) for there in host.values()
        ]
        copies = {name: copy for name, (_, copy) in zip(host, self._copies, strict=True)}
        self._gather = StepReader(self.layout, copies, self.n_step, self.gamma)
        self._enabled, self._graphs = graphs, dict[int, Graph]()  # of each number of transitions
        self._copied = [0] * self.layout.segments  # rows of each segment that were copied or skipped
        self._begin = [0] * self.layout.segments  # the first row from which all rows are on the device
        cuda = self.device.type == "cuda"
        row = sum(there[0, 0].nbytes for there in host.values())
        rows = max(1, min(STAGED // row, self.layout.steps))
        self._staged = [_Staged([there[:, 0] for there in host.values()], rows, cuda) for _ in range(2)]
        self._rows = rows
        self._stream = torch.cuda.Stream(self.device) if cuda else None

    def ranges(self) -> list[tuple[int, int]]:
        while True:
            overtaken = self.follow()
            lows = self._whole(self.layout.steps // MARGIN)
            ranges = [(low, max(low, rows - self.n_step)) for low, rows in zip(lows, self._copied, strict=True)]
            if not overtaken or any(low < high for low, high in ranges):
                return ranges

    def _whole(self, margin: int = 0) -> list[int]:
        # drawing reads flags and counts from the shared memory, in which the rows must not have been overwritten
        return [max(low, begin) for low, begin in zip(super()._whole(margin), self._begin, strict=True)]

    def follow(self) -> bool:
        """Copies the rows written since the last call; returns whether a writer overwrote rows during the copy.

        If so, the copied rows of that segment are invalid, and newer rows are not copied yet.
        """
        if self._stream is None:
            return self._take_over()
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)  # which may still read rows that are about to be overwritten
        with torch.cuda.stream(self._stream):
            overtaken = self._take_over()
        current.wait_stream(self._stream)
        return overtaken

    def _take_over(self) -> bool:
        steps, overtaken = self.layout.steps, False
        for segment, written in enumerate(self._written.tolist()):
            whole = super()._whole(steps // MARGIN)[segment]
            if self._copied[segment] < whole:  # some rows were overwritten before they were copied
                self._pass_over(segment, whole)
            while self._copied[segment] < written:
                low = self._copied[segment]
                high = min(written, low + self._rows, low + steps - low % steps)
                self._copy(segment, low % steps, high - low)
                self._copied[segment] = high
                self._fence()
                if (whole := super()._whole()[segment]) > low:
                    self._pass_over(segment, whole)
                    overtaken = True
        return overtaken

    def _pass_over(self, segment: int, row: int) -> None:
        """Makes the copy of a segment begin at ``row``; stacked inputs also need the rows before it."""
        self._copied[segment] = max(self._copied[segment], row)
        self._begin[segment] = self._copied[segment] + self.layout.frame_stack - 1

    def _copy(self, segment: int, place: int, rows: int) -> None:
        staged = self._staged[0]
        self._staged.reverse()
        staged.wait()
        for (there, here), buffer in zip(self._copies, staged.buffers, strict=True):
            buffer[:rows].copy_(there[place : place + rows, segment])
            here[place : place + rows, segment].copy_(buffer[:rows], non_blocking=True)
        staged.note()

    def read(self, numbers: Tensor, draw: Callable[[int], Tensor] | None = None) -> Transitions:
        """As `StepReplay.read`; rows of the copy, which only `draw` overwrites, need not be replaced by others."""
        if len(numbers) not in self._graphs:
            self._graphs[len(numbers)] = Graph(self._gather, self.device, self._enabled)
        return self._graphs[len(numbers)](to_device(numbers, self.device))


def replay_on(device: torch.device, replay: StepReplay, graphs: bool = False) -> StepReplay:
    """Returns the replay for a learner on this device: itself on a CPU, otherwise a `DeviceStepReplay` over it."""
    return replay if device.type == "cpu" else DeviceStepReplay(replay, device, graphs)


class _Staged:
    """Pinned memory for some rows of a segment, and the event after which the device has read it."""

    def __init__(self, segments: list[Tensor], rows: int, cuda: bool):
        self.buffers = [torch.zeros_like(segment[:rows], pin_memory=cuda) for segment in segments]
        self._event = torch.cuda.Event() if cuda else None

    def note(self) -> None:
        if self._event is not None:
            self._event.record()

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()

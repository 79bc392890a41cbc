"""Metrics in TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.train.runs.writing import writing

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Scalars in a folder, which the first write makes.

    Args:
        step: the step from which a run is resumed: TensorBoard drops values of older files from this step on.
    """

    def __init__(self, folder: Path, step: int = 0):
        self._folder, self._step = folder, step
        self._writer: SummaryWriter | None = None

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        """Writes scalars by name for one step.

        Raises:
            StorageError: the scalars cannot be written, for instance because the disk is full.
        """
        from torch.utils.tensorboard import SummaryWriter

        with writing(self._folder):
            if self._writer is None:
                self._writer = SummaryWriter(self._folder, purge_step=self._step or None)
            for name, number in numbers:
                self._writer.add_scalar(name, number, step)
            self._writer.flush()  # raises the errors of the thread that writes

    def close(self) -> None:
        """Closes the files, if there are any."""
        if self._writer is not None:
            with suppress(OSError):  # all was flushed when it was written
                self._writer.close()

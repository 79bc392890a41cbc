"""A step replay on disk: each save adds the new rows, and a run that is killed keeps all rows that were saved.

Rows are written to files that never change once they have their final name. A manifest lists the files and rows of the
replay; it is replaced atomically, after all files in it are on the disk. Files of overwritten rows are removed one save
later, so that the checkpoint before the last save still has all of its rows.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from headrace.errors import StateError
from headrace.train.runs import files
from headrace.train.runs.files import flush, replacing, writing
from headrace.train.storage.step_replay import MARGIN, StepReplay

FORMAT = 1
MANIFEST = "replay.json"
BYTES = 64 << 20  # approximate size of a file


@dataclass(frozen=True)
class Chunk:
    """A file that holds rows [low, high) of a segment."""

    segment: int
    low: int
    high: int
    name: str


class ReplayFiles:
    """The files of one replay, in their own folder; other files in it are removed.

    Args:
        replay: the replay, which may be written to while it is saved.
        folder: the folder, made by the first save.
    """

    def __init__(self, replay: StepReplay, folder: Path):
        self.replay, self.folder = replay, folder
        self._chunks: list[Chunk] = []
        self._saved = [0] * replay.layout.segments  # rows up to which each segment has been saved

    def save(self, rows: Sequence[int] | None = None) -> list[int]:
        """Saves new rows; returns the number of rows of each segment, with which `load` restores this state.

        Raises:
            StorageError: a file cannot be written, for instance because the disk is full; earlier saves are still
                complete.
        """
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            written: list[int] = self.replay.arrays["written"].tolist() if rows is None else list(rows)
            chunks = list(self._chunks)
            for segment, high in enumerate(written):
                chunks += self._save_segment(segment, high)
            # files of the previous save are kept as well
            steps, saved = self.replay.layout.steps, self._saved
            chunks = [chunk for chunk in chunks if chunk.high > saved[chunk.segment] - steps]
            manifest = {
                "format": FORMAT,
                "arrays": _described(self.replay),
                "written": written,
                "chunks": [astuple(chunk) for chunk in chunks],
            }
            flush(self.folder)
            with replacing(self.folder / MANIFEST) as temporary:
                temporary.write_text(json.dumps(manifest))
                flush(temporary)
            flush(self.folder)
            self._chunks, self._saved = chunks, written
            self._remove_unlisted()
            return written

    def load(self, written: Sequence[int] | None = None) -> None:
        """Restores a replay to which nothing has been written yet.

        Raises:
            StateError: nothing was saved, a file is damaged, or the replay has another shape.
        """
        try:
            manifest = json.loads(files.read(self.folder / MANIFEST))
            if manifest["format"] != FORMAT:
                raise StateError(f"the replay in {self.folder} is of another version")
            if manifest["arrays"] != _described(self.replay):
                raise StateError(f"the replay in {self.folder} is of another task, size, or number of environments")
            chunks = [Chunk(*chunk) for chunk in manifest["chunks"]]
            if any(chunk.name != Path(chunk.name).name for chunk in chunks):
                raise StateError(f"the replay in {self.folder} names files of other folders")
            rows: list[int] = list(manifest["written"] if written is None else written)
            self._chunks = self._restore(chunks, rows)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError, SafetensorError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the replay in {self.folder} cannot be read: {error}") from error
        self._saved = rows

    def load_or_say(self, written: Sequence[int] | None, steps: int) -> str | None:
        """Restores a replay as `load`, but returns a message instead of raising an error.

        Args:
            written: the result of `save`, as a checkpoint holds it; None if it holds none.
            steps: number of steps before the first update from an empty replay.

        Returns:
            A message that the replay is empty, with the reason; None if the replay is restored.
        """
        reason = "the checkpoint has none, as with save_replay=False"
        if written is not None:
            try:
                return self.load(written)
            except StateError as error:
                reason = str(error)
        return f"the run continues with an empty replay ({reason}): {steps:,} steps come before its next update"

    def _restore(self, chunks: list[Chunk], written: list[int]) -> list[Chunk]:
        arrays, steps, kept, begins = self.replay.arrays, self.replay.layout.steps, [], list(written)
        for segment, end in enumerate(written):
            for chunk in sorted((c for c in chunks if c.segment == segment), key=lambda c: c.low, reverse=True):
                low, high = max(chunk.low, end - steps), min(chunk.high, end)
                if low >= high:
                    continue
                if high != begins[segment]:  # the rows between them were overwritten before they were saved
                    break
                places = np.arange(low, high) % steps
                for name, rows in load_file(files.regular(self.folder / chunk.name)).items():
                    arrays[name][places, segment] = rows[low - chunk.low : high - chunk.low]
                begins[segment] = low
                kept.append(Chunk(segment, chunk.low, high, chunk.name))
        arrays["begin"][:], arrays["written"][:] = begins, written
        return kept

    def _save_segment(self, segment: int, high: int) -> list[Chunk]:
        """Writes the new rows of a segment, oldest first, before their writer overwrites them."""
        steps, arrays = self.replay.layout.steps, self.replay.arrays
        names = [name for name, array in arrays.items() if array.ndim > 1]
        size = sum(arrays[name][0, segment].nbytes for name in names)
        rows = max(1, BYTES // size)
        low, chunks = self._saved[segment], []
        while low < high:
            if (whole := self.replay.whole_rows(steps // MARGIN)[segment]) > low:
                low, chunks = whole, []  # this is the first save of a full ring, or long after the last save
                continue
            chunk = self._name(segment, low, min(high, low + rows))
            places = np.arange(chunk.low, chunk.high) % steps
            tensors = {name: arrays[name][places, segment] for name in names}
            if self.replay.whole_rows()[segment] <= low:  # the writer has not overwritten them meanwhile
                with replacing(self.folder / chunk.name) as temporary:
                    save_file(tensors, temporary)
                    flush(temporary)
                chunks.append(chunk)
                low = chunk.high
        return chunks

    def _name(self, segment: int, low: int, high: int) -> Chunk:
        # the name is unique, as files in an older manifest must never change
        return Chunk(segment, low, high, f"{segment:03d}-{low:012d}-{high:012d}-{secrets.token_hex(4)}.safetensors")

    def _remove_unlisted(self) -> None:
        """Removes files that no manifest lists: those of overwritten rows, and those of interrupted saves."""
        named = {MANIFEST, *(chunk.name for chunk in self._chunks)}
        for file in self.folder.iterdir():
            if file.name not in named:
                file.unlink()


def _described(replay: StepReplay) -> dict[str, list]:
    return {name: [list(array.shape), array.dtype.str] for name, array in replay.arrays.items()}

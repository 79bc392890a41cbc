"""The newest weights of a run, in ``live.safetensors``, for pages that show the run.

A page that shows the agent touches the file ``watched`` every second. The run writes its networks, at most once a
second, only while that file is recent; otherwise it only reads the file's time from time to time.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from headrace.errors import StateError
from headrace.train.runs import files
from headrace.train.runs.files import replacing

POLL = 0.25  # seconds between checks whether a page shows the run
FRESH = 5.0  # seconds for which `watched` is recent after a touch
PAUSE = 1.0  # minimum time between two writes, in seconds
SHARE = 0.005  # the largest share of the time that writing may take
STEP = "step"
MOST = 1 << 32  # bytes of a file of networks


class LiveWeights:
    """A writer of a run's networks while a page shows the run; errors of the file system are ignored.

    Args:
        watched: the file whose modification time is the last time at which a page showed the run.
    """

    def __init__(self, file: Path, watched: Path):
        self.file, self._watched = file, watched
        self._look = self._due = 0.0

    def write_if_watched(self, model: Callable[[], Mapping[str, Tensor]], step: int) -> None:
        """Writes the tensors of ``model()``, and the agent steps, if a page shows the run and a write is due."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + POLL
        watched = False
        with contextlib.suppress(OSError):
            watched = now >= self._due and abs(time.time() - self._watched.stat().st_mtime) < FRESH
        if watched:
            write_live(self.file, model(), step)
            self._due = now + max(PAUSE, (time.monotonic() - now) / SHARE)

    def close(self) -> None:
        """Removes the file, as the last checkpoint has the newest weights."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)


def write_live(file: Path, model: Mapping[str, Tensor], step: int) -> None:
    """Writes networks atomically; if the disk is full, the file stays unchanged."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.items()}
    with contextlib.suppress(OSError, SafetensorError), replacing(file) as temporary:
        temporary.write_bytes(save(tensors, {STEP: str(step)}))


def read_live(file: Path) -> tuple[dict[str, Tensor], int] | None:
    """Returns the networks and the agent steps of a file; None if there is no file.

    Raises:
        StateError: the file is damaged.
    """
    try:
        content = files.read(file, MOST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{file} cannot be read: {error.strerror}") from error
    try:
        size = int.from_bytes(content[:8], "little")
        return load(content), int(json.loads(content[8 : 8 + size])["__metadata__"][STEP])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"{file} cannot be read: {error}") from error

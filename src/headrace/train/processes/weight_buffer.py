"""How weights travel from one process to many: nobody waits, and nobody sees half of them.

Versions alternate between two places, so that writing one leaves the last whole one alone. A place is marked
while it is written; a reader looks at the mark before and after it copies, and takes nothing that changed meanwhile.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.executors.processes.shared import Fence, SharedArrays

ATTEMPTS = 100
WRITING = -1


class WeightBuffer:
    """The newest of one writer's vectors, for any number of readers; each process holds its own copy of this object.

    Args:
        size: elements of the vector, P.
        extras: elements of a float64 vector that goes with it, E: a normaliser's statistics and the like.
    """

    def __init__(self, size: int, extras: int = 0):
        dtypes = {"vectors": np.dtype(np.float32), "extras": np.dtype(np.float64), "versions": np.dtype(np.int64)}
        shapes = {"vectors": (2, size), "extras": (2, extras), "versions": (3,)}
        self._open(SharedArrays({name: (shape, dtypes[name]) for name, shape in shapes.items()}))

    def _open(self, arrays: SharedArrays) -> None:
        self._arrays = arrays
        self._vectors, self._extras = torch.from_numpy(arrays["vectors"]), torch.from_numpy(arrays["extras"])
        self._versions = arrays["versions"]  # of each place, and the newest
        self._copies = torch.zeros_like(self._vectors[0]), torch.zeros_like(self._extras[0])
        self._nothing = torch.zeros(0, dtype=torch.float64)
        self._seen, self._fence = 0, Fence()

    def __getstate__(self) -> dict[str, SharedArrays]:
        return {"arrays": self._arrays}

    def __setstate__(self, state: dict[str, SharedArrays]) -> None:
        self._open(state["arrays"])

    @property
    def version(self) -> int:
        """The newest version; 0 before the first, then one more with each."""
        return int(self._versions[2])

    def publish(self, vector: Tensor, extras: Tensor | None = None) -> int:
        """Make a vector, float32[P] on any device, the newest, with its extras, float64[E]; returns its version.

        A writer that is killed at it leaves the last version whole, and its successor goes on from there.
        """
        version = self.version + 1
        place = version % 2
        self._versions[place] = WRITING
        self._fence()
        _fill(self._vectors[place], vector, "vector")
        _fill(self._extras[place], self._nothing if extras is None else extras, "extras")
        self._fence()
        self._versions[place] = version
        self._fence()
        self._versions[2] = version
        return version

    def read(self, into: Tensor, extras: Tensor | None = None) -> int | None:
        """Copy the newest vector into a tensor, float32[P], and its extras into another, and return the version.

        None, and nothing is written, if this object has read that version before or none is there yet; or
        if the writer is so much faster than this reader that it always came in between.
        """
        for _ in range(ATTEMPTS):
            version = self.version
            if version == self._seen:
                return None
            place = version % 2
            self._fence()
            if self._versions[place] != version:
                continue
            self._copies[0].copy_(self._vectors[place])
            self._copies[1].copy_(self._extras[place])
            self._fence()
            if self._versions[place] == version:
                _fill(into, self._copies[0], "vector")
                if extras is not None:
                    _fill(extras, self._copies[1], "extras")
                self._seen = version
                return version
        return None

    def close(self) -> None:
        """Let go of the memory."""
        nothing = self._copies[0][:0]
        self._vectors, self._extras = nothing, nothing  # which would hold it
        self._versions = np.zeros(3, np.int64)
        self._arrays.close()


def _fill(into: Tensor, values: Tensor, name: str) -> None:
    if into.shape != values.shape:
        raise OptionError(f"{name} must have {into.numel()} elements, not {list(values.shape)}")
    into.copy_(values)

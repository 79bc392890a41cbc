"""Publication of weights from one process to many without locks and without partial reads.

Versions alternate between two places, so that the last complete one stays intact during a write. Each place has the
number of its version, or a mark while it is being written. A reader compares the numbers before and after its copy, and
discards a copy that overlaps with a write.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.shared import Fence, SharedArrays

ATTEMPTS = 100
WRITING = -1


class WeightBuffer:
    """The newest vector of one writer, for any number of readers; each process holds its own copy of this object.

    Args:
        size: elements of the vector, P.
        extras: elements E of an accompanying float64 vector, such as a normaliser's statistics.
    """

    def __init__(self, size: int, extras: int = 0):
        dtypes = {"vectors": np.dtype(np.float32), "extras": np.dtype(np.float64), "versions": np.dtype(np.int64)}
        shapes = {"vectors": (2, size), "extras": (2, extras), "versions": (3,)}
        self._open(SharedArrays({name: (shape, dtypes[name]) for name, shape in shapes.items()}))

    def _open(self, arrays: SharedArrays) -> None:
        self._arrays = arrays
        self._vectors, self._extras = torch.from_numpy(arrays["vectors"]), torch.from_numpy(arrays["extras"])
        self._versions = arrays["versions"]  # the version in each place, and the newest
        self._copies = torch.zeros_like(self._vectors[0]), torch.zeros_like(self._extras[0])
        self._nothing = torch.zeros(0, dtype=torch.float64)
        self._seen, self._fence = 0, Fence()

    def __getstate__(self) -> dict[str, SharedArrays]:
        return {"arrays": self._arrays}

    def __setstate__(self, state: dict[str, SharedArrays]) -> None:
        self._open(state["arrays"])

    @property
    def sizes(self) -> tuple[int, int]:
        return self._copies[0].numel(), self._copies[1].numel()

    @property
    def version(self) -> int:
        """The number of the newest version, which increases by 1 with each; 0 before the first."""
        return int(self._versions[2])

    def go_on_from(self, version: int) -> None:
        """Numbers the first version after ``version``, up to which a resumed run's transitions know others."""
        self._versions[2] = max(self.version, version)

    def publish(self, vector: Tensor, extras: Tensor | None = None, version: int | None = None) -> int:
        """Publishes a vector, float32[P] on any device, with its extras, float64[E]; returns its version.

        ``version`` is the next one by default.

        A writer that is killed in this method leaves the previous version intact, from which its successor continues.
        """
        version = self.version + 1 if version is None else version
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
        """Copies the newest vector into ``into``, float32[P], and its extras into ``extras``; returns its version.

        Returns None, and copies nothing, if this object has read that version before, if there is none yet, or if a
        write overlapped with every attempt.
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
        nothing = self._copies[0][:0]
        self._vectors, self._extras = nothing, nothing  # as views would keep it mapped
        self._versions = np.zeros(3, np.int64)
        self._arrays.close()


def _fill(into: Tensor, values: Tensor, name: str) -> None:
    if into.shape != values.shape:
        raise OptionError(f"{name} must have {into.numel()} elements, not {list(values.shape)}")
    into.copy_(values)

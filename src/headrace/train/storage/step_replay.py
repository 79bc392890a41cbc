"""A replay of steps in the order in which they were taken, which many processes write and one reads in place.

Samplers write rows of environments (`headrace.train.storage.writer`), each into its own segment of a ring, and
never wait. The learner draws rows that begin a transition, all with equal probability, and gathers them. The next
observation of a transition is in the next row, so that each observation is stored once, and each image once for all of
its stacks.

There are no locks. A row can be read once its segment's cursor has passed it. Rows that will soon be overwritten are
not drawn. The cursors are read again after the rows, and rows that were overwritten meanwhile are replaced by others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym
import torch
from torch import Tensor

from headrace.errors import OptionError, SequenceError
from headrace.pool.shared import Fence, SharedArrays
from headrace.train.storage.layout import FIRST, StepLayout
from headrace.train.storage.reader import StepReader
from headrace.train.storage.transitions import Transitions
from headrace.train.storage.writer import StepWriter

MARGIN = 32  # the oldest 1/MARGIN of the rows is not drawn
SPARE = 16  # number of candidates drawn beyond the number that is expected to suffice
ATTEMPTS = 20  # attempts to find rows, as writers may overwrite them while this process is not scheduled


class Staleness(NamedTuple):
    """The age of transitions that were read, int64[B] each.

    Attributes:
        steps: number of rows that a transition's segment has published since.
        versions: number of versions between the weights that acted and the newest.
    """

    steps: Tensor
    versions: Tensor


class StepReplay:
    """The last T steps of S segments of N environments; see `StepLayout`.

    A process that receives this object as an argument shares the replay.

    Args:
        observation, action: spaces of one environment: `Box` or `Discrete`.
        n_step: number of steps of a transition; fewer at an episode's end or where a segment was cut.
        gamma: discount per step.
        frame_stack: number of newest images in an input.
        masks: elements of an action mask, K; 0 without masks.
        wide: whether observations are stored as float64 rather than float32.

    Attributes:
        numbers: the numbers of the transitions that were sampled last, int64[B].

    Raises:
        OptionError: T is too small for n steps with stacked images, or a space is of another kind.
    """

    numbers = torch.zeros(0, dtype=torch.int64)

    def __init__(
        self,
        observation: gym.Space,
        action: gym.Space,
        segments: int,
        steps: int,
        envs: int,
        n_step: int = 1,
        gamma: float = 0.99,
        frame_stack: int = 1,
        masks: int = 0,
        wide: bool = False,
    ):
        self.layout = StepLayout(observation, action, segments, steps, envs, frame_stack, masks, wide)
        self.n_step, self.gamma = n_step, gamma
        least = n_step + frame_stack + 3
        if n_step < 1 or steps - steps // MARGIN < least:
            raise OptionError(f"n_step={n_step} must be at least 1, and steps={steps} more than {least}")
        self._open(SharedArrays(self.layout.fields))

    def _open(self, arrays: SharedArrays) -> None:
        layout = self.layout
        self.arrays, self._fence = arrays, Fence()
        self._flags = torch.from_numpy(arrays["flags"]).flatten()
        self._written, self._gaps = arrays["written"], arrays["gaps"]
        tensors = {name: torch.from_numpy(arrays[name]) for name in StepReader.NEEDED if name in arrays}
        self._gather = StepReader(layout, tensors, self.n_step, self.gamma)

    def __getstate__(self) -> dict:
        return {name: getattr(self, name) for name in ("layout", "n_step", "gamma", "arrays")}

    def __setstate__(self, state: dict) -> None:
        for name in ("layout", "n_step", "gamma"):
            setattr(self, name, state[name])
        self._open(state["arrays"])

    def writer(self, index: int) -> StepWriter:
        return StepWriter(self.layout, self.arrays, index)

    # -- rows and transitions --------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """The number of environment steps published since the beginning."""
        written = self._written.tolist()
        return sum(self._transitions(s, 0, w - 1) for s, w in enumerate(written) if w)

    @property
    def held(self) -> int:
        return sum(self._transitions(s, low, high) for s, (low, high) in enumerate(self.ranges()))

    def _transitions(self, segment: int, low: int, high: int) -> int:
        """Returns the number of transitions that start in rows [low, high) of a segment; row ``high`` is published."""
        if low == high:
            return 0
        gaps, steps = self._gaps, self.layout.steps
        gone = int(gaps[low % steps, segment]) if low else 0
        return (high - low) * self.layout.envs - int(gaps[high % steps, segment]) + gone

    def whole_rows(self, margin: int = 0) -> list[int]:
        """Returns for each segment the first row that stays intact while its writer publishes ``margin`` more rows.

        The row after the newest is being written, and the row after that may already contain an observation.
        """
        arrays, spare = self.arrays, margin + 2 - self.layout.steps
        return [
            max(begin, written + spare)
            for begin, written in zip(arrays["begin"].tolist(), arrays["written"].tolist(), strict=True)
        ]

    def _whole(self, margin: int = 0) -> list[int]:
        """Returns the first rows of `whole_rows`, but of rows whose stacked images are intact as well."""
        return [row and row + self.layout.frame_stack - 1 for row in self.whole_rows(margin)]

    def ranges(self) -> list[tuple[int, int]]:
        """Returns the rows [low, high) of each segment from which transitions may be drawn."""
        written = self._written.tolist()
        lows = self._whole(self.layout.steps // MARGIN)
        return [(low, max(low, rows - self.n_step)) for low, rows in zip(lows, written, strict=True)]

    # -- drawing ---------------------------------------------------------------------------------

    def sample(self, size: int, generator: torch.Generator) -> Transitions:
        """Returns ``size`` transitions, drawn uniformly from those held, as `read` does."""
        self.numbers = self.draw((size,), generator)
        return self.read(self.numbers)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Returns numbers of transitions for `read`, int64 of this shape, drawn uniformly from those held.

        Raises:
            SequenceError: there are no transitions yet.
        """
        self._generator = generator
        for _ in range(ATTEMPTS):
            ranges = self.ranges()
            held = sum(self._transitions(s, low, high) for s, (low, high) in enumerate(ranges))
            if held > 0:
                break
        else:
            raise SequenceError("there is nothing to draw yet: wait until `held` is more than 0")
        counts = [(high - low) * self.layout.envs for low, high in ranges]
        wanted, share = math.prod(shape), held / sum(counts)
        found: list[Tensor] = []
        # rows in which no transition starts are rejected; the remaining ones are still independent uniform draws
        while wanted > 0:
            candidates = self._candidates(int(wanted / share * 1.05) + SPARE, ranges, counts, generator)
            good = candidates[self.leads_on(candidates)][:wanted]
            found.append(good)
            wanted -= len(good)
        return (found[0] if len(found) == 1 else torch.cat(found)).view(shape)

    def leads_on(self, numbers: Tensor) -> Tensor:
        """Returns whether a transition starts in each of these rows, whose next rows are published; bool, same shape.

        No transition starts in a row before the first row of an episode: it is the last row of an episode, or of a
        writer that was killed.
        """
        after = (numbers + self.layout.stride).remainder_(self.layout.size)
        return self._flags.index_select(0, after) & FIRST == 0

    def _candidates(self, count: int, ranges: list, counts: list[int], generator: torch.Generator) -> Tensor:
        """Returns the numbers, int64[count], of rows within some ranges, all with equal probability."""
        envs, stride = self.layout.envs, self.layout.stride
        chance = torch.empty(count, dtype=torch.int64).random_(generator=generator).remainder_(sum(counts))
        if len(counts) == 1:  # rows of a single segment are contiguous
            return chance.add_(ranges[0][0] * envs)
        ends = torch.tensor(counts).cumsum(0)
        segments = torch.searchsorted(ends, chance, right=True)
        begins = [low * stride + s * envs for s, (low, _) in enumerate(ranges)]
        within = chance - (ends - torch.tensor(counts)).index_select(0, segments)
        rows = within // envs
        return within.add_(rows, alpha=stride - envs).add_(torch.tensor(begins).index_select(0, segments))

    # -- reading ---------------------------------------------------------------------------------

    def read(self, numbers: Tensor, draw: Callable[[int], Tensor] | None = None) -> Transitions:
        """Returns the transitions with these numbers, int64[B].

        Transitions that have been overwritten since they were drawn are replaced by others, also in ``numbers``.

        Args:
            numbers: numbers that `draw` returned.
            draw: returns further numbers, as many as its argument; by default `draw` of this object.

        Returns:
            Transitions in memory that the next `read` of the same number overwrites: ``inputs`` and
            ``next_observations`` float32[B, D], int64[B] for a `Discrete`, or uint8[B, k · C, H, W]; ``actions``
            float32[B, A] or int64[B]; ``rewards``, the n-step sums, and ``discounts``, γ to the number of steps, or 0
            after a termination, float32[B]; ``masks`` of ``next_observations``, uint8[B, K], or None.
        """
        redraw = draw or (lambda count: self.draw((count,), self._generator))
        while True:
            transitions = self._gather(numbers)
            self._fence()
            lost = self.lost(numbers)
            if lost is None:
                return transitions
            numbers[lost] = redraw(int(lost.sum()))

    def staleness(self, numbers: Tensor, version: int) -> Staleness:
        """Returns the age of transitions with these numbers, int64[B], if the newest weights have this version."""
        segments, rows = self._segments(numbers), numbers // self.layout.stride
        versions = torch.from_numpy(self.arrays["version"])[rows % self.layout.steps, segments]
        return Staleness(self.rows_since(numbers), version - versions.to(torch.int64))

    def rows_since(self, numbers: Tensor) -> Tensor:
        """Returns the number of rows published since the rows with these numbers, int64[B]."""
        newest = torch.from_numpy(self._written.copy()).index_select(0, self._segments(numbers)) - 1
        return newest - numbers // self.layout.stride

    def _segments(self, numbers: Tensor) -> Tensor:
        return numbers.remainder(self.layout.stride) // self.layout.envs

    def lost(self, numbers: Tensor) -> Tensor | None:
        """Returns whether the row of each of these numbers has been overwritten, bool[B]; None if none has."""
        stride, envs = self.layout.stride, self.layout.envs
        oldest = [row * stride for row in self._whole()]
        if not any(oldest):
            return None
        if len(oldest) == 1:
            lost = numbers < oldest[0]
        else:
            lost = numbers < torch.tensor(oldest).index_select(0, numbers.remainder(stride).floor_divide_(envs))
        return lost if lost.any() else None

"""The search for the size of a run: one number after the other is doubled, as long as it pays.

Every size is measured by training with it (`headrace.train.tuning.measure`). What pays, and what a number may be, is a
subclass's: `headrace.train.tuning.tune` searches for runs with workers, `headrace.train.tuning.scale` for those that
collect and learn in turn.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.errors import HeadraceError
from headrace.train.tuning.measure import Probe, Size

GAIN = 1.05  # what counts as growth, and 1 / GAIN as no fall
NEAR = 1.2  # who misses it by less is measured again: others use the machine, too
LUCK = 3  # measurements of a size at most

Better = Callable[[Probe, Probe, float], str]
"""says why one probe is not better than another by a factor; nothing if it is"""


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes:
        best: the size to train with.
        probes: all that were measured, in order.
        ended: for every number that was varied, why it went no further.
        remembered: whether it was found earlier.
    """

    best: Probe
    probes: tuple[Probe, ...]
    ended: tuple[str, ...]
    remembered: bool = dataclasses.field(default=False, kw_only=True)


class Search(ABC):
    """Doubles one number after the other, as long as it pays.

    Args:
        measure: answers what a size does.
        show: called with every probe as it is made.
        keep: names of numbers that are not varied.
        limit: seconds after which no further probe is begun.
    """

    FACTORS: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    """by what a number is multiplied, where not by 2 alone: by the second factor where the first does not help"""
    WORDS: ClassVar[Mapping[str, str]]
    """what is varied, in words"""
    PLAIN: ClassVar[str] = ""
    """a reason to go no further that is the same for all numbers"""

    def __init__(
        self,
        measure: Callable[[Size], Probe],
        show: Callable[[Probe], object] | None = None,
        keep: Collection[str] = (),
        limit: float = math.inf,
    ):
        self.limit, self._kept = limit, set(keep)
        self._measure, self._show = measure, show
        self._probes: list[Probe] = []
        self._taken: dict[Size, list[Probe]] = {}
        self._known: dict[Size, Probe] = {}
        self._ended: dict[str, str] = {}
        self._over = ""  # why the whole search ends early
        self._began = time.monotonic()

    @abstractmethod
    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        """Why a number may not be as large, or need not; nothing if it may."""

    @abstractmethod
    def _refuse(self, probe: Probe) -> None:
        """Raises an error that says why not even the first size can be trained with."""

    def _with(self, size: Size, name: str, value: int) -> Size:
        """A size with another number."""
        return dataclasses.replace(size, **{name: value})

    def _rival(self, best: Size, better: Better) -> Size:
        """What a size that misses by little is measured in turns with."""
        return best

    def _climb(self, best: Probe, names: tuple[str, ...], better: Better) -> Probe:
        """Varies these numbers in turn, until none of them helps."""
        before = None
        while before != best:
            before = best
            for name in names:
                best = self._grow(best, name, better)
        return best

    def _grow(self, best: Probe, name: str, better: Better) -> Probe:
        """Multiplies a number as long as it helps, by 2 or, where that does not, by what `FACTORS` has beside it."""
        factors = self.FACTORS.get(name, (2.0,))
        tries = list(factors)
        while tries and not self._over and name not in self._kept:
            factor, value = tries.pop(0), getattr(best.size, name)
            larger = int(value * factor)
            why, probe = self._forbidden(best, name, larger) if larger > value else "nothing is in between", best
            if not why:
                gain = GAIN ** max(1.0, math.log2(factor))
                measured = self._measured(self._with(best.size, name, larger), best, better, gain)
                if measured is None:
                    break
                probe, best = measured, self._known[best.size]
                why = measured.note or better(best, measured, gain)
            if not why:
                best, tries = probe, list(factors)
            elif factor == factors[0]:
                self._ended[name] = why if why == self.PLAIN else f"{self.WORDS[name].format(f'{larger:,}')}: {why}"
        return best

    def _measured(self, size: Size, best: Probe, better: Better, gain: float) -> Probe | None:
        """What is known of a size; None when the time is over.

        One that misses by little is measured again, in turns with what it is compared with: it may have been
        unlucky, and the other lucky, as whatever is the best of many measurements is likely to have been.
        """
        if size in self._known:
            return self._known[size]
        if not self._time_for_more():
            self._over = f"the {self.limit:.0f} s for the search are over"
            return None
        probe = self._probe(size)

        def missed(scale: float = 1.0) -> bool:
            return not probe.note and bool(better(self._known[best.size], _scaled(probe, scale), gain))

        while missed() and not missed(NEAR) and len(self._taken[size]) < LUCK and self._time_for_more():
            rival = self._rival(best.size, better)
            if rival != size and len(self._taken[rival]) < LUCK:
                self._probe(rival)
            probe = self._probe(size)
        return probe

    def _time_for_more(self) -> bool:
        return time.monotonic() - self._began + self._took <= self.limit

    def _probe(self, size: Size) -> Probe:
        """What is known after one more measurement; what a size cannot do is its note, unless it is the first."""
        began = time.monotonic()
        try:
            probe = self._measure(size)
        except HeadraceError as error:
            if not self._probes:
                raise
            probe = Probe(size, note=str(error).strip().splitlines()[-1])
        self._took = time.monotonic() - began
        self._probes.append(probe)
        self._taken.setdefault(size, []).append(probe)
        self._known[size] = known = _middle(self._taken[size])
        if self._show is not None:
            self._show(probe)
        if len(self._probes) == 1:
            self._refuse(probe)
        return known

    def _reasons(self) -> tuple[str, ...]:
        """Why the search went no further."""
        return (self._over,) if self._over else tuple(dict.fromkeys(self._ended.values()))


def growth(before: float, now: float) -> float:
    """By which factor a rate has grown."""
    return now / before if before else float("inf") if now else 1.0


def change(factor: float) -> str:
    """A factor that is not large enough, in words."""
    return f"grow by {min(factor, 1000) - 1:.0%} only" if factor >= 1 else f"fall by {1 - factor:.0%}"


def _scaled(probe: Probe, factor: float) -> Probe:
    return dataclasses.replace(probe, sampling=probe.sampling * factor, updates=probe.updates * factor)


def _middle(probes: list[Probe]) -> Probe:
    """The medians of several measurements of a size; the last one's note, if it has one."""
    last = probes[-1]
    if last.note:
        return last
    rates = {name: statistics.median(getattr(probe, name) for probe in probes) for name in ("sampling", "updates")}
    return dataclasses.replace(last, **rates)

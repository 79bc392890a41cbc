"""The base of searches for the size of a run: one number after the other is doubled, as long as training gets faster.

Every size is measured by training with it (`headrace.studies.tuning.measure`). Subclasses define the comparison of
sizes and the limits of each number: `headrace.studies.tuning.tune` for runs with workers,
`headrace.studies.tuning.scale` for runs that collect and learn in turn.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.errors import HeadraceError
from headrace.studies.tuning.measure import Probe, Size
from headrace.train.config.fields import settings_of
from headrace.train.config.settings import Config

GAIN = 1.05  # minimum factor that counts as an increase; a decrease by less than this factor is ignored
NEAR = 1.2  # a size that misses the increase by less than this factor is measured again, as other programs run
MOST_MEASUREMENTS = 3  # maximum number of measurements of one size

Better = Callable[[Probe, Probe, float], str]
"""returns the reason, as text, why the second probe is not better than the first by a factor; empty if it is"""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes:
        ended: for each number that was varied, the reason why it was not increased further.
        remembered: whether the result is from the cache.
    """

    best: Probe
    probes: tuple[Probe, ...]
    ended: tuple[str, ...]
    remembered: bool = dataclasses.field(default=False, kw_only=True)


class Search(ABC):
    """A search that doubles one number after the other, as long as training gets faster.

    Args:
        show: called with each probe.
        keep: names of numbers that are not varied.
        limit: time after which no further probe is begun, in seconds.
    """

    FACTORS: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    """the factors of a number, by default only 2; the second is tried if the first does not help"""
    WORDS: ClassVar[Mapping[str, str]]
    """descriptions of the numbers, with {} for the value"""
    PLAIN: ClassVar[str] = ""
    """a reason to stop that is reported without the number that was varied"""

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
        self._over = ""  # the reason why the whole search ends early
        self._began = time.monotonic()

    @abstractmethod
    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        """Returns the reason, as text, why a number must not, or need not, be as large; empty if it may."""

    @abstractmethod
    def _refuse(self, probe: Probe) -> None:
        """Raises an error if training with the first size is impossible."""

    def _with(self, size: Size, name: str, value: int) -> Size:
        return dataclasses.replace(size, **{name: value})

    def _rival(self, best: Size, better: Better) -> Size:
        """Returns the size that is measured in turns with one that narrowly misses the required increase."""
        return best

    def _climb(self, best: Probe, names: tuple[str, ...], better: Better) -> Probe:
        """Varies the numbers of these names in turn, until none of them helps; returns the best probe."""
        before = None
        while before != best:
            before = best
            for name in names:
                best = self._grow(best, name, better)
        return best

    def _grow(self, best: Probe, name: str, better: Better) -> Probe:
        """Multiplies a number by its `FACTORS`, or 2, as long as the result is better; returns the best probe."""
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
        """Returns the medians of a size's measurements; None if the time is over.

        A size that narrowly misses the required increase is measured again, in turns with the size that it is compared
        with, as the best of many measurements is likely to be one with little disturbance by other programs.
        """
        if size in self._known:
            return self._known[size]
        if not self._time_for_more():
            self._over = f"the {self.limit:.0f} s for the search are over"
            return None
        probe = self._probe(size)

        def missed(scale: float = 1.0) -> bool:
            return not probe.note and bool(better(self._known[best.size], _scaled(probe, scale), gain))

        while missed() and not missed(NEAR) and len(self._taken[size]) < MOST_MEASUREMENTS and self._time_for_more():
            rival = self._rival(best.size, better)
            if rival != size and len(self._taken[rival]) < MOST_MEASUREMENTS:
                self._probe(rival)
            probe = self._probe(size)
        return probe

    def _time_for_more(self) -> bool:
        return time.monotonic() - self._began + self._took <= self.limit

    def _probe(self, size: Size) -> Probe:
        """Measures a size once more, and returns its medians; errors become a note, except for the first size."""
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
        return (self._over,) if self._over else tuple(dict.fromkeys(self._ended.values()))


def speed_settings(config: Config, without: Collection[str]) -> dict[str, Any]:
    """Returns the settings on which the speed of a run depends, name → value, for the key of a cached result.

    Args:
        without: names to leave out, such as those that a search varies.
    """
    values = dataclasses.asdict(config)
    return {
        name: values[name] for name, known in settings_of(type(config)).items() if known.speed and name not in without
    }


def growth(before: float, now: float) -> float:
    """Returns the factor by which a rate has increased."""
    return now / before if before else float("inf") if now else 1.0


def change(factor: float) -> str:
    return f"grow by {min(factor, 1000) - 1:.0%} only" if factor >= 1 else f"fall by {1 - factor:.0%}"


def _scaled(probe: Probe, factor: float) -> Probe:
    return dataclasses.replace(probe, sampling=probe.sampling * factor, updates=probe.updates * factor)


def _middle(probes: list[Probe]) -> Probe:
    """Returns the medians of several measurements of a size; the last one's note, if it has one."""
    last = probes[-1]
    if last.note:
        return last
    rates = {name: statistics.median(getattr(probe, name) for probe in probes) for name in ("sampling", "updates")}
    return dataclasses.replace(last, **rates)

"""Search for the numbers of threads and samplers with which a run with workers is fastest, by measurements.

First the learner's threads are doubled, as long as updates per second increase by 5 %; then samplers and a pool's
threads, as long as sampling gets faster and updates do not get slower. Samplers share the environments that the run
has, so that their number does not change what is learnt: results differ by rounding only. Of the sizes whose updates
per second are within 5 % of the highest, the best is the one that samples fastest. With a fixed replay ratio, sampling
counts only as far as updates can use it.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from headrace.errors import HeadraceError, OptionError
from headrace.machine import usable_cores
from headrace.studies.tuning.measure import Probe, Size
from headrace.train.settings.config import Config

SHARE = 0.1  # share of a run's expected time for a brief search
WORTHWHILE = 10.0  # minimum duration of a brief search, in seconds
GAIN = 1.05  # minimum factor that counts as an increase; a decrease by less than this factor is ignored
NEAR = 1.2  # a size that misses the increase by less than this factor is measured again, as other programs run
MOST_MEASUREMENTS = 3  # maximum number of measurements of one size
ENOUGH = "sampling is faster than the replay ratio can use"

Better = Callable[[Probe, Probe, float], str]
"""returns the reason, as text, why the second probe is not better than the first by a factor; empty if it is"""


def usable(config: Config, probe: Probe) -> float:
    """Returns the number of agent steps per second that a probe's updates can use; inf with a free replay ratio."""
    return math.inf if config.replay_ratio is None else probe.updates / config.replay_ratio


def best_of(config: Config, probes: Iterable[Probe]) -> Probe:
    """Returns the best probe, by the definition of this module; the first of equals."""
    measured = [probe for probe in probes if not probe.note]
    least = max(probe.updates for probe in measured) / GAIN
    good = [probe for probe in measured if probe.updates >= least]
    return max(good, key=lambda probe: min(probe.sampling, usable(config, probe)))


class Search:
    """A search that increases one number after the other, as long as training gets faster.

    Args:
        measure: trains with a size for a moment, and returns what it measured.
        limit: time after which no further probe is begun, in seconds.
        keep: names of numbers that are not varied.
        briefly: spend at most `SHARE` of the run's expected time.
        show: called with each probe.

    Attributes:
        probes: all measurements, in their order.
        over: the reason why the search ended before no number helped any more; empty if it did not.
    """

    FACTORS: ClassVar[Mapping[str, tuple[float, ...]]] = {"samplers": (2.0, 1.5)}
    """the factors of a number, by default only 2; the second is tried if the first does not help"""
    WORDS: ClassVar[Mapping[str, str]] = {
        "samplers": "{} samplers",
        "num_threads": "{} threads of each pool",
        "torch_threads": "{} threads of the learner",
    }
    """descriptions of the numbers, with {} for the value"""

    def __init__(
        self,
        config: Config,
        measure: Callable[[Size], Probe],
        limit: float = math.inf,
        keep: Collection[str] = (),
        briefly: bool = False,
        show: Callable[[Probe], object] | None = None,
    ):
        self.config, self.limit, self.probes, self.over = config, limit, list[Probe](), ""
        self._measure, self._briefly, self._show = measure, briefly, show
        self._kept = {*keep} | ({"torch_threads"} if config.device != "cpu" else set())
        self._envs = config.num_envs * max(config.samplers, 1)
        self._taken: dict[Size, list[Probe]] = {}
        self._known: dict[Size, Probe] = {}
        self._ended: dict[str, str] = {}
        self._began = time.monotonic()

    def run(self) -> Probe:
        """Searches until no rate increases any more, or the time is over; returns the best size's medians."""
        best = self._probe(self._first())
        if self._briefly:
            self._shorten(best)
        best = self._climb(best, ("torch_threads",), self._learns_more)
        self._climb(best, ("samplers", "num_threads"), self._samples_more)
        return best_of(self.config, self._known.values())

    def reasons(self) -> tuple[str, ...]:
        """Returns for each number that was varied the reason why it was not increased further."""
        return (self.over,) if self.over else tuple(dict.fromkeys(self._ended.values()))

    def _first(self) -> Size:
        config = self.config
        threads = config.num_threads if "num_threads" in self._kept else 1
        learning = config.torch_threads if "torch_threads" in self._kept else 1
        return Size(max(config.samplers, 1), config.num_envs, threads, learning)

    def _shorten(self, first: Probe) -> None:
        """Reduces the time limit to `SHARE` of the run's expected time."""
        speed = min(first.sampling, usable(self.config, first))
        run = self.config.total_steps / speed if speed else math.inf
        self.limit = min(self.limit, SHARE * run)
        if self.limit < WORTHWHILE:
            self.over = f"all {self.config.total_steps:,} steps take about {run:.0f} s: too short a run to tune for"

    def _climb(self, best: Probe, names: tuple[str, ...], better: Better) -> Probe:
        """Varies the numbers of these names in turn, until none of them helps; returns the best probe."""
        before = None
        while before != best:
            before = best
            for name in names:
                best = self._grow(best, name, better)
        return best

    def _grow(self, best: Probe, name: str, better: Better) -> Probe:
        """Multiplies a number by its factors as long as the result is better; returns the best probe."""
        factors = self.FACTORS.get(name, (2.0,))
        tries = list(factors)
        while tries and not self.over and name not in self._kept:
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
                self._ended[name] = why if why == ENOUGH else f"{self.WORDS[name].format(f'{larger:,}')}: {why}"
        return best

    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        """Returns the reason, as text, why a number must not, or need not, be as large; empty if it may."""
        cores = usable_cores()
        if name != "torch_threads" and best.sampling >= GAIN * usable(self.config, best):
            return ENOUGH
        larger = self._with(best.size, name, value)
        # a cluster checks the number of samplers itself
        samplers = int(name != "samplers") if self.config.ray else larger.samplers
        if (value if name == "torch_threads" else samplers * max(1, larger.num_threads)) > cores:
            return f"there are {cores} cores"
        if name == "samplers" and self._envs % value:
            return f"they could not share {self._envs} environments evenly"
        if name == "num_threads" and value > best.size.num_envs:
            return f"there are {best.size.num_envs} environments"
        return ""

    def _with(self, size: Size, name: str, value: int) -> Size:
        """Returns a size with one number replaced; samplers share the environments."""
        changed = dataclasses.replace(size, **{name: value})
        envs = self._envs // changed.samplers
        return dataclasses.replace(changed, num_envs=envs, num_threads=min(changed.num_threads, envs))

    def _learns_more(self, best: Probe, probe: Probe, gain: float) -> str:
        grown = _growth(best.updates, probe.updates)
        return "" if grown >= gain else f"updates a second {_change(grown)}"

    def _samples_more(self, best: Probe, probe: Probe, gain: float) -> str:
        most = self._fastest()
        if probe.updates * GAIN < most.updates:
            return f"updates a second {_change(_growth(most.updates, probe.updates))}"
        grown = _growth(best.sampling, probe.sampling)
        return "" if grown >= gain else f"steps a second {_change(grown)}"

    def _fastest(self) -> Probe:
        return max(self._known.values(), key=lambda probe: probe.updates)

    def _measured(self, size: Size, best: Probe, better: Better, gain: float) -> Probe | None:
        """Returns the medians of a size's measurements; None if the time is over.

        A size that narrowly misses the required increase is measured again, in turns with the size that it is compared
        with, as the best of many measurements is likely to be one with little disturbance by other programs.
        """
        if size in self._known:
            return self._known[size]
        if not self._time_for_more():
            self.over = f"the {self.limit:.0f} s for the search are over"
            return None
        probe = self._probe(size)

        def missed(scale: float = 1.0) -> bool:
            scaled = dataclasses.replace(probe, sampling=probe.sampling * scale, updates=probe.updates * scale)
            return not probe.note and bool(better(self._known[best.size], scaled, gain))

        while missed() and not missed(NEAR) and len(self._taken[size]) < MOST_MEASUREMENTS and self._time_for_more():
            rival = best.size if better == self._learns_more else self._fastest().size
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
            if not self.probes:
                raise
            probe = Probe(size, note=str(error).strip().splitlines()[-1])
        self._took = time.monotonic() - began
        self.probes.append(probe)
        self._taken.setdefault(size, []).append(probe)
        self._known[size] = known = _middle(self._taken[size])
        if self._show is not None:
            self._show(probe)
        if len(self.probes) == 1 and probe.note:
            raise OptionError(f"no size can be trained with here: {probe.note}")
        return known


def _growth(before: float, now: float) -> float:
    """Returns the factor by which a rate has increased."""
    return now / before if before else math.inf if now else 1.0


def _change(factor: float) -> str:
    return f"grow by {min(factor, 1000) - 1:.0%} only" if factor >= 1 else f"fall by {1 - factor:.0%}"


def _middle(probes: list[Probe]) -> Probe:
    """Returns the medians of several measurements of a size; the last one's note, if it has one."""
    last = probes[-1]
    if last.note:
        return last
    rates = {name: statistics.median(getattr(probe, name) for probe in probes) for name in ("sampling", "updates")}
    return dataclasses.replace(last, **rates)

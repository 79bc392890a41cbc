"""How many samplers, environments and threads, and which minibatch: found by measuring runs with workers.

Best is, of the sizes whose update frame rate (samples a second that updates learn from) is within 5 % of the highest,
the one that samples fastest; with a fixed replay ratio, sampling faster than updates can use counts for nothing. So
the minibatch is doubled first, and the learner's threads, as long as the update frame rate grows by 5 %; then
environments, samplers and a pool's threads, as long as sampling does and the update frame rate stays. Every size is
measured by running it (`headrace.train.tuning.measure`), with nobody waiting, also where the replay ratio is fixed.

Two limits are none of speed. Minibatches grow no further than learning rates and replay ratio can follow without
harm (`headrace.train.config.batch_rule`), and environments no further than that each takes `STEPS_EACH` steps of
the run: whoever only sees beginnings of episodes learns little.

Minibatch and environments decide what is learnt, so that a search may be asked to leave them: samplers then share the
environments that there are, and threads are found as ever. Sums round otherwise then, and no more than that.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from headrace.errors import HeadraceError, OptionError
from headrace.machine import usable_cores
from headrace.train.config.batch_rule import follow_batch, largest_batch
from headrace.train.config.settings import Config
from headrace.train.config.uses import Player
from headrace.train.tuning.measure import Probe, Size

GAIN = 1.05  # what counts as growth, and 1 / GAIN as no fall
NEAR = 1.2  # who misses it by less is measured again: others use the machine, too
LUCK = 3  # measurements of a size at most
LIMIT = 50.0  # seconds of a search, before its last probe
SHARE = 0.1  # of a run's time, what may be spent on looking for its size
WORTHWHILE = 10.0  # seconds that a search has to have, so that it can find anything
FACTORS = {"minibatch_size": (2.0, 4.0), "num_envs": (2.0, 4.0), "samplers": (2.0, 1.5)}
"""by what a number is multiplied: by the second where the first does not help, as rates rise unevenly"""
STEPS_EACH = 1000
MOST_ENVS = 1 << 14  # of one sampler
ENOUGH = "sampling is faster than the replay ratio can use"
Scope = Literal["speed", "all"]
"""what may be chosen: only what decides nothing but the speed, or also minibatch and environments"""
BUSY = 0.15
"""of the cores: what other programs may take before a measurement says little"""
LEARNING = ("torch_threads", "minibatch_size")
SAMPLING = ("num_envs", "samplers", "num_threads")
FOLLOWS = ("learning_rate", "critic_learning_rate", "target_rate", "target_update", "replay_ratio", "schedules")
"""settings that follow the minibatch"""


@dataclass(frozen=True)
class Tuning:
    """What was found.

    Attributes:
        best: the size to train with.
        probes: all that were measured, in order.
        ended: for every number that was varied, why it went no further.
        limits: minibatch and environments that the run might have had at most.
        complete: whether the search came to its end.
        kept: whether it is remembered for the next time; what was measured on a busy machine is not.
        remembered: whether it was found earlier.
    """

    best: Probe
    probes: tuple[Probe, ...]
    ended: tuple[str, ...]
    limits: tuple[int, int]
    complete: bool = True
    kept: bool = True
    remembered: bool = False

    @property
    def disturbed(self) -> float:
        """Cores that other programs took meanwhile, where those are more than `BUSY` of all; else 0."""
        others = [probe.others for probe in self.probes if probe.others is not None]
        taken = statistics.median(others) if others else 0.0
        return taken if taken > BUSY * usable_cores() else 0.0

    def settings(self, config: Config) -> dict[str, Any]:
        """The fields of a `Config` that it changes, those that follow the minibatch included."""
        size = asdict(self.best.size)
        sized = dataclasses.replace(follow_batch(config, size.pop("minibatch_size")), **size)
        names = [name for name in (*size, "minibatch_size", *FOLLOWS) if Player(sized).uses(name)]
        return {name: getattr(sized, name) for name in names if getattr(sized, name) != getattr(config, name)}


def limits(config: Config, scope: Scope = "all") -> tuple[int, int]:
    """The largest minibatch, and the most environments of all samplers together."""
    envs = config.num_envs * max(config.samplers, 1)
    if scope == "speed":
        return config.minibatch_size, envs
    return largest_batch(config), max(envs, config.total_steps // STEPS_EACH)


def usable(config: Config, probe: Probe) -> float:
    """Agent steps a second that the updates of a probe can use; what goes beyond them waits."""
    ratio = follow_batch(config, probe.size.minibatch_size).replay_ratio
    return float("inf") if ratio is None else probe.updates / ratio


def best_of(config: Config, probes: Iterable[Probe]) -> Probe:
    """The best of what was measured, as the module says; the first of equals."""
    measured = [probe for probe in probes if not probe.note]
    least = max(probe.update_frames for probe in measured) / GAIN
    good = [probe for probe in measured if probe.update_frames >= least]
    return max(good, key=lambda probe: min(probe.sampling, usable(config, probe)))


class Search:
    """Doubling one number after the other, as long as it pays.

    Args:
        config, scope, limit, keep, briefly, show: as for `tune`.
        measure: answers what a size does.
    """

    def __init__(
        self,
        config: Config,
        measure: Callable[[Size], Probe],
        limit: float = LIMIT,
        keep: Collection[str] = (),
        briefly: bool = False,
        show: Callable[[Probe], object] | None = None,
        scope: Scope = "all",
    ):
        self.config, self.limit, self._scope = config, limit, scope
        self._measure, self._briefly, self._show = measure, briefly, show
        self._kept = set(keep)
        if batch_is_kept(config, keep):
            self._kept.add("minibatch_size")
        if scope == "speed":
            self._kept |= {"minibatch_size", "num_envs"}
        if config.device != "cpu":
            self._kept.add("torch_threads")
        self._probes: list[Probe] = []
        self._taken: dict[Size, list[Probe]] = {}
        self._known: dict[Size, Probe] = {}
        self._ended: dict[str, str] = {}
        self._largest, self._most_envs = limits(config, scope)
        self._over = ""

    def run(self) -> Tuning:
        """Measure until nothing grows any more, or the time is over."""
        self._began = time.monotonic()
        best = self._probe(self._first())
        if self._briefly:
            self._shorten(best)
        best = self._climb(best, LEARNING, self._learns_more)
        best = self._climb(best, SAMPLING, self._samples_more)
        words = (self._over,) if self._over else tuple(dict.fromkeys(self._ended.values()))
        best = best_of(self.config, self._known.values())
        return Tuning(best, tuple(self._probes), words, (self._largest, self._most_envs), not self._over)

    def _first(self) -> Size:
        config = self.config
        samplers = config.samplers if config.samplers > 0 else 1
        threads = config.num_threads if "num_threads" in self._kept else 1
        learning = config.torch_threads if "torch_threads" in self._kept else 1
        return Size(samplers, config.num_envs, threads, learning, config.minibatch_size)

    def _shorten(self, first: Probe) -> None:
        """Keep to a tenth of what the run will take."""
        speed = min(first.sampling, usable(self.config, first))
        run = self.config.total_steps / speed if speed else float("inf")
        self.limit = min(self.limit, SHARE * run)
        if self.limit < WORTHWHILE:
            self._over = f"all {self.config.total_steps:,} steps take about {run:.0f} s: too short a run to tune for"

    def _climb(self, best: Probe, names: tuple[str, ...], better: Callable[[Probe, Probe, float], str]) -> Probe:
        """Vary these numbers in turn, until none of them helps."""
        before = None
        while before != best:
            before = best
            for name in names:
                best = self._grow(best, name, better)
        return best

    def _grow(self, best: Probe, name: str, better: Callable[[Probe, Probe, float], str]) -> Probe:
        """Multiply a number as long as it helps, by 2 or, where that does not, by what `FACTORS` has beside it."""
        factors = FACTORS.get(name, (2.0,))
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
                self._ended[name] = why if why == ENOUGH else f"{_words(name, larger)}: {why}"
        return best

    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        """Why a number may not be as large, or need not; nothing if it may."""
        config, size, cores = self.config, best.size, usable_cores()
        if name in SAMPLING and best.sampling >= GAIN * usable(config, best):
            return ENOUGH
        if name == "minibatch_size" and value > self._largest:
            return "learning rates and replay ratio could not follow without harm"
        if name in ("torch_threads", "samplers") and value > cores:
            return f"there are {cores} cores"
        if name == "samplers" and self._scope == "speed" and self._most_envs % value:
            return f"they could not share {self._most_envs} environments evenly"
        if name == "num_threads" and value > min(cores, size.num_envs):
            return f"there are {cores} cores and {size.num_envs} environments"
        if name == "num_envs" and value * size.samplers > self._most_envs:
            return f"each environment would take fewer than {STEPS_EACH:,} steps of the run"
        if name == "num_envs" and value > MOST_ENVS:
            return "more are not tried"
        return ""

    def _with(self, size: Size, name: str, value: int) -> Size:
        """A size with another number; samplers that would have too many environments share as many as there may be."""
        changed = dataclasses.replace(size, **{name: value})
        envs = max(1, min(changed.num_envs, self._most_envs // changed.samplers))
        return dataclasses.replace(changed, num_envs=envs, num_threads=min(changed.num_threads, envs))

    def _learns_more(self, best: Probe, probe: Probe, gain: float) -> str:
        growth = _growth(best.update_frames, probe.update_frames)
        return "" if growth >= gain else f"update frames a second {_change(growth)}"

    def _samples_more(self, best: Probe, probe: Probe, gain: float) -> str:
        most = self._fastest()
        if probe.update_frames * GAIN < most.update_frames:
            return f"update frames a second {_change(_growth(most.update_frames, probe.update_frames))}"
        growth = _growth(best.sampling, probe.sampling)
        return "" if growth >= gain else f"steps a second {_change(growth)}"

    def _fastest(self) -> Probe:
        """What makes most update frames a second."""
        return max(self._known.values(), key=lambda probe: probe.update_frames)

    def _measured(
        self, size: Size, best: Probe, better: Callable[[Probe, Probe, float], str], gain: float
    ) -> Probe | None:
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
            rival = best.size if better == self._learns_more else self._fastest().size
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
        if probe.note and len(self._probes) == 1:
            raise OptionError(f"no size can be trained with here: {probe.note}")
        return known


def _scaled(probe: Probe, factor: float) -> Probe:
    return dataclasses.replace(probe, sampling=probe.sampling * factor, updates=probe.updates * factor)


def _middle(probes: list[Probe]) -> Probe:
    """The medians of several measurements of a size; the last one's note, if it has one."""
    last = probes[-1]
    if last.note:
        return last
    rates = {name: statistics.median(getattr(probe, name) for probe in probes) for name in ("sampling", "updates")}
    return dataclasses.replace(last, **rates)


def _growth(before: float, now: float) -> float:
    return now / before if before else float("inf") if now else 1.0


def _change(growth: float) -> str:
    return f"grow by {min(growth, 1000) - 1:.0%} only" if growth >= 1 else f"fall by {1 - growth:.0%}"


def _words(name: str, value: int) -> str:
    names = {
        "samplers": "{} samplers",
        "num_envs": "{} environments of each sampler",
        "num_threads": "{} threads of each pool",
        "torch_threads": "{} threads of the learner",
        "minibatch_size": "minibatches of {}",
    }
    return names[name].format(f"{value:,}")


def batch_is_kept(config: Config, keep: Collection[str]) -> bool:
    """Whether the minibatch, or what would have to follow it, was chosen by somebody."""
    follows = {"minibatch_size", *FOLLOWS} - ({"replay_ratio"} if config.replay_ratio is None else set())
    return not follows.isdisjoint(keep)

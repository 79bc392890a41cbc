"""How many samplers, environments and threads, and which minibatch, suit a run with workers on this machine.

Best is, of the sizes whose update frame rate (samples a second that updates learn from) is within 5 % of the highest,
the one that samples fastest; with a fixed replay ratio, sampling faster than updates can use counts for nothing. So
the minibatch is doubled first, and the learner's threads, as long as the update frame rate grows by 5 %; then
environments, samplers and a pool's threads, as long as sampling does and the update frame rate stays. Every size is
measured without any waiting, also where the replay ratio is fixed.

Two limits are none of speed. Minibatches grow no further than learning rates and replay ratio can follow without
harm (`headrace.train.config.batch_rule`), and environments no further than that each takes `STEPS_EACH` steps of
the run: an agent that sees only beginnings of episodes learns little.

Minibatch and environments decide what is learnt, so that a search may be asked to leave them: samplers then share the
environments that there are, and threads are found as ever. Sums round otherwise then, and no more than that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import headrace
from headrace.errors import OptionError
from headrace.machine import usable_cores
from headrace.pool.registry import build_task, family
from headrace.train.collect.setup import find_device
from headrace.train.config.batch_rule import follow_batch, largest_batch
from headrace.train.config.registry import algorithms, find_algorithm
from headrace.train.config.settings import Config
from headrace.train.config.uses import Player
from headrace.train.runners.checks import check_workers
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain
from headrace.train.tuning.measure import Probe, Size, measure
from headrace.train.tuning.search import GAIN, Better, Found, Search, change, growth

LIMIT = 50.0  # seconds of a search, before its last probe
LIMIT_ON_A_CLUSTER = 200.0  # where actors take seconds to begin
SHARE = 0.1  # of a run's time, what may be spent on looking for its size
WORTHWHILE = 10.0  # seconds that a search has to have, so that it can find anything
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
DECIDES = (
    "algo", "device", "env_options", "network", "hidden", "activation", "bf16", "compile", "graphs", "num_envs",
    "minibatch_size", "n_step", "prioritised", "replay_ratio", "matmul_precision", "actor_device",
    "critic_device", "ray",
)  # fmt: skip
"""settings that speed depends on, and those that are of this version: what was found holds for these"""


@dataclass(frozen=True)
class Tuning(Found):
    """What was found for a run with workers.

    Attributes:
        limits: minibatch and environments that the run might have had at most.
        complete: whether the search came to its end.
        kept: whether it is remembered for the next time; what was measured on a busy machine is not.
    """

    limits: tuple[int, int]
    complete: bool = True
    kept: bool = True

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

    def record(self) -> dict[str, Any]:
        """Returns this as an event of a run: ``text``, and ``data`` with the sizes probed and which was best."""
        best, size = self.best, self.best.size
        text = (
            f"{size.samplers} x {size.num_envs:,} environments, threads {size.num_threads}+{size.torch_threads}, "
            f"minibatches of {size.minibatch_size:,}: {best.sampling:,.0f} steps a second, "
            f"{best.update_frames:,.0f} samples learnt from per second"
        )
        probes = [asdict(probe) | {"update_frames": probe.update_frames} for probe in self.probes]
        data = {"best": asdict(size), "probes": probes, "ended": list(self.ended), "remembered": self.remembered}
        return {"text": text, "data": data}


def tunable(config: Config) -> bool:
    """Whether there is anything to tune: an algorithm with a replay, samplers apart, and a policy that learns."""
    return (
        find_algorithm(config.algo).capabilities.replay
        and config.samplers != 0
        and not (config.devices or config.frozen)
    )


def tune(
    config: Config,
    *,
    scope: Scope = "all",
    seconds: float = 1.0,
    limit: float = LIMIT,
    keep: Collection[str] = (),
    briefly: bool = False,
    again: bool = False,
    show: Callable[[Probe], object] | None = None,
) -> Tuning:
    """Finds the size for a configuration.

    Args:
        config: everything else; the minibatch and the environments that it has are where the search begins.
        scope: ``"speed"`` leaves the minibatch and the number of environments as they are, and so what is learnt.
        seconds: length of one measurement, after everything runs.
        limit: seconds after which no further probe is begun.
        keep: names of settings that are not to change, since they were chosen.
        briefly: spend no more than a tenth of the run's own time, and nothing on short runs.
        again: measure although it is known.
        show: called with every probe as it is made.

    Raises:
        OptionError: a setting is wrong, or there is nothing to tune.
        HeadraceError: not even the first size can be trained with, and why.
    """
    if not (0 < seconds < math.inf and limit > 0):
        raise OptionError(f"seconds={seconds} and limit={limit} must be above 0, and seconds finite")
    find_device(config.device)
    if not tunable(config):
        whose = ", ".join(name for name in algorithms() if find_algorithm(name).capabilities.replay)
        raise OptionError(
            f"the tuner is for runs with samplers, of {whose}, not for {config.algo} "
            f"with samplers={config.samplers} on {config.device}"
        )
    check_workers(config)
    key = _key(config, scope, keep)
    known = None if again else CACHE.recall(key)
    if known is not None and holds(config, known, scope):
        return known
    headrace.make(config.task, num_envs=1, **config.env_options).close()  # kernels that are compiled once are not timed
    if config.ray and limit == LIMIT:
        limit = LIMIT_ON_A_CLUSTER
    search = WorkersSearch(config, lambda size: measure(config, size, seconds), limit, keep, briefly, show, scope)
    found = search.run()
    if (found.complete or search.limit >= LIMIT) and not found.disturbed:  # else more might be found another time
        with contextlib.suppress(OSError):  # without a place for it, it is measured anew the next time
            CACHE.remember(key, found)
            return found
    return dataclasses.replace(found, kept=False)


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


class WorkersSearch(Search):
    """The search for a run with workers.

    Args:
        config, limit, keep, briefly, show, scope: as for `tune`.
        measure: answers what a size does.
    """

    PLAIN = ENOUGH
    # rates rise unevenly
    FACTORS: ClassVar = {
        "minibatch_size": (2.0, 4.0),
        "num_envs": (2.0, 4.0),
        "samplers": (2.0, 1.5),
    }
    WORDS: ClassVar = {
        "samplers": "{} samplers",
        "num_envs": "{} environments of each sampler",
        "num_threads": "{} threads of each pool",
        "torch_threads": "{} threads of the learner",
        "minibatch_size": "minibatches of {}",
    }

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
        kept = set(keep)
        if batch_is_kept(config, keep):
            kept.add("minibatch_size")
        if scope == "speed":
            kept |= {"minibatch_size", "num_envs"}
        if config.device != "cpu":
            kept.add("torch_threads")
        super().__init__(measure, show, kept, limit)
        self.config, self._scope, self._briefly = config, scope, briefly
        self._largest, self._most_envs = limits(config, scope)

    def run(self) -> Tuning:
        """Measure until nothing grows any more, or the time is over."""
        best = self._probe(self._first())
        if self._briefly:
            self._shorten(best)
        best = self._climb(best, LEARNING, self._learns_more)
        best = self._climb(best, SAMPLING, self._samples_more)
        best = best_of(self.config, self._known.values())
        return Tuning(best, tuple(self._probes), self._reasons(), (self._largest, self._most_envs), not self._over)

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

    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        """Why a number may not be as large, or need not; nothing if it may."""
        config, size, cores = self.config, best.size, usable_cores()
        if name in SAMPLING and best.sampling >= GAIN * usable(config, best):
            return ENOUGH
        if name == "minibatch_size" and value > self._largest:
            return "learning rates and replay ratio could not follow without harm"
        elsewhere = name == "samplers" and config.ray  # a cluster says itself how many it has room for
        if name in ("torch_threads", "samplers") and value > cores and not elsewhere:
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
        grown = growth(best.update_frames, probe.update_frames)
        return "" if grown >= gain else f"update frames a second {change(grown)}"

    def _samples_more(self, best: Probe, probe: Probe, gain: float) -> str:
        most = self._fastest()
        if probe.update_frames * GAIN < most.update_frames:
            return f"update frames a second {change(growth(most.update_frames, probe.update_frames))}"
        grown = growth(best.sampling, probe.sampling)
        return "" if grown >= gain else f"steps a second {change(grown)}"

    def _fastest(self) -> Probe:
        """What makes most update frames a second."""
        return max(self._known.values(), key=lambda probe: probe.update_frames)

    def _rival(self, best: Size, better: Better) -> Size:
        return best if better == self._learns_more else self._fastest().size

    def _refuse(self, probe: Probe) -> None:
        if probe.note:
            raise OptionError(f"no size can be trained with here: {probe.note}")


def batch_is_kept(config: Config, keep: Collection[str]) -> bool:
    """Returns whether the minibatch, or a setting that follows it, was chosen by the user."""
    follows = {"minibatch_size", *FOLLOWS} - ({"replay_ratio"} if config.replay_ratio is None else set())
    return not follows.isdisjoint(keep)


def holds(config: Config, found: Tuning, scope: Scope = "all") -> bool:
    """Whether what was found keeps to the limits of a run, and was not kept small by those of another."""
    size = found.best.size
    values = size.minibatch_size, size.samplers * size.num_envs
    each = zip(values, found.limits, limits(config, scope), strict=True)
    return all(value <= now and (now <= then or 2 * value <= then) for value, then, now in each)


def forget(task: str | None = None) -> int:
    """Forget what was found for the family of a task, or for all; returns how many findings that were."""
    chosen = None if task is None else plain(_family(task, {}))
    return CACHE.forget(lambda key: chosen is None or key.get("family") == chosen)


def _family(task: str, options: dict[str, Any]) -> Key:
    """What tasks have in common that are alike in speed: their module, and the shapes of observations and actions."""
    spec = build_task(task, **options).spec
    seen, done = spec.observation, spec.action
    return {
        "module": family(task),
        "observation": [str(seen.dtype), seen.shape],
        "action": [str(done.dtype), done.shape],
    }


def _key(config: Config, scope: Scope, keep: Collection[str]) -> Key:
    """What a finding holds for: this machine, a family of tasks, the algorithm and what its speed depends on."""
    values = asdict(config)
    kept = {name: values[name] for name in sorted({*LEARNING, *SAMPLING}.intersection(keep))}
    return plain(
        {"machine": machine(find_device(config.device)), "family": _family(config.task, config.env_options)}
        | {"scope": scope, "kept": kept, "batch_kept": batch_is_kept(config, keep)}
        | {name: values[name] for name in DECIDES if name in values}
    )


def _encoded(found: Tuning) -> dict[str, Any]:
    values = {"best": asdict(found.best), "probes": [asdict(probe) for probe in found.probes]}
    return values | {name: getattr(found, name) for name in ("ended", "limits", "complete")}


def _decoded(best: Any, probes: Any, ended: Any, limits: Any, complete: bool) -> Tuning:
    most_batch, most_envs = limits
    all_probes = tuple(Probe.of(**probe) for probe in probes)
    return Tuning(Probe.of(**best), all_probes, tuple(ended), (most_batch, most_envs), complete, remembered=True)


CACHE = MeasurementCache("tune", _encoded, _decoded)

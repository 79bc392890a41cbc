"""Search for the numbers of samplers, environments and threads, and the minibatch, of a run with workers.

The update frame rate is the number of samples per second from which updates learn. Of the sizes whose update frame rate
is within 5 % of the highest, the best is the one that samples fastest. With a fixed replay ratio, sampling counts only
as far as updates can use it. The search first doubles the minibatch and the learner's threads, as long as the update
frame rate increases by 5 %; then environments, samplers and a pool's threads, as long as sampling gets faster and the
update frame rate does not decrease. Sizes are measured without waiting, even if the replay ratio is fixed.

Two limits protect learning. The minibatch is no larger than one for which learning rates and replay ratio can be scaled
(`headrace.train.config.batch_rule`). The number of environments leaves each at least `STEPS_EACH` steps of the run,
since an agent that observes only beginnings of episodes learns little.

A search with scope ``"speed"`` does not change the minibatch and the total number of environments, and therefore not
what is learnt. It varies threads, and the number of samplers that share the environments. Results then differ by
rounding only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from headrace.errors import OptionError
from headrace.machine import usable_cores
from headrace.pool.registry import build_task, family
from headrace.pool.views.make import make
from headrace.studies.tuning.measure import Probe, Size, measure
from headrace.studies.tuning.size_search import GAIN, Better, Search, SearchResult, change, growth, speed_settings
from headrace.train.cluster import connection
from headrace.train.collect.setup import find_device
from headrace.train.config.batch_rule import follow_batch, largest_batch
from headrace.train.config.registry import algorithms, find_algorithm
from headrace.train.config.settings import Config
from headrace.train.config.usage import PolicySetup
from headrace.train.runners.checks import check_workers
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain

LIMIT = 50.0  # time after which a search begins no further probe, in seconds
LIMIT_ON_A_CLUSTER = 200.0  # this time on a cluster, where actors take seconds to start
SHARE = 0.1  # share of a run's expected time for a brief search
WORTHWHILE = 10.0  # minimum duration of a brief search, in seconds
STEPS_EACH = 1000  # minimum number of steps of each environment in a run
MOST_ENVS = 1 << 14  # maximum number of environments of one sampler
ENOUGH = "sampling is faster than the replay ratio can use"
Scope = Literal["speed", "all"]
"""the settings that may be chosen: only settings that affect nothing but speed, or also minibatch and environments"""
BUSY = 0.15
"""share of the cores that other programs use, above which a measurement is not cached"""
LEARNING = ("torch_threads", "minibatch_size")
SAMPLING = ("num_envs", "samplers", "num_threads")


@dataclass(frozen=True)
class Tuning(SearchResult):
    """The result for a run with workers.

    Attributes:
        limits: the largest minibatch, and the largest number of environments, that the search allowed.
        complete: whether the search ended for another reason than its time limit.
        kept: whether the result is cached; a result of a busy machine is not.
    """

    limits: tuple[int, int]
    complete: bool = True
    kept: bool = True

    @property
    def disturbed(self) -> float:
        """The number of cores that other programs used meanwhile, if it is more than the share `BUSY`; otherwise 0."""
        others = [probe.others for probe in self.probes if probe.others is not None]
        taken = statistics.median(others) if others else 0.0
        return taken if taken > BUSY * usable_cores() else 0.0

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns the settings that the result changes, name → value, including those that follow the minibatch."""
        size = asdict(self.best.size)
        sized = dataclasses.replace(follow_batch(config, size.pop("minibatch_size")), **size)
        names = [name for name in (*size, "minibatch_size", *config.followed(1, 1)) if PolicySetup(sized).uses(name)]
        return {name: getattr(sized, name) for name in names if getattr(sized, name) != getattr(config, name)}

    def record(self) -> dict[str, Any]:
        """Returns the entries of a run's event: ``text``, and ``data`` with the probed sizes and the best one."""
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
    """Returns whether a run can be tuned: it has a replay and samplers, and its policy learns."""
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
    """Returns the best size for a configuration.

    Args:
        config: all settings; the search begins with its minibatch and environments.
        scope: ``"speed"`` to keep the minibatch and the number of environments, and therefore what is learnt;
            ``"all"`` to vary these as well.
        seconds: length of one measurement after its warm-up.
        limit: time after which no further probe is begun, in seconds.
        keep: names of settings that must not change, because the user chose them.
        briefly: spend at most a tenth of the run's expected time, and none on short runs.
        again: measure even if the cache has a result.
        show: called with each probe.

    Raises:
        OptionError: a setting is invalid, or the run cannot be tuned.
        HeadraceError: training with the first size is impossible; the message has the reason.
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
    key = _key(config, scope, keep) | _cluster(config)
    known = None if again else CACHE.recall(key)
    if known is not None and holds(config, known, scope):
        return known
    make(config.task, num_envs=1, **config.env_options).close()  # so that kernels are compiled before measurements
    if config.ray and limit == LIMIT:
        limit = LIMIT_ON_A_CLUSTER
    search = WorkersSearch(config, lambda size: measure(config, size, seconds), limit, keep, briefly, show, scope)
    found = search.run()
    if (found.complete or search.limit >= LIMIT) and not found.disturbed:  # otherwise a later search may be better
        with contextlib.suppress(OSError):  # without a cache, the next call measures again
            CACHE.remember(key, found)
            return found
    return dataclasses.replace(found, kept=False)


def limits(config: Config, scope: Scope = "all") -> tuple[int, int]:
    """Returns the largest minibatch, and the largest number of environments of all samplers together."""
    envs = config.num_envs * max(config.samplers, 1)
    if scope == "speed":
        return config.minibatch_size, envs
    return largest_batch(config), max(envs, config.total_steps // STEPS_EACH)


def usable(config: Config, probe: Probe) -> float:
    """Returns the number of agent steps per second that a probe's updates can use; inf with a free replay ratio."""
    ratio = follow_batch(config, probe.size.minibatch_size).replay_ratio
    return float("inf") if ratio is None else probe.updates / ratio


def best_of(config: Config, probes: Iterable[Probe]) -> Probe:
    """Returns the best probe, by the definition of this module; the first of equals."""
    measured = [probe for probe in probes if not probe.note]
    least = max(probe.update_frames for probe in measured) / GAIN
    good = [probe for probe in measured if probe.update_frames >= least]
    return max(good, key=lambda probe: min(probe.sampling, usable(config, probe)))


class WorkersSearch(Search):
    """The search for a run with workers.

    Args:
        config, limit, keep, briefly, show, scope: as for `tune`.
    """

    PLAIN = ENOUGH
    # for these numbers, a rate that does not increase with the first factor may increase with the second
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
        """Searches until no rate increases any more, or the time is over."""
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
        """Reduces the time limit to `SHARE` of the run's expected time."""
        speed = min(first.sampling, usable(self.config, first))
        run = self.config.total_steps / speed if speed else float("inf")
        self.limit = min(self.limit, SHARE * run)
        if self.limit < WORTHWHILE:
            self._over = f"all {self.config.total_steps:,} steps take about {run:.0f} s: too short a run to tune for"

    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        """Returns the reason why a number must not, or need not, be as large, as `Search._forbidden`."""
        config, size, cores = self.config, best.size, usable_cores()
        if name in SAMPLING and best.sampling >= GAIN * usable(config, best):
            return ENOUGH
        if name == "minibatch_size" and value > self._largest:
            return "learning rates and replay ratio could not follow without harm"
        elsewhere = name == "samplers" and config.ray  # a cluster checks the number of samplers itself
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
        """Returns a size with one number replaced, and environments reduced to the limit for all samplers together."""
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
        return max(self._known.values(), key=lambda probe: probe.update_frames)

    def _rival(self, best: Size, better: Better) -> Size:
        return best if better == self._learns_more else self._fastest().size

    def _refuse(self, probe: Probe) -> None:
        if probe.note:
            raise OptionError(f"no size can be trained with here: {probe.note}")


def batch_is_kept(config: Config, keep: Collection[str]) -> bool:
    """Returns whether the user has chosen the minibatch, or a setting that is scaled with it."""
    follows = {"minibatch_size", *config.followed(1, 1)} - ({"replay_ratio"} if config.replay_ratio is None else set())
    return not follows.isdisjoint(keep)


def holds(config: Config, found: Tuning, scope: Scope = "all") -> bool:
    """Returns whether a cached result is within the limits of a run, and was not restricted by smaller limits."""
    size = found.best.size
    values = size.minibatch_size, size.samplers * size.num_envs
    each = zip(values, found.limits, limits(config, scope), strict=True)
    return all(value <= now and (now <= then or 2 * value <= then) for value, then, now in each)


def forget(task: str | None = None) -> int:
    """Removes the cached results of a task's family, or all; returns their number."""
    chosen = None if task is None else plain(_family(task, {}))
    return CACHE.forget(lambda key: chosen is None or key.get("family") == chosen)


def _family(task: str, options: dict[str, Any]) -> Key:
    """Returns the key of tasks of similar speed: module, and dtypes and shapes of observations and actions."""
    spec = build_task(task, **options).spec
    seen, done = spec.observation, spec.action
    return {
        "module": family(task),
        "observation": [str(seen.dtype), seen.shape],
        "action": [str(done.dtype), done.shape],
    }


def _key(config: Config, scope: Scope, keep: Collection[str]) -> Key:
    """Returns the key of a result: this machine, the family of the task, and settings on which speed depends."""
    values = asdict(config)
    kept = {name: values[name] for name in sorted({*LEARNING, *SAMPLING}.intersection(keep))}
    return plain(
        {"machine": machine(find_device(config.device)), "family": _family(config.task, config.env_options)}
        | {"scope": scope, "kept": kept, "batch_kept": batch_is_kept(config, keep)}
        | speed_settings(config, {"task", "num_threads", "torch_threads"})
    )


def _cluster(config: Config) -> Key:
    if config.ray in ("", connection.LOCAL):
        return {}
    return {"processors": connection.processors(config.ray)}


def _encoded(found: Tuning) -> dict[str, Any]:
    values = {"best": asdict(found.best), "probes": [asdict(probe) for probe in found.probes]}
    return values | {name: getattr(found, name) for name in ("ended", "limits", "complete")}


def _decoded(best: Any, probes: Any, ended: Any, limits: Any, complete: bool) -> Tuning:
    most_batch, most_envs = limits
    all_probes = tuple(Probe.of(**probe) for probe in probes)
    return Tuning(Probe.of(**best), all_probes, tuple(ended), (most_batch, most_envs), complete, remembered=True)


CACHE = MeasurementCache("tune", _encoded, _decoded)

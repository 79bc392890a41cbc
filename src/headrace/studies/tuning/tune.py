"""The tuner: the fastest numbers of threads and samplers for a run on this machine, remembered for runs like it.

It chooses only what cannot change what is learnt (`headrace.studies.tuning.search`). Settings that change what is
learnt, such as the minibatch, are for a sweep (`headrace.studies.sweep`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from headrace.errors import OptionError
from headrace.machine import usable_cores
from headrace.pool.registry import build_task, family
from headrace.pool.views.make import make
from headrace.studies.tuning.measure import Probe, measure
from headrace.studies.tuning.search import Search
from headrace.train.cluster import connection
from headrace.train.collect.fitting import check_workers, policy_settings
from headrace.train.collect.policies import find_device
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain
from headrace.train.settings.algorithm import ALGORITHMS
from headrace.train.settings.config import Config

LIMIT = 50.0  # time after which a search begins no further probe, in seconds
LIMIT_ON_A_CLUSTER = 200.0  # this time on a cluster, where actors take seconds to start
BUSY = 0.15
"""share of the cores that other programs use, above which a measurement is not cached"""
VARIED = ("samplers", "num_threads", "torch_threads")


@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        ended: for each number that was varied, the reason why it was not increased further.
        complete: whether the search ended for another reason than its time limit.
        kept: whether the result is cached; a result of a busy machine is not.
        remembered: whether the result is from the cache.
    """

    best: Probe
    probes: tuple[Probe, ...]
    ended: tuple[str, ...]
    complete: bool = True
    kept: bool = True
    remembered: bool = False

    @property
    def disturbed(self) -> float:
        """The number of cores that other programs used meanwhile, if it is more than the share `BUSY`; otherwise 0."""
        others = [probe.others for probe in self.probes if probe.others is not None]
        taken = statistics.median(others) if others else 0.0
        return taken if taken > BUSY * usable_cores() else 0.0

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns the settings that the result changes, name → value."""
        size = asdict(self.best.size)
        sized = config.replace(**size)
        return {name: value for name, value in size.items() if sized.has(name) and value != vars(config)[name]}

    def record(self) -> dict[str, Any]:
        """Returns the entries of a run's event: ``text``, and ``data`` with the probed sizes and the best one."""
        best, size = self.best, self.best.size
        text = (
            f"{size.samplers} x {size.num_envs:,} environments, threads {size.num_threads}+{size.torch_threads}: "
            f"{best.sampling:,.0f} steps and {best.updates:,.0f} updates a second"
        )
        probes = [asdict(probe) for probe in self.probes]
        data = {"best": asdict(size), "probes": probes, "ended": list(self.ended), "remembered": self.remembered}
        return {"text": text, "data": data}


def tunable(config: Config) -> bool:
    """Returns whether a run can be tuned: it has a replay and samplers, and its policy learns."""
    return config.algorithm.replays and config.samplers != 0 and not (config.devices or config.frozen)


def tune(
    config: Config,
    *,
    seconds: float = 1.0,
    limit: float = LIMIT,
    keep: Collection[str] = (),
    briefly: bool = False,
    again: bool = False,
    show: Callable[[Probe], object] | None = None,
) -> Tuning:
    """Returns the best size for a configuration.

    Args:
        config: all settings; samplers share its environments.
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
        whose = ", ".join(name for name, algorithm in ALGORITHMS.items() if algorithm.replays)
        raise OptionError(
            f"the tuner is for runs with samplers, of {whose}, not for {config.algo} "
            f"with samplers={config.samplers} on {config.device}"
        )
    sampled = config.replace(samplers=1)
    check_workers(sampled, *policy_settings(sampled, config.build().spec).values())
    key = _key(config, keep)
    known = None if again else CACHE.recall(key)
    if known is not None:
        return known
    make(config.task, num_envs=1, **config.env_options).close()  # so that kernels are compiled before measurements
    if config.ray and limit == LIMIT:
        limit = LIMIT_ON_A_CLUSTER
    search = Search(config, lambda size: measure(config, size, seconds), limit, keep, briefly, show)
    best = search.run()
    found = Tuning(best, tuple(search.probes), search.reasons(), not search.over)
    if (found.complete or search.limit >= LIMIT) and not found.disturbed:  # otherwise a later search may be better
        with contextlib.suppress(OSError):  # without a cache, the next call measures again
            CACHE.remember(key, found)
            return found
    return dataclasses.replace(found, kept=False)


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


def _key(config: Config, keep: Collection[str]) -> Key:
    """Returns the key of a result: this machine, the family of the task, and settings on which speed depends."""
    values, known = vars(config), config.algorithm.settings
    speed = {name: values[name] for name in known if known[name].speed and name not in ("task", *VARIED[1:])}
    kept = {name: values[name] for name in sorted({*VARIED}.intersection(keep))}
    key: Key = {"machine": machine(find_device(config.device)), "family": _family(config.task, config.env_options)}
    if config.ray not in ("", connection.LOCAL):
        key["processors"] = connection.processors(config.ray)
    return plain(key | {"kept": kept} | speed)


def _encoded(found: Tuning) -> dict[str, Any]:
    values = {"best": asdict(found.best), "probes": [asdict(probe) for probe in found.probes]}
    return values | {name: getattr(found, name) for name in ("ended", "complete")}


def _decoded(best: Any, probes: Any, ended: Any, complete: bool) -> Tuning:
    all_probes = tuple(Probe.of(**probe) for probe in probes)
    return Tuning(Probe.of(**best), all_probes, tuple(ended), complete, remembered=True)


CACHE = MeasurementCache("tune", _encoded, _decoded)

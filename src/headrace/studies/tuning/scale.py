"""Search for the number of environments and the minibatch with which a run that collects and learns in turn is fastest.

The largest number of environments that fits into memory is rarely the fastest. Iterations of a real `Trainer` are
therefore timed: ``num_envs`` is doubled until steps per second hardly increase, then ``minibatch_size``, and so on
until neither helps. A size that is expected to need more than the allowed share of the memory is not tried. The result
is cached for this machine, task and network.

The search maximises speed, not learning: with larger batches there are fewer updates from the same number of steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from headrace.errors import OptionError, WorkerError
from headrace.machine import readable
from headrace.pool.views.make import make_spec
from headrace.studies.tuning.measure import (
    MEMORY_SHARE,
    Probe,
    Size,
    allowance,
    device_of,
    groups,
    measure,
    minibatch_of,
)
from headrace.studies.tuning.size_search import Search, SearchResult, change, growth, speed_settings
from headrace.train.collect.setup import agent_groups
from headrace.train.config.settings import Config
from headrace.train.config.usage import PolicySetup
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain

FIRST_ENVS = 16
FIRST_MINIBATCHES = 4  # number of minibatches of a rollout of the first size, so that larger ones can be tried
MOST_ENVS = 1 << 20


@dataclass(frozen=True)
class Scale(SearchResult):
    """The result for a run that collects and learns in turn."""

    def settings(self, config: Config) -> dict[str, int]:
        """Returns the settings of the best size, name → value."""
        sized = self.best.size.applied(config)
        names = ("num_envs", "minibatch_size", *(["batch_size"] if config.batch_size else []))
        return {name: getattr(sized, name) for name in names if PolicySetup(sized).uses(name)}


def scale(
    config: Config,
    *,
    seconds: float = 2.0,
    memory_share: float = MEMORY_SHARE,
    most_envs: int = MOST_ENVS,
    again: bool = False,
    show: Callable[[Probe], object] | None = None,
) -> Scale:
    """Returns the fastest ``num_envs`` and ``minibatch_size`` for a configuration.

    Args:
        config: all settings; the search begins with its ``minibatch_size``. The first of several ``devices`` is
            measured.
        seconds: length of one measurement after its warm-up.
        memory_share: share of the free memory that training may use.
        most_envs: the largest ``num_envs``.
        again: measure even if the cache has a result within these limits.
        show: called with each probe.

    Raises:
        OptionError: a setting is invalid, or even the smallest size does not fit into the memory.
        WorkerError: the process that trained with the smallest size died.
    """
    if not (0 < memory_share <= 1 and 0 < seconds < math.inf and most_envs >= 1):
        raise OptionError("memory_share must be in (0, 1], seconds above 0 and finite, most_envs at least 1")
    key = _key(config)
    known = None if again else CACHE.recall(key)
    if known is not None and _within(known.best, most_envs, allowance(config, memory_share)[1]):
        return known
    search = _Search(config, lambda size: measure(config, size, seconds, memory_share), most_envs, show)
    found = search.run()
    with contextlib.suppress(OSError):  # without a cache, the next call measures again
        CACHE.remember(key, found)
    return found


def _within(best: Probe, most_envs: int, allowed: int) -> bool:
    return best.size.num_envs <= most_envs and best.memory <= allowed


class _Search(Search):
    """The search for a run that collects and learns in turn; arguments are as for `scale`."""

    PLAIN = "the minibatch is the whole rollout"
    WORDS: ClassVar = {"num_envs": "{} environments", "minibatch_size": "minibatches of {}"}

    def __init__(
        self,
        config: Config,
        measure: Callable[[Size], Probe],
        most_envs: int,
        show: Callable[[Probe], object] | None,
    ):
        super().__init__(measure, show, () if hasattr(config, "minibatch_size") else {"minibatch_size"})
        self._config, self._most_envs = config, most_envs
        spec = make_spec(config.task, **config.env_options)
        self._rows = config.num_steps * max(agent_group.width for agent_group in agent_groups(config, spec).values())

    def run(self) -> Scale:
        """Measures until increasing neither number helps any more."""
        best = self._climb(self._probe(self._first()), ("num_envs", "minibatch_size"), self._is_faster)
        return Scale(best, tuple(self._probes), self._reasons())

    def _first(self) -> Size:
        config, parts = self._config, groups(self._config)
        envs = min(max(FIRST_ENVS, FIRST_MINIBATCHES * minibatch_of(config) // self._rows), self._most_envs)
        return dataclasses.replace(Size.of(config), samplers=0, num_envs=-(-envs // parts) * parts)

    def _refuse(self, probe: Probe) -> None:
        envs = probe.size.num_envs
        if probe.note and not probe.limit:
            raise WorkerError(f"the probe of {envs} environments died: {probe.note}")
        if probe.note or probe.memory > probe.limit:
            why = probe.note or f"they need {readable(probe.memory)}"
            allowed = readable(probe.limit)
            raise OptionError(f"{envs} environments do not fit into {allowed} of memory ({why}): allow a larger share")

    def _forbidden(self, best: Probe, name: str, value: int) -> str:
        if name == "minibatch_size" and best.size.minibatch_size >= best.size.num_envs * self._rows:
            return self.PLAIN
        if name == "num_envs" and value > self._most_envs:
            return f"{self._most_envs:,} are the most that were asked for"
        # memory is the sum of a constant and a part proportional to the size
        half = self._known.get(self._with(best.size, name, value // 4))
        expected = 2 * best.memory if half is None else best.memory + 2 * max(0, best.memory - half.memory)
        if expected > best.limit:
            return f"they would need about {readable(expected)}, more than the {readable(best.limit)} allowed"
        return ""

    def _is_faster(self, best: Probe, probe: Probe, gain: float) -> str:
        if probe.memory > probe.limit:
            return "more memory than is allowed"
        grown = growth(best.sampling, probe.sampling)
        return "" if grown >= gain else f"steps a second {change(grown)}"


# -- the cache -----------------------------------------------------------------------------------


def cache_file() -> Path:
    """Returns the file of the cache: ``$XDG_CACHE_HOME/headrace/scale.json``, by default in ``~/.cache``."""
    return CACHE.file


def forget(task: str | None = None) -> int:
    """Removes the cached results of a task, or all; returns their number."""
    return CACHE.forget(lambda key: task is None or key.get("task") == task)


def _key(config: Config) -> Key:
    """Returns the key of a result: this machine, and the settings on which speed and memory depend."""
    key = {"machine": machine(device_of(config)), "groups": groups(config)}
    return plain(key | speed_settings(config, {"num_envs", "minibatch_size"}))


def _encoded(found: Scale) -> dict[str, Any]:
    best, probes = _row(found.best), [_row(probe) for probe in found.probes]
    return {"best": best, "ended": "\n".join(found.ended), "probes": probes}


def _row(probe: Probe) -> dict[str, Any]:
    size, rate = probe.size, probe.sampling
    values = {"num_envs": size.num_envs, "minibatch_size": size.minibatch_size, "steps_per_second": rate}
    return values | {"memory": probe.memory, "limit": probe.limit, "note": probe.note}


def _probe(num_envs: int, minibatch_size: int, steps_per_second: float, **values: Any) -> Probe:
    return Probe(Size(0, num_envs, 0, 0, minibatch_size), steps_per_second, **values)


def _decoded(best: Any, ended: str, probes: Any) -> Scale:
    return Scale(_probe(**best), tuple(_probe(**p) for p in probes), tuple(ended.split("\n")), remembered=True)


CACHE = MeasurementCache("scale", _encoded, _decoded)

"""How many environments, and which minibatch, train fastest where a run collects and learns in turn.

More replicas are not faster for ever, and the most that fit into a device's memory are rarely the fastest. So whole
iterations of a real `Trainer` are timed: ``num_envs`` doubles until the steps a second hardly grow, then
``minibatch_size`` does, and so on until neither helps. A size that is expected to need more than the allowed share of
the memory is not tried. What was found is remembered for this machine, task and network.

It finds speed, not the best learning: larger batches mean fewer updates from as many steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import headrace
from headrace.errors import OptionError, WorkerError
from headrace.machine import readable
from headrace.train.collect.setup import agent_groups
from headrace.train.config.settings import Config
from headrace.train.config.uses import Player
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain
from headrace.train.tuning.measure import MEMORY_SHARE, Probe, Size, allowance, device_of, groups, measure, minibatch_of
from headrace.train.tuning.search import Found, Search, change, growth

FIRST_ENVS = 16
FIRST_MINIBATCHES = 4  # in a rollout, so that there is something to gain from larger ones
MOST_ENVS = 1 << 20
DECIDES = (
    "task", "env_options", "algo", "network", "hidden", "shared", "activation", "policies", "num_steps", "epochs",
    "device", "devices", "num_threads", "torch_threads", "bf16", "compile", "graphs", "host_random", "target_kl",
    "frozen", "replay_ratio", "replay_size", "normalise_observations", "normalise_rewards",
)  # fmt: skip
"""settings that speed and memory depend on, beside the groups of environments: what was found holds for these"""


@dataclass(frozen=True)
class Scale(Found):
    """What was found for a run that collects and learns in turn."""

    def settings(self, config: Config) -> dict[str, int]:
        """The fields of a `Config` that it is about."""
        sized = self.best.size.applied(config)
        names = ("num_envs", "minibatch_size", *(["batch_size"] if config.batch_size else []))
        return {name: getattr(sized, name) for name in names if Player(sized).uses(name)}


def scale(
    config: Config,
    *,
    seconds: float = 2.0,
    memory_share: float = MEMORY_SHARE,
    most_envs: int = MOST_ENVS,
    again: bool = False,
    show: Callable[[Probe], object] | None = None,
) -> Scale:
    """Finds ``num_envs`` and ``minibatch_size`` for a configuration; those that it has are where minibatches begin.

    Args:
        config: everything else. Of ``devices`` the first one is measured.
        seconds: length of one measurement, beside its warm-up.
        memory_share: of the free memory, what training may take.
        most_envs: a limit to ``num_envs``.
        again: measure although it is known (and keeps to these limits).
        show: called with every probe as it is made.

    Raises:
        OptionError: a setting is wrong, or not even the smallest size fits into the memory.
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
    with contextlib.suppress(OSError):  # without a place for it, it is measured anew the next time
        CACHE.remember(key, found)
    return found


def _within(best: Probe, most_envs: int, allowed: int) -> bool:
    """Whether a size that was found earlier keeps to the limits of today."""
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
        spec = headrace.make_spec(config.task, **config.env_options)
        self._rows = config.num_steps * max(agent_group.width for agent_group in agent_groups(config, spec).values())

    def run(self) -> Scale:
        """Measures until neither number helps any more."""
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
        # a part of the memory is always needed, the rest grows with the size
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


# -- what is remembered --------------------------------------------------------------------------


def cache_file() -> Path:
    """Where it is remembered: ``$XDG_CACHE_HOME/headrace/scale.json``, by default in ``~/.cache``."""
    return CACHE.file


def forget(task: str | None = None) -> int:
    """Forget what was found for a task, or for all; returns how many findings that were."""
    return CACHE.forget(lambda key: task is None or key.get("task") == task)


def _key(config: Config) -> Key:
    """What a finding holds for: this machine, and what the speed of training depends on."""
    values = asdict(config)
    key = {"machine": machine(device_of(config)), "groups": groups(config)}
    return plain(key | {name: values[name] for name in DECIDES if name in values})


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

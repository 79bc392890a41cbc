"""How many environments, and which minibatch: found by measuring training itself.

More replicas are not faster for ever, and the most that fit into a device's memory are rarely the
fastest. So whole iterations of a real `Trainer` are timed (`headrace.train.tuning.probe`): ``num_envs`` doubles until
the steps a second hardly grow, then ``minibatch_size`` does, and so on until neither helps. A size that is
expected to need more than the allowed share of the memory is not tried. What was found is remembered for this
machine, task and network.

It finds speed, not the best learning: larger batches mean fewer updates from as many steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import headrace
from headrace.errors import OptionError, WorkerError
from headrace.machine import readable
from headrace.train.collect.setup import agent_groups
from headrace.train.config.settings import Config
from headrace.train.config.uses import Player
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain
from headrace.train.tuning.probe import Probe, allowance, device_of, measure, minibatch_of

FIRST_ENVS = 16
FIRST_MINIBATCHES = 4  # in a rollout, so that there is something to gain from larger ones
MOST_ENVS = 1 << 20
GAIN = 1.05  # twice the size must be this many times as fast
DECIDES = (
    "task", "env_options", "algo", "network", "hidden", "shared", "activation", "policies", "num_steps", "epochs",
    "device", "devices", "num_threads", "torch_threads", "bf16", "compile", "graphs", "host_random", "target_kl",
    "frozen", "replay_ratio", "replay_size", "normalise_observations", "normalise_rewards",
)  # fmt: skip
"""settings that speed and memory depend on, beside the groups of environments: what was found holds for these"""


@dataclass(frozen=True)
class Scale:
    """What was found.

    Attributes:
        best: the size to train with.
        probes: all that were measured, in order.
        ended: why no larger size was tried.
        remembered: whether it was found earlier.
    """

    best: Probe
    probes: tuple[Probe, ...]
    ended: str
    remembered: bool = False

    def settings(self, config: Config) -> dict[str, int]:
        """The fields of a `Config` that it is about."""
        sized = _sized(config, self.best.num_envs, self.best.minibatch_size)
        names = ("num_envs", "minibatch_size", *(["batch_size"] if config.batch_size else []))
        return {name: getattr(sized, name) for name in names if Player(sized).uses(name)}


def scale(
    config: Config,
    *,
    seconds: float = 2.0,
    memory_share: float = 0.8,
    most_envs: int = MOST_ENVS,
    again: bool = False,
    show: Callable[[Probe], object] | None = None,
) -> Scale:
    """Find ``num_envs`` and ``minibatch_size`` for a configuration; those that it has are where minibatches begin.

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
    known = None if again else FINDINGS.recall(key)
    if known is not None and _within(known.best, most_envs, allowance(config, memory_share)[1]):
        return known
    found = _Search(config, seconds, memory_share, most_envs, show).run()
    with contextlib.suppress(OSError):  # without a place for it, it is measured anew the next time
        FINDINGS.remember(key, found)
    return found


def _within(best: Probe, most_envs: int, allowed: int) -> bool:
    """Whether a size that was found earlier keeps to the limits of today."""
    return best.num_envs <= most_envs and best.memory <= allowed


class _Search:
    """Doubling one number, then the other, as long as it pays."""

    def __init__(
        self, config: Config, seconds: float, share: float, most_envs: int, show: Callable[[Probe], object] | None
    ):
        self._config, self._seconds, self._share, self._show = config, seconds, share, show
        self._most_envs = most_envs
        self._tried: dict[tuple[int, int], Probe] = {}
        self._probes: list[Probe] = []
        spec = headrace.make_spec(config.task, **config.env_options)
        self._rows = config.num_steps * max(agent_group.width for agent_group in agent_groups(config, spec).values())
        self._ended = ""

    def run(self) -> Scale:
        groups = _groups(self._config)
        first = max(FIRST_ENVS, FIRST_MINIBATCHES * minibatch_of(self._config) // self._rows)
        first = -(-min(first, self._most_envs) // groups) * groups
        best = self._measure(first, minibatch_of(self._config))
        if best.note and not best.limit:
            raise WorkerError(f"the probe of {first} environments died: {best.note}")
        if best.note or best.memory > best.limit:
            why = best.note or f"they need {readable(best.memory)}"
            allowed = readable(best.limit)
            raise OptionError(f"{first} environments do not fit into {allowed} of memory ({why}): allow a larger share")
        while True:
            wide = self._climb(best, "num_envs")
            better = wide if not hasattr(self._config, "minibatch_size") else self._climb(wide, "minibatch_size")
            if better == wide:
                return Scale(wide, tuple(self._probes), self._ended)
            best = better

    def _climb(self, best: Probe, name: str) -> Probe:
        """Double one of the two until it no longer pays."""
        before: Probe | None = None
        while True:
            if name == "minibatch_size" and best.minibatch_size >= best.num_envs * self._rows:
                return best  # it is the whole rollout
            sizes = {"num_envs": best.num_envs, "minibatch_size": best.minibatch_size}
            sizes[name] *= 2
            words = f"{sizes['num_envs']:,} environments with minibatches of {sizes['minibatch_size']:,}"
            if sizes["num_envs"] > self._most_envs:
                self._ended = f"{self._most_envs:,} environments are the most that were asked for"
                return best
            # a part of the memory is always needed, the rest grows with the size
            expected = 2 * best.memory if before is None else best.memory + 2 * max(0, best.memory - before.memory)
            if expected > best.limit:
                needed, allowed = readable(expected), readable(best.limit)
                self._ended = f"{words} would need about {needed}, more than the {allowed} allowed"
                return best
            probe = self._measure(**sizes, hoped=GAIN * best.steps_per_second)
            if probe.note or probe.memory > probe.limit:
                self._ended = f"{words}: {probe.note or 'more memory than is allowed'}"
                return best
            if probe.steps_per_second < GAIN * best.steps_per_second:
                self._ended = f"{words} are not {GAIN - 1:.0%} faster"
                return best
            before, best = best, probe

    def _measure(self, num_envs: int, minibatch_size: int, hoped: float = 0.0) -> Probe:
        """What is known of a size; if it disappoints, the better of two measurements: others use the machine, too."""
        size = (num_envs, minibatch_size)
        if size not in self._tried:
            probe = self._once(*size)
            if not probe.note and probe.steps_per_second < hoped:
                probe = max(probe, self._once(*size), key=lambda one: one.steps_per_second)
            self._tried[size] = probe
        return self._tried[size]

    def _once(self, num_envs: int, minibatch_size: int) -> Probe:
        try:
            probe = measure(_sized(self._config, num_envs, minibatch_size), self._seconds, self._share)
        except OptionError as error:
            if not self._probes:
                raise
            probe = Probe(num_envs, minibatch_size, note=str(error))  # such as more rows than a replay holds
        self._probes.append(probe)
        if self._show is not None:
            self._show(probe)
        return probe


def _groups(config: Config) -> int:
    """Into how many parts that take turns the environments are split."""
    return config.num_envs // config.batch_size if config.batch_size else 1


def _sized(config: Config, num_envs: int, minibatch_size: int) -> Config:
    batch = num_envs // _groups(config) if config.batch_size else 0
    minibatch = {"minibatch_size": minibatch_size} if hasattr(config, "minibatch_size") else {}
    return dataclasses.replace(config, num_envs=num_envs, batch_size=batch, **minibatch)


# -- what is remembered --------------------------------------------------------------------------


def cache_file() -> Path:
    """Where it is remembered: ``$XDG_CACHE_HOME/headrace/scale.json``, by default in ``~/.cache``."""
    return FINDINGS.file


def forget(task: str | None = None) -> int:
    """Forget what was found for a task, or for all; returns how many findings that were."""
    return FINDINGS.forget(lambda key: task is None or key.get("task") == task)


def _key(config: Config) -> Key:
    """What a finding holds for: this machine, and what the speed of training depends on."""
    values = asdict(config)
    key = {"machine": machine(device_of(config)), "groups": _groups(config)}
    return plain(key | {name: values[name] for name in DECIDES if name in values})


def _encoded(found: Scale) -> dict[str, Any]:
    return {"best": asdict(found.best), "ended": found.ended, "probes": [asdict(p) for p in found.probes]}


def _decoded(best: Any, ended: str, probes: Any) -> Scale:
    return Scale(Probe(**best), tuple(Probe(**p) for p in probes), ended, remembered=True)


FINDINGS = MeasurementCache("scale", _encoded, _decoded)

"""`tune` finds the size of a run for this machine, and remembers what it found.

How it searches is `headrace.train.tuning.search`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any

import headrace
from headrace.errors import OptionError
from headrace.pool.registry import build_task, family
from headrace.train.collect.setup import find_device
from headrace.train.config.registry import algorithms, find_algorithm
from headrace.train.config.settings import Config
from headrace.train.runners.off_policy import check
from headrace.train.runs.cache import Key, MeasurementCache, machine, plain
from headrace.train.tuning.measure import Probe, measure
from headrace.train.tuning.search import LEARNING, LIMIT, SAMPLING, Scope, Search, Tuning, batch_is_kept, limits

DECIDES = (
    "algo", "device", "env_options", "network", "hidden", "activation", "bf16", "compile", "graphs", "num_envs",
    "minibatch_size", "n_step", "prioritised", "replay_ratio", "matmul_precision", "actor_device",
    "critic_device",
)  # fmt: skip
"""settings that speed depends on, and those that are of this version: what was found holds for these"""


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
    """Find the size for a configuration.

    Args:
        config: everything else; the minibatch and the environments that it has are where the search begins.
        scope: ``"speed"`` leaves the minibatch and the number of environments as they are, and so what is learnt.
        seconds: length of one measurement, after everything runs.
        limit: seconds after which no further probe is begun.
        keep: names of settings that are not to change, since somebody chose them.
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
    check(config)
    key = _key(config, scope, keep)
    known = None if again else FINDINGS.recall(key)
    if known is not None and holds(config, known, scope):
        return known
    headrace.make(config.task, num_envs=1, **config.env_options).close()  # kernels that are compiled once are not timed
    search = Search(config, lambda size: measure(config, size, seconds), limit, keep, briefly, show, scope)
    found = search.run()
    if (found.complete or search.limit >= LIMIT) and not found.disturbed:  # else more might be found another time
        with contextlib.suppress(OSError):  # without a place for it, it is measured anew the next time
            FINDINGS.remember(key, found)
            return found
    return dataclasses.replace(found, kept=False)


def holds(config: Config, found: Tuning, scope: Scope = "all") -> bool:
    """Whether what was found keeps to the limits of a run, and was not kept small by those of another."""
    size = found.best.size
    values = size.minibatch_size, size.samplers * size.num_envs
    each = zip(values, found.limits, limits(config, scope), strict=True)
    return all(value <= now and (now <= then or 2 * value <= then) for value, then, now in each)


def forget(task: str | None = None) -> int:
    """Forget what was found for the family of a task, or for all; returns how many findings that were."""
    chosen = None if task is None else plain(_family(task, {}))
    return FINDINGS.forget(lambda key: chosen is None or key.get("family") == chosen)


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


FINDINGS = MeasurementCache("tune", _encoded, _decoded)

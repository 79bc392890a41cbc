"""How many environments, and which minibatch: found by measuring training itself.

More replicas are not faster for ever, and the most that fit into a device's memory are rarely the
fastest. So whole iterations of a real `Trainer` are timed, each size in a process of its own (which
ends with all its memory): ``num_envs`` doubles until the steps a second hardly grow, then
``minibatch_size`` does, and so on until neither helps. A size that is expected to need more
than the allowed share of the memory is not tried; one that needs more than it was expected to is stopped by
that limit, not by the device. What was found is remembered for this machine, task and network.

It finds speed, not the best learning: larger batches mean fewer updates from as many steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import headrace
from headrace.errors import HeadraceError, OptionError
from headrace.pool.registry import usable_cores
from headrace.train import memory
from headrace.train.config import Config
from headrace.train.graphs import EAGER_CALLS
from headrace.train.parallel import Report, cause_of_death, deaf, end_with_parent, take_cores
from headrace.train.run import RunFolder
from headrace.train.setup import dealt_seats, find_device
from headrace.train.trainer import Trainer

FIRST_ENVS = 16
FIRST_MINIBATCHES = 4  # in a rollout, so that there is something to gain from larger ones
MOST_ENVS = 1 << 20
GAIN = 1.05  # twice the size must be this many times as fast
DECIDES = (
    "task", "env_options", "algo", "network", "hidden", "shared", "activation", "policies", "num_steps", "epochs",
    "device", "devices", "batch_size", "num_threads", "torch_threads", "bf16", "compile", "graphs", "replay_ratio",
    "normalise_observations", "normalise_rewards",
)  # fmt: skip
"""settings that speed depends on: what was found holds for these"""


@dataclass(frozen=True)
class Probe:
    """One size, and what was measured of it.

    Attributes:
        steps_per_second: agent steps, training included; 0 where it could not be measured.
        memory, limit: bytes that the process needed at most, and may need.
        note: what kept it from being measured.
    """

    num_envs: int
    minibatch_size: int
    steps_per_second: float = 0.0
    memory: int = 0
    limit: int = 0
    note: str = ""


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
        return {name: getattr(sized, name) for name in names}


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
        again: measure although it is known.
        show: called with every probe as it is made.

    Raises:
        OptionError: a setting is wrong, or not even the smallest size fits into the memory.
    """
    if not (0 < memory_share <= 1 and seconds > 0 and most_envs >= 1):
        raise OptionError("memory_share must be in (0, 1], seconds above 0, most_envs at least 1")
    key = _key(config)
    known = None if again else _recall(key)
    if known is not None:
        return known
    found = _Search(config, seconds, memory_share, most_envs, show).run()
    with contextlib.suppress(OSError):  # without a place for it, it is measured anew the next time
        _remember(key, found)
    return found


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
        self._rows = config.num_steps * max(seat.width for seat in dealt_seats(config, spec).values())
        self._ended = ""

    def run(self) -> Scale:
        groups = _groups(self._config)
        first = max(FIRST_ENVS, FIRST_MINIBATCHES * self._config.minibatch_size // self._rows)
        first = -(-min(first, self._most_envs) // groups) * groups
        best = self._measure(first, self._config.minibatch_size)
        if best.note or best.memory > best.limit:
            why = best.note or f"they need {memory.readable(best.memory)}"
            allowed = memory.readable(best.limit)
            raise OptionError(f"{first} environments do not fit into {allowed} of memory ({why}): allow a larger share")
        while True:
            wide = self._climb(best, "num_envs")
            better = wide if self._config.algo == "a2c" else self._climb(wide, "minibatch_size")
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
                needed, allowed = memory.readable(expected), memory.readable(best.limit)
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
    return dataclasses.replace(config, num_envs=num_envs, batch_size=batch, minibatch_size=minibatch_size)


# -- one measurement -----------------------------------------------------------------------------


def measure(config: Config, seconds: float, memory_share: float) -> Probe:
    """Train in a process of its own for some seconds.

    Raises:
        HeadraceError: whatever it raised, but for a lack of memory, which the probe's note says.
    """
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, config, seconds, memory_share), name="headrace-probe")
    try:
        with deaf():
            process.start()
        theirs.close()
        try:
            report = pipe.recv()
        except EOFError:
            process.join()
            return Probe(config.num_envs, config.minibatch_size, note=cause_of_death(process.exitcode))
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        pipe.close()
    if report.trace:
        report.raise_as(f"the probe of {config.num_envs} environments")
    return report.result


def _work(pipe: Any, config: Config, seconds: float, share: float) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        report = Report(_probe(config, seconds, share))
    except BaseException as error:
        report = Report.of(error)
    pipe.send(report)


def _probe(config: Config, seconds: float, share: float) -> Probe:
    sharers = len(config.devices)
    if sharers:
        take_cores(0, sharers)
        config = dataclasses.replace(config, device=config.devices[0], devices=())
    device = find_device(config.device)
    at_first = memory.free(device)
    usable = int(share * at_first / (sharers if sharers and device.type == "cpu" else 1))
    allowed = usable + (memory.in_use(device)["resident"] if device.type == "cpu" else 0)
    memory.limit(device, usable)
    try:
        rate, used, note = *_rate(config, device, seconds, at_first), ""
    except (MemoryError, RuntimeError) as error:  # torch's and Warp's are of the second kind
        if not _is_lack_of_memory(error):
            raise
        rate, used, note = 0.0, memory.peak(device, at_first), "out of memory"
    return Probe(config.num_envs, config.minibatch_size, rate, used, allowed, note)


def _rate(config: Config, device: torch.device, seconds: float, free_at_first: int) -> tuple[float, int]:
    """Agent steps a second in training, once everything that is made at first use was made, and bytes it took."""
    config = dataclasses.replace(
        config, total_steps=1 << 60, stop_at_return=None, tensorboard=False, load=None, learning_starts=0
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, RunFolder.create(Path(folder) / "run", config))
        try:
            for _ in range(EAGER_CALLS + 2 if device.type == "cuda" else 1):
                trainer.iterate()
            _wait(device)
            began, first = time.perf_counter(), trainer.step
            while trainer.step == first or time.perf_counter() - began < seconds:
                trainer.iterate()
                trainer.solved()  # as in a run, where it decides whether to go on
            _wait(device)
            rate = (trainer.step - first) / (time.perf_counter() - began)
            return rate, memory.peak(device, free_at_first)
        finally:
            trainer.close()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _is_lack_of_memory(error: Exception) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        not isinstance(error, HeadraceError) and any(word in words for word in ("out of memory", "alloc"))
    )


# -- what is remembered --------------------------------------------------------------------------


def cache_file() -> Path:
    """Where it is remembered: ``$XDG_CACHE_HOME/headrace/scale.json``, by default in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "scale.json"


def forget(task: str | None = None) -> int:
    """Forget what was found for a task, or for all; returns how many findings that were."""
    entries = _entries()
    kept = [entry for entry in entries if task is not None and entry["for"]["task"] != task]
    if len(kept) < len(entries):
        _write(kept)
    return len(entries) - len(kept)


def _key(config: Config) -> dict[str, Any]:
    """What a finding holds for: this machine, and what the speed of training depends on."""
    device = find_device(config.devices[0] if config.devices else config.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    values = asdict(config)
    key = {"machine": {"device": name, "cores": usable_cores()}} | {name: values[name] for name in DECIDES}
    return json.loads(json.dumps(key))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _recall(key: dict[str, Any]) -> Scale | None:
    for entry in _entries():
        if entry["for"] == key:
            probes = tuple(Probe(**probe) for probe in entry["probes"])
            return Scale(Probe(**entry["best"]), probes, entry["ended"], remembered=True)
    return None


def _remember(key: dict[str, Any], found: Scale) -> None:
    entry = {"for": key, "best": asdict(found.best), "ended": found.ended, "probes": [asdict(p) for p in found.probes]}
    _write([*(other for other in _entries() if other["for"] != key), entry])


def _entries() -> list[dict[str, Any]]:
    """All findings; none where the file is missing or damaged."""
    try:
        return json.loads(cache_file().read_text())
    except (OSError, ValueError):
        return []


def _write(entries: list[dict[str, Any]]) -> None:
    file = cache_file()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text(json.dumps(entries, indent=1) + "\n")
    temporary.replace(file)

"""One way to compare, so that every figure we publish was made alike.

Contenders take turns (A, B, A, B, …) in one process on one machine, so that whatever
else the machine does hits all of them; each turn gives one rate; a ratio is the
median of the turn-by-turn ratios. A benchmark is a name, a title and some `Comparison`s,
which `measure` runs: it prints the table and writes the JSON with every repetition, the
settings and the machine, of which `table.py` makes tables and plots.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from hardware import versions
from headrace.machine import cpu_model

RESULTS = Path(__file__).parent / "results"
OURS = "headrace"
READABLE = 100_000  # characters
Contender = Callable[[float], float]
"""runs for so many seconds, and returns its rate"""


@dataclass
class Args:
    """Settings that every benchmark shares; the defaults are those of the published figures."""

    repeats: int = 7
    """turns that each contender gets"""
    seconds: float = 2.0
    """length of one turn"""
    out: Path = RESULTS
    """folder for the JSON file"""


@dataclass
class Comparison:
    """One case, before it is measured.

    Attributes:
        name: what is measured, such as ``"Pong-v5 sync N=16"``.
        ours: Headrace.
        peers: others by name; a name that begins with ``"headrace"`` is a variant, shown without a ratio.
        limit: what bounds everybody, by name, such as a bare simulator; at most one.
        wanted: peer or limit → the least acceptable ratio of ours to it; those that do not take part are ignored.
        unit: of the rates; agent steps a second unless said.
        frame_skip: simulator frames in one agent step, for frames/s beside steps/s.
    """

    name: str
    ours: Contender
    peers: Mapping[str, Contender] = field(default_factory=dict)
    limit: Mapping[str, Contender] = field(default_factory=dict)
    wanted: Mapping[str, float] = field(default_factory=dict)
    unit: str = "steps/s"
    frame_skip: int = 1
    warm_up: float = 0.3  # seconds before the first turn of each

    def run(self, args: Args) -> Case:
        """Give all their turns."""
        contenders = {OURS: self.ours, **self.peers, **self.limit}
        wanted = {name: least for name, least in self.wanted.items() if name in contenders}
        return Case(self.name, alternate(contenders, args, self.warm_up), wanted, self.unit, self.frame_skip)


@dataclass
class Case:
    """One comparison, measured: the rates of all contenders, and what ours must reach.

    Attributes:
        name: what was measured, such as ``"Pong-v5 sync N=16"``.
        rates: contender → one rate a turn, in ``unit``; turn i of one stands beside turn i of the others.
            ``"headrace"`` is ours; a name that only begins so is a variant, shown without a ratio.
        at_least: peer → the least acceptable ratio of ours to it.
        unit: of the rates; agent steps a second unless said.
        frame_skip: simulator frames in one agent step, for frames/s beside steps/s.
    """

    name: str
    rates: dict[str, list[float]]
    at_least: dict[str, float] = field(default_factory=dict)
    unit: str = "steps/s"
    frame_skip: int = 1

    def ratio(self, peer: str) -> float:
        """Median over the turns of our rate divided by the peer's in the same turn."""
        return statistics.median(a / b for a, b in zip(self.rates[OURS], self.rates[peer], strict=True))

    def record(self) -> dict[str, Any]:
        """What the JSON file says of this case."""
        peers = [name for name in self.rates if not name.startswith(OURS)]
        ratios = {peer: round(self.ratio(peer), 3) for peer in peers}
        return asdict(self) | {
            "median": {name: statistics.median(r) for name, r in self.rates.items()},
            "spread": {name: round(spread(r), 3) for name, r in self.rates.items()},
            "ratio": ratios,
            "passed": {peer: ratios[peer] >= least for peer, least in self.at_least.items()},
        }


@dataclass
class Report:
    """A benchmark's cases with the settings they share."""

    name: str
    title: str
    settings: dict[str, Any]
    cases: list[Case] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Print the table and write ``<folder>/<name>.json``."""
        cases = [case.record() for case in self.cases]
        record = heading(self.name, self.title) | {"settings": self.settings, "cases": cases, **self.extra}
        show(record)
        return write(folder, record)


def heading(name: str, title: str) -> dict[str, Any]:
    """What every record begins with: what it is of, the command that makes it, and the machine."""
    command = f"python benchmarks/{Path(sys.argv[0]).name}"
    return {"name": name, "title": title, "command": command, "machine": machine()}


def write(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write a record as ``<folder>/<its name>.json``: a value a line, if that can still be read."""
    text = json.dumps(record, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    path.write_text((text if len(text) < READABLE else json.dumps(record)) + "\n")
    return path


def measure(
    name: str,
    title: str,
    comparisons: Iterable[Comparison],
    args: Args,
    extra: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Run a benchmark: one comparison after the other, then the table and ``<args.out>/<name>.json``.

    Comparisons are asked for one by one, so a generator may close what it made before it goes on.
    The record has ``settings``, all of ``args`` but the folder, and what ``extra`` has at the end.
    """
    own = {key: value for key, value in vars(args).items() if not isinstance(value, Path)}
    report = Report(name, title, settings | own)
    report.cases += [comparison.run(args) for comparison in comparisons]
    report.extra |= extra or {}
    report.write(args.out)


def alternate(contenders: Mapping[str, Contender], args: Args, warm_up: float = 0.3) -> dict[str, list[float]]:
    """Give every contender ``args.repeats`` turns, one after the other.

    A contender is called with the seconds to run for and returns its rate. The order
    is reversed in every other round, so that nobody always runs behind the same one.
    """
    names = list(contenders)
    for name in names:
        contenders[name](warm_up)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(args.repeats):
        for name in names if turn % 2 == 0 else names[::-1]:
            rates[name].append(round(contenders[name](args.seconds), 1))
    return rates


def stepping(step: Callable[[Any], Any], actions: Sequence[Any], rows: int) -> Contender:
    """A contender that calls ``step(action)`` with one of ``actions`` after the other.

    Its rate is agent steps a second, each call counting ``rows``. The clock is read once
    per pass over ``actions``.
    """

    def run(seconds: float) -> float:
        calls = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            for action in actions:
                step(action)
            calls += len(actions)
        return rows * calls / elapsed

    return run


def random_steps(pool: Any, n: int, sets: int = 128, dtype: Any = None) -> Contender:
    """A contender that steps n environments, newly reset, with so many sets of random actions in turn.

    ``pool`` is one of ours, EnvPool's or Gymnasium's; ``dtype`` of the actions is the space's own where none is given.
    """
    pool.reset()
    space = getattr(pool, "single_action_space", pool.action_space)
    return stepping(pool.step, random_actions(space, n, sets, dtype), n)


def random_actions(space: gym.Space, n: int, sets: int, dtype: Any = None) -> list[np.ndarray]:
    """Arrays of actions for n environments, so many of them, each contiguous and of its own.

    ``space`` is one environment's; ``dtype`` is the space's own where none is given.
    """
    rng = np.random.default_rng(0)
    shape, dtype = (n, *(space.shape or ())), dtype or space.dtype
    if isinstance(space, gym.spaces.Box):
        return [rng.uniform(space.low, space.high, shape).astype(dtype) for _ in range(sets)]
    assert isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete)
    values = space.n if isinstance(space, gym.spaces.Discrete) else space.nvec
    return [rng.integers(0, values, shape).astype(dtype) for _ in range(sets)]


def spread(rates: Sequence[float]) -> float:
    """(largest - smallest) / median."""
    return (max(rates) - min(rates)) / statistics.median(rates)


PACKAGES = (
    "headrace", "numpy", "gymnasium", "warp-lang", "torch", "envpool", "ale-py", "stable-baselines3", "MinAtar",
    "mujoco", "dm-control", "vizdoom",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """CPU, cores, operating system and versions; no names, no paths."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
    }


def in_child(script: str, *arguments: str) -> Any:
    """Run another Python on ``script`` and return the JSON that its last line holds."""
    done = subprocess.run([sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(record: Mapping[str, Any], console: Console | None = None) -> None:
    """Print one benchmark's record as a table."""
    table = Table(title=record["title"], title_justify="left", caption_justify="left")
    unit = record["cases"][0]["unit"] if record["cases"] else ""
    for column in ("case", "contender", unit, "frames/s", "spread", "ours is", "wanted"):
        table.add_column(column, justify="left" if column in ("case", "contender") else "right", no_wrap=True)
    for case in record["cases"]:
        for i, (name, median) in enumerate(case["median"].items()):
            table.add_row(case["name"] if i == 0 else "", *_cells(case, name, median))
        table.add_section()
    table.caption = f"{record['machine']['cpu']}, {record['machine']['cores']} cores"
    (console or wide_console()).print(table)


def wide_console() -> Console:
    """The terminal, or, where there is none, a page wide enough that no figure is cut off."""
    console = Console()
    return console if console.is_terminal else Console(width=120)


def _cells(case: Mapping[str, Any], name: str, median: float) -> list[str]:
    skip = case["frame_skip"]
    cells = [name, f"{median:,.0f}", f"{median * skip:,.0f}" if skip > 1 else "-"]
    cells.append(f"{case['spread'][name]:.0%}")
    if name not in case["ratio"]:
        return [*cells, "", ""]
    least = case["at_least"].get(name)
    if least is None:
        return [*cells, f"{case['ratio'][name]:.2f} x", "-"]
    mark = "[green]yes[/]" if case["passed"][name] else "[red]no[/]"
    return [*cells, f"{case['ratio'][name]:.2f} x", f"{least:g} x {mark}"]

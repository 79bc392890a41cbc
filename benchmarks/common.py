"""One way to compare, and one form of record, so that every figure we publish was made alike.

Contenders take turns (A, B, A, B, …) in one process on one machine, so that whatever
else the machine does hits all of them; each turn gives one rate; a ratio is the
median of the turn-by-turn ratios. A benchmark is a name, a title and some `Comparison`s,
which `measure` runs: it prints the table and writes the JSON with every repetition, the
settings and the machine. What is no comparison of rates is a `heading` and its ``rows``, for `tell`.
Of both, `table.py` makes tables and plots.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from hardware import versions
from headrace.machine import cpu_model, usable_cores

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
    """One case: who takes turns, and what is wanted.

    Attributes:
        name: what is measured, such as ``"Pong-v5 sync N=16"``.
        ours: Headrace; None where ``rates`` are given.
        peers: others by name; a name that begins with ``"headrace"`` is a variant, shown without a ratio.
        limit: what bounds everybody, by name, such as a bare simulator; at most one.
        wanted: peer or limit → the least acceptable ratio of ours to it; those that do not take part are ignored.
        unit: of the rates; agent steps a second unless said.
        frame_skip: simulator frames in one agent step, for frames/s beside steps/s.
        warm_up: seconds before the first turn of each; 0 for none.
        rates: contender → one rate a turn, in ``unit``; turn i of one stands beside turn i of the others. Given where
            the turns were taken elsewhere, such as in another thread.
    """

    name: str
    ours: Contender | None = None
    peers: Mapping[str, Contender] = field(default_factory=dict)
    limit: Mapping[str, Contender] = field(default_factory=dict)
    wanted: Mapping[str, float] = field(default_factory=dict)
    unit: str = "steps/s"
    frame_skip: int = 1
    warm_up: float = 0.3
    rates: dict[str, list[float]] = field(default_factory=dict)

    def run(self, args: Args) -> None:
        """Give all their turns."""
        if not self.rates:
            assert self.ours is not None
            self.rates = alternate({OURS: self.ours, **self.peers, **self.limit}, args, self.warm_up)

    def ratio(self, peer: str) -> float:
        """Median over the turns of our rate divided by the peer's in the same turn."""
        return statistics.median(a / b for a, b in zip(self.rates[OURS], self.rates[peer], strict=True))

    def record(self) -> dict[str, Any]:
        """What the JSON file says of this case."""
        at_least = {name: least for name, least in self.wanted.items() if name in self.rates}
        ratios = {name: round(self.ratio(name), 3) for name in self.rates if not name.startswith(OURS)}
        return {
            "name": self.name,
            "rates": self.rates,
            "at_least": at_least,
            "unit": self.unit,
            "frame_skip": self.frame_skip,
            "median": {name: statistics.median(rates) for name, rates in self.rates.items()},
            "spread": {name: round(spread(rates), 3) for name, rates in self.rates.items()},
            "ratio": ratios,
            "passed": {peer: ratios[peer] >= least for peer, least in at_least.items()},
        }


def measure(
    name: str,
    title: str,
    comparisons: Iterable[Comparison],
    args: Args,
    extra: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Run a benchmark: one comparison after the other, then the table and ``<args.out>/<name>.json``.

    Comparisons are asked for one by one, so a generator may close what it made before it goes on, and add to ``extra``
    what it has seen. The record has ``settings``, all of ``args`` but the folder, and what ``extra`` has at the end.
    A run that is cut leaves the cases that it has measured.
    """
    own = {key: value for key, value in vars(args).items() if not isinstance(value, Path)}
    record = heading(name, title) | {"settings": settings | own, "cases": []}
    for comparison in comparisons:
        comparison.run(args)
        record["cases"].append(comparison.record())
        write(args.out, record)
    tell(args.out, record | dict(extra or {}))


def tell(folder: Path, record: Mapping[str, Any]) -> None:
    """Print a record's table, and write it."""
    show(record)
    write(folder, record)


def heading(name: str, title: str) -> dict[str, Any]:
    """What every record begins with: what it is of, the command that makes it, and the machine."""
    command = f"python benchmarks/{Path(sys.argv[0]).name}"
    return {"name": name, "title": title, "command": command, "machine": machine()}


def write(folder: Path, record: Mapping[str, Any]) -> None:
    """Write a record as ``<folder>/<its name>.json``: a value a line, if that can still be read."""
    text = json.dumps(record, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{record['name']}.json").write_text((text if len(text) < READABLE else json.dumps(record)) + "\n")


def earlier(folder: Path, name: str, key: str = "runs") -> Any:
    """What the file of a record says under a key, to be gone on with; nothing where there is no file."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()).get(key) if path.exists() else None


def alternate(contenders: Mapping[str, Contender], args: Args, warm_up: float = 0.3) -> dict[str, list[float]]:
    """Give every contender ``args.repeats`` turns, one after the other.

    A contender is called with the seconds to run for and returns its rate. The order
    is reversed in every other round, so that nobody always runs behind the same one.
    """
    names = list(contenders)
    for name in names if warm_up else ():
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

    def every() -> None:
        for action in actions:
            step(action)

    return repeating(every, rows * len(actions))


def repeating(
    call: Callable[[], Any], count: float = 1, times: int = 1, clock: Callable[[], float] = time.perf_counter
) -> Contender:
    """A contender whose rate is calls a second, each counting ``count``; the clock is read after so many ``times``."""

    def run(seconds: float) -> float:
        calls, start = 0, clock()
        while (elapsed := clock() - start) < seconds:
            for _ in range(times):
                call()
            calls += times
        return count * calls / elapsed

    return run


def exchange(pool: Any) -> Callable[[np.ndarray], None]:
    """One asynchronous step of ours or EnvPool's as a function of the next actions: receive, then send to who came."""

    def step(action: np.ndarray) -> None:
        pool.send(action, pool.recv()[4]["env_id"])

    return step


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
        low, high = np.where(np.isfinite(space.low), space.low, -1), np.where(np.isfinite(space.high), space.high, 1)
        return [rng.uniform(low, high, shape).astype(dtype) for _ in range(sets)]
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
        "cores": usable_cores(),
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
    }


def in_child(script: str, *arguments: str) -> Any:
    """Run another Python on ``script`` and return the JSON that its last line holds."""
    done = subprocess.run([sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(record: Mapping[str, Any]) -> None:
    """Print a record as a table: a line a contender, or its rows."""
    table = Table(title=record["title"], title_justify="left", caption_justify="left")
    lines = [list(map(cell, row.values())) for row in record.get("rows", ())]
    columns = ["case", "contender", "rate", "frames/s", "spread", "ours is", "wanted"]
    columns = list(record["rows"][0]) if lines else columns
    for case in record.get("cases", ()):
        lines += [[case["name"] if i == 0 else "", *_cells(case, who)] for i, who in enumerate(case["median"])]
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < 1 or column == "contender" else "right")
    for line in lines:
        table.add_row(*line)
    table.caption = f"{record['machine']['cpu']}, {record['machine']['cores']} cores"
    wide_console().print(table)


def wide_console() -> Console:
    """The terminal, or, where there is none, a page wide enough that no figure is cut off."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=120, highlight=False)


def cell(value: Any) -> str:
    """A value of a row in as many digits as tell something."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        size = abs(value)
        return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cells(case: Mapping[str, Any], name: str) -> list[str]:
    median, skip = case["median"][name], case["frame_skip"]
    frames = f"{median * skip:,.0f}" if skip > 1 else ""
    cells = [name, f"{median:,.0f} {case['unit']}", frames, f"{case['spread'][name]:.0%}"]
    if name not in case["ratio"]:
        return [*cells, "", ""]
    least = case["at_least"].get(name)
    mark = "" if least is None else f"{least:g} x {'yes' if case['passed'][name] else 'NO'}"
    return [*cells, f"{case['ratio'][name]:.2f} x", mark]

"""The display of a run's progress: a live dashboard in a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TextIO

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.machine import readable
from headrace.pool.sources import as_text
from headrace.train.logging.timer import Throughput
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.runs.words import return_text
from headrace.train.settings.config import Config

PARTS = {
    "env": ("environments", "cyan"),
    "inference": ("choosing actions", "yellow"),
    "learning": ("learning", "magenta"),
    "waiting": ("samplers wait", "grey50"),
    "idle": ("learner waits", "grey30"),
}
"""label and colour of each part of the time; ``paced``, the time of waiting for the replay ratio, is not shown"""
HEADLINE = ("training", "sampling")
"""names of speeds; the first that a run has is shown as its speed"""
SPEEDS = ("steps_per_second", "per_second")
"""entries of a line's time, of which a run has one, with its speeds"""
MORE = {
    "stepping": "{} steps/s of the environments alone",
    "inference": "{} with choosing actions",
    "updates": "{} updates/s",
    "update_frames": "{} samples learnt from per second",
}
"""labels of other rates"""
Points = Sequence[tuple[int, float]]
BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # dot bits by row and column
MARK = "◆"
LABEL = 9  # characters of the labels at the left edge
CURVE_STYLE, MARK_STYLE = "green", "bold yellow"
CURVE_HEIGHT = 9
RECENT = 60.0  # seconds over which speed is measured for the estimate of the time left
MOST_METRICS = 3  # numbers of a task's own that are shown
FIRST_ESTIMATE = 1.0  # seconds before the first estimate of the time left


class Progress(NamedTuple):
    """The state of a run at a point in time.

    Attributes:
        line: the same entries as in a line of metrics.
        address: the URL of the run's page; None without one.
        remarks: texts on what has happened, the newest ones.
    """

    config: Config
    run: RunFolder
    line: Mapping[str, Any]
    address: str | None
    remarks: tuple[str, ...]

    @property
    def policies(self) -> Mapping[str, Mapping[str, Any]]:
        """Policy name → its entries; the line itself, by an empty name, for a single one."""
        return self.line.get("policies") or {"": self.line}

    @property
    def time(self) -> Mapping[str, Any]:
        return self.line["time"]

    @property
    def speeds(self) -> Mapping[str, float | None]:
        return next(self.time[name] for name in SPEEDS if name in self.time)


class Dashboard:
    """The display of a run's progress; a context manager around training.

    Args:
        file: the output; a terminal shows the live dashboard, any other file receives a line every few seconds.
    """

    def __init__(self, file: TextIO | None = None, quiet: bool = False):
        self.console = console_of(file or sys.stdout)
        self.quiet = quiet
        self.interval = 0.25 if self.console.is_terminal else 5.0
        self._live: Live | None = None
        self._shown = 0.0
        self._began = False
        self._curve: list[tuple[int, float]] = []
        self._evaluations: dict[int, float] = {}
        self._pace = Throughput(RECENT)

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, words: str) -> None:
        """Prints a line, above the live dashboard."""
        if not self.quiet:
            self.console.print(as_text(words), highlight=False, soft_wrap=True, markup=False)

    def update(self, progress: Callable[[], Progress], force: bool = False) -> None:
        """Shows the run's progress, unless the last update was too recent."""
        now = time.monotonic()
        if self.quiet or (now - self._shown < self.interval and not force):
            return
        self._shown, run = now, progress()
        for line in (*(() if self._began else read_metrics(run.run.metrics_file)), run.line):
            if (value := line.get("elo" if "elo" in line else "return")) is not None:
                self._curve.append((line["step"], value))
            found = line.get("evaluation") or {}
            if "step" in found and math.isfinite(found.get("return", math.nan)):
                self._evaluations[int(found["step"])] = found["return"]
        self._began = True
        if self._live is not None:
            self._live.update(self._picture(run), refresh=True)
        else:
            self.console.print(self._line(run), highlight=False, soft_wrap=True, markup=False)

    def _line(self, run: Progress) -> str:
        parts = [
            run.config.task,
            f"step {run.line['step']:,} of {run.config.total_steps:,}",
            _result(run),
            *_metrics(run),
            f"{_headline(run)} steps/s",
            *([_rate(run, "update_frames")] if "update_frames" in run.speeds else []),
            *_hardware(run),
            _memory(run),
            f"{run.time['seconds']:.1f} s{self._left(run)}",
        ]
        return "  ".join(parts)

    def _left(self, run: Progress) -> str:
        self._pace.note(run.line["step"])
        (rate,), missing = self._pace.per_second(FIRST_ESTIMATE) or (0.0,), run.config.total_steps - run.line["step"]
        if rate <= 0 or missing <= 0:
            return ""
        return f", {'' if run.config.stop_at_return is None else '≤ '}{duration(missing / rate)} left"

    def _picture(self, run: Progress) -> Panel:
        config, step = run.config, run.line["step"]
        width = max(40, min(self.console.width, 100) - 4)

        progress = Table.grid(padding=(0, 1), expand=False)
        progress.add_row(
            ProgressBar(total=config.total_steps, completed=min(step, config.total_steps), width=width - 62),
            f"{step:>11,} / {config.total_steps:,}",
            f"{run.time['seconds']:7.1f} s{self._left(run)}",
        )
        goal = "" if config.stop_at_return is None else f"  (goal {config.stop_at_return:g})"
        results = [
            part
            for name, policy in run.policies.items()
            for part in ((f"{name} " if name else "", "dim"), (f"{return_text(policy['return'])} ", "bold green"))
        ]
        headline = Text.assemble(
            (f"{_headline(run)} ", "bold"),
            ("steps/s   ", "dim"),
            *([(_elo(run), "bold green")] if "elo" in run.line else [("return ", "dim"), *results]),
            (goal, "dim"),
            (_evaluated(run), "yellow"),
            ("   episodes ", "dim"),
            f"{run.line['episodes']:,}",
            *(f"   {words}" for words in _metrics(run)),
            *(f"   {words}" for words in _hardware(run)),
        )
        curve = Text("\n").join(draw_curve(self._curve, width - 12, CURVE_HEIGHT, sorted(self._evaluations.items())))
        where = " ".join(config.devices) or config.device
        each = " each" if len(config.devices) > 1 else ""
        rest = f" · {config.algo} · {config.num_envs:,} environments{each} · {where}"
        title = Text.assemble((config.task, "bold"), rest)
        parts = [progress, headline, _more_speeds(run), _split_bar(run, width), curve]
        parts += [Text(), _policy_table(run)]
        parts += [Text(line, style="dim") for line in run.remarks]
        watch = "" if run.address is None else f"watch {run.address} · "
        where = Text(f"{watch}{run.run.path}", style="dim")
        return Panel(Group(*parts), title=title, subtitle=where, width=width + 4)


def console_of(file: TextIO, *, highlight: bool = True, quiet: bool = False) -> Console:
    """Returns a console for a file; a notebook receives plain lines."""
    is_terminal = file.isatty()
    return Console(file=file, force_terminal=is_terminal, force_jupyter=False, highlight=highlight, quiet=quiet)


def duration(seconds: float) -> str:
    """Returns a time as text, such as ``"45 s"``, ``"12 min"`` or ``"4 h 38 min"``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60:,} h {minutes % 60} min"


def _result(run: Progress) -> str:
    """Returns the policies' returns as text, or the Elo of self-play by turns."""
    if "elo" in run.line:
        return _elo(run)
    returns = (f"{name} {return_text(policy['return'])}{_types(policy)}" for name, policy in run.policies.items())
    return f"return {', '.join(returns).strip()}{_evaluated(run)}"


def _elo(run: Progress) -> str:
    elo, share = run.line["elo"], run.line["points_against_random"]
    return "Elo -" if elo is None else f"Elo {elo:,.0f} ({share:.0%} of points against random moves)"


def _evaluated(run: Progress) -> str:
    found = run.line.get("evaluation")
    return f"   evaluated {return_text(found['return'])}" if found else ""


def _metrics(run: Progress) -> list[str]:
    """Returns what environments report of their episodes, as texts: the first few of what the run's file has."""
    reported = [*run.line.get("metrics", {}).items()][:MOST_METRICS]
    return [f"{name} {return_text(value)}" for name, value in reported]


def _types(policy: Mapping[str, Any]) -> str:
    """Returns the mean returns of the agent types that share a policy, such as ``" (tagger 1.0, runner -2.5)"``."""
    types = [f"{name} {return_text(known['return'])}" for name, known in policy.get("types", {}).items()]
    return f" ({', '.join(types)})" if types else ""


def _split_bar(run: Progress, width: int) -> Text:
    split = {name: run.time[name] for name in PARTS if name in run.time}
    total = sum(split.values()) or 1.0
    bar, end = Text(), 0.0
    for name, seconds in split.items():
        begin, end = end, end + seconds / total * width
        bar.append("━" * (round(end) - round(begin)), style=PARTS[name][1])
    bar.append("\n")
    for name, seconds in split.items():
        words, colour = PARTS[name]
        if seconds >= 0.005 * total:
            bar.append("■ ", style=colour)
            bar.append(f"{words} {seconds / total:.0%}   ")
    return bar


def _headline(run: Progress) -> str:
    """Returns the agent steps per second."""
    return next(_count(run.speeds[name]) for name in HEADLINE if name in run.speeds)


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _rate(run: Progress, name: str) -> str:
    return MORE[name].format(_count(run.speeds[name]))


def _more_speeds(run: Progress) -> Text:
    """Returns further rates, whether samplers wait for the replay ratio, and the memory in use."""
    words = [_rate(run, name) for name in MORE if name in run.speeds]
    if run.time.get("paced", 0.0) > 0.0 and run.config.replay_ratio is not None:
        words.append("samplers paced by replay_ratio")
    return Text(", ".join((*words, _memory(run))), style="dim")


def _hardware(run: Progress) -> list[str]:
    used = run.time
    words = [f"{used['cores']:.1f} cores"] if "cores" in used else []
    return [*words, *([f"GPU {used['gpu']:.0%}"] if "gpu" in used else [])]


def _memory(run: Progress) -> str:
    used = run.time["memory"]
    if "resident" in used:
        return readable(used["resident"])
    return f"{readable(used['allocated'])} ({readable(used['reserved'])} reserved)"


def _policy_table(run: Progress) -> Table | Text:
    policies = list(run.policies.items())
    names = list(dict.fromkeys(name for _, policy in policies for name in policy["loss"] if name != "learning_rate"))
    if len(policies) == 1 and "types" not in policies[0][1]:
        losses = policies[0][1]["loss"]
        return Text("   ".join(f"{name.replace('_', ' ')} {losses[name]:.3g}" for name in names), style="dim")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", vertical="bottom")
    for name in ("return", "length", *names):
        table.add_column(name.replace("_", "\n"), justify="right", vertical="bottom")
    for name, policy in policies:
        numbers = [f"{policy['loss'][each]:.3g}" if each in policy["loss"] else "" for each in names]
        earned = Text(return_text(policy["return"]), style="green")
        table.add_row(Text(name), earned, return_text(policy["length"]), *numbers)
        for kind, known in policy.get("types", {}).items():
            earned = Text(return_text(known["return"]), style="green")
            table.add_row(Text(f"  {kind}", style="dim"), earned, return_text(known["length"]))
    return table


def draw_curve(points: Points, width: int, height: int, marks: Points = ()) -> list[Text]:
    """Returns the lines of a curve in Braille dots (2 x 4 per character), with its extreme values at the left edge.

    Args:
        points: the curve's points (x, y), with increasing x.
        width, height: size of the drawing in characters, without the labels.
        marks: single points (x, y), each drawn as a character over the curve.
    """
    both = [*points, *marks]
    if len(points) < 2 or points[-1][0] == points[0][0]:
        return [Text(" " * (width + LABEL))] * height
    (first, last), (low, high) = ((min(values), max(values)) for values in zip(*both, strict=True))
    across, scale = np.linspace(first, last, 2 * width), (4 * height - 1) / ((high - low) or 1.0)
    xs, ys = zip(*points, strict=True)
    rows = np.rint((high - np.interp(across, xs, ys)) * scale).astype(int)
    known = np.flatnonzero((across >= points[0][0]) & (across <= points[-1][0]))
    cells = [[0] * width for _ in range(height)]
    for column in known:
        start, end = sorted((rows[column], rows[max(column - 1, known[0])]))
        for row in range(start, end + 1):
            cells[row // 4][column // 2] |= BRAILLE[row % 4][column % 2]
    marked = {
        (round((high - y) * scale) // 4, round((x - first) / (last - first) * (2 * width - 1)) // 2) for x, y in marks
    }
    labels = {0: high, height - 1: low}
    return [_line(labels.get(i), cells[i], {column for row, column in marked if row == i}) for i in range(height)]


def _line(label: float | None, cells: list[int], marked: set[int]) -> Text:
    text = Text(" " * LABEL if label is None else f"{label:8.1f} ", style=CURVE_STYLE)
    for column, dots in enumerate(cells):
        if column in marked:
            text.append(MARK, MARK_STYLE)
        else:
            text.append(chr(0x2800 + dots) if dots else " ")
    return text

"""The display of a run's progress: a live dashboard in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.machine import readable
from headrace.train.logging.metrics import read_metrics
from headrace.train.logging.progress import PolicyProgress, Progress
from headrace.train.logging.throughput import Throughput

COLOURS = {
    "env": "cyan", "inference": "yellow", "paced": "grey30", "waiting": "grey50", "learning": "magenta",
    "idle": "grey30",
}  # fmt: skip
NAMES = {
    "env": "environment",
    "inference": "inference",
    "paced": "paced",
    "waiting": "sampler waits",
    "learning": "learning",
    "idle": "learner waits",
}
SPEEDS = {
    "stepping": "stepping",
    "inference": "with inference",
    "training": "with training",
    "sampling": "steps/s",
    "updates": "updates/s",
    "update_frames": "update frames/s",
}
CURVE_HEIGHT = 9
PACE = 60.0  # seconds of the recent past from which the time left is estimated
KNOWN = 1.0  # seconds before the first estimate


class Dashboard:
    """Shows a run's progress; a context manager around training.

    Args:
        file: where to print; a terminal shows the live dashboard, any other file receives a line every few seconds.
        quiet: print nothing at all.
    """

    def __init__(self, file: TextIO | None = None, quiet: bool = False):
        self.console = Console(file=file or sys.stdout)
        self.quiet = quiet
        self.interval = 0.25 if self.console.is_terminal else 5.0
        self._live: Live | None = None
        self._shown = 0.0
        self._began = False
        self._curve: list[tuple[int, float]] = []
        self._pace = Throughput(PACE)

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, progress: Callable[[], Progress], force: bool = False) -> None:
        """Show the run's progress if the last update was long enough ago; ``progress`` is called only then."""
        now = time.monotonic()
        if self.quiet or (now - self._shown < self.interval and not force):
            return
        self._shown, run = now, progress()
        if not self._began:
            lines = read_metrics(run.metrics_file)
            self._curve = [(line["step"], line["return"]) for line in lines if line.get("return") is not None]
            self._began = True
        mean = run.policies[0].mean_return
        if mean is not None:
            self._curve.append((run.step, mean))
        if self._live is not None:
            self._live.update(self._picture(run), refresh=True)
        else:
            self.console.print(self._line(run), highlight=False, soft_wrap=True)

    def _line(self, run: Progress) -> str:
        returns = ", ".join(
            f"{name} {value}{_types(policy)}" for (name, value), policy in zip(_returns(run), run.policies, strict=True)
        )
        speeds = ", ".join(f"{speed} {SPEEDS[name]}" for name, speed in _speeds(run).items())
        speeds = f"steps/s: {speeds}" if "stepping" in run.speeds else speeds
        return (
            f"{run.config.task}  step {run.step:,} of {run.config.total_steps:,}  "
            f"return {returns.strip()}{_evaluated(run)}  {speeds}  {_memory(run)}  {run.seconds:.1f} s"
            f"{self._left(run)}"
        )

    def _left(self, run: Progress) -> str:
        """The estimated time left at the recent speed; empty before it is known."""
        self._pace.note(run.step)
        (rate,), missing = self._pace.per_second(KNOWN) or (0.0,), run.config.total_steps - run.step
        if rate <= 0 or missing <= 0:
            return ""
        return f", {'' if run.config.stop_at_return is None else '≤ '}{duration(missing / rate)} left"

    def _picture(self, run: Progress) -> Panel:
        config = run.config
        width = max(40, min(self.console.width, 100) - 4)

        progress = Table.grid(padding=(0, 1), expand=False)
        progress.add_row(
            ProgressBar(total=config.total_steps, completed=min(run.step, config.total_steps), width=width - 62),
            f"{run.step:>11,} / {config.total_steps:,}",
            f"{run.seconds:7.1f} s{self._left(run)}",
        )
        goal = "" if config.stop_at_return is None else f"  (goal {config.stop_at_return:g})"
        returns = [
            part
            for name, value in _returns(run)
            for part in ((f"{name} " if name else "", "dim"), (f"{value} ", "bold green"))
        ]
        headline = Text.assemble(
            ("return ", "dim"),
            *returns,
            (goal, "dim"),
            (_evaluated(run), "green"),
            ("   episodes ", "dim"),
            f"{run.episodes:,}",
            ("   memory ", "dim"),
            _memory(run),
        )
        curve = Text("\n".join(draw_curve(self._curve, width - 12, CURVE_HEIGHT)), style="green")
        where = " ".join(config.devices) or config.device
        each = " each" if len(config.devices) > 1 else ""
        title = f"[bold]{config.task}[/] · {config.algo} · {config.num_envs:,} environments{each} · {where}"
        parts = [progress, headline, _speed_table(run), _split_bar(run, width), curve]
        parts += [Text(), _policy_table(run)]
        parts += [Text(line, style="dim") for line in run.remarks]
        watch = "" if run.address is None else f"watch {run.address} · "
        return Panel(Group(*parts), title=title, subtitle=f"[dim]{watch}{run.folder}[/]", width=width + 4)


def duration(seconds: float) -> str:
    """Returns a time as text, such as ``"45 s"``, ``"12 min"`` or ``"4 h 38 min"``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60:,} h {minutes % 60} min"


def draw_curve(points: list[tuple[int, float]], width: int, height: int) -> list[str]:
    """Returns the lines of a curve in Braille dots (2 x 4 per character), with its extreme values at the left edge.

    Args:
        points: (x, y) with growing x.
        width, height: of the drawing in characters, without the labels.
    """
    if len(points) < 2 or points[-1][0] == points[0][0]:
        return [" " * (width + 9)] * height
    columns, rows = 2 * width, 4 * height
    low, high = min(y for _, y in points), max(y for _, y in points)
    span = (high - low) or 1.0
    first, last = points[0][0], points[-1][0]
    cells = [[0] * width for _ in range(height)]
    position, previous = 0, None
    for column in range(columns):
        x = first + (last - first) * column / (columns - 1)
        while position < len(points) - 2 and points[position + 1][0] <= x:
            position += 1
        (x0, y0), (x1, y1) = points[position], points[position + 1]
        y = y0 + (y1 - y0) * min(1.0, (x - x0) / ((x1 - x0) or 1))
        row = round((high - y) / span * (rows - 1))
        start, end = sorted((row, row if previous is None else previous))
        for r in range(start, end + 1):
            cells[r // 4][column // 2] |= BRAILLE[r % 4][column % 2]
        previous = row
    labels = {0: f"{high:8.1f} ", height - 1: f"{low:8.1f} "}
    return [
        labels.get(i, " " * 9) + "".join(chr(0x2800 + dots) if dots else " " for dots in line)
        for i, line in enumerate(cells)
    ]


BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # dot bits by row and column


def _returns(run: Progress) -> list[tuple[str, str]]:
    """Each policy's name and mean return."""
    return [(policy.name, _shown(policy.mean_return)) for policy in run.policies]


def _evaluated(run: Progress) -> str:
    """The evaluator's last result, if there is one."""
    return f"   evaluated {run.evaluation['return']:.1f}" if run.evaluation else ""


def _types(policy: PolicyProgress) -> str:
    """The mean returns of the agent types that share a policy, such as ``" (tagger 1.0, runner -2.5)"``."""
    types = policy.types.items()
    return f" ({', '.join(f'{name} {_shown(earned)}' for name, (earned, _) in types)})" if types else ""


def _shown(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.1f}"


def _shares(run: Progress) -> dict[str, float]:
    split = run.split
    total = sum(split.values()) or 1.0
    return {name: seconds / total for name, seconds in split.items()}


def _split_bar(run: Progress, width: int) -> Text:
    """The shares of time as one bar in three colours, with a legend."""
    shares = _shares(run)
    bar = Text()
    end = 0.0
    for name, share in shares.items():
        begin, end = end, end + share * width
        bar.append("━" * (round(end) - round(begin)), style=COLOURS[name])
    bar.append("\n")
    for name, share in shares.items():
        bar.append("■ ", style=COLOURS[name])
        bar.append(f"{NAMES[name]} {share:.0%}   ")
    return bar


def _speeds(run: Progress) -> dict[str, str]:
    return {name: "-" if speed is None else f"{speed:,.0f}" for name, speed in run.speeds.items()}


def _speed_table(run: Progress) -> Text:
    """Steps/s of environments alone, with the policies' actions, and of the whole."""
    speeds = _speeds(run)
    text = Text("steps/s   " if "stepping" in speeds else "", style="dim")
    for i, (name, speed) in enumerate(speeds.items()):
        text.append(f"{'   ' if i else ''}{SPEEDS[name]} ", style="dim")
        text.append(speed, style="not dim bold" if name == "training" else "not dim")
    return text


def _memory(run: Progress) -> str:
    """The memory in use, such as ``"434 MiB"`` of this process, or ``"1.2 of 2.0 GiB reserved"`` on a GPU."""
    used = run.memory
    if "resident" in used:
        return readable(used["resident"])
    return f"{readable(used['allocated'])} ({readable(used['reserved'])} reserved)"


def _policy_table(run: Progress) -> Table | Text:
    """Returns and losses of each policy, and of each agent type that shares one; a line if there is only one."""
    policies = run.policies
    losses = [policy.losses for policy in policies]
    if len(policies) == 1 and not policies[0].types:
        numbers = "   ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in losses[0].items())
        return Text(numbers, style="dim")
    names = list(dict.fromkeys(name for each in losses for name in each))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", vertical="bottom")
    for name in ("return", "length", *names):
        table.add_column(name.replace("_", "\n"), justify="right", vertical="bottom")
    for policy, values in zip(policies, losses, strict=True):
        numbers = [f"{values[name]:.3g}" if name in values else "" for name in names]
        table.add_row(
            policy.name, Text(_shown(policy.mean_return), style="green"), _shown(policy.mean_length), *numbers
        )
        for name, (earned, length) in policy.types.items():
            table.add_row(Text(f"  {name}", style="dim"), Text(_shown(earned), style="green"), _shown(length))
    return table

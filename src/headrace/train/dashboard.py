"""What a person sees while an agent learns: a live picture in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.train.metrics import read_metrics

if TYPE_CHECKING:
    from headrace.train.trainer import Trainer

COLOURS = {"env": "cyan", "inference": "yellow", "learning": "magenta"}
NAMES = {"env": "environment", "inference": "inference", "learning": "learning"}
CURVE_HEIGHT = 9


class Dashboard:
    """Shows a trainer's progress; a context manager around training.

    Args:
        file: where to print; a terminal gets the live picture, anything else a line every few seconds.
        quiet: print nothing at all.
    """

    def __init__(self, file: TextIO | None = None, quiet: bool = False):
        self.console = Console(file=file or sys.stdout)
        self.quiet = quiet
        self.interval = 0.25 if self.console.is_terminal else 5.0
        self._live: Live | None = None
        self._shown = 0.0
        self._began: tuple[float, int] | None = None
        self._curve: list[tuple[int, float]] = []
        self._speed = 0.0

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, trainer: Trainer, force: bool = False) -> None:
        """Show the trainer's state, if the last time was long enough ago."""
        now = time.monotonic()
        if self.quiet or (now - self._shown < self.interval and not force):
            return
        self._shown = now
        if self._began is None:
            lines = read_metrics(trainer.run.metrics_file)
            self._curve = [(line["step"], line["return"]) for line in lines if line["return"] is not None]
            self._began = (now, trainer.step)
        mean = trainer.tracker.mean_return()
        if mean is not None:
            self._curve.append((trainer.step, mean))
        since, steps = self._began
        if now > since:
            self._speed = (trainer.step - steps) / (now - since)
        if self._live is not None:
            self._live.update(self._picture(trainer), refresh=True)
        else:
            self.console.print(self._line(trainer), highlight=False, soft_wrap=True)

    def _line(self, trainer: Trainer) -> str:
        shares = ", ".join(f"{NAMES[k]} {share:.0%}" for k, share in _shares(trainer).items())
        returns = ", ".join(f"{name} {value}" for name, value in _returns(trainer))
        return (
            f"{trainer.config.task}  step {trainer.step:,} of {trainer.config.total_steps:,}  "
            f"return {returns.strip()}  {self._speed:,.0f} steps/s ({shares})  "
            f"{trainer.seconds:.1f} s"
        )

    def _picture(self, trainer: Trainer) -> Panel:
        config = trainer.config
        width = max(40, min(self.console.width, 100) - 4)

        progress = Table.grid(padding=(0, 1), expand=False)
        progress.add_row(
            ProgressBar(total=config.total_steps, completed=min(trainer.step, config.total_steps), width=width - 42),
            f"{trainer.step:>11,} / {config.total_steps:,}",
            f"{trainer.seconds:7.1f} s",
        )
        goal = "" if config.stop_at_return is None else f"  (goal {config.stop_at_return:g})"
        returns = [
            part for name, value in _returns(trainer) for part in ((f"{name} ", "dim"), (f"{value} ", "bold green"))
        ]
        headline = Text.assemble(
            ("return ", "dim"),
            *returns,
            (goal, "dim"),
            ("   episodes ", "dim"),
            f"{trainer.tracker.episodes:,}",
            ("   speed ", "dim"),
            (f"{self._speed:,.0f} steps/s", "bold"),
        )
        curve = Text("\n".join(draw_curve(self._curve, width - 12, CURVE_HEIGHT)), style="green")
        title = f"[bold]{config.task}[/] · {config.algo} · {config.num_envs} environments · {config.device}"
        parts = [progress, headline, _split_bar(trainer, width), curve, _loss_line(trainer)]
        return Panel(Group(*parts), title=title, subtitle=f"[dim]{trainer.run.path}[/]", width=width + 4)


def draw_curve(points: list[tuple[int, float]], width: int, height: int) -> list[str]:
    """A curve in Braille dots (2 x 4 a character), with its highest and lowest value at the left edge.

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


def _returns(trainer: Trainer) -> list[tuple[str, str]]:
    """Each policy's name and mean return."""
    means = [(policy.name, policy.tracker.mean_return()) for policy in trainer.policies]
    return [(name, "-" if mean is None else f"{mean:.1f}") for name, mean in means]


def _shares(trainer: Trainer) -> dict[str, float]:
    split = trainer.split()
    total = sum(split.values()) or 1.0
    return {name: seconds / total for name, seconds in split.items()}


def _split_bar(trainer: Trainer, width: int) -> Text:
    """Where the time goes: one bar in three colours, and its legend."""
    shares = _shares(trainer)
    bar = Text()
    for name, share in shares.items():
        bar.append("━" * round(share * width), style=COLOURS[name])
    bar.append("\n")
    for name, share in shares.items():
        bar.append("■ ", style=COLOURS[name])
        bar.append(f"{NAMES[name]} {share:.0%}   ")
    return bar


def _loss_line(trainer: Trainer) -> Text:
    text = Text(style="dim")
    for name, value in trainer.losses.items():
        text.append(f"{name.replace('_', ' ')} {value:.3g}   ")
    return text

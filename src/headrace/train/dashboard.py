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

from headrace.train.memory import in_use, readable
from headrace.train.metrics import read_metrics

if TYPE_CHECKING:
    from headrace.train.policy import Policy
    from headrace.train.trainer import Trainer as SynchronousTrainer
    from headrace.train.workers.trainer import AsyncTrainer

    Trainer = SynchronousTrainer | AsyncTrainer

COLOURS = {"env": "cyan", "inference": "yellow", "waiting": "grey50", "learning": "magenta", "idle": "grey30"}
NAMES = {
    "env": "environment",
    "inference": "inference",
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
        self._began = False
        self._watched: str | None = None
        self._curve: list[tuple[int, float]] = []

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
        if not self._began:
            lines = read_metrics(trainer.run.metrics_file)
            self._curve = [(line["step"], line["return"]) for line in lines if line["return"] is not None]
            self._began = True
        mean = trainer.tracker.mean_return()
        if mean is not None:
            self._curve.append((trainer.step, mean))
        if self._live is not None:
            self._live.update(self._picture(trainer), refresh=True)
        else:
            if trainer.address not in (None, self._watched):
                self.console.print(f"watch {trainer.address}", highlight=False, soft_wrap=True)
                self._watched = trainer.address
            self.console.print(self._line(trainer), highlight=False, soft_wrap=True)

    def _line(self, trainer: Trainer) -> str:
        returns = ", ".join(
            f"{name} {value}{_types(policy)}"
            for (name, value), policy in zip(_returns(trainer), trainer.policies, strict=True)
        )
        speeds = ", ".join(f"{speed} {SPEEDS[name]}" for name, speed in _speeds(trainer).items())
        speeds = f"steps/s: {speeds}" if "stepping" in trainer.speeds() else speeds
        return (
            f"{trainer.config.task}  step {trainer.step:,} of {trainer.config.total_steps:,}  "
            f"return {returns.strip()}{_evaluated(trainer)}  {speeds}  {_memory(trainer)}  {trainer.seconds:.1f} s"
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
            part
            for name, value in _returns(trainer)
            for part in ((f"{name} " if name else "", "dim"), (f"{value} ", "bold green"))
        ]
        headline = Text.assemble(
            ("return ", "dim"),
            *returns,
            (goal, "dim"),
            (_evaluated(trainer), "green"),
            ("   episodes ", "dim"),
            f"{trainer.tracker.episodes:,}",
            ("   memory ", "dim"),
            _memory(trainer),
        )
        curve = Text("\n".join(draw_curve(self._curve, width - 12, CURVE_HEIGHT)), style="green")
        where = " ".join(config.devices) or config.device
        each = " each" if len(config.devices) > 1 else ""
        title = f"[bold]{config.task}[/] · {config.algo} · {config.num_envs:,} environments{each} · {where}"
        parts = [progress, headline, _speed_table(trainer), _split_bar(trainer, width), curve]
        parts += [Text(), _policy_table(trainer)]
        parts += [Text(line, style="dim") for line in trainer.remarks]
        watch = "" if trainer.address is None else f"watch {trainer.address} · "
        return Panel(Group(*parts), title=title, subtitle=f"[dim]{watch}{trainer.run.path}[/]", width=width + 4)


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
    return [(policy.name, _shown(policy.tracker.mean_return())) for policy in trainer.policies]


def _evaluated(trainer: Trainer) -> str:
    """What the evaluator found last, if there is one."""
    return f"   evaluated {trainer.evaluation['return']:.1f}" if trainer.evaluation else ""


def _types(policy: Policy) -> str:
    """The mean returns of the agent types that share a policy, such as ``" (tagger 1.0, runner -2.5)"``."""
    types = policy.tracker.by_type().items()
    return f" ({', '.join(f'{name} {_shown(earned)}' for name, (earned, _) in types)})" if types else ""


def _shown(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.1f}"


def _shares(trainer: Trainer) -> dict[str, float]:
    split = trainer.split()
    total = sum(split.values()) or 1.0
    return {name: seconds / total for name, seconds in split.items()}


def _split_bar(trainer: Trainer, width: int) -> Text:
    """Where the time goes: one bar in three colours, and its legend."""
    shares = _shares(trainer)
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


def _speeds(trainer: Trainer) -> dict[str, str]:
    return {name: "-" if speed is None else f"{speed:,.0f}" for name, speed in trainer.speeds().items()}


def _speed_table(trainer: Trainer) -> Text:
    """Steps a second of environments alone, with the policies' choices, and of the whole."""
    speeds = _speeds(trainer)
    text = Text("steps/s   " if "stepping" in speeds else "", style="dim")
    for i, (name, speed) in enumerate(speeds.items()):
        text.append(f"{'   ' if i else ''}{SPEEDS[name]} ", style="dim")
        text.append(speed, style="not dim bold" if name == "training" else "not dim")
    return text


def _memory(trainer: Trainer) -> str:
    """What is in use, such as ``"434 MiB"`` of this process, or ``"1.2 of 2.0 GiB reserved"`` on a GPU."""
    used = in_use(trainer.device)
    if "resident" in used:
        return readable(used["resident"])
    return f"{readable(used['allocated'])} ({readable(used['reserved'])} reserved)"


def _policy_table(trainer: Trainer) -> Table | Text:
    """What each policy earns and learns, and each agent type of those that share one: a line for one of one type."""
    policies = trainer.policies
    losses = [policy.last_losses() for policy in policies]
    if len(policies) == 1 and not policies[0].tracker.types:
        numbers = "   ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in losses[0].items())
        return Text(numbers, style="dim")
    names = list(dict.fromkeys(name for each in losses for name in each))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", vertical="bottom")
    for name in ("return", "length", *names):
        table.add_column(name.replace("_", "\n"), justify="right", vertical="bottom")
    for policy, values in zip(policies, losses, strict=True):
        tracker = policy.tracker
        numbers = [f"{values[name]:.3g}" if name in values else "" for name in names]
        table.add_row(
            policy.name, Text(_shown(tracker.mean_return()), style="green"), _shown(tracker.mean_length()), *numbers
        )
        for name, (earned, length) in tracker.by_type().items():
            table.add_row(Text(f"  {name}", style="dim"), Text(_shown(earned), style="green"), _shown(length))
    return table

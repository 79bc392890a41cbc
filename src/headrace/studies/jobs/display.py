"""Display of the progress of several runs: one table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Self, TextIO

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from headrace.pool.sources import as_text
from headrace.studies.jobs.processes import Job
from headrace.train.logging.dashboard import console_of
from headrace.train.runs.words import return_text

INTERVAL = 0.5  # seconds between two tables in a terminal
LINES = 10.0  # seconds between two lines of a run elsewhere than in a terminal


class Display:
    """The progress of runs; a context manager.

    Args:
        file: where the progress is printed; standard output by default.
    """

    def __init__(self, total: int, quiet: bool = False, file: TextIO | None = None):
        self.console = console_of(file or sys.stdout, highlight=False, quiet=quiet)
        self._total, self._shown = total, time.monotonic()
        self._said: dict[str, str] = {}
        self._live: Live | None = None
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, words: str) -> None:
        """Prints a line, above the table if there is one."""
        self.console.print(as_text(words), soft_wrap=True, markup=False)

    def update(self, running: Sequence[Job], summary: str) -> None:
        """Shows the progress of runs, unless the last update was less than `INTERVAL` (or `LINES`) seconds ago.

        Args:
            summary: a line above the table, such as how many runs have ended.
        """
        now = time.monotonic()
        if now - self._shown < (INTERVAL if self._live is not None else LINES):
            return
        self._shown = now
        if self._live is not None:
            self._live.update(self._table(running, summary), refresh=True)
            return
        for job in running:
            progress = self._progress(job)
            if self._said.get(job.name) != progress:
                self._said[job.name] = progress
                self.say(f"{job.name}  {progress}")

    def _table(self, running: Sequence[Job], summary: str) -> Table:
        table = Table(title=escape(summary), title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("run")
        for name in ("steps", "return", "steps/s", "seconds"):
            table.add_column(name, justify="right")
        for job in running:
            seconds = time.monotonic() - job.began
            table.add_row(
                escape(job.name) + (" (stopping)" if job.stopping else ""),
                f"{job.step:,} / {self._total:,}",
                return_text(job.mean_return),
                rate(job),
                f"{seconds:.0f}",
            )
        return table

    def _progress(self, job: Job) -> str:
        if not job.step:
            return "begins"
        return f"step {job.step:,} of {self._total:,}  return {return_text(job.mean_return)}  {rate(job)} steps/s"


def ending_words(job: Job) -> str:
    told = job.ending or {}
    if "error" in told:
        return f"failed: {told['error']}"
    earned = return_text(told["return"])
    return f"{told['reason']}: return {earned} after {told['steps']:,} steps in {told['seconds']:.1f} s"


def rate(job: Job) -> str:
    """Returns the agent steps per second over the last few lines of metrics, as text."""
    lines = [
        (line["step"], line["time"]["seconds"]) for line in job.metrics.lines[-5:] if "seconds" in line.get("time", {})
    ]
    if len(lines) < 2 or lines[-1][1] <= lines[0][1]:
        return "-"
    return f"{(lines[-1][0] - lines[0][0]) / (lines[-1][1] - lines[0][1]):,.0f}"

"""The report of ``headrace train --seeds``: a table of the seeds, and the paths of their runs and plot."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.table import Table

from headrace.errors import OptionError
from headrace.studies.jobs.processes import DONE
from headrace.studies.jobs.seeds import SeedResult
from headrace.train.runs.events import one_line
from headrace.train.runs.words import return_text


def report(results: Sequence[SeedResult]) -> int:
    """Prints the results of the seeds; returns the exit status: 0 all done, 1 one failed, 130 one was stopped."""
    folder = results[0].run_dir.parent
    console = Console(highlight=False)
    console.print(_table(results))
    known = [result.mean_return for result in results if result.mean_return is not None]
    if len(known) > 1:
        mean, deviation = return_text(statistics.mean(known)), return_text(statistics.stdev(known))
        print(f"mean return {mean}, standard deviation over seeds {deviation}")
    print(f"  runs   {folder}")
    plot = _plot(folder, results)
    if plot is not None:
        print(f"  plot   {plot}")
    for result in results:
        if result.reason == "failed":
            print(f"  seed {result.seed} failed: {result.error} (all it printed: {result.run_dir}.log)")
    ends = {result.reason for result in results}
    if not ends <= {*DONE}:
        print(f"go on with:  headrace train --resume {quote(str(folder))}")
    if ends & {"interrupted", "waiting"}:
        return 130
    return int("failed" in ends)


def _table(results: Sequence[SeedResult]) -> Table:
    table = Table()
    table.add_column("seed", justify="right")
    table.add_column("end")
    for name in ("return", "steps", "seconds"):
        table.add_column(name, justify="right")
    for result in results:
        numbers = (return_text(result.mean_return), f"{result.steps:,}", f"{result.seconds:.1f}")
        table.add_row(str(result.seed), result.reason, *numbers)
    return table


def _plot(folder: Path, results: Sequence[SeedResult]) -> Path | None:
    """Plots the returns of all seeds; returns the plot's path, or None without returns or without matplotlib."""
    from headrace.studies.plots.curves import grouped, read_curves
    from headrace.studies.plots.figures import plot_groups

    begun = [result.run_dir for result in results if (result.run_dir / "config.json").is_file()]
    curves = read_curves(begun, skipped=lambda words: None)
    if not curves:
        return None
    try:
        plot_groups(grouped(curves), folder / "curves.png")
    except (ModuleNotFoundError, OptionError):
        return None
    except Exception as error:  # of the disk or of matplotlib: the runs are done
        return print(f"no plot: {one_line(error)}")
    return folder / "curves.png"

"""A run in its folder, from the first line that it prints to the plot and the video at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import OptionError, RenderError, StateError, StorageError
from headrace.train.config import given
from headrace.train.config.settings import Config, make_config
from headrace.train.launch.checks import check_cluster, check_launcher, checked, expect_workers
from headrace.train.logging.loggers import check_loggers
from headrace.train.logging.metrics import read_metrics
from headrace.train.processes.page import page_of
from headrace.train.processes.torchrun import place
from headrace.train.runners.callbacks import Callback
from headrace.train.runners.here import train_here
from headrace.train.runners.result import Result
from headrace.train.runs import trust as code
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.writing import is_newer

if TYPE_CHECKING:
    from headrace.train.launch.torchrun import Together

CONTINUABLE = (
    "total_steps", "stop_at_return", "checkpoint_seconds", "keep_checkpoints", "video", "viewer", "log", "ray",
)  # fmt: skip
"""settings that may change in the middle of a run"""
PATIENCE = 60.0  # seconds in which who trained into a folder before torchrun's restart must have ended


@dataclass(frozen=True)
class Wishes:
    """How a run is to be trained, beside its settings.

    Attributes:
        quiet: show no progress.
        trust: run the code of files that the run names, also if it did not begin here.
        objects: networks and rewards that are objects, by the names of their settings.
        callbacks: a user's own.
        tuned: what the tuner found before, for the run's log of events.
        together: what the first of torchrun's processes knows of the others; None for a run that was started alone.
    """

    quiet: bool = False
    trust: bool = False
    objects: Mapping[str, Any] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    tuned: Mapping[str, Any] | None = None
    together: Together | None = None


def launched(start: Callable[[Wishes], Result], wishes: Wishes, asked: Mapping[str, Any] | None = None) -> Result:
    """Train by ``start``; of processes that torchrun started only the first one, which the others follow.

    Args:
        start: what a run does that is started alone.
        wishes: what it is called with.
        asked: the settings that were asked for, which all processes must have; None to go on with a run.
    """
    where = place()
    if where is None:
        return start(wishes)
    from headrace.train.launch import torchrun

    def lead(together: Together) -> Result:
        if together.found is not None and together.found.joinpath("config.json").exists():
            return go_on(together.found, {}, dataclasses.replace(wishes, together=together))
        return start(dataclasses.replace(wishes, together=together))

    return torchrun.launched(lead, where, asked, wishes.callbacks)


def begin(task: str, overrides: dict[str, Any], run_dir: str | Path | None, wishes: Wishes) -> Result:
    """Train in a new folder; raises as `headrace.train.train`."""
    code.remember(code.named({"task": task, **overrides}))
    expect_workers(overrides)
    asked = checked(task, overrides)
    if run_dir is None and wishes.together is not None:
        run_dir = wishes.together.found
    run = RunFolder.create(run_dir, asked.config)
    try:
        with run.held():
            if wishes.tuned is not None:
                run.events.note("tuned", wishes.tuned["text"], 0, 0.0, wishes.tuned["data"])
            return _run(asked.config, run, None, wishes, asked.remarks())
    except BaseException:
        run.leave()
        raise


def go_on_or_begin(task: str, overrides: dict[str, Any], run_dir: str | Path | None, wishes: Wishes) -> Result:
    """Go on with the run in a folder, where what is asked for differs from it only as it may; or begin one there."""
    if run_dir is None or not RunFolder(run_dir).config_file.exists():
        return begin(task, overrides, run_dir, wishes)
    code.remember(code.named({"task": task, **overrides}))
    _, config = RunFolder.open(run_dir, trust=wishes.trust)
    asked = make_config(task, **overrides)
    changes = {k: v for k, v in overrides.items() if getattr(config, k, None) != getattr(asked, k, None)}
    return go_on(run_dir, changes, wishes)


def go_on(run_dir: str | Path, changes: dict[str, Any], wishes: Wishes) -> Result:
    """Go on with a run from its newest checkpoint; raises as `headrace.train.resume`."""
    run, config = RunFolder.open(run_dir, trust=wishes.trust)
    given.check_wanted(vars(config), wishes.objects)
    fixed = sorted(set(changes) - set(CONTINUABLE))
    if fixed:
        raise OptionError(f"{fixed[0]} cannot change in the middle of a run; only {', '.join(CONTINUABLE)} can")
    if changes:
        check_loggers(changes.get("log", ()))
        config = make_config(**{**dataclasses.asdict(config), **changes}, defaults=False)
    check_cluster(config)
    check_launcher(config)
    lines = read_metrics(run.metrics_file)  # what is wrong with them is said before anything begins
    with run.held(PATIENCE if wishes.together is not None and wishes.together.found is not None else 0.0):
        if changes:
            run.write_config(config)
        expect_workers(vars(config))
        from headrace.train.runs import checkpoint as checkpoints

        newest = checkpoints.newest(run.checkpoints)
        if newest is None and lines:
            told = f"{run.metrics_file} tells of {lines[-1]['step']:,} steps"
            raise StateError(f"{run.checkpoints} holds no checkpoint to go on from, but {told}: begin another run")
        return _run(config, run, newest, wishes)


def _run(config: Config, run: RunFolder, saved: Path | None, wishes: Wishes, remarks: Sequence[str] = ()) -> Result:
    """Train in a run folder; what there is to say beforehand follows the address of the run's page."""
    with page_of(run, config.viewer) as address:
        for words in () if wishes.quiet else (*([f"watch {address}"] if address else []), *remarks):
            print(words, flush=True)
        return _trained(config, run, saved, wishes)


def _trained(config: Config, run: RunFolder, saved: Path | None, wishes: Wishes) -> Result:
    quiet = wishes.quiet
    try:
        if config.devices:
            from headrace.train.runners.data_parallel import train_together

            if wishes.callbacks:
                raise OptionError("callbacks are for a run with one process that learns: leave devices out")
            result = train_together(config, run.path, saved, quiet)
        elif wishes.together is not None:
            wishes.together.note(run.path)
            wishes.together.announce(config, run.path)
            result = train_here(config, run, saved, quiet, wishes.together.group, wishes.callbacks)
        else:
            result = train_here(config, run, saved, quiet, callbacks=wishes.callbacks)
    except StorageError as error:
        raise StorageError(f"{error}; {_rest(run)}") from error
    if result.reason == "interrupted":
        result = dataclasses.replace(result, plot=_plot(run))
        if not quiet:
            how = "the same torchrun … -m headrace" if wishes.together is not None else "headrace"
            print(f"stopped; go on with:  {how} train --resume {run.path}")
            print(f"   see it play with:  headrace play {run.path}")
            if result.plot is not None:
                print(f"               plot:  {result.plot}")
        return result
    return dataclasses.replace(result, plot=_plot(run), video=_video(config, run, quiet))


def _rest(run: RunFolder) -> str:
    """What is left of a run that could not write any more."""
    from headrace.train.runs import checkpoint as checkpoints

    newest = checkpoints.newest_learnt(run.checkpoints)
    if newest is None:
        return "the run was ended before its first checkpoint"
    return f"make room, then go on from {newest.name}:  headrace train --resume {run.path}"


def _video(config: Config, run: RunFolder, quiet: bool) -> Path | None:
    """A video of the agent, where PyAV is installed and the task can be rendered; Ctrl-C leaves it out.

    One that is of the best checkpoint already stays as it is.
    """
    if not config.video:
        return None
    try:
        from headrace.train.play.video import best_film, record

        known = best_film(run)
        return known if known is not None else record(run.path, trust=True)
    except ImportError as error:
        return None if quiet else print(f"no video: it needs {error.name}: pip install 'headrace[train]'")
    except RenderError as error:
        return None if quiet else print(f"no video: {error}")
    except KeyboardInterrupt:
        return None
    except (OSError, StorageError) as error:
        return print(f"no video: {error}")


def _plot(run: RunFolder) -> Path | None:
    """The return curve, where matplotlib is installed; one of the same metrics and settings stays as it is."""
    if is_newer(run.plot_file, run.metrics_file, run.config_file):
        return run.plot_file
    try:
        from headrace.train.plots.figures import plot_returns

        return plot_returns(run.path)
    except ImportError:
        return None
    except OSError as error:
        print(f"no plot: {error}")
        return None

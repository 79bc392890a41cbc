"""One run from the first line that it prints to the plot and the video at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from headrace.errors import OptionError, RenderError, StateError, StorageError
from headrace.machine import cores
from headrace.pool.registry import family
from headrace.train.launch.checks import (
    CRITIC,
    FLAT,
    PHYSICS,
    check_cluster,
    check_launcher,
    check_request,
    preload_workers,
    with_options,
)
from headrace.train.logging.loggers import check_loggers
from headrace.train.processes.page import page_of
from headrace.train.processes.place import place
from headrace.train.recipes.make import make_config
from headrace.train.runners.callbacks import Callback
from headrace.train.runners.result import Result
from headrace.train.runs import zoo
from headrace.train.runs.events import one_line
from headrace.train.runs.files import is_newer
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.runs.trust import remember
from headrace.train.settings import user_objects
from headrace.train.settings.common import COMMON
from headrace.train.settings.config import Config
from headrace.train.settings.values import check_task

if TYPE_CHECKING:
    from headrace.train.launch.torchrun import RankContext

CONTINUABLE = tuple(name for name, known in COMMON.settings.items() if known.continuable)
"""settings that may change in the middle of a run"""
PATIENCE = 60.0  # seconds to wait, after a restart by torchrun, until the killed process has let go of the folder


@dataclass(frozen=True)
class RunOptions:
    """What a caller of `headrace.train.train` asks for beside the settings of the run.

    Attributes:
        trust: do what the run's settings ask for, such as running code, and load its pickles, also if it did not begin
            here.
        objects: networks and rewards that are objects, by the names of their settings.
        tuned: the tuner's result, for the run's log of events.
        context: the processes that torchrun started; None for a run that was started alone.
    """

    quiet: bool = False
    trust: bool = False
    objects: Mapping[str, Any] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    tuned: Mapping[str, Any] | None = None
    context: RankContext | None = None


def launch(
    start: Callable[[RunOptions], Result], options: RunOptions, asked: Mapping[str, Any] | None = None
) -> Result:
    """Trains by calling ``start``; of several processes of torchrun only the first does, and the others follow it.

    Args:
        start: begins a run or goes on with one.
        asked: the settings that the user gave, which must be the same in all processes; None to go on with a run.
    """
    where = place()
    if where is None:
        return start(options)
    from headrace.train.launch import torchrun

    def lead(context: RankContext) -> Result:
        if context.earlier_run is not None and context.earlier_run.joinpath("config.json").exists():
            return resume_run(context.earlier_run, {}, dataclasses.replace(options, context=context))
        return start(dataclasses.replace(options, context=context))

    return torchrun.train_with_others(lead, where, asked, options.callbacks)


def begin(task: str, overrides: dict[str, Any], run_dir: str | Path | None, options: RunOptions) -> Result:
    """Trains in a new run folder; raises as `headrace.train.train`."""
    check_task(task)
    zoo.check_task(task)
    family(task)  # what is misspelt is answered before anything imports torch
    make_config(task, **overrides)
    preload_workers(task, overrides)
    request = check_request(task, overrides)
    remember(vars(request.config))
    if run_dir is None and options.context is not None:
        run_dir = options.context.earlier_run
    run = RunFolder.create(run_dir, request.config)
    try:
        with run.held():
            if options.tuned is not None:
                run.events.note("tuned", options.tuned["text"], 0, 0.0, options.tuned["data"])
            return _run(request.config, run, None, options, request.remarks)
    except BaseException:
        run.leave()
        raise


def resume_or_begin(task: str, overrides: dict[str, Any], run_dir: str | Path | None, options: RunOptions) -> Result:
    """Goes on with the run in a folder, or begins one there if it holds none.

    Settings that differ from the run's must be among `CONTINUABLE`.
    """
    if run_dir is None or not RunFolder(run_dir).config_file.exists():
        return begin(task, overrides, run_dir, options)
    _, begun = RunFolder.read(run_dir)
    asked = make_config(task, **{"algo": begun.algo, "preset": begun.preset, **overrides})
    remember(vars(asked))
    _, config = RunFolder.open(run_dir, trust=options.trust, training=True)
    asked = with_options(asked, config.env_options, PHYSICS, FLAT, CRITIC)  # the run keeps what was decided for it
    changes = {k: v for k, v in overrides.items() if vars(config).get(k) != vars(asked).get(k)}
    return resume_run(run_dir, changes, options)


def resume_run(run_dir: str | Path, changes: dict[str, Any], options: RunOptions) -> Result:
    """Goes on with a run from its newest checkpoint; raises as `headrace.train.resume`."""
    run, config = RunFolder.open(run_dir, trust=options.trust, training=True)
    user_objects.check_wanted(vars(config), options.objects)
    fixed = sorted(set(changes) - set(CONTINUABLE))
    if fixed:
        raise OptionError(f"{fixed[0]} cannot change in the middle of a run; only {', '.join(CONTINUABLE)} can")
    lines = read_metrics(run.metrics_file)  # raises for damaged metrics before anything begins
    taken, total = lines[-1]["step"] if lines else 0, config.total_steps
    if changes:
        check_loggers(changes.get("log", ()))
        config = make_config(**{**vars(config), **changes}, defaults=False)
        if config.total_steps < min(taken, total):  # the last rollout may have gone on beyond the total
            less = f"total_steps={config.total_steps:,} is less than the {taken:,} steps"
            raise OptionError(f"{less} of {run.path} so far")
        remember(changes)
    check_cluster(config)
    check_launcher(config)
    with run.held(PATIENCE if options.context is not None and options.context.earlier_run is not None else 0.0):
        if changes:
            run.write_config(config)
        preload_workers(config.task, vars(config))
        from headrace.train.runs import checkpoint as checkpoints

        newest = checkpoints.newest(run.checkpoints)
        if newest is None and lines:
            known = f"{run.metrics_file} goes up to step {lines[-1]['step']:,}"
            raise StateError(f"{run.checkpoints} has no checkpoint to resume from, but {known}: begin another run")
        return _run(config, run, newest, options)


def _run(
    config: Config, run: RunFolder, saved: Path | None, options: RunOptions, remarks: Sequence[str] = ()
) -> Result:
    with page_of(run, config.viewer) as address:
        found = cores()
        limited = [f"uses {found}"] if found.limit else []
        for words in () if options.quiet else (*([f"watch {address}"] if address else []), *remarks, *limited):
            print(words, flush=True)
        return _train(config, run, saved, options)


def _train(config: Config, run: RunFolder, saved: Path | None, options: RunOptions) -> Result:
    from headrace.train.runners.assembly import train_in_process

    quiet = options.quiet
    try:
        if config.devices:
            from headrace.train.runners.data_parallel import train_together

            if options.callbacks:
                raise OptionError("callbacks are for a run with one process that learns: leave devices out")
            result = train_together(config, run.path, saved, quiet, options.trust)
        else:
            group = None
            if options.context is not None:
                options.context.begin(config, run.path)
                group = options.context.group
            result = train_in_process(config, run, saved, quiet, group, options.callbacks, options.trust)
    except StorageError as error:
        raise StorageError(f"{error}; {_what_remains(run)}") from error
    if not quiet and result.steps:
        from headrace.train.play.evaluate import describe_checkpoint

        print(describe_checkpoint(run))
    if result.reason == "interrupted":
        result = dataclasses.replace(result, plot=_plot(run))
        if not quiet:
            how = "the same torchrun … -m headrace" if options.context is not None else "headrace"
            print(f"stopped; go on with:  {how} train --resume {quote(str(run.path))}")
            print(f"   see it play with:  headrace play {quote(str(run.path))}")
            print(f"  see its page with:  headrace watch {quote(str(run.path))}")
            if result.plot is not None:
                print(f"               plot:  {result.plot}")
        return result
    return dataclasses.replace(result, plot=_plot(run), video=_video(config, run, quiet))


def _what_remains(run: RunFolder) -> str:
    """Returns in words how to go on with a run that could not write any more."""
    from headrace.train.runs import checkpoint as checkpoints

    newest = checkpoints.newest_learnt(run.checkpoints)
    if newest is None:
        return "the run was ended before its first checkpoint"
    return f"make room, then go on from {newest.name}:  headrace train --resume {quote(str(run.path))}"


def _video(config: Config, run: RunFolder, quiet: bool) -> Path | None:
    """Records a video of the agent where PyAV is installed and the task can be rendered; returns its file, if any.

    A video of the best checkpoint that exists already is kept. Ctrl-C skips the recording.
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
    except Exception as error:  # of the environment's own drawing, the encoder or the disk: the run is done
        return print(f"no video: {one_line(error)}")


def _plot(run: RunFolder) -> Path | None:
    """Plots the return curve where matplotlib is installed; a plot of the same metrics and settings is kept."""
    if is_newer(run.plot_file, run.metrics_file, run.config_file):
        return run.plot_file
    try:
        from headrace.train.logging.plot import plot_returns

        return plot_returns(run.path)
    except ImportError:
        return None
    except Exception as error:  # of the disk or of matplotlib: the run is done
        return print(f"no plot: {one_line(error)}")

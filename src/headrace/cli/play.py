"""``headrace play``: plays episodes with a trained agent."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.cli.options import TaskOptions, check_file, optional, parse_args, parse_options
from headrace.cli.trust import agreed
from headrace.errors import OptionError
from headrace.machine import readable
from headrace.train import log_episode
from headrace.train.runs import choice, zoo
from headrace.train.runs.events import one_line
from headrace.train.runs.files import replacing, writing
from headrace.train.runs.folder import RunFolder, ranked_runs
from headrace.train.runs.words import return_text

if TYPE_CHECKING:
    from headrace.train.play.evaluate import Evaluation

GRID, MOST_FILMS = "grid.mp4", 9
SEVERAL_RUNS = "headrace watch RUN RUN compares runs, and headrace play FOLDER --grid films a folder's side by side"
FIRST_STEPS = 300  # agent steps of a video of the zoo, which a newcomer has after some seconds
LINES = 10.0  # seconds between two lines of progress where there is no terminal


@dataclass(frozen=True)
class PlayArgs:
    """Play episodes with the agent of a run, print their returns, and record a video or log an episode's arrays.

    Of a folder of several seeds or trials the best is played, of another folder of runs the newest.

    examples:
      headrace play
      headrace play runs/CartPole-v1-20260101-120000
      headrace play zoo:HalfCheetah-v5
      headrace play runs/mine --gif
      headrace play runs/five-seeds --grid
      headrace play runs/mine --episodes 10 --checkpoint newest
      headrace play runs/mine --video pong.mp4
      headrace play runs/tag --log x,y --log-env 3 --log-file episode.npz
      headrace play runs/cheetah --3d --checkpoint newest
      headrace play zoo:Go1Flat-v0 --option push=0.5
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = choice.DEFAULT_FOLDER
    """the run folder, whose path headrace train prints, a folder of runs, the name of a task for its newest run, or
    zoo:NAME for an agent of headrace zoo"""
    episodes: int = 1
    """number of episodes to play"""
    checkpoint: Literal["best", "newest"] = "best"
    """which of the run's checkpoints to load"""
    sample: bool = False
    """sample actions from the policy, as in training, instead of taking the most likely ones; not in the video"""
    seed: int = 1000
    """seed of the environments"""
    film: bool = True
    """record a video"""
    video: Annotated[Path | None, optional("FILE")] = None
    """path of the video, .mp4 or .gif; by default in the run's folder episodes/, of the zoo in the present folder"""
    gif: bool = False
    """write the video as a GIF, too, beside it"""
    grid: bool = False
    """of a folder of several runs: film the best nine, and show them side by side in one video"""
    in_3d: Annotated[bool, tyro.conf.arg(name="3d")] = False
    """show a robot in 3D in a browser until Ctrl-C, without printing or recording; needs headrace[viewer3d]"""
    port: int = 0
    """with --3d, the port of the page; 0 for a free one"""
    option: TaskOptions = ()
    max_steps: Annotated[int | None, optional("INT")] = None
    """maximal number of agent steps in a video; by default 1500, and 300 of an agent of the zoo"""
    trust: bool = False
    """do what the run asks for, such as running code, even if it was not trained on this machine"""
    log: Annotated[str | None, optional("NAMES")] = None
    """write an episode's actions, rewards and state arrays of these names, such as x,y, or of all"""
    log_env: int = 0
    """with --log, the number of the environment whose episode is written"""
    log_file: Annotated[Path | None, optional("FILE")] = None
    """with --log, the path of the file, in NumPy's format npz; by default episode.npz in the run folder"""


def run(argv: list[str]) -> int:
    """Plays, and prints one row for each episode and the video's path; returns the exit status."""
    args = parse_args(PlayArgs, "play", argv, SEVERAL_RUNS)
    if args.episodes < 1 or (args.max_steps is not None and args.max_steps < 1):
        raise OptionError("--episodes and --max-steps must be at least 1")
    if args.video is not None and args.video.suffix.lower() not in (".mp4", ".gif"):
        raise OptionError(f"--video {args.video} must end in .mp4 or .gif: that is what is written")
    check_file("--video", args.video)  # before anything is played
    check_file("--log-file", args.log_file)
    console = Console(highlight=False)
    if args.grid:
        return _film_grid(args, console)
    args = _of_run(args, chosen_run(args.run, console))
    _, config = RunFolder.read(args.run)
    trust = agreed(args.run, args.trust)
    if args.in_3d:
        return _show_in_3d(args, trust)
    from headrace.train.play.evaluate import MOST_STEPS, describe_checkpoint, evaluate, training_return  # imports torch

    with _progress(console, f"playing {config.task} (at most {MOST_STEPS:,} steps each)", args.episodes) as show:
        played = evaluate(
            args.run,
            args.episodes,
            deterministic=not args.sample,
            seed=args.seed,
            which=args.checkpoint,
            env_options=parse_options(args.option),
            trust=trust,
            shown=show,
        )
    console.print(describe_checkpoint(RunFolder(args.run), args.checkpoint), soft_wrap=True)
    console.print(f"{config.task}: mean return {return_text(played.mean_return)}", markup=False)
    console.print(_table(played))
    trained = None if args.sample else training_return(RunFolder(args.run), args.checkpoint)
    if trained is not None and max(played.returns) < trained:
        words = "every return is below the mean of training, which samples its actions: --sample plays that way, too"
        console.print(words, soft_wrap=True)
    if played.stopped:
        console.print(f"{played.stopped} of them had not ended after {MOST_STEPS:,} steps, and were stopped")
    if args.log is not None:
        _log(args, trust, console)
    if args.film:
        try:
            path, steps = _film(args, trust, console)
        except Exception as error:  # of the environment's own drawing, or of the disk: the episodes were played
            if args.video is not None:
                raise
            console.print(f"no video: {one_line(error)}", soft_wrap=True, markup=False)
            return 0
        for written in _delivered(path, args):
            size = readable(written.stat().st_size)
            console.print(f"video {written}: {steps:,} steps of {config.task}, {size}", soft_wrap=True, markup=False)
    return 0


def _of_run(args: PlayArgs, run: Path) -> PlayArgs:
    """Returns the arguments for a run; of an agent of the zoo, files are written into the present folder."""
    if not zoo.is_agent(run):
        return dataclasses.replace(args, run=run)
    video, log = (Path(f"zoo-{run.name}{suffix}") for suffix in (".mp4", ".npz"))
    files = {"video": args.video or video, "log_file": args.log_file or log}
    return dataclasses.replace(args, run=run, max_steps=args.max_steps or FIRST_STEPS, **files)


def chosen_run(folder: Path, console: Console) -> Path:
    """Returns the run that a name stands for, and prints which of several it is; raises as `choice.chosen_run`."""
    run, words = choice.chosen_run(folder)
    if words:
        console.print(f"{run}, {words}", soft_wrap=True, markup=False)
    if zoo.is_agent(run):
        card = zoo.read_card(run)
        console.print(f"from the zoo: {card.command}, {card.words}", soft_wrap=True, markup=False)
    return run


def _delivered(video: Path, args: PlayArgs) -> list[Path]:
    """Writes a recorded video where and as the arguments ask for it; returns the paths, one or two."""
    from headrace.train.play.convert import write_gif

    target = args.video or video
    film = target.with_suffix(".mp4") if args.gif or target.suffix.lower() != ".gif" else None
    written = []
    if film is not None:
        if film != video:
            with writing(film):
                shutil.copyfile(video, film)
        written.append(film)
    if film is None or args.gif:
        picture = target.with_suffix(".gif")
        with writing(picture):
            write_gif(picture, video)
        written.append(picture)
    return written


def _film_grid(args: PlayArgs, console: Console) -> int:
    """Films the best of several runs, and writes their videos side by side; returns the exit status."""
    runs = [run for _, run in ranked_runs(args.run) if any((run / "checkpoints").glob("step-*"))][:MOST_FILMS]
    if not runs:
        raise OptionError(
            f"--grid is for a folder of several runs, such as headrace train --seeds writes; not {args.run}"
        )
    from headrace.train.play.convert import write_grid

    films = []
    for run in runs:
        console.print(f"{run}", soft_wrap=True, markup=False)
        one = dataclasses.replace(args, run=run)
        films.append(_film(one, agreed(run, args.trust), console)[0])
    made = args.run / GRID
    write_grid(made, films)
    for written in _delivered(made, args):
        size = readable(written.stat().st_size)
        console.print(f"video {written}: {len(films)} runs, {size}", soft_wrap=True, markup=False)
    return 0


def _show_in_3d(args: PlayArgs, trust: bool) -> int:
    """Shows the run's robot until Ctrl-C; returns the exit status."""
    if importlib.util.find_spec("mjviser") is None:
        raise OptionError("--3d needs mjviser: pip install 'headrace[viewer3d]'")
    from headrace.watch.robots import show

    how: dict[str, Any] = {"which": args.checkpoint, "deterministic": not args.sample, "seed": args.seed}
    how |= {"port": args.port, "env_options": parse_options(args.option)}
    with contextlib.suppress(KeyboardInterrupt):
        show(args.run, **how, trust=trust, ready=lambda url: print(f"watch {url}   (Ctrl-C ends)", flush=True))
    return 0


def _film(args: PlayArgs, trust: bool, console: Console) -> tuple[Path, int]:
    """Records an episode; returns the video's path and number of steps."""
    from headrace.train.play.video import MOST_STEPS, record

    steps = 0

    def shown(step: int) -> None:
        nonlocal steps
        steps = step
        show(step, step)

    most = args.max_steps or MOST_STEPS
    with _progress(console, "recording a video (--no-film: none)", most) as show:
        how: dict[str, Any] = {"max_steps": most, "seed": args.seed, "which": args.checkpoint, "trust": trust}
        how["env_options"] = parse_options(args.option)
        path = record(args.run, **how, shown=shown)
    return path, steps


@contextmanager
def _progress(console: Console, what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar and yields the function that updates it; without a terminal, prints lines instead.

    The function takes what is done, of the total, and the number of steps so far.
    """
    if not console.is_terminal:
        console.print(what, soft_wrap=True)
        due = time.monotonic() + LINES

        def tell(done: int, steps: int) -> None:
            nonlocal due
            if time.monotonic() > due:
                due = time.monotonic() + LINES
                console.print(f"{what}: step {steps:,}, {done} of {total}", soft_wrap=True)

        yield tell
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, steps: bar.update(task, completed=done, description=f"{what}, step {steps:,}")


def _log(args: PlayArgs, trust: bool, console: Console) -> None:
    names = None if args.log == "all" else [name.strip() for name in str(args.log).split(",")]
    how: dict[str, Any] = {"which": args.checkpoint, "env_options": parse_options(args.option), "trust": trust}
    arrays = log_episode(args.run, names, args.log_env, seed=args.seed, deterministic=not args.sample, **how)
    path = args.log_file or args.run / "episode.npz"
    with writing(path), replacing(path) as temporary, temporary.open("wb") as file:  # np.savez appends .npz to a path
        np.savez_compressed(file, allow_pickle=False, **arrays)
    table = Table("array", "shape", "dtype")
    for name, array in arrays.items():
        table.add_row(name, " × ".join(map(str, array.shape)), str(array.dtype))
    console.print(table)
    print(f"log {path}")


def _table(played: Evaluation) -> Table:
    table = Table()
    for column in ("episode", "return", "steps"):
        table.add_column(column, justify="right")
    for i, (earned, length) in enumerate(zip(played.returns, played.lengths, strict=True), 1):
        table.add_row(str(i), return_text(earned), f"{length:,}")
    return table

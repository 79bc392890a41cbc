"""``headrace play``: what a trained agent does."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from headrace.errors import OptionError
from headrace.train.evaluate import Evaluation, evaluate
from headrace.train.run import RunFolder
from headrace.train.video import record


@dataclass(frozen=True)
class PlayArgs:
    """Play whole episodes with the agent of a run, show their returns, and film the first.

    examples:
      headrace play runs/CartPole-v1-20260101-120000
      headrace play runs/mine --episodes 10 --checkpoint newest
      headrace play runs/mine --video pong.mp4
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """the run folder that headrace train named"""
    episodes: int = 1
    """episodes to play"""
    checkpoint: Literal["best", "newest"] = "best"
    """which of the run's checkpoints to load"""
    sample: bool = False
    """draw actions from the policy, as in training, instead of taking the likeliest; the film never does"""
    seed: int = 1000
    """seed of the environments"""
    film: bool = True
    """make a video"""
    video: Path | None = None
    """where the video goes; into the run's videos/ by default"""
    max_steps: int = 1500
    """longest part of the episode that is filmed, in agent steps"""


def run(argv: list[str]) -> int:
    """Play, print one row an episode, and name the video."""
    args = tyro.cli(PlayArgs, prog="headrace play", args=argv)
    if args.episodes < 1 or args.max_steps < 1:
        raise OptionError("--episodes and --max-steps must be at least 1")
    _, config = RunFolder.open(args.run)
    console = Console(highlight=False)
    with console.status(f"playing {config.task}"):
        played = evaluate(args.run, args.episodes, deterministic=not args.sample, seed=args.seed, which=args.checkpoint)
    console.print(f"{config.task}, {args.checkpoint} checkpoint: mean return {played.mean_return:.1f}")
    console.print(_table(played))
    if args.film:
        with console.status("filming"):
            path = record(args.run, max_steps=args.max_steps, seed=args.seed, which=args.checkpoint)
        if args.video is not None:
            path = Path(shutil.copyfile(path, args.video))
        print(f"video {path}")
    return 0


def _table(played: Evaluation) -> Table:
    table = Table()
    for column in ("episode", "return", "steps"):
        table.add_column(column, justify="right")
    for i, (earned, length) in enumerate(zip(played.returns, played.lengths, strict=True), 1):
        table.add_row(str(i), f"{earned:.1f}", f"{length:,}")
    return table

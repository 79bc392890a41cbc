"""``headrace watch``: opens the page of a run that is training."""

from __future__ import annotations

import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headrace.errors import HeadraceError, OptionError
from headrace.train.config.settings import Config
from headrace.train.processes.page import address_of
from headrace.train.runs.folder import RunFolder

RUNS = Path("runs")
PATIENCE = 3.0  # seconds to wait for a viewer that is being started or restarted
REST = 0.2


@dataclass(frozen=True)
class WatchArgs:
    """Watch a run while it trains, in a browser: the newest weights play, with the run's progress.

    For runs with samplers; headrace play shows the agent of any run, also after its end. The page can be
    reached from this machine only; from another one with ssh -L PORT:127.0.0.1:PORT.

    examples:
      headrace watch
      headrace watch runs/mine
      headrace watch runs/mine --no-browser
    """

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """the run folder that headrace train named; the newest in runs/ by default"""
    browser: bool = True
    """open the page; else only say where it is"""


def run(argv: list[str]) -> int:
    """Open the page of a run, or print why there is none; returns the exit status."""
    args = tyro.cli(WatchArgs, prog="headrace watch", args=argv)
    folder, config = RunFolder.read(args.run or newest(RUNS))
    url = _await(folder, config)
    print(f"watch {url}")
    if args.browser and not webbrowser.open(url):
        print("no browser was found here: open that page yourself")
    return 0


def newest(folder: Path) -> Path:
    """Returns the most recently changed run in a folder.

    Raises:
        OptionError: there are no runs.
    """
    runs = [file.parent for file in folder.glob("*/config.json")]
    if not runs:
        raise OptionError(f"there are no runs in {folder}/: headrace watch RUN, with the folder that train named")
    return max(runs, key=lambda path: path.stat().st_mtime)


def _await(folder: RunFolder, config: Config) -> str:
    until = time.monotonic() + PATIENCE
    while (url := address_of(folder)) is None:
        if time.monotonic() > until:
            raise HeadraceError(
                f"nobody can be watched in {folder.path}: {_why(folder, config)};\n"
                f"headrace play {folder.path} shows what it has learnt so far"
            )
        time.sleep(REST)
    return url


def _why(folder: RunFolder, config: Config) -> str:
    """Why a run has no page."""
    if (holder := folder.holder) is None:
        return "nobody trains it now"
    if not config.samplers:
        return f"it is trained by {holder} alone; only runs with samplers have a viewer"
    if not config.viewer:
        return f"it is trained by {holder}, with --no-viewer"
    return f"it is trained by {holder}, whose viewer does not answer (yet, or as the task has no pictures)"

"""``headrace watch``: shows runs on a page in the browser, during and after training."""

from __future__ import annotations

import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.options import optional
from headrace.errors import OptionError
from headrace.train.runs import zoo
from headrace.train.runs.choice import find_runs
from headrace.train.runs.folder import folder_path

RUNS = Path("runs")


@dataclass(frozen=True)
class WatchArgs:
    """Show runs in a browser, during and after training: curves, playing agents, and differences in settings.

    Run folders may be copies from other machines; the page writes only the notes that are made there. It is accessible
    from this machine only; from others with ssh -L PORT:127.0.0.1:PORT or, with --host, at the printed address, which
    contains a token.

    examples:
      headrace watch
      headrace watch runs/mine runs/other
      headrace watch zoo:HalfCheetah-v5
      headrace watch copied/runs --port 8000 --no-browser
      headrace watch --host 0.0.0.0
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, optional("[RUNS …]")] = ()
    """run folders, folders of runs, or zoo:NAME for agents of headrace zoo; runs/ by default, or the zoo if that is
    empty"""
    port: Annotated[int | None, optional("INT")] = None
    """port of the page; by default 7420, or a free one if that is in use"""
    host: str = "127.0.0.1"
    """address of this machine to listen on; with any other than the default, other machines can access the page"""
    browser: bool = True
    """open the page in a browser, in addition to printing its address"""


def run(argv: list[str]) -> int:
    """Serves the page until Ctrl-C; returns the exit status."""
    args = tyro.cli(WatchArgs, prog="headrace watch", args=argv)
    if args.port is not None and not 0 <= args.port < 2**16:
        raise OptionError(f"--port {args.port} must be between 0 and 65535")
    roots, gallery = [folder_path(run) for run in args.runs] or [RUNS], False
    if not args.runs and not _has_runs(RUNS):
        if (agents := zoo.home()) is None:
            raise OptionError(f"there are no runs in {RUNS}/: headrace watch RUNS, with the folder that train named")
        roots, gallery = [agents, *roots * RUNS.is_dir()], True
    from headrace.watch.library import Library
    from headrace.watch.serve import listening, serve

    library = Library(roots)
    with listening(args.host, args.port) as found:
        serve(library, found, args.host, lambda urls: _announce(urls, args.browser, gallery), gallery)
    return 0


def _has_runs(folder: Path) -> bool:
    try:
        return bool(find_runs([folder]))
    except OptionError:
        return False


def _announce(urls: list[str], browser: bool, gallery: bool) -> None:
    print(f"watch {urls[0]}   (Ctrl-C ends)", flush=True)
    if gallery:
        print(f"      there are no runs in {RUNS}/ yet: it shows the agents of headrace zoo", flush=True)
    for url in urls[1:]:
        print(f"      {url}   from other machines", flush=True)
    if browser:
        threading.Thread(target=_open, args=(urls[0],), daemon=True).start()


def _open(url: str) -> None:
    if not webbrowser.open(url):
        print("no browser was found here: open that page yourself", flush=True)

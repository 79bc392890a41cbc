"""Serves the page of one run on a socket that its training has opened: ``python -m headrace.watch RUN --fd N``.

Training listens on the socket, and starts this process only when a browser connects. The process prints nothing, since
the terminal shows the training's output.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from headrace.watch.serve import serve_run


def main() -> None:
    """Serves the page of a run until the run is over and no page is open."""
    parser = argparse.ArgumentParser(prog="python -m headrace.watch", description="Serve the page of one run.")
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--fd", type=int, required=True, help="an inherited socket that listens")
    args = parser.parse_args()
    serve_run(args.run, args.fd)


if __name__ == "__main__":
    main()

"""The page of runs in a notebook's cell: the server runs in a separate process, and an HTML frame shows the page.

A cell that trains prints plain lines and runs until training ends; a page in an earlier cell is updated meanwhile.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from pathlib import Path

from headrace.errors import OptionError
from headrace.train.processes.interrupt import at_end_of_input
from headrace.watch.library import Library
from headrace.watch.serve import HOST, listening, serve

COMMAND = (sys.executable, "-m", "headrace.watch.notebook")


class Frame:
    """A page whose server runs until `close` or until this Python process ends; a notebook shows it as HTML.

    Attributes:
        address: the URL of the page, on the kernel's machine.
        height: the height of the frame in pixels.
    """

    def __init__(self, server: subprocess.Popen[str], address: str, height: int):
        self._server, self.address, self.height = server, address, height
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        _end(self._server)

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.address}" width="100%" height="{self.height}" style="border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"the page of runs at {self.address}"


def show(runs: str | Path = "runs", height: int = 760) -> Frame:
    """Returns the page of a folder of runs, which a notebook shows as the value of a cell.

    The browser must run on the kernel's machine, or reach it through a tunnel to the same port.

    Args:
        runs: the folder, which is created if it does not exist.
        height: the height of the frame in pixels.

    Raises:
        OptionError: the folder cannot be created, or the server does not start.
    """
    try:
        Path(runs).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{runs} is not a folder of runs: {error.strerror}") from error
    pipe = subprocess.PIPE
    server = subprocess.Popen([*COMMAND, str(runs)], stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    if not address:
        _end(server)
        raise OptionError(f"the page's server does not start: headrace watch {runs}  says why")
    return Frame(server, address, height)


def _end(server: subprocess.Popen[str]) -> None:
    for stream in (server.stdin, server.stdout):
        if stream is not None:
            stream.close()
    server.wait()


def main() -> None:
    """Serves the page of a folder until standard input is closed, which also happens when the kernel is killed."""
    library = Library([Path(sys.argv[1])])
    at_end_of_input(lambda: os.kill(os.getpid(), signal.SIGTERM))
    with listening(port=0) as found:
        serve(library, found, HOST, lambda urls: print(urls[0], flush=True))


if __name__ == "__main__":
    main()

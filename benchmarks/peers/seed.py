"""Trains one seed with another library; started by ``__main__.py``.

It reads one line of JSON from standard input, trains, and writes the fields ``step``, ``return`` and ``time`` of a
run's metrics into ``metrics.jsonl``, and the mean return of games without exploration into ``greedy.json``, null where
the library plays none. The output of the library goes to a log file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from importlib import import_module
from typing import Any

from libraries import LIBRARIES


def main() -> int:
    """Trains according to the request on standard input; returns the exit status."""
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    module = import_module(LIBRARIES[request["who"]].module)
    module.train(request)
    return 0


def _end_with_input() -> None:
    """Ends this process when standard input ends, as the process that started it has ended."""
    while os.read(0, 1):  # reads the descriptor, as the interpreter's shutdown waits for the lock of sys.stdin
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())

"""The process of one run among several, ``python -m headrace.studies.jobs.child``, which `Processes` starts.

It reads a request as one line of JSON from its standard input, trains, and writes the result as one line of JSON to its
standard output. All other output goes to its standard error. When its standard input ends, because the process that
started it has ended, it writes a checkpoint and stops, as after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from headrace.errors import HeadraceError, OptionError
from headrace.limits import limits_named
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.train.processes.interrupt import at_end_of_input


def main() -> int:
    """Trains according to the request on standard input; returns 0, or 1 if the run failed."""
    for each in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs begin with SIGINT ignored
        signal.signal(each, signal.default_int_handler)
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())
    at_end_of_input(lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        told = _trained(request)
    except KeyboardInterrupt:  # before training began
        told = {"reason": "interrupted", "steps": 0, "seconds": 0.0, "return": None}
    print(json.dumps(told), file=answer, flush=True)
    return int("error" in told)


def _trained(request: dict[str, Any]) -> dict[str, Any]:
    """Trains, and returns the reason, steps, seconds and return at the run's end; or the error."""
    if request["share"] is not None:
        from headrace.train.processes.start import take_cores

        take_cores(*request["share"])
    from headrace.train.launch.run import RunOptions, resume_or_begin

    train = limits_named("training")(spaces_read_once()(resume_or_begin))
    try:
        options = RunOptions(trust=request["trust"])
        result = train(request["task"], request["settings"], request["run_dir"], options)
    except HeadraceError as error:
        return {"error": str(error), "wrong": isinstance(error, OptionError)}
    except Exception as error:
        import traceback

        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}", "wrong": False}
    values = {"reason": result.reason, "steps": result.steps, "seconds": result.seconds}
    return values | {"return": result.mean_return}


if __name__ == "__main__":
    sys.exit(main())

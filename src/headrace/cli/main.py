"""The ``headrace`` command, which calls a subcommand and reports errors as one line and an exit status.

A subcommand is imported when it is called, and imports torch and Warp only once its arguments are known to be right, so
that a misspelt name is answered at once.
Exit status: 0 done, 1 the command failed, 2 a wrong name or option, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import headrace
from headrace.errors import HeadraceError, OptionError, UnknownTaskError
from headrace.limits import limits_named
from headrace.native_modules import nothing_built
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.pool.sources import as_text
from headrace.pool.suggestions import close_names

COMMANDS = {
    "train": "train an agent on a task, and write a run folder",
    "recipes": "list the algorithms and settings that train uses for tasks",
    "watch": "show runs in a browser, while they train and afterwards",
    "play": "play episodes with a trained agent, and record a video",
    "sweep": "search for good settings with many runs",
    "leaderboard": "train a list of tasks, and measure the time to a target return",
    "zoo": "list trained agents that come with Headrace",
    "plot": "plot the returns of runs, with bands over seeds",
    "export": "write a trained policy as ONNX, C or TorchScript",
    "bench": "measure how fast a task's environments run",
    "tune": "measure the fastest numbers of samplers and threads",
    "envs": "list the tasks",
    "check": "run the conformance checks on a task",
    "doctor": "report which parts of this machine are used, and what is missing",
}
TRAIN = ("torch", "safetensors", "rich", "tyro", "av", "starlette", "uvicorn", "websockets")
LISTING = {"envs", "recipes", "doctor", "zoo"}
LISTING_OPTIONS = {"-h", "--help", "--help-all", "--list"}
"""commands, and options of any command, that only tell: nothing is compiled for them"""
EXTRAS: dict[str, str] = {**dict.fromkeys(TRAIN, "train"), "optuna": "sweep"}
"""a module that may be missing → the extra that installs it"""
ALLOCATIONS = 50_000
"""objects between two searches for garbage, as importing torch makes many objects and no garbage"""
EXAMPLES = (
    ("headrace envs cart", "list the tasks with 'cart' in their name"),
    ("headrace train CartPole-v1", "train an agent within a minute"),
    ("headrace train Pong-v5 --seed 2", "train on an Atari game, with another seed"),
    ("headrace watch", "watch and compare runs in a browser"),
    ("headrace play runs/…", "play episodes with the trained agent"),
    ("headrace play zoo:HalfCheetah-v5", "play with an agent that comes with Headrace"),
    ("headrace plot runs --out curves.pdf", "plot the returns of all runs, with bands over seeds"),
    ("headrace sweep CartPole-v1 --help", "show the options of a search"),
    ("headrace leaderboard --list", "list the tasks of the leaderboard"),
    ("headrace bench Pong-v5 --num-envs 16", "measure steps per second with random actions"),
    ("headrace tune HalfCheetah-v5", "measure the fastest number of samplers"),
    ("headrace check my_env.py", "check the environment in a file"),
    ("headrace doctor", "report which parts of this machine are used"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``headrace`` with these arguments, by default those of the process, and returns its exit status."""
    if argv is None:  # this is the whole program, of which Python's searches for garbage take a fifth
        gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
        atexit.register(gc.freeze)  # the last searches, over all modules, then find nothing to look at
    args = list(map(_at_home, sys.argv[1:] if argv is None else argv))
    if not args or args[0] in ("-h", "--help", "help"):
        _print_help()
        return 0
    if args[0] in ("-V", "--version"):
        print("headrace", headrace.__version__)
        return 0
    if args[0] not in COMMANDS:
        return _fail(f"no command is called {args[0]!r}" + _nearest(args[0]) + "; see headrace --help")
    return _run(args[0], args[1:])


def _run(command: str, args: list[str]) -> int:
    try:
        only_tells = command in LISTING or LISTING_OPTIONS.intersection(args)
        with limits_named(f"headrace {command}"), spaces_read_once(), nothing_built() if only_tells else nullcontext():
            return importlib.import_module(f"headrace.cli.{command}").run(args)
    except UnknownTaskError as error:
        return _fail(f"{error}\nheadrace envs lists all tasks")
    except OptionError as error:
        return _fail(str(error))
    except HeadraceError as error:
        return _fail(str(error), status=1)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        missing = [name for name in EXTRAS if EXTRAS[name] == extra and find_spec(name) is None]
        return _fail(f"{command} needs {', '.join(missing)}: pip install 'headrace[{extra}]'", status=1)
    except SystemExit as stop:  # tyro has printed help or an error
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader has closed the pipe (headrace envs | head); prevents Python's error message at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _at_home(word: str) -> str:
    """Returns a word with the home folder for ~ at its begin, or after --option=, where a shell leaves it as it is."""
    option, equals, path = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{Path(path).expanduser()}" if path.startswith("~/") else word


def _nearest(word: str) -> str:
    found = close_names(word, COMMANDS, 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _fail(message: str, status: int = 2) -> int:
    rank = os.environ.get("RANK", "0")  # torchrun's processes share a terminal
    message = as_text(message)
    print(f"headrace: {message}" if rank == "0" else f"headrace [rank {rank}]: {message}", file=sys.stderr)
    return status


def _print_help() -> None:
    print("usage: headrace COMMAND …\n\nFast environments and training on one machine.\n\ncommands:")
    for name, what in COMMANDS.items():
        print(f"  {name:<11} {what}")
    print("\n  headrace COMMAND --help   a command's options, with examples")
    print("  headrace --version\n\nexamples:")
    for line, what in EXAMPLES:
        print(f"  {line:<38} {what}")


if __name__ == "__main__":
    sys.exit(main())

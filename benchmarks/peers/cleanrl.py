"""Trains with one of CleanRL's scripts, which is run as it is, and whose printed lines are read."""

from __future__ import annotations

import io
import os
import re
import runpy
import sys
from pathlib import Path
from typing import TextIO

from libraries import CLEANRL
from metrics import Metrics, Request, write_games

from headrace.errors import OptionError

EPISODE = re.compile(r"global_step=(\d+), episodic_return=\[?([-+.\deE]+)")


class TrainingOver(Exception):
    """Training is over; raised out of a script's ``print``."""


class Lines(io.TextIOBase):
    """Standard output that counts the episodes that a script prints, and ends it by `TrainingOver`.

    Args:
        metrics: where they are counted.
        output: where all that is printed goes.
    """

    def __init__(self, metrics: Metrics, output: TextIO):
        super().__init__()
        self._metrics, self._output, self._rest = metrics, output, ""

    def write(self, text: str) -> int:
        """Prints, and counts the episodes of all lines that have ended."""
        self._output.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for found in filter(None, map(EPISODE.match, lines)):
            self._metrics.episode(float(found[2]))
            if self._metrics.at(int(found[1])):
                raise TrainingOver
        return len(text)


def train(request: Request) -> None:
    """Trains; the scripts play no games at the end.

    Args:
        request: as `Request` says; ``algo`` is the script's name without ``.py``, and ``settings`` are its options.

    Raises:
        OptionError: there is no such script.
    """
    import gymnasium  # noqa: F401 - what scripts import is not in the time of training
    import torch
    import torch.utils.tensorboard

    script = Path(os.environ[CLEANRL]).resolve() / f"{request['algo']}.py"
    if not script.is_file():
        raise OptionError(f"there is no {script}: {CLEANRL} must name the folder of CleanRL's scripts")
    torch.set_num_threads(request["threads"])
    os.chdir(request["folder"])  # for its own folder of runs
    sys.argv = [str(script), *options(request)]
    before, metrics = sys.stdout, Metrics(request)
    sys.stdout = Lines(metrics, before)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except TrainingOver:
        pass
    finally:
        sys.stdout = before
        metrics.close()
    write_games(request, None)


def options(request: Request) -> list[str]:
    values = {
        "env_id": request["task"], "seed": request["seed"], "total_timesteps": request["total_steps"],
        "num_envs": request["num_envs"], "cuda": False, **request["settings"],
    }  # fmt: skip
    words = []
    for name, value in values.items():
        option = name.replace("_", "-")
        words += [f"--{'' if value else 'no-'}{option}"] if isinstance(value, bool) else [f"--{option}", str(value)]
    return words

"""EnvPool's ViZDoom in a process of its own: its engine sometimes never starts, and native code hears no time limit."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import warnings
from multiprocessing.connection import Connection
from typing import Any

import pytest

START, ANSWER, TRIES = 40.0, 60.0, 3  # seconds, seconds, processes


class EnvpoolDoom:
    """``envpool.make_gymnasium(task, **options)`` elsewhere: ``reset()``, ``step(action)``, ``action_space``.

    Skips the test when EnvPool's engine starts in none of ``TRIES`` processes.
    """

    def __init__(self, task: str, **options: Any) -> None:
        for _ in range(TRIES):
            self._link, far = multiprocessing.Pipe()
            self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(far, task, options))
            self._process.start()
            far.close()
            if self._link.poll(START):
                self.action_space = self._link.recv()
                return
            self.close()
        pytest.skip(f"EnvPool's ViZDoom did not start {task} in {TRIES} processes of {START:.0f} s each")

    def reset(self) -> Any:
        return self._ask("reset")

    def step(self, action: Any) -> Any:
        return self._ask("step", action)

    def _ask(self, method: str, *args: Any) -> Any:
        self._link.send((method, args))
        assert self._link.poll(ANSWER), f"EnvPool's ViZDoom did not answer {method} in {ANSWER:.0f} s"
        return self._link.recv()

    def close(self) -> None:
        """Ends the process, or kills it, with the engines that it started."""
        self._link.close()  # which it hears
        self._process.join(10)
        if self._process.pid and self._process.is_alive():
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:  # killed before it had a group of its own
                self._process.kill()
        self._process.join()


def _serve(link: Connection, task: str, options: dict[str, Any]) -> None:
    os.setsid()  # with its engines, one group to be killed
    os.chdir(tempfile.gettempdir())  # where the engine leaves its settings
    warnings.simplefilter("ignore")
    import envpool

    pool: Any = envpool.make_gymnasium(task, **options)
    link.send(pool.action_space)
    with contextlib.suppress(EOFError):
        while True:
            method, args = link.recv()
            link.send(getattr(pool, method)(*args))

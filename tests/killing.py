"""Processes that are killed at any moment, again and again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from headrace.train.processes.start import worker_context

LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


def started(target: Callable, *arguments: object) -> BaseProcess:
    """A new process that runs a function, forked from one that has torch loaded already and one thread."""
    process = worker_context().Process(target=target, args=arguments)
    process.start()
    return process


def kill_again_and_again(
    target: Callable[[Any, int], None],
    argument: Any,
    lives: int,
    progress: Callable[[], int],
    seed: int,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Start ``target(argument, life)`` and kill it, and look what is left ``after`` that; in a process of its own.

    Processes are forked from here, where there is one thread. Two thirds are killed only after they have moved
    what ``progress`` returns.
    """
    torch.set_num_threads(1)
    moments = random.Random(seed)
    for life in range(lives):
        before = progress()
        child = os.fork()
        if child == 0:
            try:
                target(argument, life)
            finally:
                os._exit(1)
        while life % 3 and progress() == before and os.waitid(os.P_PID, child, LOOK) is None:
            time.sleep(0.0003)
        time.sleep(moments.uniform(0, 0.004))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it had ended by itself"
        after()

"""A Ray cluster of several nodes on this machine, and the processes of its actors."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from headrace.train.cluster.connection import QUIET

WALK = """
import gymnasium as gym
import numpy as np
LENGTH = 5

class Walk(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(1, np.float32), 1.0, self.count == LENGTH, False, {}
"""
"""a file with an environment of a user's own"""
STORE = 80 << 20
PATIENCE = 600.0  # seconds for what takes seconds on a machine that is not busy
STARTS = 5  # attempts to start a cluster: Ray waits half a minute for a node, and no longer


class Nodes:
    """The cluster: a head without processors, and ``count`` nodes of ``cpus`` each; its files are in a folder."""

    def __init__(self, folder: str, count: int, cpus: int):
        from ray._common.utils import get_ray_address_file
        from ray.cluster_utils import Cluster

        os.environ.update(QUIET)
        # a cluster with a folder of its own writes this file, too, but does not make its folder
        Path(get_ray_address_file(None)).parent.mkdir(parents=True, exist_ok=True)
        self._cpus = cpus
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE, "temp_dir": folder}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self.add() for _ in range(count)]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> Any:
        return self._cluster.add_node(num_cpus=self._cpus, object_store_memory=STORE)

    def remove_one(self) -> None:
        """Kill the last node, as if its machine had lost its power."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()


@contextmanager
def nodes(count: int = 2, cpus: int = 2) -> Iterator[Nodes]:
    with ExitStack() as stack:
        cluster = _started(stack, count, cpus)
        stack.callback(cluster.close)
        yield cluster


def _started(stack: ExitStack, count: int, cpus: int) -> Nodes:
    """The cluster, at the first attempt for which the machine is not too busy; its files go with the context."""
    attempts = 0
    while True:
        folder, attempts = tempfile.mkdtemp(prefix="hr", dir="/tmp"), attempts + 1
        stack.callback(_end, folder)
        try:
            return Nodes(folder, count, cpus)
        except Exception:  # Ray raises nothing more special
            stack.close()
            if attempts == STARTS:
                raise


def _end(folder: str) -> None:
    """End what a cluster has left, all of which has its folder in its command, and remove that."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(folder in word for word in process.cmdline()):
                process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def actors_below(pid: int | None = None) -> list[psutil.Process]:
    """The processes of actors of Headrace that descend from a process, by default this one."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if any(word.startswith("ray::") and "Actor" in word for word in process.cmdline()):
                    found.append(process)
    return found


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.05)

"""The place of this process among the processes that torchrun has started, read from the environment.

torchrun runs the same command on every machine, in one process for each learner. Environment variables hold the rank
of each process and the number of processes. Any other launcher that sets the same variables can be used.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

from headrace.errors import OptionError
from headrace.train.processes.start import take_cores

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""environment variables that every process of torchrun has; it also sets ``LOCAL_RANK`` and others"""
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


@dataclass(frozen=True)
class Place:
    """The place of this process.

    Attributes:
        rank: its number among all processes, from 0.
        local_rank, local_size: rank and size among the processes on this machine.
        address, port: the address of the store through which the processes connect.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    address: str
    port: int

    @property
    def leads(self) -> bool:
        """Whether this is the first process, which writes the run folder."""
        return self.rank == 0

    @property
    def is_on_one_machine(self) -> bool:
        return self.local_size == self.size

    def device(self, asked: str) -> str:
        """Returns this process's device, given the settings' device.

        Raises:
            OptionError: the settings name a single GPU.
        """
        kind, _, index = asked.partition(":")
        if index and self.local_size > 1:
            raise OptionError(
                f"device={asked!r} is one GPU for {self.local_size} processes: with torchrun say device={kind!r}, "
                "and each takes the one of its LOCAL_RANK"
            )
        return asked if kind == "cpu" or index else f"{kind}:{self.local_rank}"

    def take_share_of_cores(self) -> None:
        """Restricts this process to its share of the machine's cores, unless its launcher has already restricted it."""
        if not hasattr(os, "sched_getaffinity"):
            return
        with suppress(OSError):
            if os.sched_getaffinity(0) != os.sched_getaffinity(os.getppid()):
                return
        take_cores(self.local_rank, self.local_size)

    def name_interface(self) -> None:
        """Sets the network interface that gloo uses, unless the user has set it.

        By default gloo resolves this machine's name, which often has no address, or only a local one.
        """
        found = LOOPBACK if self.is_on_one_machine else interface_to(self.address, self.port)
        if found is not None and (found != LOOPBACK or self.is_on_one_machine):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", found)


def place(environment: Mapping[str, str] = os.environ) -> Place | None:
    """Returns the place of this process; None if torchrun has not started it.

    Raises:
        OptionError: the environment variables contradict each other.
    """
    if not all(environment.get(name) for name in NEEDED):
        return None
    rank, size, port = (_number(environment, name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if size > 1 and "LOCAL_RANK" not in environment:
        raise OptionError("RANK and WORLD_SIZE are set, but not LOCAL_RANK: start with torchrun, which sets all")
    local_rank = _number(environment, "LOCAL_RANK") if "LOCAL_RANK" in environment else 0
    local_size = _number(environment, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in environment else local_rank + 1
    if not (rank < size and local_rank < local_size <= size):
        told = f"RANK={rank}, WORLD_SIZE={size}, LOCAL_RANK={local_rank}, LOCAL_WORLD_SIZE={local_size}"
        raise OptionError(f"{told} cannot be: ranks are counted from 0, and below the sizes")
    return Place(rank, size, local_rank, local_size, environment["MASTER_ADDR"], port)


def refuse(what: str) -> None:
    """Raises `OptionError` if torchrun has started this process; ``what`` names the call in the message."""
    if place() is not None:
        raise OptionError(f"{what} is for one process, which starts others itself: leave it out, or torchrun")


def interface_to(address: str, port: int) -> str | None:
    """Returns the network interface with which this machine reaches an IPv4 address; None if it is unknown."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))  # a datagram socket sends nothing here
            own = probe.getsockname()[0]
    except OSError:
        return None
    if own.startswith("127."):
        return LOOPBACK
    interfaces = psutil.net_if_addrs().items()
    return next((name for name, known in interfaces if any(each.address == own for each in known)), None)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not text.isdigit():
        raise OptionError(f"the environment variable {name}={text!r} must be a whole number, as torchrun sets it")
    return int(text)

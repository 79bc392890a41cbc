"""Connections between the processes that torchrun has started, also after a restart.

After a restart, torch's ``env://`` reads the addresses of the killed processes from the store of torchrun's agents, and
gloo waits for them until a timeout. Here each start of the processes uses keys with its own random prefix. The first
process draws the prefix, and confirms it once all others have answered.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from headrace.errors import WorkerError
from headrace.train.processes.torchrun import Place
from headrace.train.runners.process_group import ProcessGroup

START = timedelta(minutes=5)  # maximum wait for all processes to start
BEHIND = timedelta(minutes=10)  # maximum wait of a collective operation for the slowest process
POLL = 0.02  # seconds between two checks of the store
PREFIX = "headrace/prefix"


def store_of(place: Place) -> Any:
    """Returns the key-value store of torchrun's agents, or one that the first process opens.

    Raises:
        WorkerError: the store cannot be reached.
    """
    try:
        store, _, _ = next(rendezvous("env://", timeout=START))
        return store
    except dist.DistError as error:
        where = f"{place.address}:{place.port}"
        raise WorkerError(f"rank {place.rank} cannot reach the others at {where} (MASTER_ADDR, MASTER_PORT)") from error


def connect(place: Place, store: Any, stop: Callable[[], bool]) -> ProcessGroup:
    """Waits for all other processes and connects to them; returns their group.

    Args:
        store: the store that `store_of` returned.
        stop: returns whether this process was told to end.

    Raises:
        WorkerError: a process has not started in time.
        KeyboardInterrupt: this process was told to end while it waited.
    """
    if place.size > 1:
        prefix = _agreed_prefix(place, store, stop)
        place.name_interface()
        private = dist.PrefixStore(prefix, store)  # type: ignore[reportPrivateImportUsage]
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=private, rank=place.rank, world_size=place.size, timeout=BEHIND)
    return ProcessGroup(place.rank, place.size, stop, place.device)


def leave() -> None:
    """Disconnects this process from the others, if it was connected."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _agreed_prefix(place: Place, store: Any, stop: Callable[[], bool]) -> str:
    """Returns a prefix that all processes of this start have agreed on; raises the errors of `connect`."""
    own, until = uuid.uuid4().hex, time.monotonic() + START.total_seconds()

    def wait() -> None:
        if stop():
            raise KeyboardInterrupt
        if time.monotonic() > until:
            minutes = START.total_seconds() / 60
            raise WorkerError(f"rank {place.rank} has waited {minutes:g} minutes for all {place.size} processes")
        time.sleep(POLL)

    if place.leads:
        store.set(PREFIX, own)
        answers = [f"{own}/{rank}" for rank in range(1, place.size)]
        while not store.check(answers):
            wait()
        store.set(f"{own}/all", " ".join(store.get(answer).decode() for answer in answers))
        return own
    answered = ""
    while True:
        prefix = store.get(PREFIX).decode() if store.check([PREFIX]) else ""
        if prefix != answered:  # it may be of an earlier start, and is then never confirmed
            store.set(f"{prefix}/{place.rank}", own)
            answered = prefix
        if prefix and store.check([f"{prefix}/all"]) and own in store.get(f"{prefix}/all").decode().split():
            return prefix
        wait()

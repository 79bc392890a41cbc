"""How processes that torchrun has started find each other, also when it has started them again.

torch's own ``env://`` finds, after a restart, what the killed processes have left in the store of torchrun's agents,
and gloo waits in vain for them. Here each meeting has a word of its own, which the first process makes up and which
counts once it has named all the others that are there.
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

START = timedelta(minutes=5)  # in which all must have come
BEHIND = timedelta(minutes=10)  # by which one process may be behind another
POLL = 0.02  # seconds
WORD = "headrace/word"


def store_of(place: Place) -> Any:
    """Returns the store at which all meet: that of torchrun's agents, or else one that the first process opens.

    Raises:
        WorkerError: it cannot be reached.
    """
    try:
        store, _, _ = next(rendezvous("env://", timeout=START))
        return store
    except dist.DistError as error:
        where = f"{place.address}:{place.port}"
        raise WorkerError(f"rank {place.rank} cannot reach the others at {where} (MASTER_ADDR, MASTER_PORT)") from error


def meet(place: Place, store: Any, stop: Callable[[], bool]) -> ProcessGroup:
    """Wait for all other processes, and connect with them; returns their group.

    Args:
        place: that of this process.
        store: as `store_of` returns it.
        stop: whether this process is asked to end.

    Raises:
        WorkerError: somebody has not come in time.
        KeyboardInterrupt: it was asked to end while it waited.
    """
    if place.size > 1:
        word = _agreed_word(place, store, stop)
        place.name_interface()
        private = dist.PrefixStore(word, store)  # type: ignore[reportPrivateImportUsage]
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=private, rank=place.rank, world_size=place.size, timeout=BEHIND)
    return ProcessGroup(place.rank, place.size, stop, place.device)


def part() -> None:
    """Leave the others, if this process was connected with them."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _agreed_word(place: Place, store: Any, stop: Callable[[], bool]) -> str:
    """A word that all processes of this start know, and no earlier one knew; raises as `meet`."""
    own, until = uuid.uuid4().hex, time.monotonic() + START.total_seconds()

    def wait() -> None:
        if stop():
            raise KeyboardInterrupt
        if time.monotonic() > until:
            minutes = START.total_seconds() / 60
            raise WorkerError(f"rank {place.rank} has waited {minutes:g} minutes for all {place.size} processes")
        time.sleep(POLL)

    if place.leads:
        store.set(WORD, own)
        answers = [f"{own}/{rank}" for rank in range(1, place.size)]
        while not store.check(answers):
            wait()
        store.set(f"{own}/all", " ".join(store.get(answer).decode() for answer in answers))
        return own
    answered = ""
    while True:
        word = store.get(WORD).decode() if store.check([WORD]) else ""
        if word != answered:  # it may be that of an earlier start, which nobody confirms any more
            store.set(f"{word}/{place.rank}", own)
            answered = word
        if word and store.check([f"{word}/all"]) and own in store.get(f"{word}/all").decode().split():
            return word
        wait()

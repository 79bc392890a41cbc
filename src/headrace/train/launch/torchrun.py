"""Runs that torchrun has started: the first process begins a run or goes on with one, and the others follow it.

The first process reads the checkpoint, broadcasts the settings and writes the run folder. Each of the others writes
only its own replay of steps, if the run has one, into a folder of the same path on its machine. So machines need not
share a disk. The first process writes the folder's path into the store of torchrun's agents. That store outlives the
processes: after a restart they find the path there, and go on with the run from its newest checkpoint.

After a restart, torch's ``env://`` reads the addresses of the killed processes from that store, and gloo waits for them
until a timeout. Here each start of the processes uses keys with its own random prefix. The first process draws the
prefix, and confirms it once all others have answered.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from headrace.errors import OptionError, StorageError, WorkerError
from headrace.train.processes import process_group
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.place import Place
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runners.assembly import train_in_process
from headrace.train.runners.result import Result
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

START = timedelta(minutes=5)  # maximum wait for all processes to start
POLL = 0.02  # seconds between two checks of the store
PREFIX = "headrace/prefix"
_calls = 0  # runs that this process has begun: after a restart a script that trains twice begins with the first


@dataclass
class RankContext:
    """What one of torchrun's processes knows of their common run.

    Attributes:
        requested: the settings that the user gave this process, name → value; None where it goes on with a run.
        earlier_run: the run folder from before a restart; None at the first start.
    """

    group: ProcessGroup
    requested: Mapping[str, Any] | None
    earlier_run: Path | None
    _note: Callable[[str], object] = field(repr=False)

    def begin(self, config: Config, run: Path) -> None:
        """Lets the other processes begin, too, and stores the run folder's path for all of them after a restart."""
        self._note(json.dumps({"host": socket.gethostname(), "path": str(run.resolve())}))
        self.group.broadcast_object((config.to_json(), str(run), self.requested))


def train_with_others(
    start: Callable[[RankContext], Result], place: Place, requested: Mapping[str, Any] | None, callbacks: object
) -> Result:
    """Trains as one of torchrun's processes: the first calls ``start``, the others use the settings that it sends.

    Args:
        start: begins a run or goes on with one.
        requested: the settings that the user gave this process; None to go on with a run.
        callbacks: the user's callbacks, which only a single process may have.

    Raises:
        OptionError: the processes were started with different settings, or with callbacks.
        WorkerError: another process has ended.
    """
    if callbacks and place.size > 1:
        raise OptionError("callbacks are for a run with one process that learns: start it without torchrun")
    with _joined(place, requested) as context:
        return start(context) if place.leads else _follow(context)


def _follow(context: RankContext) -> Result:
    settings, path, requested = context.group.broadcast_object(None)
    if context.requested is not None and requested is not None:
        mine: Mapping[str, Any] = context.requested
        for name in sorted(mine.keys() | requested.keys()):
            if mine.get(name) != requested.get(name):
                raise OptionError(
                    f"rank {context.group.rank} was started with {name}={mine.get(name)!r}, rank 0 with "
                    f"{requested.get(name)!r}: start all with the same command"
                )
    return train_in_process(Config.from_json(settings), RunFolder(path), None, True, context.group)


@contextmanager
def _joined(place: Place, requested: Mapping[str, Any] | None) -> Iterator[RankContext]:
    global _calls
    if dist.is_initialized():
        raise OptionError("this program has a process group already: leave torch.distributed to headrace.train")
    place.take_share_of_cores()
    with Interrupt(launched=True) as interrupt:
        try:
            store = store_of(place)
            key, _calls = f"headrace/run/{_calls}", _calls + 1
            earlier_run = _found(store.get(key)) if place.leads and store.check([key]) else None
            group = connect(place, store, lambda: bool(interrupt))
            yield RankContext(group, requested, earlier_run, lambda text: store.set(key, text))
        except RuntimeError as error:
            words = str(error)
            if not isinstance(error, dist.DistError) and "gloo" not in words.lower() and "NCCL" not in words:
                raise
            raise WorkerError(
                f"rank {place.rank} of {place.size} has lost another one, which failed, was killed or cannot be reached"
                " any more: the first error above says which"
            ) from error
        finally:
            process_group.leave()


def _found(note: bytes) -> Path:
    """Returns the run folder that was stored before a restart.

    Raises:
        StorageError: the folder is on another machine.
    """
    known = json.loads(note)
    path = Path(known["path"])
    if not path.exists() and known["host"] != socket.gethostname():
        raise StorageError(
            f"rank 0 is on {socket.gethostname()} now, but its run is in {path} on {known['host']}: for restarts on "
            "several machines name a run_dir that all of them share"
        )
    return path


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
        store = dist.PrefixStore(_agreed_prefix(place, store, stop), store)  # type: ignore[reportPrivateImportUsage]
    return process_group.connect(place, store, stop)


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

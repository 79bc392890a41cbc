"""Runs that torchrun has started: the first process begins or goes on as any run does, the others follow it.

Only the first process has the run folder, so that machines need not share a disk: it reads the checkpoint and tells
the settings. It notes in the store of torchrun's agents where the folder is. That store outlives the processes: when
torchrun has to start them again, they go on with that run from its newest checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import OptionError, StorageError, WorkerError
from headrace.train.config.settings import Config
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.torchrun import Place
from headrace.train.runners.here import train_here
from headrace.train.runners.result import Result
from headrace.train.runs.folder import RunFolder

if TYPE_CHECKING:
    from headrace.train.runners.process_group import ProcessGroup

_calls = 0  # runs that this process has begun: a script that trains twice is started again from its beginning


@dataclass
class Together:
    """What a process knows of the run that several train.

    Attributes:
        group: those processes.
        asked: the settings as this process was asked for them, name → value; None where it goes on with a run.
        found: the run folder of an earlier start of the same processes; None if this is the first.
    """

    group: ProcessGroup
    asked: Mapping[str, Any] | None
    found: Path | None
    _note: Callable[[str], object] = field(repr=False)

    def note(self, run: Path) -> None:
        """Note which run this is, for the same processes after a restart."""
        self._note(json.dumps({"host": socket.gethostname(), "path": str(run.resolve())}))

    def announce(self, config: Config, run: Path) -> None:
        """Let the other processes begin, in the first one."""
        self.group.told((config.to_json(), str(run), self.asked))


def launched(
    start: Callable[[Together], Result], place: Place, asked: Mapping[str, Any] | None, callbacks: object
) -> Result:
    """Train as one of torchrun's processes: the first one by ``start``, the others as that one says.

    Raises:
        OptionError: the processes were not started alike, or with callbacks.
        WorkerError: one of the others has ended.
    """
    if callbacks and place.size > 1:
        raise OptionError("callbacks are for a run with one process that learns: start it without torchrun")
    with _joined(place, asked) as together:
        return start(together) if place.leads else _follow(together)


def _follow(together: Together) -> Result:
    """Train as the first process says."""
    settings, path, asked = together.group.told(None)
    if together.asked is not None and asked is not None:
        _check_same(together.group.rank, together.asked, asked)
    config = Config.from_json(settings)
    result = train_here(config, RunFolder(path), None, True, together.group)
    return dataclasses.replace(result, plot=None, video=None)


def _check_same(rank: int, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            raise OptionError(
                f"rank {rank} was started with {name}={mine.get(name)!r}, rank 0 with {theirs.get(name)!r}: "
                "start all with the same command"
            )


@contextmanager
def _joined(place: Place, asked: Mapping[str, Any] | None) -> Iterator[Together]:
    """Be one of the processes that train together, within this context."""
    global _calls
    import torch.distributed as dist

    from headrace.train.runners.meeting import meet, part, store_of

    if dist.is_initialized():
        raise OptionError("this program has a process group already: leave torch.distributed to headrace.train")
    place.take_share_of_cores()
    with Interrupt(launched=True) as interrupt:
        try:
            store = store_of(place)
            key, _calls = f"headrace/run/{_calls}", _calls + 1
            found = _found(store.get(key)) if place.leads and store.check([key]) else None
            group = meet(place, store, lambda: bool(interrupt))
            yield Together(group, asked, found, lambda text: store.set(key, text))
        except RuntimeError as error:
            if not _tells_of_a_lost_process(error):
                raise
            raise WorkerError(
                f"rank {place.rank} of {place.size} has lost another one, which failed, was killed or cannot be reached"
                " any more: the first error above says which"
            ) from error
        finally:
            part()


def _found(note: bytes) -> Path:
    """The run folder that was noted before a restart.

    Raises:
        StorageError: it is out of reach.
    """
    known = json.loads(note)
    path = Path(known["path"])
    if not path.exists() and known["host"] != socket.gethostname():
        raise StorageError(
            f"rank 0 is on {socket.gethostname()} now, but its run is in {path} on {known['host']}: for restarts on "
            "several machines name a run_dir that all of them share"
        )
    return path


def _tells_of_a_lost_process(error: RuntimeError) -> bool:
    """Whether this is what torch raises when another process has ended."""
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or "gloo" in str(error).lower() or "NCCL" in str(error)

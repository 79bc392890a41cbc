"""Callbacks: a user's code that is called at certain points of a run, and the interface to the run that it receives."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headrace.errors import HeadraceError, OptionError
from headrace.train.runners.result import Reason
from headrace.train.settings.config import Config

if TYPE_CHECKING:
    from headrace.train.play.agent import Agent

OWN = "own"
"""the key of callbacks' metrics in a line of metrics"""


class Training:
    """The interface of a run for its callbacks.

    Properties are the present values. All methods must be called in the thread in which callbacks are called.
    """

    def __init__(self, trainer: Any, callbacks: Callbacks):
        self._trainer, self._callbacks = trainer, callbacks

    @property
    def config(self) -> Config:
        """The run's settings."""
        return self._trainer.config

    @property
    def run_dir(self) -> Path:
        """The run folder."""
        return self._trainer.run.path

    @property
    def step(self) -> int:
        """The number of agent steps so far, in all environments together."""
        return self._trainer.step

    @property
    def seconds(self) -> float:
        """The seconds spent on training so far, including those before a resumption."""
        return self._trainer.seconds

    @property
    def episodes(self) -> int:
        """The number of episodes that have ended."""
        return self._trainer.tracker.episodes

    @property
    def updates(self) -> int:
        """The number of gradient steps of the first policy so far; reading it waits for the device."""
        return self._trainer.policies[0].updates

    @property
    def mean_return(self) -> float | None:
        """The mean return of the last ``stop_episodes`` episodes of the first policy; None before one has ended."""
        return self._trainer.tracker.mean_return()

    @property
    def mean_length(self) -> float | None:
        """The mean length of the same episodes, in agent steps; None before one has ended."""
        return self._trainer.tracker.mean_length()

    @property
    def metrics(self) -> Mapping[str, float]:
        """The means of what environments reported of the same episodes by name, such as ``is_success``."""
        return self._trainer.tracker.metric_means()

    @property
    def losses(self) -> Mapping[str, float]:
        """The statistics of the first policy's last updates by name; reading them waits for the device."""
        return self._trainer.policies[0].last_losses()

    @property
    def evaluation(self) -> Mapping[str, float]:
        """The evaluator's last result, with ``return`` and ``step``; empty without one."""
        return self._trainer.source.evaluation

    def log(self, metrics: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Adds numbers by name to the object ``own`` of the next line of metrics; a later value replaces an earlier.

        Raises:
            OptionError: a value is not a finite number.
        """
        for name, value in {**(metrics or {}), **more}.items():
            self._callbacks.own[name] = _number(name, value)

    def set(self, **values: float) -> None:
        """Changes settings that may have a schedule, such as ``learning_rate``, from the next update on.

        A change replaces a schedule, and lasts until the next change or the end of the run. ``config.json`` keeps the
        settings with which the run began, and a resumed run begins with these.

        Raises:
            OptionError: a setting cannot have a schedule, or its value is out of bounds.
        """
        self._trainer.set_rates(values)

    def stop(self) -> None:
        """Ends the run as Ctrl-C does, once the callback has returned: with a checkpoint, so that it can be resumed."""
        self._callbacks.stopped = True

    def save(self) -> None:
        """Writes a checkpoint now, and waits until it is written."""
        self._trainer.saver.save()

    def agent(self) -> Agent:
        """Returns an agent with copies of the present policies, as `headrace.load` does."""
        return self._trainer.saver.agent()


class Callback:
    """The base class of callbacks; a subclass overrides the methods that it needs.

    All callbacks are called in the process and thread that learns, one after the other. An exception in one of them
    ends the run, after a checkpoint is saved.

    Example:
        >>> class Patience(headrace.train.Callback):
        ...     def on_log(self, training, line):
        ...         if training.step > 100_000 and (training.mean_return or 0) < 50:
        ...             training.stop()
    """

    def on_start(self, training: Training) -> None:
        """Called before the first step; also when a run is resumed, with ``training.step`` above 0."""

    def on_update(self, training: Training) -> None:
        """Called after the updates from a rollout; with workers a few times a second. It should take little time."""

    def on_log(self, training: Training, line: Mapping[str, Any]) -> None:
        """Called before a line of metrics is written; numbers that `Training.log` adds are in this line.

        Args:
            training: the run.
            line: the entries of the line, such as ``step``, ``episodes``, ``return``, ``length``, ``loss``, ``time``.
        """

    def on_checkpoint(self, training: Training, path: Path) -> None:
        """Called after a checkpoint is written; with workers a fraction of a second later."""

    def on_end(self, training: Training, reason: Reason) -> None:
        """Called after the last checkpoint, unless the run failed."""


CallbackLike = Callback | Callable[[Training, Mapping[str, Any]], None]
"""a callback, or a function for `Callback.on_log`"""


class Callbacks:
    """The callbacks of one run.

    Attributes:
        own: metrics of callbacks for the next line of metrics.
        stopped: whether a callback has called `Training.stop`.
    """

    def __init__(self, given: Sequence[Callback], trainer: Any):
        self._each, self._trainer = given, trainer
        self._training = Training(trainer, self)
        self._written: deque[Path] = deque()
        self.own: dict[str, float] = {}
        self.stopped = False

    def start(self) -> None:
        self._call(lambda each: each.on_start(self._training))

    def update(self) -> None:
        self._tell_of_checkpoints()
        self._call(lambda each: each.on_update(self._training))

    def log(self, line: dict[str, Any]) -> None:
        """Calls `Callback.on_log`, and adds the metrics of callbacks to the line."""
        self._call(lambda each: each.on_log(self._training, line))
        if self.own:
            line[OWN], self.own = self.own, {}

    def note_checkpoint(self, path: Path) -> None:
        """Stores the path of a checkpoint until the next `update`; may be called in any thread."""
        if self._each:
            self._written.append(path)

    def end(self, reason: Reason) -> None:
        self._tell_of_checkpoints()
        self._call(lambda each: each.on_end(self._training, reason), save=False)

    def _tell_of_checkpoints(self) -> None:
        while self._written:
            path = self._written.popleft()
            if not path.exists():  # removed, as there are newer ones
                continue
            self._call(lambda each, path=path: each.on_checkpoint(self._training, path))

    def _call(self, moment: Callable[[Callback], None], save: bool = True) -> None:
        try:
            for each in self._each:
                moment(each)
        except Exception:
            if save:
                with suppress(HeadraceError):  # only the callback's error is reported
                    self._trainer.saver.save()
            raise


class _Function(Callback):
    """A function as a callback."""

    def __init__(self, function: Callable[[Training, Mapping[str, Any]], None]):
        self._function = function

    def on_log(self, training: Training, line: Mapping[str, Any]) -> None:
        self._function(training, line)


def callbacks_of(given: object) -> tuple[Callback, ...]:
    """Returns the argument ``callback`` of `headrace.train.train`, one callback, several or None, as a tuple.

    Raises:
        OptionError: one of them is neither a `Callback` nor a function.
    """
    if given is None:
        return ()
    if isinstance(given, list | tuple):
        return tuple(found for each in given for found in callbacks_of(each))
    if isinstance(given, Callback):
        return (given,)
    if callable(given) and not isinstance(given, type):
        return (_Function(cast(Any, given)),)
    raise OptionError(f"callback must be a headrace.train.Callback or a function (training, line), not {given!r}")


def _number(name: str, value: Any) -> float:
    try:
        number = value if type(value) is int else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise OptionError(f"the metric {name}={value!r} is not a finite number")
    return number

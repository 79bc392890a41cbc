"""All exceptions of Headrace.

Each error also derives from the built-in exception that a caller would expect
(``ValueError`` for a bad argument, ``TimeoutError`` for a time-out, …), so code that
catches those keeps working. Messages name the environment and the value.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class HeadraceError(Exception):
    """Base class of all errors that Headrace raises on purpose."""


class UnknownTaskError(HeadraceError, ValueError):
    """No task has this name; the message lists the most similar names."""


class OptionError(HeadraceError, ValueError):
    """An option is unknown, or its value is out of range or of the wrong type."""


class RenderError(OptionError):
    """The task has no rendering."""


class ActionError(HeadraceError, ValueError):
    """An action has the wrong shape or dtype, or lies outside the action space."""


class EnvIdError(HeadraceError, ValueError):
    """An env_id is out of range, repeated, already in flight, or not an integer."""


class StateError(HeadraceError, ValueError):
    """A saved state is truncated, corrupt, or of another task or version."""


class UnsupportedError(OptionError, StateError):
    """The simulator of the task cannot do what is asked for, such as save the states of its environments."""


class TrustError(HeadraceError, PermissionError):
    """A run folder asks for what the user has not agreed to, such as running code, or holds pickles; it is named."""


class StorageError(HeadraceError, OSError):
    """A run's files cannot be written, as on a full disk; the message names the checkpoint to resume from."""


class SequenceError(HeadraceError, RuntimeError):
    """A call is not valid in the present state, such as a step before the first reset, or a recv with nothing sent."""


class ClosedError(HeadraceError, RuntimeError):
    """The pool is closed, or belongs to the process that forked this one."""


class RecvTimeoutError(HeadraceError, TimeoutError):
    """The timeout of ``recv(timeout=…)`` has passed; all results stay in flight."""


class EnvironmentFailure(HeadraceError, RuntimeError):
    """An environment raised; the message names it. It must be reset before its next step."""


class EngineLostError(HeadraceError, RuntimeError):
    """The process in which an environment's simulator runs has ended; environments raise it from ``step``."""


class WorkerError(HeadraceError, RuntimeError):
    """A worker process raised or died; the message names the process and the cause."""


class ScriptError(WorkerError, SystemExit):
    """Worker processes must import the script that trains, and it would train again in each of them.

    Uncaught, it ends the program as `sys.exit` does: with the message, without a traceback.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.code = message


class NotFiniteError(HeadraceError, ArithmeticError):
    """A reward, an observation or a loss is NaN or infinite; the message names the environment or the update."""


class LimitError(HeadraceError, OSError):
    """The system's limit on open files, processes or memory is reached; the message names the limit to raise."""


class SharedMemoryError(HeadraceError, MemoryError):
    """There is not enough memory for processes to share; the message contains the size that was requested."""


class KernelError(HeadraceError, TypeError):
    """A kernel environment does not fit its task, cannot be compiled, or failed in its first steps.

    The message names the author's line.
    """


class SimulatorError(HeadraceError, TypeError):
    """The fields that a compiled simulator declares differ from its task's; the message names the field and both."""


class ConformanceError(HeadraceError, AssertionError):
    """An environment failed a conformance check; the message names the check, the expected and the actual value."""


@contextmanager
def needs_train(what: str) -> Iterator[None]:
    """Inside, an import that finds no torch, or another package of the extra, says that ``what`` needs it.

    Raises:
        ModuleNotFoundError: A package of the extra is not installed; the message contains the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headrace"):
            raise
        words = f"{what} needs {error.name}: pip install 'headrace[train]'"
        raise ModuleNotFoundError(words, name=error.name) from error

"""Every way a call can fail, by name.

Each error also derives from the built-in exception that a caller would expect
(``ValueError`` for a bad argument, ``TimeoutError`` for a time-out, …), so code that
catches those keeps working. Messages name the environment and the value.
"""


class HeadraceError(Exception):
    """Base of all errors that Headrace raises on purpose."""


class UnknownTaskError(HeadraceError, ValueError):
    """No task has this name; the message lists the nearest names."""


class OptionError(HeadraceError, ValueError):
    """An option is unknown, or its value is out of range or of the wrong type."""


class RenderError(OptionError):
    """The task has no pictures to show."""


class ActionError(HeadraceError, ValueError):
    """An action has the wrong shape or dtype, or lies outside the action space."""


class EnvIdError(HeadraceError, ValueError):
    """An env_id is out of range, repeated, already in flight, or not an integer."""


class StateError(HeadraceError, ValueError):
    """A saved state is truncated, corrupt, or of another task or version."""


class TrustError(HeadraceError, PermissionError):
    """A run folder names code that the user has not agreed to run; the message names the files."""


class StorageError(HeadraceError, OSError):
    """A run's files cannot be written, as on a full disk; the message says what is there to go on from."""


class SequenceError(HeadraceError, RuntimeError):
    """A call came at the wrong moment: step before reset, recv with too little in flight, …."""


class ClosedError(HeadraceError, RuntimeError):
    """The pool is closed, or belongs to the process that forked this one."""


class RecvTimeoutError(HeadraceError, TimeoutError):
    """``recv(timeout=…)`` ran out of time; what is in flight stays in flight."""


class EnvironmentFailure(HeadraceError, RuntimeError):
    """An environment raised while it ran; the message names it. Reset it before stepping it."""


class WorkerError(HeadraceError, RuntimeError):
    """One of several processes that train together raised, or died; the message names it and what happened."""


class NotFiniteError(HeadraceError, ArithmeticError):
    """A reward, an observation or a loss is NaN or infinite; the message names the environment or the update."""


class LimitError(HeadraceError, OSError):
    """The system gives no more open files, processes or memory; the message says who wanted it, and what to raise."""


class SharedMemoryError(HeadraceError, MemoryError):
    """Less memory is to be had than processes are to share; the message says how much was wanted."""


class KernelError(HeadraceError, TypeError):
    """A kernel environment does not fit its task, cannot be compiled, or went wrong in its first steps.

    The message names the author's line.
    """


class SimulatorError(HeadraceError, TypeError):
    """A compiled simulator does not declare what its task has; the message names the field and what each side says."""


class ConformanceError(HeadraceError, AssertionError):
    """An environment does not keep the contract; the message names the check, what was expected and what was seen."""

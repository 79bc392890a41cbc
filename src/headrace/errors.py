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


class SharedMemoryError(HeadraceError, MemoryError):
    """Less memory is to be had than processes are to share; the message says how much was wanted."""


class KernelError(HeadraceError, TypeError):
    """A kernel environment does not fit its task or cannot be compiled; the message names the author's line."""


class ConformanceError(HeadraceError, AssertionError):
    """An environment does not keep the contract; the message names the check, what was expected and what was seen."""

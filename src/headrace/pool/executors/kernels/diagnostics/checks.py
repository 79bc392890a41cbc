"""Finds mistakes in a kernel environment when its pool is made.

The compiled kernel does not check its arrays: it would write a field that the batch lacks through a null pointer, and
a field of another type beyond its bounds. Structs, shapes and the functions' arguments are therefore compared with the
task before anything is compiled; `mistakes` explains errors that only the compiler finds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from headrace.errors import KernelError
from headrace.pool.batch import INFO, OBS, observation_fields
from headrace.pool.executors.kernels.agents import MultiAgentEnv
from headrace.pool.executors.kernels.build import AnyEnv, actions_type_of
from headrace.pool.executors.kernels.diagnostics.mistakes import (
    FUNCTION,
    MARK_IT,
    STRUCT,
    alike,
    described,
    mistake,
    mistake_in,
)
from headrace.pool.executors.kernels.diagnostics.paths import check_source
from headrace.pool.executors.kernels.memory import MOST_DIMENSIONS, array_fields, scalar_fields
from headrace.pool.executors.kernels.random import AgentStreams, Streams
from headrace.pool.spec import TaskSpec

Called = tuple[Any, dict[str, Any]]  # a function, and the types of its arguments by name
# names that a batch or a kernel's results already use
TAKEN = {"reward", "terminated", "truncated", "env_id", "elapsed_step", "players"}
TAKEN |= {"final_obs", "final_info", "final_elapsed_step"}


def view_name(batch_name: str) -> str:
    """Returns the name of a batch's array in an environment's view: ``obs``, ``obs_<key>``, or the info's name."""
    return batch_name.removeprefix(INFO).replace(f"{OBS}:", f"{OBS}_")


def view_field(env: Any, batch_name: str) -> str:
    """Returns the name of an observation's array in an environment's view, where the environment may have its own."""
    return getattr(env, "names", {}).get(batch_name) or view_name(batch_name)


def check_environment(env: AnyEnv, spec: TaskSpec, scalars: Mapping[str, Any], bounds: Iterable[str]) -> None:
    """Raises `KernelError` if the environment's structs and functions and the task's spec do not fit together.

    ``bounds`` names the state arrays that have bounds.
    """
    check_structs(env, spec, scalars)
    _check_names(env, "array field for the bounds of", bounds, array_fields(env.state).keys() - env.tables.keys())
    check_functions(env, functions_of(env, spec))


def check_structs(env: Any, spec: TaskSpec, scalars: Mapping[str, Any]) -> None:
    """Raises `KernelError` if the environment's structs and the task's spec do not fit together."""
    if not env.name.isidentifier():
        raise KernelError(f"the name of a kernel environment must be an identifier, not {env.name!r}")
    for struct in (env.state, env.view, *([env.actions] if env.actions is not None else [])):
        if not isinstance(struct, STRUCT):
            name = getattr(struct, "__name__", repr(struct))
            raise mistake_in(env, f"{name} is no warp.struct: {MARK_IT}", struct)
    _check_state(env, spec, scalars)
    _check_view(env, spec)


def check_functions(env: Any, functions: Sequence[Called]) -> None:
    """Raises `KernelError` if a function does not take arguments of the given types, or its source has a mistake."""
    for function, wanted in functions:
        _check_function(env, function, wanted)
        check_source(env, function, list(wanted).index("state"))


def _check_state(env: AnyEnv, spec: TaskSpec, scalars: Mapping[str, Any]) -> None:
    state, arrays, plain = env.state.key, array_fields(env.state), scalar_fields(env.state)
    for name in plain:
        kind = env.state.vars[name].type
        if name in scalars and not _is(kind, scalars[name]):
            raise mistake_in(env, f"{state}.{name} is {described(kind)}, not {scalars[name]!r}", env.state, name)
        if name not in scalars:
            what = (
                f"{state}.{name} is neither an option of {spec.task} nor a constant: "
                f"say {type(env).__name__}(…, constants={{{name!r}: …}}) or KernelTask(…, options={{{name!r}: …}})"
            )
            raise mistake_in(env, what, env.state, name)
    for what, names, known in (
        ("scalar field for the constant", env.constants, plain),
        ("array field for the shape of", env.shapes, arrays),
        ("array field for the table", env.tables, arrays),
    ):
        _check_names(env, what, names, known)
    for name, kind in arrays.items():
        _check_rank(env, name, kind, scalars)


def _check_names(env: AnyEnv, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    if extra := sorted(set(names) - set(known)):
        told = f"{env.state.key} has no {what} {extra[0]!r}; it has {', '.join(known) or 'none'}"
        raise mistake_in(env, told, env.state)


def _check_rank(env: AnyEnv, name: str, kind: Any, scalars: Mapping[str, Any]) -> None:
    """Raises `KernelError` unless a state array has the dimensions of its table, or one more than its shape has."""
    field, shape = f"{env.state.key}.{name}", env.shapes.get(name, ())
    for extent in shape:
        if isinstance(extent, str) and extent not in scalars:
            raise mistake_in(env, f"the shape of {field} names {extent!r}, which is no option", env.state, name)
    if name in env.tables:
        ndim = np.ndim(env.tables[name]) - len(getattr(kind.dtype, "_shape_", ()))
        why = "as its table has"
    else:
        ndim = 1 + len(shape)
        why = f"the environment's and its shape {tuple(shape)}" if shape else f"or give shapes={{{name!r}: (…)}}"
    if kind.ndim != ndim:
        what = f"{field} has {kind.ndim} dimensions; it must have {ndim}: {why}"
        raise mistake_in(env, what, env.state, name)


def _check_view(env: AnyEnv, spec: TaskSpec) -> None:
    infos = [f for f in spec.info if not (spec.agents and f.name == "alive")]  # written by the executor
    seen = observation_fields(spec.observation)
    for f in infos:
        if f.name in TAKEN.union(view_field(env, o.name) for o in seen):
            raise KernelError(
                f"{spec.task}: an info field cannot be called {f.name!r}, as every batch has one of this name"
            )
    fields = [*((view_field(env, f.name), f) for f in seen), *((view_name(f.name), f) for f in infos)]
    wanted = {name: (f.dtype, min(1 + len(f.shape), MOST_DIMENSIONS)) for name, f in fields}
    given, view = array_fields(env.view), env.view.key
    for name in [*wanted, *given, *scalar_fields(env.view)]:
        if name not in wanted:
            what = f"{view}.{name} is neither observation nor info of {spec.task}"
            raise mistake_in(env, what, env.view, name)
        dtype, ndim = wanted[name]
        if name not in given:
            raise mistake_in(env, f"{view} lacks the field {name!r}, {_array_of(dtype, ndim)}", env.view)
        kind = given[name]
        number = wp.types.type_is_scalar(kind.dtype) or kind.dtype is wp.bool
        found = number and (np.dtype(wp.dtype_to_numpy(kind.dtype)), kind.ndim)
        if found != (dtype, ndim):
            what = f"{view}.{name} must be {_array_of(dtype, ndim)}, as {spec.task} says"
            raise mistake_in(env, what, env.view, name)


def _array_of(dtype: np.dtype, ndim: int) -> str:
    return f"an array of {dtype} with {ndim} dimension{'s' * (ndim > 1)} (the environment's row first)"


def functions_of(env: AnyEnv, spec: TaskSpec) -> list[Called]:
    """Returns the environment's functions, each with the types of its arguments by name."""
    here: dict[str, Any] = {"state": env.state, "env": int}
    acting = {"actions": actions_type_of(env, spec), "row": int}
    seeing = {"view": env.view, "row": int}
    if not isinstance(env, MultiAgentEnv):
        drawing = {"streams": Streams}
        each = [(env.reset, here | drawing), (env.step, here | acting | drawing), (env.observe, here | seeing)]
        return each + ([(env.truncates, here)] if env.truncates is not None else [])
    one, drawing = here | {"agent": int}, {"streams": AgentStreams}
    phases = [(phase, one | drawing) for phase in env.reset] + [(phase, one | acting | drawing) for phase in env.step]
    rest = [(env.reward, one), (env.over, here), (env.observe, one | seeing)]
    return phases + rest + ([(env.alive, one)] if env.alive is not None else [])


def _check_function(env: AnyEnv, function: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(function, FUNCTION):
        at = function if inspect.isfunction(function) else None
        raise mistake(env, f"{getattr(function, '__name__', function)} is not marked with @wp.func", at)
    taken = {name: kind for name, kind in function.input_types.items() if name != "return"}
    expected = ", ".join(f"{name}: {described(kind)}" for name, kind in wanted.items())
    if len(taken) != len(wanted):
        raise mistake(env, f"{function.key} takes {len(taken)} arguments, but is called with ({expected})", function)
    for (name, kind), given in zip(taken.items(), wanted.values(), strict=True):
        if not alike(kind, given):
            what = f"{function.key}'s argument {name} is {described(kind)}, but is called with {described(given)}"
            raise mistake(env, f"{what}: ({expected})", function)


def _is(kind: Any, value: Any) -> bool:
    """Returns whether a scalar field of type ``kind`` can hold the value without conversion."""
    if not (wp.types.type_is_scalar(kind) or kind is wp.bool):
        return True
    number = np.asarray(value)
    fits = "biuf" if np.dtype(wp.dtype_to_numpy(kind)).kind == "f" else "biu"
    return number.ndim == 0 and number.dtype.kind in fits

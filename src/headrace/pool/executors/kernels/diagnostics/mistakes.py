"""Turns Warp's compilation errors into messages with the author's function and line, the mistake, and a remedy.

Warp reports the generated kernel first and the author's line last, in the terms of its compiler. Only the last line
concerns the author.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import warp as wp

from headrace.errors import HeadraceError, KernelError
from headrace.pool.executors.kernels.random import Streams

OURS = Path(__file__).parents[2]
FUNCTION: Any = type(wp.abs)
STRUCT: Any = type(Streams)
MARK_IT = "write @wp.struct above its class"
PLACE = re.compile(r'Error while parsing function "(\w+)" at (.*?):(\d+):\n(.*?)\n;', re.DOTALL)
TYPE = re.compile(r"<class '[\w.<>]*?(\w+)'>")
# name of a function in the generated kernel → the environment's function that it is
CALLED = {
    "step_episode": "step",
    "reset_episode": "reset",
    "observe": "observe",
    "earned": "reward",
    "finished": "over",
    "lives": "alive",
    "act": "act",
    "accept": "accept",
    "truncates": "truncates",
}
FAULTS = (
    "illegal memory access",
    "illegal address",
    "misaligned address",
    "illegal instruction",
    "launch failure",
    "assert",
)
UNMARKED = re.compile(r"argument '?(\w+)'? of function (\w+): Unrecognized type '<class '(?:\w+\.)*(\w+)'>'")
RESULTS = {
    "step": "(reward, terminated): a wp.float32 and a wp.bool, on every path",
    "reward": "a wp.float32, on every path",
    "over": "a wp.bool, on every path",
    "truncates": "a wp.bool, on every path",
    "alive": "a wp.bool, on every path",
    "accept": "a wp.bool, on every path",
}


@contextlib.contextmanager
def mistakes_named(env: Any) -> Iterator[None]:
    """Returns a context that turns compilation errors of an environment's functions into `KernelError`."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise _explained(env, error) from error


@contextlib.contextmanager
def faults_named(env: Any) -> Iterator[None]:
    """Returns a context that turns faults that a GPU reports, possibly of earlier launches, into `KernelError`."""
    try:
        yield
    except RuntimeError as error:
        if "CUDA" not in str(error) or not any(fault in str(error) for fault in FAULTS):
            raise
        steps = {which: getattr(env, which, None) for which in dict.fromkeys(CALLED.values())}
        functions = ", ".join(f"{which}: {_names(given)}" for which, given in steps.items() if given)
        raise KernelError(
            f"{env.name}: the GPU stopped in one of its functions ({functions}): most likely an array was read or "
            "written outside its bounds. headrace.make(…, debug=True), or headrace check, names the line. "
            "This process cannot use the GPU any more"
        ) from error


def mistake(env: Any, what: str, function: Any = None, line: int = 0, source: str = "") -> KernelError:
    """Returns the `KernelError` for a mistake in a function, at the line ``line``, by default its first."""
    if function is None:
        return KernelError(f"{env.name}: {what}")
    code = getattr(function, "func", function).__code__
    line = line or first_line(function)
    source = source or linecache.getline(code.co_filename, line)
    return KernelError(f"{env.name}: {what}\n  {code.co_filename}:{line}, in {code.co_name}\n    {source.strip()}")


def mistake_in(env: Any, what: str, struct: Any, field: str = "") -> KernelError:
    """Returns the `KernelError` for a mistake in a `warp.struct`, at the line of a field or of its class."""
    author: Any = getattr(struct, "cls", struct)
    name = getattr(author, "__name__", "")
    functions: list[Any] = [getattr(env, which, None) for which in ("observe", "over")]
    files = {function.func.__code__.co_filename for function in functions if hasattr(function, "func")}
    with contextlib.suppress(OSError, TypeError):  # the class may not be in an imported module
        files.add(str(inspect.getsourcefile(author)))
    for file in sorted(files):
        lines = linecache.getlines(file)
        start = next((i for i, text in enumerate(lines) if re.match(rf"\s*class {name}\b", text)), None)
        if start is not None:
            fields = [i for i in range(start, len(lines)) if field and re.match(rf"\s+{field}\s*:", lines[i])]
            at = fields[0] if fields else start
            place = f"\n  {file}:{at + 1}, in {name}\n    {lines[at].strip()}"
            return KernelError(f"{env.name}: {what}{place}")
    return KernelError(f"{env.name}: {what}")


def unmarked(error: Exception) -> KernelError | None:
    """Returns the `KernelError` for a class without @wp.struct that made the import of a file fail.

    Returns None if ``error`` has another cause.
    """
    if not (found := UNMARKED.search(str(error))):
        return None
    frames = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(error.__traceback__)]
    theirs = [place for place in frames if "warp" not in Path(place[0]).parts]
    file, line = theirs[-1] if theirs else frames[-1]
    problem = f"{found[3]} is no warp.struct, so it cannot be {found[2]}'s argument {found[1]}"
    return KernelError(f"{problem}: {MARK_IT}\n  {file}:{line}, at {found[2]}")


def described(kind: Any) -> str:
    """Returns a short description of a type: ``float64``, ``array2d of float32``, a struct's name."""
    if wp.types.is_array(kind):
        return f"array{f'{kind.ndim}d' * (kind.ndim > 1)} of {described(kind.dtype)}"
    if kind in (int, float):
        return {int: "int32", float: "float32"}[kind]
    return getattr(kind, "key", None) or getattr(kind, "__name__", None) or str(kind)


def alike(kind: Any, given: Any) -> bool:
    """Returns whether an argument or field of type ``kind`` accepts a value of type ``given``."""
    if kind is Any or kind is given:
        return True
    if wp.types.is_array(kind) and wp.types.is_array(given):
        return kind.ndim == given.ndim and alike(kind.dtype, given.dtype)  # Warp's own comparison ignores dimensions
    return wp.types.types_equal(kind, given)


def signature(function: Any) -> str:
    """Returns a function's signature as text: ``uniform(streams: Streams, env: int32, …)``."""
    arguments = ", ".join(f"{name}: {described(kind)}" for name, kind in function.input_types.items())
    return f"{function.key}({arguments})"


def _explained(env: Any, error: Exception) -> KernelError:
    said = str(error.args[0]) if error.args else str(error)
    places = PLACE.findall(said)
    told = said[said.rindex("\n;") + 2 :] if places else said
    theirs = [place for place in places if OURS not in Path(place[1]).parents]
    if theirs:
        name, file, line, source = theirs[-1]
        function = _function_at(env, name, file)
        what = _in_words(env, told, source, function)
        return KernelError(
            f"{env.name}: {what}\n  {file}:{_line(function, file, int(line), source)}, in {name}\n    {source.strip()}"
        )
    for call, which in CALLED.items():
        if places and f"{call}(" in places[-1][3] and which in RESULTS:
            return _wrong_result(env, which, told)
    if "build failed" in told or "ompil" in told:
        return KernelError(
            f"{env.name}: the compiler refused the code made from its functions: {told}\n"
            "  its messages were printed above; what is in wp.func_native is compiled as it stands"
        )
    return KernelError(f"{env.name}: {told}")


def _wrong_result(env: Any, which: str, told: str) -> KernelError:
    function = getattr(env, which)
    found = TYPE.findall(told)
    seen = ""
    if "NoneType" in told:
        seen = "; it returns nothing"
    elif "no len()" in told:
        seen = "; it returns one value"
    elif "existing symbol" in told and len(found) == 2:
        seen = f"; its {told.split('existing symbol ')[1].split()[0]} is {found[1]}, not {found[0]}"
    what = f"{which} must return {RESULTS[which]}{seen}"
    returns = [
        line
        for line, text in enumerate(
            inspect.getsource(function.func).splitlines(), function.func.__code__.co_firstlineno
        )
        if text.strip().startswith("return")
    ]
    return mistake(env, what, function, returns[-1] if returns else 0)


def _in_words(env: Any, told: str, source: str, function: Any) -> str:
    for pattern, words in WORDS:
        if found := re.search(pattern, told, re.DOTALL):
            return words(env, found, source, function)
    return told.strip()


def _no_attribute(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    name, of = found[1], found[3].rpartition(".")[2]
    for struct in (env.state, env.view):
        if struct.key.rpartition(".")[2] == of:
            return f"{of} has no field {name!r}; it has {', '.join(struct.vars)}" + _nearest(name, struct.vars)
    if of == "Physics":
        return f"physics has no field {name!r}: if MuJoCo has it, name it in reads=(…)" + _nearest(name, env.reads)
    if of == "Sensors":
        return f"physics.sensor has no field {name!r}: name it in sensors=(…)" + _nearest(name, env.sensors)
    return f"{found[2]} ({of}) has no field {name!r}"


def _undefined(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    known = {*function.func.__code__.co_varnames, *function.func.__globals__} if function else set()
    return f"the name {found[1]!r} is not defined" + _nearest(found[1], known)


def _no_overload(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    name = found[1]
    kinds = [_short(kind) for kind in re.split(r", (?![^(]*\))", found[2])]
    given = ", ".join(kinds)
    if name in ("array_store", "address"):
        indices = kinds[1:-1] if name == "array_store" else kinds[1:]
        return f"indices must be integers, not ({', '.join(indices)}): write int(…)"
    theirs: Any = function.func.__globals__.get(name) if function else None
    if isinstance(theirs, FUNCTION) and not theirs.is_builtin():
        return f"{name} was called with ({given}); it is {signature(theirs)}"
    hint = ": convert it with int(…)" if name == "range" else ": convert arguments to one type, such as wp.float64(…)"
    return f"{name} cannot be called with ({given}){hint}"


def _mixed(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    kinds = [kind.strip("' ") for kind in found[1].split(",")]
    wanted = next((kind for kind in kinds if kind not in ("float32", "int32")), kinds[0])
    return (
        f"both sides of an operation need one type, not {' and '.join(kinds)}: "
        f"write wp.{wanted}(…) around the other (a plain 0.9 is a float32, a plain 1 an int32)"
    )


def _no_function(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    name = found[1]
    functions = [known for known in dir(wp) if isinstance(vars(wp).get(known), FUNCTION)]
    close = _nearest(name.removeprefix("wp."), functions, 0.7) if name.startswith("wp.") else ""
    return f"{name} is neither a Warp function nor one marked with @wp.func{close}"


def _unsupported(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    name = {"JoinedStr": "f-strings", "ListComp": "list comprehensions", "Try": "try"}.get(found[1], found[1].lower())
    return f"kernels know no {name}: use numbers, vectors, if, for, while and functions (anything goes in debug mode)"


def _retyped(env: Any, found: re.Match[str], source: str, function: Any) -> str:
    return f"{found[1]} is a {_short(found[2])} already and cannot become a {_short(found[3])}"


def _nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    close = difflib.get_close_matches(name, [k for k in known if k != name], 1, likeness)
    return f": did you mean {close[0]!r}?" if close else ""


def _short(kind: str) -> str:
    return re.sub(r"[\w.<>]+\.(\w+)", r"\1", kind.strip())


def _names(given: Any) -> str:
    """Returns the name of a function, or the names of its phases."""
    return " and ".join(getattr(f, "func", f).__name__ for f in (given if isinstance(given, tuple) else (given,)))


Words = Callable[[Any, "re.Match[str]", str, Any], str]
WORDS: list[tuple[str, Words]] = [
    (r"`(\w+)` is not an attribute of '([\w<>]+)' \((?:wp\.ref\[)?([\w.<>]+)\]?\)", _no_attribute),
    (r"Referencing undefined symbol: (\w+)", _undefined),
    (r"function overload for '(\w+)' that matched inputs with types: \[(.*)\]", _no_overload),
    (r"Input types must be the same, got \[(.*)\]", _mixed),
    (r"Could not find function ([\w.]+) as a built-in", _no_function),
    (r"Construct `ast\.(\w+)` not supported", _unsupported),
    (
        r"number of indices .*?(\d+)\b.*?(\d+)",
        lambda env, found, source, function: f"an array of {found[2]} dimensions was indexed with {found[1]}",
    ),
    (
        r"Expected to call `address",
        lambda env, found, source, function: "an array is indexed with something else than integers: write int(…)",
    ),
    (
        r"value argument type \((\w+)\) must be of the same type as the array \((\w+)\)",
        lambda env, found, source, function: (
            f"a {found[1]} is stored into an array of {found[2]}: write wp.{found[2]}(…)"
        ),
    ),
    (
        r"Invalid external reference type: (.*)",
        lambda env, found, source, function: (
            f"a name here stands for {found[1]}, which kernels cannot hold: numbers come from wp.constant or "
            "State, arrays from State, with tables= for those that all environments share"
        ),
    ),
    (
        r"mutating a constant (\w+) inside a dynamic loop",
        lambda env, found, source, function: (
            f"{found[1]} begins as a literal or a constant and changes in a loop: begin it with a number of its type, "
            "int(0), float(0.0) or wp.float64(0.0)"
        ),
    ),
    (r"existing symbol (\w+) \(<class '([^']*)'>\) with different type \(<class '([^']*)'>\)", _retyped),
]


def _function_at(env: Any, name: str, file: str) -> Any:
    """Returns the Warp function of this name in this file, or None."""
    ours = [getattr(env, which, None) for which in set(CALLED.values())]
    functions: list[Any] = [f for some in ours for f in (some if isinstance(some, tuple) else (some,))]
    for function in functions:
        if isinstance(function, FUNCTION):
            found: Any = function if function.key == name else function.func.__globals__.get(name)
            if isinstance(found, FUNCTION) and not found.is_builtin() and found.func.__code__.co_filename == file:
                return found
    return None


def _line(function: Any, file: str, told: int, source: str) -> int:
    """Returns a line's number in its file; Warp counts the lines of generic functions from their first."""
    if function is None or linecache.getline(file, told).strip() == source.strip():
        return told
    return function.func.__code__.co_firstlineno + told


def first_line(function: Any) -> int:
    """Returns the line of a function's ``def``."""
    source = getattr(function, "func", function)
    first = source.__code__.co_firstlineno
    with contextlib.suppress(OSError, TypeError):
        for line, text in enumerate(inspect.getsource(source).splitlines(), first):
            if text.lstrip().startswith("def "):
                return line
    return first

"""The names of tasks, algorithms, networks and functions, and the files and modules that they name.

This is the only place that reads such names, as whether a run folder from elsewhere may be opened depends on which code
they name (`headrace.train.runs.trust`):

- ``my_env.py``, ``my_env.py:MyTask-v0``, ``package.module:MyTask-v0`` name code, which is imported. Importing it
  registers its tasks. Its path is part of the task's name, so that every command and every run folder finds it again.
- ``envpool:NAME`` is a task of EnvPool, and ``<given>:NAME`` an object that a program passed. They name no code,
  whatever follows.
- All else is looked up: in the registry, then in Gymnasium's.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import sysconfig
import traceback
from contextlib import suppress
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from headrace.errors import HeadraceError, OptionError, UnknownTaskError

MACHINERY = (Path(__file__).parents[1], Path(importlib.__file__).parent)  # folders left out of a user's tracebacks
SITES = {"site-packages", "dist-packages"}
ENVPOOL, GIVEN = "envpool:", "<given>:"
MODULE = re.compile(r"[^\W\d][\w-]*(\.[^\W\d][\w-]*)*")
LONGEST = 4096  # characters of a name, as many as a path may have
NO_TEXT = f"more than {LONGEST} characters, or some that cannot be shown"
SHOWN = 100  # characters of a wrong name that an error shows
SCRIPT = frozenset(("__main__", "__mp_main__"))
"""names of the user's script: the second is `multiprocessing`'s, in processes that import it again, as samplers do"""
importing: ContextVar[str] = ContextVar("importing", default="")
"""the user's file that is being imported"""


def split(name: str) -> tuple[str, str]:
    """Splits a name into (file or module, name in it), either of which may be empty.

    The first is empty if the name names no code, and the name is then as it was given.

    Raises:
        UnknownTaskError: it is not a name: too long, with characters that cannot be shown, or with something in front
            of a colon that is neither a file nor a module.
    """
    if not is_text(name):
        shown = ascii(name[:SHOWN]) + "…" * (len(name) > SHOWN)
        raise UnknownTaskError(f"{shown} is not a name: it has {NO_TEXT}")
    if name.startswith((ENVPOOL, GIVEN)):
        return "", name
    with suppress(RuntimeError):  # of ~ and a user who does not exist
        name = str(Path(name).expanduser()) if name.startswith("~") else name
    if name.endswith(".py"):
        return name, ""
    source, _, inside = name.rpartition(":")
    source = source.rstrip(":")
    if source and not source.endswith(".py") and not MODULE.fullmatch(source):
        raise UnknownTaskError(f"{name!r} has {source!r} in front of a colon, which is neither file.py nor a module")
    return source, inside


def is_text(name: str) -> bool:
    """Returns whether a name or path is not too long, and can be shown: no control characters act on a terminal."""
    return len(name) <= LONGEST and name.isprintable()


def as_text(words: str) -> str:
    """Returns words with escapes in place of characters that a terminal obeys, but for ends of lines and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in words)


def is_file(path: str | Path) -> bool:
    """Returns whether there is such a file; false also for a name that no file can have."""
    with suppress(OSError):
        return Path(path).is_file()
    return False


def import_source(source: str) -> ModuleType:
    """Imports a file (a path that ends in ``.py``) or a module, and returns the module.

    Raises:
        UnknownTaskError: there is no such file or module.
        OptionError: the import raised; the message is Python's traceback, limited to the user's own lines.
        KernelError: a class lacks @wp.struct. Other errors of Headrace that the import raises are not changed.
    """
    try:
        return _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    except HeadraceError:
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and "warp" in sys.modules:
            from headrace.pool.executors.kernels.diagnostics.mistakes import unmarked

            if named := unmarked(error):
                raise named from error
        # not `from error`: Python would then also print the traceback of `error`, with the lines of the import
        raise OptionError(f"{source} cannot be imported:\n{_told(error)}") from None


def _told(error: Exception) -> str:
    """Returns the traceback of an error as text, limited to lines of the user's own files if there are any."""
    told = traceback.TracebackException.from_exception(error)
    one: traceback.TracebackException | None = told
    while one is not None:
        outside = [frame for frame in one.stack if not _is_machinery(frame.filename)]
        own = [frame for frame in outside if not _is_library(frame.filename)]
        one.stack = traceback.StackSummary.from_list(own or outside)
        cause = one.__cause__ or one.__context__
        if cause is not None and all(_is_machinery(f.filename) or _is_library(f.filename) for f in cause.stack):
            one.__cause__ = one.__context__ = cause = None
        one = cause
    lines = "".join(told.format()).rstrip()
    return lines if told.stack else lines.removeprefix("Traceback (most recent call last):\n")


def _is_machinery(file: str) -> bool:
    return file.startswith("<frozen ") or any(Path(file).is_relative_to(place) for place in MACHINERY)


def _is_library(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(sysconfig.get_path("stdlib")) or bool(SITES.intersection(path.parts))


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UnknownTaskError(f"there is no module {name!r} to import") from error


def module_of(source: str) -> ModuleType:
    """Returns the module of a file or of a module's name, importing it if necessary."""
    return _loaded(source) or import_source(source)


def is_loaded(source: str) -> bool:
    """Returns whether this file or module has been imported."""
    return _loaded(source) is not None


def _loaded(source: str) -> ModuleType | None:
    if not source.endswith(".py"):
        return sys.modules.get(source)
    file, main = str(Path(source).resolve()), sys.modules["__main__"]
    if str(Path(getattr(main, "__file__", None) or "").resolve()) == file:
        return main
    return next((each for each in list(sys.modules.values()) if getattr(each, "__file__", None) == file), None)


def is_importable_main() -> bool:
    """Returns whether another process can import this program's script; false in a notebook and for standard input."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or (file is not None and Path(file).is_file())


class _SourceLoader(SourceFileLoader):
    """Compiles what a file says: compiled code beside it, which its user has not read, may say something else."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_file(path: Path) -> ModuleType:
    if not is_file(path):
        raise UnknownTaskError(f"there is no file {path} to import")
    path = path.resolve()
    name = path.stem if path.stem not in sys.modules else f"headrace_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    token = importing.set(str(path))
    sys.modules[name] = module  # as an import does: pickle and inspect look modules up there
    sys.path.insert(0, str(path.parent))  # as for a script: files in its folder can be imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        importing.reset(token)
        sys.path.remove(str(path.parent))
    return module


def environments_in(source: str) -> list[str]:
    """Returns the names of the classes of environments that a file or module defines."""
    made = vars(module_of(source))
    return [n for n in _made_in(source) if isinstance(made[n], type) and {"reset", "step"} <= {*dir(made[n])}]


def functions_in(source: str) -> list[str]:
    """Returns the names of the functions of a file or module, which may make environments."""
    made = vars(module_of(source))
    return [name for name in _made_in(source) if not isinstance(made[name], type)]


def _made_in(source: str) -> list[str]:
    """Returns the names of the classes and functions of a file or module."""
    module = module_of(source)
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    return [name for name, each in own.items() if callable(each) and not name.startswith("_")]


def in_gymnasium_from(source: str) -> list[str]:
    """Returns the names in Gymnasium's registry whose environments a file or module makes."""
    import gymnasium

    home = module_of(source).__name__
    made_by = {name: spec.entry_point for name, spec in gymnasium.registry.items()}
    where = {n: by if isinstance(by, str) else getattr(by, "__module__", "") for n, by in made_by.items()}
    return [name for name, place in where.items() if f"{place.partition(':')[0]}.".startswith(f"{home}.")]

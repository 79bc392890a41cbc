"""Tasks of a user's own file or module: ``my_env.py``, ``my_env.py:MyTask-v0``, ``package.module:MyTask-v0``.

Importing it registers its tasks. Because the place is part of the name, every command and
every run folder finds such a task again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from headrace.errors import UnknownTaskError


def split(task: str) -> tuple[str, str]:
    """(file or module, name): either may be empty."""
    if task.endswith(".py"):
        return task, ""
    source, _, name = task.rpartition(":")
    return source, name


def import_source(source: str) -> ModuleType:
    """Import a file (by a path that ends in ``.py``) or a module, as whatever Python would call it.

    Raises:
        UnknownTaskError: there is no such file or module.
        KernelError: a class lacks @wp.struct. Whatever else it raises itself is passed on.
    """
    try:
        return _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    except RuntimeError as error:
        if "warp" in sys.modules:
            from headrace.pool.executors.kernels.mistakes import unmarked

            if named := unmarked(error):
                raise named from error
        raise


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UnknownTaskError(f"there is no module {name!r} to import") from error


def module_of(source: str) -> ModuleType:
    """The module of a file or of a name, imported only if it was not before."""
    if source.endswith(".py"):
        file = str(Path(source).resolve())
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == file:
                return module
    return import_source(source)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownTaskError(f"there is no file {path} to import")
    path = path.resolve()
    name = path.stem if path.stem not in sys.modules else f"headrace_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: pickles and inspect look there
    sys.path.insert(0, str(path.parent))  # as for a script: its neighbours can be imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module

"""Tasks of a user's own file or module: ``my_env.py``, ``my_env.py:MyTask-v0``, ``package.module:MyTask-v0``.

Importing it registers its tasks. Because the place is part of the name, every command and
every run folder finds such a task again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from headrace.errors import UnknownTaskError


def split(task: str) -> tuple[str, str]:
    """(file or module, name): either may be empty."""
    if task.endswith(".py"):
        return task, ""
    source, _, name = task.rpartition(":")
    return source, name


def import_source(source: str) -> None:
    """Import a file (by a path that ends in ``.py``) or a module, as whatever Python would call it.

    Raises:
        UnknownTaskError: there is no such file or module. What it raises itself is passed on.
    """
    if source.endswith(".py"):
        _import_file(Path(source))
        return
    try:
        importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source}.".startswith(f"{error.name}."):
            raise
        raise UnknownTaskError(f"there is no module {source!r} to find tasks in") from error


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UnknownTaskError(f"there is no file {path} to find tasks in")
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

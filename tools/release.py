"""The checklist of a release, as far as a program can tick it off.

    python tools/release.py 0.2.0

Checks that versions agree, that the changelog names this one, that nothing is uncommitted, and that the wheels work in
an empty environment; then prints the commands that publish it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"',
    "native/atari/pyproject.toml": r'^version = "(.+)"',
    "native/mujoco/pyproject.toml": r'^version = "(.+)"',
    "native/atari/python/headrace_atari/__init__.py": r'^__version__ = "(.+)"',
    "native/mujoco/python/headrace_mujoco/__init__.py": r'^__version__ = "(.+)"',
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


def wheels(wanted: str) -> str:
    """The wheels are built, and work in an empty environment."""
    for script in ("wheels.py", "try_wheels.py"):
        done = subprocess.run([sys.executable, str(ROOT / "tools" / script)], cwd=ROOT, check=False)
        if done.returncode:
            return f"tools/{script} failed"
    return ""


CHECKS: tuple[Callable[[str], str], ...] = (versions, changelog, committed, untagged, wheels)


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
    print(f"\nleft to do:\n  make test sanitize nightly\n  git tag v{wanted} && git push --tags\n  publish dist/*.whl")


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()

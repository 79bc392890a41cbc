"""Prints the tests that import some files, directly or by way of others, for `make test-of`.

    python tools/tests_of.py src/headrace/pool/seeds.py tests/programs.py src/headrace/envs/tag

Imports within functions count, and modules that are named in strings. The tests that stand where a source stands are
its tests, whatever they import.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOTS = ("src", "tests", "tests/train", "benchmarks", "examples")
"""folders whose files are imported by their names from there on"""


def main() -> None:
    wanted = {file for name in sys.argv[1:] for file in files_at(Path(name).resolve())}
    # the tests of an algorithm stand in one file, and its sources in a folder of its name
    beside = {
        test
        for place in map(place_of, wanted)
        for test in (place.parent / f"test_{place.name}", place.parent.with_name(f"test_{place.parent.name}.py"))
    }
    reached = {test for test in (ROOT / "tests").rglob("test_*.py") if test in beside or wanted & reach(test)}
    print(*sorted(str(test.relative_to(ROOT)) for test in reached) or sys.exit("no test imports these files"))


def place_of(file: Path) -> Path:
    """Returns where the tests of a source file stand."""
    sources = ROOT / "src" / "headrace"
    return ROOT / "tests" / file.relative_to(sources) if file.is_relative_to(sources) else file


def files_at(path: Path) -> list[Path]:
    """Returns a file, or the Python files of a folder; exits for a path that is neither."""
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    return [path] if path.is_file() else sys.exit(f"there is no {path}")


@cache
def modules() -> dict[str, Path]:
    """Returns the file of each module name."""
    found: dict[str, Path] = {}
    for root in ROOTS:
        for path in (ROOT / root).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT / root).with_suffix("").parts).removesuffix(".__init__")
            found.setdefault(name, path)
            if root == "tests":  # where what helps a test is imported by the file's name alone
                found.setdefault(path.stem, path)
    return found


@cache
def imported(path: Path) -> frozenset[Path]:
    """Returns the files that a file imports, or whose module it names in a string."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            own = [base] if base != "headrace" else []  # whose face imports all
            names |= {*own, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "headrace." in node.value:
            names.add(node.value)
    return frozenset(modules()[name] for name in names & modules().keys())


def reach(path: Path) -> set[Path]:
    """Returns a file, and those that it imports by any way."""
    seen, waiting = {path}, [path]
    while waiting:
        new = imported(waiting.pop()) - seen
        seen |= new
        waiting += new
    return seen


if __name__ == "__main__":
    main()

"""Size and shape of `headrace.train` in one checkout or several: lines, files, import chain, circles, docstrings.

    python benchmarks/structure.py                      # this checkout
    python benchmarks/structure.py ../before .          # two beside each other

Lines are those of all Python files, blank ones and comments included; lines of code leave these and docstrings out.
With two checkouts or more, ``results/structure.json`` keeps the figures. The import chain is the longest path through
modules of `headrace.train` that import each other (imports inside functions and under ``TYPE_CHECKING`` count); a
circle is a group of modules that reach each other. Public functions are those of modules and of public classes outside
`envs/` whose names have no leading underscore, overloads, properties and overrides of a documented method left out.
"""

from __future__ import annotations

import ast
import json
import sys
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "structure.json"
Graph = dict[str, set[str]]


def modules(package: Path) -> dict[str, Path]:
    """Module name → file, of everything below ``src/headrace``."""
    root = package.parent
    named = {".".join(path.relative_to(root).with_suffix("").parts): path for path in package.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports(files: dict[str, Path], within: str) -> Graph:
    """Module → the modules that it imports, both inside ``within``."""
    inside = {name for name in files if name == within or name.startswith(f"{within}.")}
    return {name: _imported(files[name]) & inside - {name} for name in inside}


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def circles(graph: Graph) -> list[set[str]]:
    """Groups of two or more modules that reach each other."""
    reach = {name: _reachable(graph, name) for name in graph}
    groups = {frozenset({other for other in reach[name] if name in reach[other]}) for name in graph}
    return [set(group) for group in groups if len(group) > 1]


def _reachable(graph: Graph, name: str) -> set[str]:
    seen, waiting = {name}, [name]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def longest_chain(graph: Graph) -> int:
    """Modules on the longest path of imports; those of a circle count once."""
    groups = circles(graph)
    home = {name: next((i for i, group in enumerate(groups) if name in group), name) for name in graph}

    @cache
    def floors(group: int | str) -> int:
        below = {home[other] for name in graph if home[name] == group for other in graph[name]} - {group}
        return 1 + max(map(floors, below), default=0)

    return max(map(floors, set(home.values())))


def undocumented(files: dict[str, Path]) -> list[str]:
    """Public functions and methods outside `envs/` that have no docstring."""
    trees = {name: ast.parse(path.read_text()) for name, path in files.items() if ".envs." not in f"{name}."}
    documented = {
        each.name
        for tree in trees.values()
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for each in owner.body
        if isinstance(each, ast.FunctionDef) and ast.get_docstring(each)
    }
    missing = []
    for name, tree in trees.items():
        for each in tree.body:
            if isinstance(each, ast.FunctionDef) and not (ast.get_docstring(each) or each.decorator_list):
                missing += [] if each.name.startswith("_") else [f"{name}.{each.name}"]
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                missing += [f"{name}.{each.name}.{method}" for method in _silent(each, documented)]
    return sorted(missing)


def _silent(owner: ast.ClassDef, documented: set[str]) -> list[str]:
    methods = [each for each in owner.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
    return [
        each.name
        for each in methods
        if not ast.get_docstring(each) and not each.decorator_list and each.name not in documented
    ]


def lines_of_code(text: str) -> int:
    """Lines of a file that are neither blank nor a comment nor part of a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in told for number, line in lines)


def measure(checkout: Path) -> dict[str, int]:
    """The figures of one checkout."""
    files = modules(checkout / "src" / "headrace")
    train = {name: path for name, path in files.items() if f"{name}.".startswith("headrace.train.")}
    graph = imports(files, "headrace.train")
    lengths = [len(path.read_text().splitlines()) for path in train.values()]
    return {
        "lines of train/": sum(lengths),
        "lines of code": sum(lines_of_code(path.read_text()) for path in train.values()),
        "files": len(lengths),
        "folders": len({path.parent for path in train.values()}),
        "longest file, lines": max(lengths),
        "longest import chain, modules": longest_chain(graph),
        "circles of imports": len(circles(graph)),
        "public functions without docstring": len(undocumented(files)),
    }


def main() -> None:
    """Print the table, and keep it where checkouts are compared."""
    checkouts = [Path(each) for each in sys.argv[1:]] or [Path(__file__).parents[1]]
    table = Table(title="headrace.train")
    table.add_column("")
    for checkout in checkouts:
        table.add_column(checkout.resolve().name, justify="right")
    columns = [measure(checkout) for checkout in checkouts]
    for name in columns[0]:
        table.add_row(name, *(f"{column[name]:,}" for column in columns))
    Console().print(table)
    if len(checkouts) > 1:
        names = [checkout.resolve().name for checkout in checkouts[:-1]]
        RESULTS.write_text(json.dumps(dict(zip((*names, "after"), columns, strict=True)), indent=1) + "\n")


if __name__ == "__main__":
    main()

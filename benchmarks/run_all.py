"""Runs every benchmark, one after the other, and ends with a line for each.

    python benchmarks/run_all.py [--quick]

``--quick`` makes short turns, to see that everything runs; its figures go to a folder of
their own and are not for publication.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from catalog import CATALOG
from common import RESULTS

HERE = Path(__file__).parent
SCRIPTS = {benchmark.name: benchmark.quick for benchmark in CATALOG if benchmark.quick is not None}
"""script → what makes it quick"""


@dataclass
class RunArgs:
    """Run all benchmarks."""

    quick: bool = False
    """short turns, results in a temporary folder"""
    only: tuple[str, ...] = tuple(SCRIPTS)
    """names of the scripts to run"""


def verdict(record: dict[str, Any]) -> tuple[int, int]:
    """(thresholds reached, thresholds set) of one benchmark."""
    checks: list[bool] = list(record.get("passed", {}).values())
    for case in record.get("cases", ()):
        passed = case.get("passed", {})
        checks += passed.values() if isinstance(passed, dict) else [passed]
    return sum(checks), len(checks)


def main() -> int:
    args = tyro.cli(RunArgs)
    out = Path(tempfile.mkdtemp()) if args.quick else RESULTS
    table = Table(title="summary", title_justify="left")
    for column in ("benchmark", "thresholds reached", "ended"):
        table.add_column(column)
    failed = 0
    for name in args.only:
        command = [sys.executable, str(HERE / f"{name}.py"), "--out", str(out)]
        status = subprocess.run(command + (shlex.split(SCRIPTS[name]) if args.quick else []), check=False).returncode
        failed += status != 0
        path = out / f"{name}.json"
        reached = "{} of {}".format(*verdict(json.loads(path.read_text()))) if path.exists() else "-"
        table.add_row(name, reached, "well" if status == 0 else f"with status {status}")
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

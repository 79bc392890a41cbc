"""A fixture of several files: the example of a kernel environment with something changed in it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = (Path(__file__).parents[2] / "examples" / "kernel_environment.py").read_text().partition("if __name__")[0]
NUMBERS = itertools.count()


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """The example with some text replaced, as a file of its own; returns (task, file, lines)."""

    def write(*changes: tuple[str, str]) -> tuple[str, Path, list[str]]:
        text, name = EXAMPLE, f"Cart{next(NUMBERS)}"
        for old, new in (*changes, ("TargetCart", name)):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{name.lower()}.py"
        path.write_text(text)
        return f"{path}:{name}-v0", path, text.splitlines()

    return write

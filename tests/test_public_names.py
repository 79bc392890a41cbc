"""The package's names as editors, type checkers and help() see them."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace import studies

ROOT = Path(__file__).parents[1]
PROGRAM = """
import headrace
import headrace.train.runners.callbacks
from headrace.train import resume

result = headrace.train("CartPole-v1", total_steps=10)
reveal_type(result.steps)
reveal_type(headrace.train.load("x"))
reveal_type(headrace.load("x"))
headrace.train.runners.callbacks.Callback
headrace.train(3)
"""


def test_a_type_checker_knows_the_call_of_train_and_what_the_module_holds(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = f'{{"extraPaths": ["{ROOT / "src"}"]}}'
    (tmp_path / "pyrightconfig.json").write_text(settings)
    command = [sys.executable, "-m", "pyright", "--project", tmp_path, "--pythonpath", sys.executable]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert said.count('is "Agent"') == 2 and 'is "int"' in said, said
    assert said.count(" - error: ") == 1 and 'is not assignable to "str"' in said, said  # that of train(3)


def test_names_that_are_loaded_late_are_listed() -> None:
    assert set(headrace.__all__) <= set(dir(headrace))


def test_names_that_moved_to_studies_are_still_those_of_training() -> None:
    assert headrace.train.train_seeds is studies.train_seeds and headrace.train.resume_seeds is studies.resume_seeds


def test_help_tells_how_train_is_called() -> None:
    assert list(inspect.signature(headrace.train).parameters)[:2] == ["task", "algo"]
    beginning = pydoc.plain(pydoc.render_doc(headrace.train)).partition("PACKAGE CONTENTS")[0]
    assert "total_steps, seed, device:" in beginning

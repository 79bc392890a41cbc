"""Files of tasks: what runs is the file's current source, and the environment of it that is named."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

import gymnasium
import pytest

from headrace.errors import UnknownTaskError
from headrace.pool.registry import build_task
from headrace.pool.sources import import_source


def test_compiled_code_beside_a_file_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "a_sent_file.py"
    file.write_text("SAID = 'other'\n")
    compiled = py_compile.compile(str(file), doraise=True)
    stamp = file.stat()
    file.write_text("SAID = 'this!'\n")  # as long, and as old
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert compiled is not None and Path(compiled).is_file()
    assert import_source(str(file)).SAID == "this!"


OWN = """
import gymnasium
class Walk(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(3)
class Helper:
    pass
"""


def test_a_file_with_one_environment_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "with spaces").mkdir()
    file = tmp_path / "with spaces" / "one walk.py"
    file.write_text(OWN)
    for name in (f"{file}", f"{file}:Walk", "~/with spaces/one walk.py"):
        assert build_task(name).spec.action == gymnasium.spaces.Discrete(3)


def test_the_error_for_a_wrong_name_lists_the_environments_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two_walks.py").write_text(f"{OWN}\nclass Run(Walk):\n    pass\n")
    for name in ("two_walks.py", "two_walks.py:Hopper"):
        with pytest.raises(UnknownTaskError, match=r"say two_walks\.py:Walk, two_walks\.py:Run$"):
            build_task(name)
    assert build_task("two_walks.py::Run").spec.action == gymnasium.spaces.Discrete(3)
    for name in ("two_walks.Run", "two_walks.py.Run"):
        with pytest.raises(UnknownTaskError, match=r"say two_walks\.py:Run$"):
            build_task(name)


def test_the_error_for_a_file_without_environments_suggests_no_other_class(tmp_path: Path) -> None:
    (tmp_path / "reinforce.py").write_text("class Reinforce:\n    pass\n")
    with pytest.raises(UnknownTaskError, match=r"reinforce\.py': it registers none, nor has it a class of env"):
        build_task(str(tmp_path / "reinforce.py"))

"""A user's own files on other nodes: in place where they are the same, else a copy, under the names of that node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.train.cluster.code import PACKAGE, Code
from train.cluster.nodes import WALK

ENV = WALK.replace("LENGTH = 5", "from neighbour import LENGTH")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "walk.py").write_text(ENV)
    (tmp_path / "mine" / "neighbour.py").write_text("LENGTH = 5\n")
    (tmp_path / "mine" / "large.bin").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temp").mkdir()
    return tmp_path / "mine"


def on_a_node(code: Code, monkeypatch, folder: Path) -> Code:
    """As Ray provides it there: the copies can be found as a package."""
    monkeypatch.syspath_prepend(str(folder.parent / "temp"))
    assert code.runtime_environment(str(folder.parent / "temp")) == {
        "py_modules": [str(folder.parent / "temp" / PACKAGE)]
    }
    return code


def test_files_that_are_the_same_here_are_used_in_place(folder, monkeypatch):
    code = on_a_node(Code.of({"task": "mine/walk.py:Walk"}), monkeypatch, folder)
    assert {Path(name).name for name in code.files} == {"walk.py", "neighbour.py"}
    assert code.installed({"task": "mine/walk.py:Walk"})["task"] == f"{folder / 'walk.py'}:Walk"


@pytest.mark.parametrize("change", [Path.unlink, lambda file: file.write_text("changed")])
def test_other_nodes_use_a_copy_whose_neighbours_can_be_imported(folder, monkeypatch, change):
    code = on_a_node(
        Code.of({"task": "mine/walk.py:Walk", "reward": "mine/walk.py:Walk", "network": "mlp"}), monkeypatch, folder
    )
    change(folder / "neighbour.py")
    values = code.installed({"task": "mine/walk.py:Walk", "network": "mlp"})
    assert values["network"] == "mlp"
    file, _, name = values["task"].rpartition(":")
    assert name == "Walk" and Path(file).read_text() == ENV and Path(file).is_relative_to(folder.parent / "temp")
    lines = f"import headrace\npool = headrace.make({values['task']!r}, num_envs=2)\nprint(pool.reset()[0].shape)"
    ran = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, cwd=folder.parent)
    assert ran.stdout.strip() == "(2, 1)", ran.stderr


def test_nothing_installed_is_sent():
    assert not Code.of({"task": "Pendulum-v1", "algo": "sac", "network": "mlp"}).files


def test_the_script_that_began_the_run_is_imported_but_does_not_train(tmp_path):
    """As by local workers: what it registers is known, and what is guarded does not run."""
    script = tmp_path / "script.py"
    script.write_text(
        "import pickle, sys\nfrom headrace.train.cluster.code import Code\nKNOWN = 1\n"
        "if __name__ == '__main__':\n    code = Code.of({'task': 'Pendulum-v1'})\n"
        "    code.runtime_environment('.')\n    open('code', 'wb').write(pickle.dumps(code))\n"
    )
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True)
    script.unlink()
    lines = (
        "import pickle, sys, __main__\ncode = pickle.load(open('code', 'rb'))\ncode.installed({})\n"
        "print(sys.modules['__main__'].KNOWN, sys.modules['__main__'].__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout.split() == ["1", "__mp_main__"], ran.stderr

"""Names of tasks: which ones are suggested for a misspelt name, and what a file or module in front of a name means."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import UnknownTaskError
from headrace.pool import registry
from headrace.pool.registry import build_task
from headrace.pool.suggestions import nearest

NAMES = headrace.list_all_envs()
BUILD = "from headrace.envs.classic_control import build\nimport headrace\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("Pnog-v5", "Pong-v5"), ("cartpole", "CartPole-v1"), ("CartPool-v0", "CartPole-v0"),
     ("ALE/Pong-v5", "Pong-v5"), ("PongNoFrameskip-v4", "Pong-v5"), ("ALE/Pong-ram-v5", "Pong-v5"),
     ("SpaceInvadersDeterministic-v0", "SpaceInvaders-v5"),
     ("HalfCheeta-v5", "HalfCheetah-v5"), ("montezuma", "MontezumaRevenge-v5"), ("Tag-v0", "TagGridWorld-v0")],
)  # fmt: skip
def test_similar_names_are_suggested_for_a_misspelt_task(name, meant):
    close = nearest(name, NAMES)
    assert meant in close
    if name != "Tag-v0":
        assert close[0].rpartition("-v")[0] == meant.rpartition("-v")[0]


@pytest.mark.parametrize("name", ["Quake-v3", "Overcooked-v1", "xyz-v5", "-v1", "", 3])
def test_names_that_share_only_a_version_are_not_suggested(name):
    assert nearest(name, NAMES) == []


@pytest.fixture
def somebody_elses() -> Iterator[None]:
    """A registered task that nobody can make, until the end of the test."""
    headrace.register("SomebodyElses-v0", "headrace.envs.classic_control:build")
    yield
    del registry._builders["SomebodyElses-v0"], registry._registrars["SomebodyElses-v0"]


@pytest.mark.usefixtures("somebody_elses")
def test_the_prefix_gymnasium_selects_the_task_of_gymnasium():
    assert build_task("CartPole-v1").kernel is not None
    assert build_task("gymnasium:CartPole-v1").kernel is None


@pytest.mark.usefixtures("somebody_elses")
@pytest.mark.parametrize("task", ["json:Catch-v0", "headrace.errors:Pong-v5"])
def test_a_task_that_its_prefix_does_not_register_is_refused(task):
    source, _, name = task.partition(":")
    with pytest.raises(UnknownTaskError, match=f"{source} registers none.*; {name} alone is Headrace's own"):
        headrace.make_spec(task)


def test_the_error_for_an_unknown_name_lists_the_tasks_of_the_file(tmp_path: Path):
    file = tmp_path / "some_games.py"
    file.write_text(
        "import gymnasium as gym\nclass Maze(gym.Env): ...\ngym.register('Labyrinth-v0', entry_point=Maze)\n"
    )
    for wrong in ("Nope", "Hopper-v9", "Mase"):
        with pytest.raises(UnknownTaskError, match=r"say [^,]*:Maze") as caught:
            headrace.make(f"{file}:{wrong}")
        assert "Hopper" not in str(caught.value).partition("say")[2]
    with pytest.raises(UnknownTaskError, match=r"say [^,]*:Labyrinth-v0$"):
        headrace.make(f"{file}:Labyrinth-v1")


def test_a_module_may_be_imported_before_its_task_is_named(tmp_path: Path):
    (tmp_path / "early_tasks.py").write_text(
        BUILD + "for name in ('Early-v0', 'Early-v1'):\n"
        "    headrace.register(name, lambda task, **options: build('CartPole-v1', **options))\n"
    )
    code = (
        "import sys, headrace\n"
        "if sys.argv[1]: import early_tasks\n"
        "print(headrace.make_spec('early_tasks:Early-v1').task)\n"
        "try: headrace.make_spec('early_tasks:Pong-v5')\n"
        "except ValueError as error: print(error)\n"
    )
    for early in ("", "early"):
        done = subprocess.run([sys.executable, "-c", code, early], capture_output=True, text=True, cwd=tmp_path)
        shown = done.stdout.splitlines()
        assert shown[0] == "CartPole-v1", done.stderr
        assert "say early_tasks:Early-v0, early_tasks:Early-v1" in shown[1]


def test_the_note_about_compiling_names_the_task(tmp_path: Path):
    """It does not name an internal function, which a user does not know."""
    pytest.importorskip("torch")
    code = (
        "import headrace.pool.executors.kernels.launch as launch, warp; launch.PATIENCE = 0.0\n"
        f"warp.config.kernel_cache_dir = {str(tmp_path)!r}\n"
        "import headrace; headrace.make('CartPole-v1').close(); headrace.make_torch('CartPole-v1').close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "compiling" in line]
    assert notes and all("CartPole-v1" in note and "guard" not in note for note in notes)

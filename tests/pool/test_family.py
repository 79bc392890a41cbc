"""A family of tasks is one record, whether Headrace or an installed package defines it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import headrace
from headrace.envs import FAMILIES
from headrace.errors import OptionError
from headrace.pool.executors.envpool.package import LEAST
from headrace.pool.family import Family
from headrace.pool.meanings import action_meanings
from headrace.pool.registry import families, family_of, register_family

MAZES = '''
"""Mazes, as another author's package may define them."""

from headrace import Family


def build(task, **options):
    from headrace.envs.classic_control import build

    return build("CartPole-v1", **options)


FAMILY = Family(
    "mazes",
    ("Maze-v0", "LargeMaze-v0"),
    build,
    runs_on="Warp kernels of mine",
    extra="mazes[large]",
    presets={
        "ppo": {"default": {"mazes": {"num_envs": 6, "total_steps": 600}, "LargeMaze-v0": {"num_envs": 7}}},
        "a2c": {"default": {"mazes": {"num_steps": 3}}},
    },
    recipe=("a2c", "default"),
    meanings={"Maze-v0": ("back", "forth")},
    evaluation=lambda lives: {"max_episode_steps": 5 if lives else 4},
    other_names={"Labyrinth-v0": ("Maze-v0", {"max_episode_steps": 9})},
)
'''
LAZY = """
import sys, headrace
headrace.make_spec("CartPole-v1")
assert "mazes" not in sys.modules
"""
SPECS = """
import headrace, numpy as np
assert {"Maze-v0", "LargeMaze-v0"} <= {*headrace.list_all_envs()}
with headrace.make("Maze-v0", num_envs=3) as pool:
    pool.reset()
    pool.step(np.ones(3, np.int64))
assert headrace.make_spec("Labyrinth-v0").max_episode_steps == 9
try:
    headrace.register("Maze-v0", print)
except headrace.HeadraceError as error:
    print(error)
from headrace.pool.meanings import action_meanings
print(action_meanings("Maze-v0", {}, headrace.make_spec("Maze-v0").action))
"""
LISTS = """
import sys
sys.modules["envpool"] = None  # which takes long to import
from headrace.cli.main import main
main(["envs"])
main(["envs", "mazes"])
"""
PRESETS = """
from headrace.train.recipes.recipes import preset_of, recipe_of
from headrace.train.settings.algorithm import find_settings
print(*recipe_of("Labyrinth-v0", {}))
for algo, task in (("ppo", "Labyrinth-v0"), ("ppo", "LargeMaze-v0")):
    found = preset_of(find_settings(algo).presets, task, "auto", "default")
    print(found["num_envs"], found.get("total_steps"))
found = preset_of(find_settings("a2c").presets, "Maze-v0", "auto", "default")
print(found["num_steps"], found["num_envs"])
"""
TRAINS = """
import headrace
from headrace.train.play.evaluate import playing_pool
from headrace.train.runs.folder import RunFolder
headrace.train("Maze-v0", run_dir="run", quiet=True, total_steps=60, num_envs=2, num_steps=10)
_, config = RunFolder.open("run")
print(config.algo)
for lives in (True, False):
    with playing_pool(config, lives=lives, num_envs=1) as pool:
        print(pool.spec.max_episode_steps)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package of mazes."""
    folder = tmp_path_factory.mktemp("site")
    install(folder, "mazes", MAZES)
    return folder


def install(folder: Path, name: str, code: str) -> None:
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[headrace.families]\n{name} = {name}:FAMILY\n")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "160"}
    return subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, check=True, cwd=folder, timeout=100
    )


def test_a_package_brings_a_family_by_its_entry_point(packages: Path) -> None:
    told = run(packages, "-c", LAZY + SPECS).stdout.splitlines()
    assert told == ["there is a task 'Maze-v0' already: choose another name, or say replace=True", "('back', 'forth')"]


def test_commands_list_the_family_of_a_package(packages: Path) -> None:
    told = run(packages, "-c", LISTS).stdout.splitlines()
    row = next(line for line in told if "│ mazes" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        *("mazes", "2", "Warp kernels of mine", "mazes[large]", "LargeMaze-v0, Maze-v0"),
    ]
    assert "mazes (2)" in told


def test_training_begins_with_the_presets_of_the_family(packages: Path) -> None:
    told = run(packages, "-c", PRESETS).stdout.splitlines()
    assert told == ["a2c default mazes", "6 600", "7 None", "3 16"]


@pytest.mark.nightly
def test_a_family_of_a_package_is_trained_and_evaluated(packages: Path) -> None:
    pytest.importorskip("torch")
    assert run(packages, "-c", TRAINS).stdout.splitlines()[-3:] == ["a2c", "5", "4"]


def test_an_unusable_family_is_left_out_and_the_reason_is_printed(packages: Path) -> None:
    others = packages / "others"
    others.mkdir()
    install(others, "broken", "import no_such_module")
    install(others, "wrong", "FAMILY = 3")
    install(others, "taken", "import headrace\nFAMILY = headrace.Family('taken', ('CartPole-v1',), print, 'nothing')")
    count = "import headrace; print(len(headrace.list_all_envs()))"
    done = run(others, "-c", count)
    nothing = packages / "nothing"
    nothing.mkdir()
    assert done.stdout == run(nothing, "-c", count).stdout
    said = sorted(done.stderr.splitlines())
    assert [line.partition("is left out: ")[2] for line in said] == [
        "ModuleNotFoundError: No module named 'no_such_module'",
        "there is a task 'CartPole-v1' already: choose another name",
        "a family is a headrace.Family, not 3",
    ]


UNUSABLE = """
import headrace
PRESETS = {"ppo": {"default": {"Elsewhere-v0": {"num_envs": 3}}}}
FAMILY = headrace.Family("unusable", ("Unusable-v0",), print, "nothing", presets=PRESETS, recipe=("nothing", "fast"))
"""


def test_unusable_presets_of_a_family_leave_all_other_tasks_trainable(packages: Path) -> None:
    folder = packages / "unusable"
    folder.mkdir()
    install(folder, "unusable", UNUSABLE)
    done = run(folder, "-c", "from headrace.train import make_config; print(make_config('CartPole-v1').algo)")
    assert done.stdout == "ppo\n"
    said = {line.partition("left out: ")[2] for line in done.stderr.splitlines()}
    assert said == {
        "presets of the family unusable for 'Elsewhere-v0', which is no task of it",
        "there is no preset 'fast' of 'nothing'",
    }


def test_headraces_families_are_the_folders_of_envs() -> None:
    folders = {path.parent.name for path in Path(headrace.envs.__file__).parent.glob("*/__init__.py")}  # type: ignore[attr-defined]
    assert [*FAMILIES] == sorted(folders) and FAMILIES.items() <= families().items()
    assert all(name == family.name for name, family in FAMILIES.items())
    assert FAMILIES["envpool"].extra == f"envpool>={'.'.join(map(str, LEAST))}"


def test_every_name_of_a_task_leads_to_its_family() -> None:
    assert family_of("Ant-v3") is family_of("Ant-v4") is FAMILIES["mujoco"]
    assert family_of("envpool:Pong-v5") is FAMILIES["envpool"] and family_of("Pong-v5") is FAMILIES["atari"]
    assert family_of("Blackjack-v7") is None


def test_a_family_with_the_name_of_another_is_refused() -> None:
    with pytest.raises(OptionError, match="there is a family 'tag' already"):
        register_family(Family("tag", (), print, "nothing"))  # type: ignore[arg-type]


def test_every_action_of_a_task_has_a_name() -> None:
    for task in ("CartPole-v1", "MiniGrid-Dynamic-Obstacles-5x5-v0", "MiniGrid-Empty-5x5-v0"):
        spec = headrace.make_spec(task)
        names = action_meanings(task, spec.options, spec.action)
        assert names is not None and len(names) == spec.action.n and not names[0].isdigit()  # type: ignore[attr-defined]
    assert action_meanings("CartPole-v1", {}, gym.spaces.Discrete(3)) == ("0", "1", "2")

"""Imports run one way: cli → `headrace` → watch → studies → train → adapters and envs → pool; none goes in a circle.

Those within functions, under ``TYPE_CHECKING`` and by a name in ``import_module("…")`` count, too.
"""

import ast
import re
import runpy
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
MODULES = {".".join(path.relative_to(SOURCES).with_suffix("").parts): path for path in SOURCES.rglob("*.py")}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}
# what each part may import beside itself and what is for all: each may import what stands below it
FACE = "headrace itself"
ORDER = ["cli", FACE, "watch", "studies", "train", "testing", "adapters", "", "envs", "pool"]
FOR_ALL = {"control_groups", "errors", "limits", "machine", "native_modules", "version"}
# the folders of train/ and of studies/: each may import those before it
FOLDERS = {
    "train": (
        "settings", "runs", "logging", "processes", "modules", "storage", "algorithms", "recipes", "collect", "play",
        "workers", "cluster", "runners", "launch",
    ),
    "studies": ("plots", "jobs", "tuning", "sweep", "leaderboard"),
}  # fmt: skip


def imported(name: str) -> set[str]:
    """The modules of Headrace that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            each = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= each if each <= MODULES.keys() else {*each, node.module}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            found |= {
                each.value for each in node.args[:1] if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return (found & MODULES.keys()) - {name}


def part(name: str) -> str:
    """The folder that a module belongs to, `FACE` for `headrace`, and "" for the modules beside it."""
    if name == "headrace":
        return FACE
    if name == "headrace.__main__":
        return "cli"
    _, _, rest = name.partition(".")
    first = rest.partition(".")[0]
    return first if first in ORDER or first in FOR_ALL else ""


@pytest.mark.parametrize("of", ORDER)
def test_imports_run_one_way(of: str) -> None:
    below = FOR_ALL.union(ORDER[ORDER.index(of) :])
    wrong = {
        f"{name} imports {other}"
        for name in MODULES
        if part(name) == of
        for other in imported(name)
        if part(other) not in below
    }
    assert wrong == set()


@pytest.mark.parametrize(("package", "of"), [(package, of) for package, each in FOLDERS.items() for of in each])
def test_imports_within_a_package_run_one_way(package: str, of: str) -> None:
    below = FOLDERS[package][: 1 + FOLDERS[package].index(of)]
    wrong = {
        f"{name} imports {other}"
        for name in MODULES
        if name.startswith(f"headrace.{package}.{of}.")
        for other in imported(name)
        if part(other) == package and (other.split(".")[2:3] or ["its face"])[0] not in below
    }
    assert wrong == set()


def test_imports_form_no_circle() -> None:
    graph = {name: imported(name) for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("package", FOLDERS)
def test_tests_lie_in_the_same_folders_as_their_source(package: str) -> None:
    tests = Path(__file__).parent / package
    assert {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")} == set(FOLDERS[package])


def test_the_picture_of_the_folders_shows_their_order() -> None:
    """The picture is as its script draws it, and the page on the architecture lists the same folders."""
    docs = SOURCES.parent / "docs"
    script = runpy.run_path(str(docs / "images" / "folders.py"))
    order = [*FOLDERS["train"], *FOLDERS["studies"]]
    assert [name for name, *_ in reversed(script["STUDIES"] + script["TRAIN"])] == order
    assert script["picture"]() == (docs / "images" / "folders.svg").read_text()
    listed = re.findall(r"^    (\w+)/", (docs / "architecture.md").read_text(), re.MULTILINE)
    assert listed[-len(order) :] == order


def test_the_tests_of_a_file_import_it_or_lie_in_its_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = runpy.run_path(str(SOURCES.parent / "tools" / "tests_of.py"))

    def of(*files: str) -> set[str]:
        monkeypatch.setattr("sys.argv", ["tests_of.py", *(str(SOURCES.parent / file) for file in files)])
        script["main"]()
        return set(capsys.readouterr().out.split())

    sweeps = of("src/headrace/studies/sweep")
    assert {"tests/studies/sweep/test_space.py", "tests/cli/test_sweep.py"} <= sweeps, "by way of the command"
    assert "tests/envs/test_atari_opcodes.py" not in sweeps
    assert "tests/train/algorithms/test_td3.py" in of("src/headrace/train/algorithms/td3/td3.py"), "its own"
    assert of("tests/goal_games.py", "tests/envs/test_tag.py") == {
        "tests/train/storage/test_hindsight.py",
        "tests/envs/test_tag.py",
    }

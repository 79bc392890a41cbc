"""The documentation has an entry for every public name, a place for every page, and says so to programs."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

from headrace.train.launch.run import CONTINUABLE
from headrace.train.settings import typed
from headrace.train.settings.algorithm import ALGORITHMS, find_settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LISTED = set(re.findall(r"^::: (\S+)", (DOCS / "reference.md").read_text(), re.M))


PUBLIC = "headrace headrace.kernels headrace.mujoco headrace.robots headrace.testing headrace.train headrace.wrappers"
"""modules whose names users import; those of EnvPool's places are names of these"""
ELSEWHERE = {"HeadraceError", "CHECKS"}  # in the entry of `headrace.errors`, and on the page about checks


@pytest.mark.parametrize("module", [*PUBLIC.split(), "headrace.registration", "headrace.python.protocol"])
def test_every_public_name_has_an_entry(module: str) -> None:
    found = importlib.import_module(module)
    entries = {entry.rpartition(".")[2] for entry in LISTED}
    names = {name for name in found.__all__ if not inspect.ismodule(getattr(found, name))}
    assert names - entries - ELSEWHERE == set(), "write them into docs/reference.md"


def test_every_adapter_has_an_entry() -> None:
    modules = {path.stem for path in (ROOT / "src" / "headrace" / "adapters").glob("*.py")} - {"__init__", "tensors"}
    assert modules == {entry.split(".")[2] for entry in LISTED if entry.startswith("headrace.adapters.")}


def test_every_entry_exists() -> None:
    for entry in LISTED - {"headrace.errors"}:
        module, _, name = entry.rpartition(".")
        if module.startswith("headrace.adapters."):  # whose libraries may not be there
            source = (ROOT / "src" / Path(*module.split("."))).with_suffix(".py")
            assert re.search(rf"^(def|class) {name}\b", source.read_text(), re.M), entry
        else:
            assert hasattr(importlib.import_module(module), name), entry


def test_every_page_is_in_the_navigation_and_in_llms_txt() -> None:
    script = runpy.run_path(str(DOCS / "llms.py"))
    yaml, loader = script["yaml"], script["_Loader"]
    nav = {file for _, _, file in script["pages"](yaml.load((ROOT / "mkdocs.yml").read_text(), loader)["nav"])}
    assert nav == {page.name for page in DOCS.glob("*.md")}
    assert (DOCS / "llms.txt").read_text() == script["content"](), "run docs/llms.py"


def test_tables_of_settings_equal_the_settings() -> None:
    script = runpy.run_path(str(DOCS / "settings.py"))
    text = {page.name: page.read_text() for page in script["PAGES"]}
    for name, found in text.items():
        assert found == script["with_tables"](found), f"run docs/settings.py: {name}"
    assert set(re.findall(r"settings.py: own (\w+)", "".join(text.values()))) == ALGORITHMS.keys()
    assert set(re.findall(r"settings.py: group (\w+)", text["settings.md"])) == set(script["groups"]())


def test_types_for_type_checkers_list_all_settings() -> None:
    script = runpy.run_path(str(DOCS / "typed.py"))
    assert script["OUT"].read_text() == script["content"](), "run docs/typed.py"
    known = set().union(*(find_settings(algo).settings.keys() for algo in ALGORITHMS))
    assert typed.SettingsOfSeeds.__annotations__.keys() <= known
    assert set(CONTINUABLE) == {*typed.Changes.__annotations__}


def test_the_page_shows_the_mistakes_in_learning_that_the_script_trains() -> None:
    script, page = runpy.run_path(str(DOCS / "not_learning.py")), (DOCS / "not-learning.md").read_text()
    rows = re.findall(r"^\| ([\w ]+) \| \S+ .*?\| (`.*?) \| [^|]* \| `", page, re.M)
    said = script["told"]
    wanted = [(name, said(settings)) for name, case in script["CASES"].items() for settings in (case.wrong, case.right)]
    assert rows == wanted, "run docs/not_learning.py"


def test_the_page_of_the_leaderboard_equals_its_data() -> None:
    script, page = runpy.run_path(str(DOCS / "leaderboard.py")), (DOCS / "leaderboard.md").read_text()
    assert "| Humanoid-v5 | 5,000 |" in page and page == script["with_table"](page), "run docs/leaderboard.py"
    assert script["REACHED"].read_text() == script["reached"](), "run docs/leaderboard.py"

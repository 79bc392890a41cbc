"""The documentation has an entry for every public name, a place for every page, and says so to programs."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

import headrace
import headrace.testing
import headrace.train
from headrace.train.config.registry import algorithms

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LISTED = set(re.findall(r"^::: (\S+)", (DOCS / "reference.md").read_text(), re.M))


@pytest.mark.parametrize("module", [headrace, headrace.train, headrace.testing], ids=lambda module: module.__name__)
def test_every_public_name_has_an_entry(module) -> None:
    missing = {
        f"{module.__name__}.{name}"
        for name in module.__all__
        if not inspect.ismodule(getattr(module, name)) and f"{module.__name__}.{name}" not in LISTED
    }
    assert missing - {"headrace.HeadraceError", "headrace.testing.CHECKS"} == set(), "write them into docs/reference.md"


def test_every_entry_exists() -> None:
    for entry in LISTED:
        module, _, name = entry.rpartition(".")
        assert entry == "headrace.errors" or hasattr(
            {"headrace": headrace, "headrace.train": headrace.train, "headrace.testing": headrace.testing}[module], name
        ), entry


def test_every_page_is_in_the_navigation_and_in_llms_txt() -> None:
    script = runpy.run_path(str(DOCS / "llms.py"))
    yaml, loader = script["yaml"], script["_Loader"]
    nav = {file for _, _, file in script["pages"](yaml.load((ROOT / "mkdocs.yml").read_text(), loader)["nav"])}
    assert nav == {page.name for page in DOCS.glob("*.md")}
    assert (DOCS / "llms.txt").read_text() == script["content"](), "run docs/llms.py"


def test_tables_of_settings_are_what_the_settings_say() -> None:
    script = runpy.run_path(str(DOCS / "settings.py"))
    text = {page.name: page.read_text() for page in script["PAGES"]}
    for name, found in text.items():
        assert found == script["with_tables"](found), f"run docs/settings.py: {name}"
    assert set(re.findall(r"settings.py: own (\w+)", text["algorithms.md"])) == set(algorithms())
    assert set(re.findall(r"settings.py: group (\w+)", text["settings.md"])) == set(script["groups"]())

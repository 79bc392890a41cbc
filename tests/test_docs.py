"""The code in README.md and docs/ runs, block after block, as a reader would run it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.errors import RenderError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def blocks(page: Path) -> list[str]:
    """The page's Python blocks, each moved down to its own line so that a traceback points into the page."""
    text = page.read_text()
    return ["\n" * text.count("\n", 0, found.start(1)) + found.group(1) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    try:
        for code in blocks(page):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
    except RenderError as error:  # of a machine without OpenGL
        if "there is none" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = LINK.findall(FENCED.sub("", page.read_text()))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing

"""The code in README.md and docs/ runs, block after block, as a reader would run it."""

from __future__ import annotations

import ast
import re
import subprocess
import sysconfig
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.cli.doctor import INTERNAL
from headrace.errors import RenderError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THEIRS = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""the program of another library that stands beside ours on a page "coming from …"; it runs where that is installed"""
OTHERS, LATE = "coming-from-others.md", ("training.md", "runs.md", "use-an-agent.md", "export.md")
CPP = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHOR = re.compile(r"\]\(((?!https?:)[^)#\s]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def sections(page: Path) -> list[str]:
    """The parts of a page that run by themselves: of one about several libraries its sections, else the whole, ""."""
    return re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) if page.name == OTHERS else [""]


def blocks(page: Path, kind: re.Pattern[str] = BLOCK, section: str = "") -> list[str]:
    """The Python blocks, each moved down to its own line in the page so that a traceback points into it."""
    text = page.read_text()
    begin = text.index(f"\n## {section}\n") if section else 0
    end = text.find("\n## ", begin + 1) if section else -1
    found = kind.finditer(text, begin, end if end > 0 else len(text))
    return ["\n" * text.count("\n", 0, block.start(1)) + block.group(1) for block in found]


def imported(code: list[str]) -> set[str]:
    """The packages that blocks import, by the first part of their names."""
    found = [node for block in code for node in ast.walk(ast.parse(block))]
    modules = [alias.name for node in found if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in found if isinstance(node, ast.ImportFrom)]
    return {module.partition(".")[0] for module in modules}


def cases(kind: re.Pattern[str]) -> list[Any]:
    """What is to be run; what takes long is run nightly, beside the programs of other libraries."""
    found = []
    for page, section in ((each, part) for each in PAGES for part in sections(each)):
        late = kind is BLOCK and (page.name in LATE or page.name.startswith("coming-from-"))
        if blocks(page, kind, section):
            marks = [pytest.mark.nightly] if late else []
            found.append(pytest.param(page, section, id=f"{page.name} {section}".strip(), marks=marks))
    return found


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(("page", "section"), cases(BLOCK))
def test_code_of_pages_runs(page: Path, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name.startswith("coming-from-"):  # of a library that may not be there
        for library in imported(blocks(page, BLOCK, section)):
            pytest.importorskip(library)
    if page.name == "envpool.md":
        pytest.importorskip("envpool")
    names: dict[str, object] = {"__name__": "__main__"}  # a reader's script
    try:
        for code in blocks(page, BLOCK, section):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
    except RenderError as error:  # of a machine without OpenGL
        if "there is none" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(("page", "section"), cases(THEIRS))
def test_the_other_librarys_program_beside_ours_runs(
    page: Path, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert page.name.startswith("coming-from-"), "only there is Python that is not ours"
    for code in blocks(page, THEIRS, section):
        for library in imported([code]):
            assert library != "headrace"
            pytest.importorskip(library)
        exec(compile(code, str(page), "exec", dont_inherit=True), {"__name__": "theirs"})


def test_the_page_about_simulators_in_cpp_compiles(tmp_path: Path) -> None:
    nanobind = pytest.importorskip("nanobind")
    code = "".join(blocks(ROOT / "docs" / "cpp-simulator.md", CPP))
    (tmp_path / "page.cpp").write_text(f"#include <array>\n#include <memory>\n{code}")
    folders = [headrace.get_include(), nanobind.include_dir(), sysconfig.get_path("include")]
    command = ["c++", "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in folders), "page.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr


def test_every_library_has_its_program() -> None:
    about = [(page, section) for page in PAGES if page.name.startswith("coming-from-") for section in sections(page)]
    without = {section for page, section in about if not blocks(page, THEIRS, section)}
    assert without == {"dm_env and Acme", "JAX"}  # interfaces, not libraries with a program


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = LINK.findall(FENCED.sub("", page.read_text()))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_are_headings(page: Path) -> None:
    for name, anchor in ANCHOR.findall(FENCED.sub("", page.read_text())):
        text = (page.parent / name if name else page).read_text()
        assert anchor in {slug(heading) for heading in HEADING.findall(FENCED.sub("", text))}, f"{name}#{anchor}"


def slug(heading: str) -> str:
    """What a heading is called in the site's addresses."""
    plain = unicodedata.normalize("NFKD", re.sub(r"\]\([^)]*\)", "", heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}
    assert sizes.pop("learning.gif") < 1_000_000
    assert max(sizes.values()) < 300_000


def test_extras_are_named_as_every_pip_finds_them() -> None:
    """By normalised names: pips before 23.3 take no others."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", extra) for extra in extras)
    asked = re.compile(r"(?:headrace|'\.|\"\.|\s\.)\[([\w,-]+)\]")
    files = [*PAGES, ROOT / "Makefile", *(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    named = {name for file in files for found in asked.findall(file.read_text()) for name in found.split(",")}
    assert {"dm-control", "train", "plots"} <= named <= set(extras)


def test_every_extra_for_users_is_explained() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    answer = (ROOT / "docs" / "faq.md").read_text().split("\n## ")[1]
    told = {name for found in re.findall(r"headrace\[([\w,-]+)\]", answer) for name in found.split(",")}
    assert told | {"train"} == set(extras) - INTERNAL and "'.[train]'" in answer


def test_targets_of_make_named_by_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *(ROOT / ".github").rglob("*.md")]
    named = {target for page in pages for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page.read_text(), re.M)}
    assert {"demo", "test", "wheels", "nightly", "gpu-test"} <= named <= targets


def test_files_named_by_the_page_on_the_architecture_exist() -> None:
    """A path begins in the repository, the package or training, or where one before it in the same line lies."""
    package = ROOT / "src" / "headrace"
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        folders = [ROOT, package, package / "train"]
        for name in re.findall(r"`([\w./-]+(?:\.(?:py|hpp|cpp|js|sh|toml)|/))`", line):
            found = [folder / name for folder in folders if (folder / name).exists()]
            assert found, f"docs/architecture.md names {name}, which is not there"
            folders += [path if path.is_dir() else path.parent for path in found]

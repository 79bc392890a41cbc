"""Takes files from outside of ``docs/`` into the site: examples, and the benchmarks' results.

A page links to them where they are, such as ``../examples/ppo.py``, so that the link works in a checkout, too. In the
site each becomes a page of its own. And the site has the pages' sources, to which ``llms.txt`` leads programs.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
OUTSIDE = re.compile(r"\]\(\.\./((?:examples/algorithms|examples|benchmarks)/\w+)\.(?:py|md)\)")
PICTURE = re.compile(r"\[[^\]]*\]\((?!https?:)([^)]+\.(?:svg|png))\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|\.\./docs/|[^)]+\.(?:svg|png)\))[^)]+\)")


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every file outside that a page links to, with the pictures that it shows or leads to."""
    linked = {found for page in DOCS.glob("*.md") for found in OUTSIDE.findall(page.read_text())}
    for name in sorted(linked):
        content, folder = _page(DOCS.parent / name), Path(name).parent
        files.append(File.generated(config, f"{name}.md", content=content))
        for picture in PICTURE.findall(content):
            found = str(DOCS.parent / folder / picture)
            files.append(File.generated(config, str(folder / picture), abs_src_path=found))
    return files


def on_page_markdown(markdown: str, **more: Any) -> str:
    """Lead links to these pages."""
    return OUTSIDE.sub(r"](\1.md)", markdown)


def on_post_build(config: Any) -> None:
    """Put the pages' sources beside ``llms.txt``."""
    for page in DOCS.glob("*.md"):
        shutil.copy(page, config["site_dir"])


def _page(path: Path) -> str:
    """A program with its own description, or a text without links to what the site does not have."""
    text = path.with_suffix(".md")
    if text.exists():
        return LINK.sub(r"\1", text.read_text()).replace("](../docs/", "](../")
    code = path.with_suffix(".py").read_text()
    about = (ast.get_docstring(ast.parse(code)) or path.name).splitlines()[0]
    return f"# {path.parent.name}/{path.name}.py\n\n{about}\n\n```py\n{code}```\n"

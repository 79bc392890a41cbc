"""Takes files from outside of ``docs/`` into the site: examples, the benchmarks' results, and pictures of the zoo.

A page links to them where they are, such as ``../examples/ppo.py``, so that the link works in a checkout, too. In the
site each becomes a page of its own. And the site has the pages' sources, to which ``llms.txt`` leads programs.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
OUTSIDE = re.compile(r"\]\(\.\./((?:examples/algorithms|examples|benchmarks)/\w+)\.(?:py|md|ipynb)\)")
PICTURE = re.compile(r"\[[^\]]*\]\((?!https?:)([^)]+\.(?:svg|png))\)")
AGENT = re.compile(r"\]\(\.\./(zoo/\w+/[\w.-]+/\w+\.gif)\)")
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
    for name in AGENT.findall((DOCS / "gallery.md").read_text()):
        files.append(File.generated(config, name, abs_src_path=str(DOCS.parent / name)))
    return files


def on_page_markdown(markdown: str, **more: Any) -> str:
    """Lead links to these pages."""
    return AGENT.sub(r"](\1)", OUTSIDE.sub(r"](\1.md)", markdown))


def on_post_build(config: Any) -> None:
    """Put the pages' sources beside ``llms.txt``."""
    for page in DOCS.glob("*.md"):
        shutil.copy(page, config["site_dir"])


def _page(path: Path) -> str:
    """A program with its own description, a notebook, or a text without links to what the site does not have."""
    text, notebook = path.with_suffix(".md"), path.with_suffix(".ipynb")
    if text.exists():
        return _without_links(text.read_text())
    if notebook.exists():
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook.read_text())["cells"]]
        return "\n\n".join(f"```py\n{t}\n```" if kind == "code" else _without_links(t) for kind, t in cells)
    code = path.with_suffix(".py").read_text()
    about = (ast.get_docstring(ast.parse(code)) or path.name).splitlines()[0]
    return f"# {path.parent.name}/{path.name}.py\n\n{about}\n\n```py\n{code}```\n"


def _without_links(text: str) -> str:
    return LINK.sub(r"\1", text).replace("](../docs/", "](../")

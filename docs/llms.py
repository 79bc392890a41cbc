"""Writes ``llms.txt``: what the documentation's pages are about, for programs that read.

    python docs/llms.py

A line a page, in the order of the site's navigation, with the page's first sentence.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent
OUT = DOCS / "llms.txt"


class _Loader(yaml.SafeLoader):
    """mkdocs.yml may have tags that name Python's objects; none is needed here."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def pages(nav: list[Any], section: str = "") -> list[tuple[str, str, str]]:
    """(section, title, file) of each page."""
    found: list[tuple[str, str, str]] = []
    for entry in nav:
        ((title, value),) = entry.items()
        found += pages(value, title) if isinstance(value, list) else [(section, title, value)]
    return found


def first_sentence(text: str) -> str:
    """The first sentence of a page's first paragraph of prose, without links' addresses."""
    for paragraph in text.split("\n\n")[1:]:
        if re.match(r"[A-Za-z\[*]|`(?!``)", paragraph):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")
    return ""


def content() -> str:
    """The file's text."""
    config = yaml.load((DOCS.parent / "mkdocs.yml").read_text(), _Loader)
    lines = ["# Headrace", "", f"> {config['site_description']}."]
    section = None
    for where, title, file in pages(config["nav"]):
        if where != section:
            lines += ["", f"## {where or 'Start'}", ""]
            section = where
        about = first_sentence((DOCS / file).read_text())
        lines.append(f"- [{title}]({file})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    OUT.write_text(content())

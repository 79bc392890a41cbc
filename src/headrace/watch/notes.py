"""What a user notes of a run: a name, tags, a text, and whether lists leave it out.

They are a file of the run's folder, ``notes.json``, as they are about the run: every page that shows it has them, also
after it was copied. It is the only file that a page writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.train.runs import files, zoo

FILE = "notes.json"
NONE: dict[str, Any] = {"name": "", "tags": [], "text": "", "hidden": False}
MOST_TAGS, MOST_WORDS, MOST_TEXT = 20, 100, 10_000  # tags, and characters of a name or tag and of the text


def read_notes(folder: Path) -> dict[str, Any]:
    """Returns the notes of a run; those of `NONE` where there is no such file, or a damaged one."""
    try:
        return notes_of(json.loads(files.read(folder / FILE)))
    except (OSError, ValueError, RecursionError):
        return NONE


def write_notes(folder: Path, notes: dict[str, Any]) -> None:
    """Replaces the notes of a run; raises `StorageError` if they cannot be written, as into an agent of the zoo."""
    if zoo.is_agent(folder):
        raise StorageError(f"{zoo.PREFIX}{folder.name} is an agent of the zoo, which takes no notes")
    files.replace(folder / FILE, json.dumps(notes, indent=1) + "\n")


def notes_of(said: Any) -> dict[str, Any]:
    """Returns notes with the keys of `NONE`, cut to their greatest lengths; raises ValueError if a type is wrong."""
    if not isinstance(said, dict):
        raise ValueError("notes are an object")
    notes = {key: said.get(key, default) for key, default in NONE.items()}
    name, tags, text, hidden = notes.values()
    strings = isinstance(tags, list) and all(isinstance(each, str) for each in (name, text, *tags))
    if not strings or not isinstance(hidden, bool):
        raise ValueError("notes are a name, tags and a text, all strings, and hidden, true or false")
    tags = list(dict.fromkeys(tag[:MOST_WORDS] for tag in tags))[:MOST_TAGS]
    return {"name": name[:MOST_WORDS], "tags": tags, "text": text[:MOST_TEXT], "hidden": hidden}

"""Writes ``src/headrace/train/settings/typed.py``: settings as keyword arguments, for type checkers and editors.

    python docs/typed.py

The types there are those that `headrace.train` accepts, such as lists for tuples, and not those of a run's `Config`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from headrace.train.settings.algorithm import ALGORITHMS
from headrace.train.settings.common import COMMON
from headrace.train.settings.fields import Setting

OUT = Path(__file__).parents[1] / "src" / "headrace" / "train" / "settings" / "typed.py"
NAMED = ("algo", "total_steps", "seed", "device")
"""arguments of `headrace.train.train` with a name of their own, beside the task"""
OWN_ENTRY = {
    "network": "Any", "reward": "Any", "device": "str | torch.device", "load": "str | PathLike[str] | None",
    "env_options": "Mapping[str, Any]", "policies": "Mapping[str, Mapping[str, Any]]",
    "schedules": "Mapping[str, Sequence[Sequence[float]]]", "curriculum": "Mapping[str, Sequence[Sequence[Any]]]",
}  # fmt: skip
"""settings that accept more than their type says, or whose type no file can hold"""
HEAD = '''"""The settings of all algorithms as keyword arguments, so that type checkers and editors know them.

``docs/typed.py`` writes this file; docs/settings.md says what each means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import torch

'''


def known() -> dict[str, tuple[Setting, Any]]:
    """Every setting of Headrace's algorithms, with its type."""
    found: dict[str, tuple[Setting, Any]] = {}
    for algorithm in (COMMON, *ALGORITHMS.values()):
        for name, each in algorithm.settings.items():
            if name not in found:
                found[name] = each, algorithm.types[name]
    return found


def type_of(name: str, hint: Any) -> str:
    """The type of a keyword argument, as source text."""
    if name in OWN_ENTRY:
        return OWN_ENTRY[name]
    if get_origin(hint) is tuple:
        one = get_args(hint)[0].__name__
        return f"str | Sequence[{one}]" if one == "str" else f"Sequence[{one}]"
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(json.dumps(value) for value in get_args(hint))}]"
    return getattr(hint, "__name__", str(hint)) if not get_args(hint) else str(hint)


def record(name: str, base: str, doc: str, names: list[str]) -> Iterator[str]:
    """A TypedDict with these settings, as lines."""
    yield f"\nclass {name}({base}, total=False):"
    yield f'    """{doc}"""\n'
    settings = known()
    for each in names:
        yield f"    {each}: {type_of(each, settings[each][1])}"


def content() -> str:
    """The file's text."""
    names = list(known())
    rest = [name for name in names if name not in (*NAMED, "task")]
    changes = [name for name in names if known()[name][0].continuable]
    parts = [
        *record("Settings", "TypedDict", "Settings of `headrace.train.train` beside its own arguments.", rest),
        "",
        *record(
            "SettingsOfSeeds", "Settings", "Settings of `headrace.studies.train_seeds`.", ["total_steps", "device"]
        ),
        "",
        *record("Changes", "TypedDict", "Settings that may change in the middle of a run.", changes),
    ]
    return HEAD + "\n".join(parts) + "\n"


if __name__ == "__main__":
    OUT.write_text(content())

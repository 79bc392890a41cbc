"""Types and parsers of command-line options with structured values.

Options of tasks are given as ``--option name=value``, as each family has different ones. Nested values are given as
JSON, or as a JSON file.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from headrace.errors import OptionError

Args = TypeVar("Args")
SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


def optional(metavar: str, help: str | None = None) -> Any:
    """Returns the annotation of an optional argument, whose help shows ``metavar`` and no default."""
    return tyro.conf.arg(metavar=metavar, help=help, help_behavior_hint="")


TaskOptions = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(metavar="NAME=VALUE", help="an option of the task, such as frame_skip=2"),
]
"""type of an argument ``--option``, whose value is parsed by `parse_options`"""


def parse_args(
    kind: type[Args],
    command: str,
    argv: Sequence[str],
    hint: str = "give each a command",
    takes: str = "one name",
    **how: Any,
) -> Args:
    """Returns the arguments of a command that takes a fixed number of names, parsed by tyro with ``how``.

    Raises:
        OptionError: more names follow, which tyro calls unrecognized options; ``hint`` says what to do with several.
    """
    args, left = tyro.cli(kind, prog=f"headrace {command}", args=argv, return_unknown_args=True, **how)
    if not left:
        return args
    if not any(word.startswith("-") for word in left):
        raise OptionError(f"{command} takes {takes}, not {' '.join(left)} as well: {hint}")
    return tyro.cli(kind, prog=f"headrace {command}", args=argv, **how)


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Returns ``["frame_skip=2", "gray_scale=False"]`` as ``{"frame_skip": 2, "gray_scale": False}``.

    Values are parsed as Python literals, ``true`` or ``false``; all others are strings.

    Raises:
        OptionError: a pair is not of the form ``name=value``.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise OptionError(f"--option {pair!r} is not of the form name=value, such as frame_skip=2")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = {"true": True, "false": False}.get(value.lower(), value)
    return options


def check_file(option: str, path: Path | None) -> None:
    """Checks that a file can be written at ``path``, as far as this is known beforehand; None is no file.

    Raises:
        OptionError: ``path`` is a folder, its folder does not exist, or it is not writable; ``option`` names it.
    """
    if path is None:
        return
    if path.is_dir():
        raise OptionError(f"{option} {path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise OptionError(f"{option} {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{option} {path} cannot be written: permission denied")


JSON = PrimitiveConstructorSpec[Any](
    nargs=1,
    metavar="JSON|FILE",
    instance_from_str=lambda words: parse_json(words[0]),
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [json.dumps(value)],
)
"""annotation of an argument that is a dict, given as JSON"""


def parse_count(text: str) -> int:
    """Returns a whole number, written as 100000, 100_000, 1e5, 100k or 0.1M; raises `ValueError` for all else."""
    found = re.fullmatch(r"(-?[\d_.]+(?:e\d+)?)([kmgb]?)", text.lower())
    value = Fraction(found[1].replace("_", "")) * SCALES[found[2]] if found else Fraction(1, 2)
    if value.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number, such as 100000, 1e5, 100k or 2M")
    return int(value)


COUNT = PrimitiveConstructorSpec[int](
    nargs=1,
    metavar="INT",
    instance_from_str=lambda words: parse_count(words[0]),
    is_instance=lambda value: isinstance(value, int),
    str_from_instance=lambda value: [str(value)],
)
"""annotation of an argument that is a whole number, as people write large ones"""


def parse_json(text: str) -> dict[str, Any]:
    """Returns the dict of a JSON text, or of the JSON file at this path.

    Raises:
        OptionError: there is no such file, or the text or the file's content is not a JSON object.
    """
    try:
        value = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text())
    except OSError as error:
        raise OptionError(f"{text!r} is neither JSON in braces nor a file that can be read") from error
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OptionError(f"{text!r} must hold a JSON object, {{…}}, not {value!r}")
    return value

"""Task options on the command line, as ``--option name=value``, because every family has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from headrace.errors import OptionError


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """``["frame_skip=2", "gray_scale=False"]`` as ``{"frame_skip": 2, "gray_scale": False}``.

    Values are Python literals; anything else is a string. Raises `OptionError` for what is no pair.
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

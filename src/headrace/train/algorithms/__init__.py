"""A folder for each algorithm, with its settings, presets and loss; and what they share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def class_of(package: str) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of an algorithm's package, which imports its class, and torch, when asked for.

    It raises `AttributeError` for a name that begins with an underscore, so that the machinery of imports asks in vain.
    """

    def found(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(importlib.import_module(f"{package}.{package.rpartition('.')[2]}"), name)

    return found

"""Advantage actor-critic: the settings, which need no torch, and the class, which does."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(importlib.import_module("headrace.train.algorithms.a2c.a2c"), name)

"""The folder in which Headrace caches results across processes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Returns ``$XDG_CACHE_HOME/headrace``, by default ``~/.cache/headrace``; it need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"

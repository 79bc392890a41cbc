"""What a figure was measured on, for every record alike: the hardware's name and versions, no paths."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Package → version, of those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found

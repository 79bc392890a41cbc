"""What a figure was measured on, for every record alike: the hardware's name and versions, no paths."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512, bfloat16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""a flag of the processor's, as Linux tells it → the units for arithmetic it stands for, the most capable first"""


def cpu_model() -> str:
    """The processor's name, as Linux tells it, and its units for arithmetic: names alone leave generations open."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    units = next((f" ({units})" for flag, units in UNITS.items() if flag in flags), "")
    return fields.get("model name", "unknown") + units


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Package → version, of those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found

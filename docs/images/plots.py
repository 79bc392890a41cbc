"""Draws ``plot.png``, PPO and A2C with five seeds each, by the commands of the page: python docs/images/plots.py

It takes a minute or two.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SETTINGS = ("--seeds", "5", "--total-steps", "150000", "--stop-at-return", "None", "--no-video")
BASELINE = "name, step, return\nsolved,, 475\n"


def main() -> None:
    """Train, and draw."""
    with tempfile.TemporaryDirectory() as folder:
        for algo in ("ppo", "a2c"):
            headrace("train", "CartPole-v1", "--algo", algo, *SETTINGS, "--run-dir", f"{folder}/{algo}")
        (Path(folder) / "solved.csv").write_text(BASELINE)
        out = HERE / "plot.png"
        headrace("plot", folder, "--baseline", f"{folder}/solved.csv", "--out", str(out))


def headrace(*words: str) -> None:
    """Run a command as a user does."""
    subprocess.run([sys.executable, "-m", "headrace.cli.main", *words], check=True)


if __name__ == "__main__":
    main()

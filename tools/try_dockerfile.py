"""Runs the steps of the Dockerfile without a builder: in a temporary folder in place of the image's root.

    python tools/try_dockerfile.py [train CartPole-v1 --total-steps 20000]

Steps of apt-get are left out: this system must have what they install. The entry point then runs with the arguments.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = r"(?<![\w./-])(/src|/opt/headrace|/work)\b"  # of the image


def main() -> None:
    """Run them, until one fails."""
    arguments = sys.argv[1:] or ["train", "CartPole-v1", "--total-steps", "20000"]
    with tempfile.TemporaryDirectory() as root:
        kept = ("PATH", "LANG", "PIP_", "SSL")
        variables = {name: value for name, value in os.environ.items() if name.startswith(kept)} | {"HOME": root}
        place = Path(root)
        for keyword, words in steps((ROOT / "Dockerfile").read_text()):
            words = re.sub(FOLDERS, rf"{root}\1", words)
            if keyword == "ENV":
                pairs = (pair.partition("=") for pair in words.split())
                variables |= {name: value.replace("$PATH", variables["PATH"]) for name, _, value in pairs}
            elif keyword == "WORKDIR":
                place = Path(words)
                place.mkdir(parents=True, exist_ok=True)
            elif keyword == "COPY" and words.startswith(". "):
                copy_context(Path(words.split()[1]))
            elif keyword == "RUN" and "apt-get" not in words:
                print("$", words, flush=True)
                subprocess.run(["sh", "-c", words], cwd=place, env=variables, check=True)
        subprocess.run(["headrace", *arguments], cwd=place, env=variables, check=True)


def steps(text: str) -> list[tuple[str, str]]:
    """Returns the keyword and the rest of each step."""
    return re.findall(r"^([A-Z]+) (.+)$", text.replace("\\\n", " "), re.M)


def copy_context(to: Path) -> None:
    """Copies the files and folders that .dockerignore lets through."""
    to.mkdir()
    for name in re.findall(r"^!(.+)", (ROOT / ".dockerignore").read_text(), re.M):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, to / name)


if __name__ == "__main__":
    main()

"""Installs packages into the environment of this Python: by uv where it is at hand, or by pip.

    .venv/bin/python tools/install.py [--no-compile] torch -e .[train]

uv takes its pins and its indexes from what pip would read, so that both install the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = {
    "UV_CONSTRAINT": "constraint", "UV_BUILD_CONSTRAINT": "build-constraint", "UV_DEFAULT_INDEX": "index-url",
    "UV_INDEX": "extra-index-url", "UV_FIND_LINKS": "find-links", "SSL_CERT_FILE": "cert",
}  # fmt: skip
"""variable that uv reads → pip's option"""


def main() -> int:
    words = sys.argv[1:]
    if uv := shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        taken = os.environ | {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip takes the newest of all indexes
        for name, option in NAMES.items():
            if value := os.environ.get("PIP_" + option.upper().replace("-", "_")) or configured(option):
                taken.setdefault(name, value)
        own = [word for word in words if word != "--no-compile"]  # which is what uv does
        if subprocess.run([uv, "pip", "install", "--python", sys.executable, *own], env=taken).returncode == 0:
            return 0
    return subprocess.run([sys.executable, "-m", "pip", "install", *words]).returncode


def configured(option: str) -> str:
    """Returns pip's option as its files of settings have it; empty if they have none."""
    for section in ("install", "global"):
        asked = [sys.executable, "-m", "pip", "config", "get", f"{section}.{option}"]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    return ""


if __name__ == "__main__":
    sys.exit(main())

"""Publishes the port of a run's viewer to other processes, in a small file in the run folder.

A run that is killed leaves its file behind, and another process may take its port: the file is valid only if a viewer
responds there and is the process that wrote it. Only its port is used, since a folder may come from another machine.
"""

from __future__ import annotations

import json
import os
import urllib.request
from http.client import HTTPException

from headrace.train.runs.folder import RunFolder

HOST = "127.0.0.1"
PATIENCE = 2.0  # seconds to wait for a response


def address(port: int) -> str:
    """Returns the page's URL."""
    return f"http://{HOST}:{port}"


def announce(run: RunFolder, port: int) -> None:
    """Write the file that says that this process listens on ``port``, atomically."""
    temporary = run.viewer_file.with_name(f".{run.viewer_file.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"url": address(port), "port": port, "pid": os.getpid()}) + "\n")
    temporary.replace(run.viewer_file)


def withdraw(run: RunFolder) -> None:
    """Remove the file if this process wrote it."""
    if (_read(run) or {}).get("pid") == os.getpid():
        run.viewer_file.unlink(missing_ok=True)


def find(run: RunFolder) -> str | None:
    """Returns the URL at which a viewer of this run responds; None if none does."""
    said = _read(run)
    if said is None:
        return None
    url, direct = address(said["port"]), urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{url}/status.json", timeout=PATIENCE) as answer:
            pid = json.load(answer)["pid"]
    except (OSError, HTTPException, ValueError, TypeError, KeyError):
        return None
    return url if pid == said["pid"] else None


def _read(run: RunFolder) -> dict | None:
    try:
        said = json.loads(run.viewer_file.read_text())
        return said if 0 < int(said["port"]) < 2**16 and said["pid"] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None

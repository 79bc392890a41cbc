"""The limits of this process's control groups (cgroups), with which containers and schedulers share out a machine.

A limit counts for a group and all below it, so that the least of the own group's and of those above it is what is left.
Linux has two versions, and machines on which each has some of the controllers: version 2 has one tree of groups for all
controllers, version 1 a tree for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

Number = TypeVar("Number", int, float)
MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""of each version, the files of the limit and of what is in use, and the name of the page cache in ``memory.stat``"""


def own_groups(controller: str) -> list[Path]:
    """Returns the folders of this process's groups, as `groups` does; none on other systems than Linux."""
    own = Path("/proc/self")
    return list(groups(controller, _text(own / "cgroup"), _text(own / "mountinfo")))


def groups(controller: str, cgroup: str, mountinfo: str, root: Path = Path("/")) -> Iterator[Path]:
    """Yields the folders of a process's groups, the own one of a tree first, up to the highest in sight.

    A container may see its own group as the root of the tree, under another name than the process's files have.

    Args:
        controller: name of the controller, such as ``"cpu"``.
        cgroup, mountinfo: the texts of the process's files of these names in ``/proc``.
        root: the folder that holds the mount points.
    """
    lines = (line.split(":", 2) for line in cgroup.splitlines() if line.count(":") >= 2)
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    for top, above, name in _mounts(controller, mountinfo):
        own = PurePosixPath(paths.get(name, "/"))
        below = own.relative_to(above) if own.is_relative_to(above) else PurePosixPath()
        if ".." in below.parts:  # it lies outside of what this process sees
            below = PurePosixPath()
        for path in (below, *below.parents):
            yield root / top.lstrip("/") / path


def least(read: Callable[[Path], Number | None], folders: Iterable[Path]) -> Number | None:
    """Returns the least of what ``read`` returns for the groups' folders; None if that is None for all."""
    return min((found for folder in folders if (found := read(folder)) is not None), default=None)


def quota(folder: Path) -> float | None:
    """Returns how many cores a group's processes may keep busy; None without a limit."""
    match _numbers(folder, "cpu.max") or _numbers(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us"):
        case [most, period] if most > 0 and period > 0:
            return most / period
    return None


def memory_left(folder: Path) -> int | None:
    """Returns the bytes of memory that a group's processes may still take; None without a limit."""
    for limit, in_use, cached in MEMORY:
        if len(numbers := _numbers(folder, limit, in_use)) == 2:
            most, used = numbers
            cache = re.search(rf"^{cached} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            return max(0, most - used + (int(cache[1]) if cache else 0))  # the page cache is freed on demand
    return None


def _mounts(controller: str, mountinfo: str) -> Iterator[tuple[str, str, str]]:
    """Yields mounts of trees: the mount point, the group there, and the tree's name in a process's file ``cgroup``."""
    for line in mountinfo.splitlines():
        place, _, source = line.partition(" - ")
        match place.split(), source.split():
            case [_, _, _, above, top, *_], ["cgroup2", *_]:
                yield _unescaped(top), _unescaped(above), ""
            case [_, _, _, above, top, *_], ["cgroup", _, options] if controller in options.split(","):
                yield _unescaped(top), _unescaped(above), controller


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _numbers(folder: Path, *names: str) -> list[int]:
    """Returns the numbers in files; none if a file is missing, or has other words, such as ``max`` for no limit."""
    texts = [_text(folder / name) for name in names]
    try:
        return [int(word) for text in texts for word in text.split()] if all(texts) else []
    except ValueError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""

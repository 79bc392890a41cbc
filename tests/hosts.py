"""Machines of any number of cores, and containers on them: real control groups where root may make one, else files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import machine
from headrace.control_groups import own_groups

PERIOD = 100_000  # microseconds


def act_as(patch: pytest.MonkeyPatch, folder: Path, cores: int, quota: float | None = None) -> set[int]:
    """From here on the system tells of so many cores, and of a container's quota by a file in a folder.

    Returns:
        The cores to which the process is bound, as it changes them.
    """
    bound = set(range(cores))

    def bind(_: int, chosen: Iterable[int]) -> None:
        bound.intersection_update(chosen)

    patch.setenv(machine.MOST_CORES, "")
    patch.setattr(os, "cpu_count", lambda: cores)
    patch.setattr(os, "sched_getaffinity", lambda _: {*bound})
    patch.setattr(os, "sched_setaffinity", bind)
    (folder / "cpu.max").write_text("max 100000" if quota is None else f"{round(quota * PERIOD)} {PERIOD}")
    patch.setattr(machine, "own_groups", lambda controller: [folder])
    patch.setattr(machine, "_quota", machine._quota.__wrapped__)  # which would be remembered
    return bound


@contextmanager
def real_group(quota: float) -> Iterator[list[str]]:
    """A control group of this machine with a quota; yields the words before a command that is to run in it."""
    refused = "no tree of control groups is in sight"
    for above in reversed(own_groups("cpu")):
        group = above / f"headrace-test-{uuid.uuid4().hex}"
        try:
            group.mkdir()
            try:
                _limit(group, quota)
            except OSError:
                group.rmdir()
                raise
        except OSError as error:
            refused = str(error)
            continue
        try:
            yield ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
        finally:
            group.rmdir()
        return
    pytest.skip(f"no control group with a quota can be made here: {refused}")


def _limit(group: Path, quota: float) -> None:
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{round(quota * PERIOD)} {PERIOD}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(round(quota * PERIOD)))

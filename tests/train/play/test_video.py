"""Videos are encoded on the cores that this process may use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headrace.machine import MOST_CORES
from headrace.train.play.video import write_video

pytest.importorskip("av")


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_the_encoder_has_no_more_threads_than_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def frames() -> Iterator[np.ndarray]:
        for _ in range(3):
            threads.append(len([*Path("/proc/self/task").iterdir()]))
            yield np.zeros((240, 240, 3), np.uint8)

    monkeypatch.setenv(MOST_CORES, "1")
    write_video(tmp_path / "dark.mp4", frames())
    assert threads[1] == threads[2] == threads[0]
    assert (tmp_path / "dark.mp4").stat().st_size > 0

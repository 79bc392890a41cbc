"""Rows of a leaderboard are trained and judged, and Ctrl-C ends both."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.studies.leaderboard import scores, training
from headrace.studies.leaderboard.board import Row


@pytest.mark.parametrize("asked", [1, 2])
def test_ctrl_c_while_checkpoints_are_judged_ends_the_row(tmp_path: Path, monkeypatch: Any, asked: int) -> None:
    """Also during the last; scores of the seeds that were judged by then stay."""
    judged: list[int] = []

    def judge(_: Path, seed: int, *__: Any) -> scores.Measured:
        judged.append(seed)
        if seed == asked:
            os.kill(os.getpid(), signal.SIGINT)
        return scores.Measured(seed, (), 1000, 1.0)

    monkeypatch.setattr(training, "_is_over", lambda *_: True)
    monkeypatch.setattr(scores, "try_measure", judge)
    row = Row("one", "CartPole-v1", (475.0,), total_steps=1000, minutes=1)
    assert not training.train_row(row, tmp_path, [1, 2], quiet=True)
    assert judged == list(range(1, asked + 1))
    assert [each.seed for each in training.results(tmp_path)] == judged
    assert training.train_row(row, tmp_path, [1, 2, 3], quiet=True)
    assert [each.seed for each in training.results(tmp_path)] == [1, 2, 3]

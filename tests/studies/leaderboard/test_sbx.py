"""stable-baselines3's peers are run by the leaderboard's own tests; sbx, which has its interface, is run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.studies.leaderboard import training
from headrace.studies.leaderboard.board import Peer, Row


@pytest.mark.nightly
def test_sbx_trains_a_row(tmp_path: Path) -> None:
    pytest.importorskip("sbx")
    row = Row("one", "Pendulum-v1", (0.0,), total_steps=900, minutes=2, games=2)
    peer = Peer("sbx", "CrossQ", "chosen for this test", settings={"policy_kwargs": {"net_arch": [32]}})
    assert training.train_peer(row, peer, tmp_path / "sbx", [1], quiet=True)
    (scores,) = training.results(tmp_path / "sbx")
    assert not scores.error and scores.greedy is not None and -2000 < scores.greedy < 0
    assert scores.reached[0].seconds is None and 400 <= scores.steps <= 900

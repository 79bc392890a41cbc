"""The Elo of self-play: it rises while a game is learnt, is shown, and goes on after an interruption."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import headrace
from headrace.cli.main import main
from headrace.train import resume
from headrace.train.play.ladder import play, ratings
from headrace.train.runs.metrics import read_metrics
from headrace.watch.library import Library
from whole_runs import assert_same_run, stopped_half_way

QUIET: dict[str, Any] = {"seed": 1, "tensorboard": False, "video": False, "viewer": False}


def first_allowed(seen: np.ndarray, masks: np.ndarray) -> np.ndarray:
    return masks.argmax(1)


def last_allowed(seen: np.ndarray, masks: np.ndarray) -> np.ndarray:
    return masks.shape[1] - 1 - masks[:, ::-1].argmax(1)


def test_a_player_wins_the_same_share_of_points_in_both_seats() -> None:
    # with a stone of either below, the player of the first column is first with four, whoever begins
    with headrace.make("ConnectFour-v0", num_envs=6) as pool:
        assert play(pool, first_allowed, last_allowed, opening=first_allowed).mean() == 1.0
        assert play(pool, last_allowed, first_allowed, opening=first_allowed).mean() == 0.0
        assert play(pool, first_allowed, first_allowed, opening=first_allowed).mean() == 0.5  # as often first


def test_ratings_make_the_games_most_likely() -> None:
    """They are those of scipy's minimiser."""
    table = np.array([[0.5, 0.2, 0.05, 0.0], [0.8, 0.5, 0.3, 0.25], [0.95, 0.7, 0.5, 0.1], [1.0, 0.75, 0.9, 0.5]])
    shares = (table * 64 + 1) / 66

    def surprise(elos: np.ndarray) -> float:
        odds = np.logaddexp(0, math.log(10) / 400 * (elos - elos[:, None]))
        return float((shares * odds)[~np.eye(4, dtype=bool)].sum())

    best = minimize(surprise, np.zeros(4), tol=1e-10).x
    np.testing.assert_allclose(ratings(table, 64), best - best[0], atol=0.1)
    np.testing.assert_allclose(ratings(np.array([[0.5, 0.25], [0.75, 0.5]]), 64), [0, 400 * math.log10(49 / 17)])


def test_elo_rises_and_is_shown_in_place_of_the_return(tmp_path: Path, capfd: Any) -> None:
    main(["train", "TicTacToe-v0", "--total-steps", "120k", "--run-dir", str(tmp_path / "run"), "--seed", "1",
          "--no-viewer", "--no-video", "--no-tensorboard"])  # fmt: skip
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    first, last = lines[0], lines[-1]
    assert last["elo"] > first["elo"] + 150 > 150 and last["points_against_random"] > 0.8
    assert {line["return"] for line in lines} == {0.0}  # which says nothing
    said = capfd.readouterr().out
    assert re.search(r"Elo \d+ \(\d+% of points against random moves\)", said)
    assert f"all steps done: Elo {last['elo']:,.0f} after" in said and "return" not in said
    library = Library([tmp_path / "run"])
    library.look()
    (seen,) = (run.summary for run in library.runs.values())
    assert seen["elo"] and seen["return"] == last["elo"] and seen["returns"] == {}


def test_the_newest_checkpoint_is_the_best(tmp_path: Path) -> None:
    run = headrace.train("TicTacToe-v0", total_steps=40_000, run_dir=tmp_path / "run", quiet=True, **QUIET).run_dir
    best, newest = (headrace.load(run, which=which).policy.state_dict() for which in ("best", "newest"))
    assert all((best[name] == newest[name]).all() for name in best)


def test_a_resumed_run_goes_on_from_the_same_versions(tmp_path: Path) -> None:
    how: dict[str, Any] = {"deterministic": True, "checkpoint_seconds": 0.0, "keep_checkpoints": 20, "quiet": True}
    run = headrace.train("TicTacToe-v0", total_steps=120_000, run_dir=tmp_path / "run", **how, **QUIET).run_dir
    stopped_half_way(run, tmp_path / "copy")
    resume(tmp_path / "copy", quiet=True)
    assert_same_run(run, tmp_path / "copy")

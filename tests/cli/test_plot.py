"""`headrace plot` draws the curves of runs, as a picture of each format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.train.recipes.make import make_config
from headrace.train.runs.folder import RunFolder

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for algo, height in (("ppo", 100.0), ("a2c", 50.0)):
        for seed in (1, 2, 3):
            run = RunFolder.create(f"runs/{algo}-{seed}", make_config("CartPole-v1", algo=algo, seed=seed))
            points = [(step, height * step / 500 + seed) for step in range(0, 1000, 50)]
            lines = [{"step": s, "return": r, "time": {"seconds": s / 7}} for s, r in points]
            run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "runs"


def pixels(picture: str, colour: tuple[int, int, int]) -> np.ndarray:
    """Where a picture has a colour: bool [height, width]."""
    return np.abs(np.asarray(Image.open(picture).convert("RGB")).astype(int) - colour).sum(-1) < 6


def test_every_group_is_a_line_with_a_caption(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot"]) == 0
    told = capsys.readouterr().out
    assert "A2C: seeds 1, 2, 3" in told and "PPO: seeds 1, 2, 3" in told and told.endswith("plot plot.png\n")
    assert "last 100 episodes" in told and "interquartile mean over seeds" in told and "Smoothed" not in told
    upper, lower = pixels("plot.png", ORANGE), pixels("plot.png", BLUE)  # PPO is the second by name
    assert upper.sum() > 500 and lower.sum() > 500
    height = int(0.6 * len(upper))  # without the legend
    assert np.argwhere(upper[:height])[:, 0].mean() < np.argwhere(lower[:height])[:, 0].mean(), "PPO is the better one"
    assert main(["plot", "runs/ppo-1", "--smooth", "0.1", "--x", "steps", "--mean", "median", "--out", "one.png"]) == 0
    told = capsys.readouterr().out
    assert "Smoothed: mean over the last 10%" in told and "bootstrap" not in told


def test_vectors_hold_their_fonts_and_repeat(runs: Path) -> None:
    Path("theirs.csv").write_text("name,step,return,low,high\nTheirs,0,1,0,2\nTheirs,900,150,140,160\nHuman,,90,,\n")
    for name in ("a.pdf", "b.pdf", "a.svg", "b.svg"):
        assert main(["plot", "runs", "--out", name, "--baseline", "theirs.csv"]) == 0
    assert Path("a.pdf").read_bytes() == Path("b.pdf").read_bytes() and b"FontFile2" in Path("a.pdf").read_bytes()
    svg = Path("a.svg").read_text()
    assert "<text" not in svg and "<!-- Theirs -->" in svg and "<!-- Human -->" in svg


def test_mistakes_are_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["nowhere"], "nowhere is not a folder"),
        (["--out", "plot.gif"], "must end in .png, .svg, .pdf"),
        (["--out", "no/plot.png"], "there is no folder no"),
        (["--smooth", "1"], "--smooth 1.0"),
        (["--returns", "evaluation"], "no run has returns to draw"),
        (["--labels", "ours"], "1 labels were given, but CartPole-v1 has 2 groups"),
        (["--baseline", "nowhere.csv"], "cannot be read"),
    ):
        assert main(["plot", *words]) == 2
        assert told in capsys.readouterr().err
    assert not Path("plot.png").exists()

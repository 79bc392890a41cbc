"""Training on pictures of a MuJoCo task, as a user would start it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

import headrace
from headrace.cli.main import main
from headrace.errors import RenderError
from headrace.train.play.agent import load_checkpoint
from headrace.train.runs.folder import RunFolder

PICTURES = {"from_pixels": "true", "frame_stack": "2", "render_width": "40", "render_height": "40"}


def test_a_cnn_trains_on_pictures(tmp_path: Path) -> None:
    try:
        headrace.make("InvertedPendulum-v5", num_envs=1, from_pixels=True).close()
    except RenderError as error:
        pytest.skip(str(error))
    sizes = "--total-steps 128 --num-envs 4 --num-steps 16 --minibatch-size 32 --epochs 1".split()
    options = [word for name, value in PICTURES.items() for word in ("--option", f"{name}={value}")]
    run_dir = tmp_path / "run"
    assert not main(["train", "InvertedPendulum-v5", "--run-dir", str(run_dir), "--quiet", *sizes, *options])
    run, config = RunFolder.open(run_dir)
    assert config.env_options["from_pixels"] is True
    assert load_checkpoint(run).counters["step"] == 128
    assert list(run.episodes.glob("*.mp4"))

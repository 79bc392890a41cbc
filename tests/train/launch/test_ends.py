"""What fails after a run's last step: the result is returned all the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace

TINY: dict[str, Any] = {"num_envs": 2, "num_steps": 8, "total_steps": 16, "tensorboard": False, "viewer": False}


class Torn(gym.Env):
    """Draws frames of a size that no video has, or raises while it draws."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (Gymnasium's own convention)
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, width: int = 300, error: bool = False):
        self.steps, self.width, self.error = 0, width, error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps >= 4, False, {}

    def render(self) -> np.ndarray:
        if self.error:
            raise ZeroDivisionError("nothing to divide by")
        return np.zeros((300, self.width, 3), np.uint8)


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{"width": 1}, {"error": True}])
def test_a_video_that_fails_is_a_remark(options: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    result = headrace.train(f"{__file__}:Torn", env_options=options, run_dir=tmp_path / "run", **TINY)
    assert result.reason == "finished" and result.video is None
    assert "no video: " in capsys.readouterr().out


def test_a_folder_that_can_no_longer_be_written_is_a_remark(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"

    class Blocks(headrace.train.Callback):
        """Puts folders in the place of files, which can then neither be written nor removed, as on a read-only disk."""

        def on_end(self, training: Any, reason: str) -> None:
            for name in ("train.lock", "live.safetensors", "curve.png"):
                (run / name).unlink(missing_ok=True)
                (run / name).mkdir()
            os.utime(run / "curve.png", (0, 0))  # older than the metrics
            (run / "episodes").touch()

    result = headrace.train("CartPole-v1", run_dir=run, callback=Blocks(), **TINY)
    assert result.reason == "finished" and result.plot is None and result.video is None
    said = capsys.readouterr().out
    assert "no video: " in said and "no plot: " in said

"""`headrace play` of runs that draw nothing, have no limit, are several or are not named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.cli import play
from headrace.cli.main import main
from headrace.train.play.convert import GAP, GIF_WIDTH, read_video

TINY: dict[str, Any] = {"num_envs": 2, "num_steps": 8, "total_steps": 16, "tensorboard": False, "viewer": False}
TINY |= {"video": False, "quiet": True, "stop_at_return": None}


class Unseen(gym.Env):
    """Draws nothing; its episodes end only if it is told after how many steps."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, last: int = 0):
        self.last, self.steps = last, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == self.last, False, {}


class Fickle(Unseen):
    """Rewards an action that is not the one before; always to take the likeliest earns nothing."""

    def step(self, action: Any) -> Any:
        self.steps += 1
        earned, self.before = float(self.steps > 1 and action != self.before), action
        return np.zeros(1, np.float32), earned, self.steps == 30, False, {}


def test_an_environment_without_rendering_is_played(tmp_path: Path, capsys: Any) -> None:
    headrace.train(f"{__file__}:Unseen", run_dir=tmp_path / "run", env_options={"last": 4}, **TINY)
    assert main(["play", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "mean return 4.0" in said and "no video: " in said and "draws no frames" in said
    assert main(["play", str(tmp_path / "run"), "--video", str(tmp_path / "asked.mp4")]) == 2


def test_options_of_the_task_replace_those_of_the_run(tmp_path: Path, capsys: Any) -> None:
    run = str(tmp_path / "run")
    headrace.train("InvertedPendulum-v5", run_dir=run, **TINY)
    log = ["--log", "qpos", "--log-file", str(tmp_path / "log.npz")]
    assert main(["play", run, "--option", "max_episode_steps=3", "--video", str(tmp_path / "a.mp4"), *log]) == 0
    said = capsys.readouterr().out
    assert "mean return 3" in said and "3 steps of InvertedPendulum-v5" in said, said
    assert len(np.load(tmp_path / "log.npz")["reward"]) == 3
    for option, words in (
        ("frame_stack=2", "the agent learnt"),
        ("max_steps=3", "InvertedPendulum-v5 has no option"),
        ("gravity", "name=value"),
    ):
        assert main(["play", run, "--no-film", "--option", option]) == 2
        assert words in capsys.readouterr().err


def test_play_names_the_option_sample_for_a_policy_that_needs_drawn_actions(tmp_path: Path, capsys: Any) -> None:
    settings: dict[str, Any] = {**TINY, "total_steps": 1_000, "evaluate_episodes": 0}  # so that training judges
    headrace.train(f"{__file__}:Fickle", run_dir=tmp_path / "run", **settings)
    assert main(["play", str(tmp_path / "run"), "--no-film"]) == 0
    said = capsys.readouterr().out
    assert "--sample plays that way, too" in said, said
    assert main(["play", str(tmp_path / "run"), "--no-film", "--sample"]) == 0
    assert "--sample" not in capsys.readouterr().out


def test_long_episodes_are_shown_while_they_last(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    headrace.train(f"{__file__}:Unseen", run_dir=tmp_path / "run", env_options={"last": 40}, **TINY)
    monkeypatch.setattr(play, "LINES", 0.0)
    assert main(["play", str(tmp_path / "run"), "--no-film"]) == 0
    said = capsys.readouterr().out
    assert "at most 100,000 steps each" in said and "step 20, 0 of 1\n" in said


def test_a_folder_of_several_runs_stands_for_its_best_run(tmp_path: Path, capsys: Any) -> None:
    for seed in (1, 2):
        options = {"last": 4 * seed}
        headrace.train(f"{__file__}:Unseen", run_dir=tmp_path / f"seed-{seed}", env_options=options, seed=seed, **TINY)
    (tmp_path / "seeds.json").write_text("{}")
    assert (found := headrace.load(tmp_path).run_dir) is not None and found.name == "seed-2"
    assert main(["play", str(tmp_path), "--no-film"]) == 0
    said = capsys.readouterr().out
    assert "seed-2, the best of 2 in" in said and "mean return 8.0" in said
    assert main(["export", str(tmp_path), str(tmp_path / "policy.pt")]) == 0
    assert "seed-2, the best of 2 in" in capsys.readouterr().out and (tmp_path / "policy.pt").is_file()


def test_without_a_name_the_newest_run_is_played(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["play"]) == 2
    assert "there is no folder runs here" in capsys.readouterr().err
    for name, last in (("first", 3), ("second", 5)):
        headrace.train(f"{__file__}:Unseen", run_dir=f"runs/{name}", env_options={"last": last}, **TINY)
    (tmp_path / "runs" / "third").mkdir()
    (tmp_path / "runs" / "third" / "config.json").write_text("{}")  # begun, without a checkpoint
    assert main(["play", "--no-film"]) == 0
    said = capsys.readouterr().out
    assert "runs/second, the newest run in runs" in said and "mean return 5.0" in said


def test_several_runs_are_shown_side_by_side_and_as_a_gif(tmp_path: Path, capsys: Any) -> None:
    for seed in (1, 2, 3):
        headrace.train("CartPole-v1", algo="ppo", run_dir=tmp_path / f"seed-{seed}", seed=seed, **TINY)
    (tmp_path / "seeds.json").write_text("{}")
    assert (
        main(["play", str(tmp_path), "--grid", "--gif", "--video", str(tmp_path / "all.mp4"), "--max-steps", "4"]) == 0
    )
    assert "3 runs" in capsys.readouterr().out
    one = next((tmp_path / "seed-1" / "episodes").glob("*.mp4"))
    height, width = next(read_video(one)).shape[:2]
    grid = list(read_video(tmp_path / "all.mp4"))
    assert len(grid) == 3 and grid[0].shape == (2 * height + GAP, 2 * width + GAP, 3)
    assert (grid[0][height + GAP :, width + GAP :] > 200).all()  # three runs leave the fourth place white
    with Image.open(tmp_path / "all.gif") as picture:
        assert picture.format == "GIF" and picture.width == GIF_WIDTH and getattr(picture, "n_frames", 0) >= 2
    assert main(["play", str(tmp_path / "seed-1"), "--grid"]) == 2
    assert "--grid is for a folder of several runs" in capsys.readouterr().err

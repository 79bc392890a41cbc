"""The evaluation at the end of a run, and what is said of the checkpoint that is taken."""

from __future__ import annotations

import _thread
import json
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.train.play.evaluate import compare, describe_checkpoint
from headrace.train.runs.folder import RunFolder
from nightly import rest_nightly

TINY: dict[str, Any] = {"stop_at_return": None, "tensorboard": False, "viewer": False, "video": False, "seed": 1}
WAYS = {
    "in turn": {"algo": "ppo", "num_envs": 8, "num_steps": 32},
    "a replay of steps": {"algo": "dqn", "samplers": 0, "num_envs": 8, "learning_starts": 64},
    "workers": {"algo": "dqn", "samplers": 1, "num_envs": 8, "learning_starts": 64, "evaluate_seconds": 1e6},
    "several processes": {"algo": "ppo", "num_envs": 8, "num_steps": 32, "devices": ("cpu", "cpu")},
}


class Endless(gym.Env):
    """Its episodes never end, and take minutes to the most steps that an evaluation plays."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Slow(Endless):
    """Its episodes take longer than the evaluation of a short run may."""

    steps = 0

    def step(self, action: Any) -> Any:
        time.sleep(0.25)
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps % 8 == 0, False, {}


def counters(run: Path, name: str = "best") -> dict[str, Any]:
    return json.loads((run / "checkpoints" / name / "state.json").read_text())


def stops(after: int) -> Any:
    """A callback that ends the run after so many steps, as Ctrl-C does."""
    return lambda training, line: training.stop() if line["step"] >= after else None


@pytest.mark.parametrize("way", rest_nightly(WAYS, "in turn", "workers"))
def test_the_last_weights_are_evaluated_however_the_run_ends(way: str, tmp_path: Path, capfd: Any) -> None:
    ends: dict[str, Any] = {"total_steps": 2000}
    if way != "several processes":  # which know no callbacks
        ends = {"total_steps": 10**7, "callback": stops(2000)}
    result = headrace.train("CartPole-v1", run_dir=tmp_path / "run", log_steps=500, **TINY, **WAYS[way], **ends)
    best = counters(tmp_path / "run")
    assert best["judged"]["by"] == "evaluation" and best["judged"]["episodes"] == 8
    assert best["judged"]["return"] > 8.0 and best["step"] > 100
    if way == "workers":  # whose only evaluation until then is that of the first weights
        assert best["step"] == result.steps
    mean = f"mean return {best['judged']['return']:.1f} of 8 episodes without exploration"
    assert f"best checkpoint, of step {best['step']:,}: {mean}" in capfd.readouterr().out


@pytest.mark.nightly
def test_an_evaluation_that_takes_too_long_leaves_the_judgement_to_training(tmp_path: Path) -> None:
    settings = TINY | {"num_envs": 2, "num_steps": 8, "total_steps": 16, "quiet": True}
    headrace.train(f"{__file__}:Slow", run_dir=tmp_path / "run", **settings)
    assert counters(tmp_path / "run")["judged"] == {"by": "training", "return": 8.0, "episodes": 2}
    assert describe_checkpoint(RunFolder(tmp_path / "run")).endswith(
        "of step 16: mean return 8.0 of 2 episodes of training"
    )


def test_ctrl_c_skips_the_evaluation(tmp_path: Path) -> None:
    settings = TINY | {"evaluate_episodes": 2, "num_envs": 2, "num_steps": 4, "total_steps": 8, "quiet": True}
    headrace.train(f"{__file__}:Endless", run_dir=tmp_path / "run", **settings)
    threading.Timer(1.0, _thread.interrupt_main).start()
    agent = headrace.load(tmp_path / "run")
    assert compare(agent.config, agent, None, 1e9) == (None, None)


def test_what_is_played_loaded_and_exported_is_named(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    settings = TINY | {"total_steps": 512, "num_envs": 8, "num_steps": 32, "quiet": True}
    headrace.train("CartPole-v1", run_dir=run, **settings)
    assert capsys.readouterr().out == ""
    words = describe_checkpoint(RunFolder(run))
    assert words.startswith("best checkpoint, of step ") and "episodes without exploration" in words
    headrace.load(run)
    assert capsys.readouterr().out == f"{words}\n"
    headrace.load(run, which="newest")
    assert capsys.readouterr().out == "newest checkpoint, of step 512\n"
    for command in (["play", "--no-film"], ["export", str(tmp_path / "policy.pt")]):
        assert main([command[0], str(run), *command[1:]]) == 0
        assert words in capsys.readouterr().out

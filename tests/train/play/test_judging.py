"""The evaluation at the end of a run, and the words for the checkpoint that is taken."""

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
import headrace.train
from headrace.cli.main import main
from headrace.train.play.evaluate import compare, describe_checkpoint, evaluate
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


class Harder(gym.Env):
    """Episodes of four steps, each of which earns 1 / difficulty, and a hundredth of the action."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, difficulty: int = 1):
        self.difficulty = difficulty

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.ones(1, np.float32), 1 / self.difficulty + 0.01 * float(action[0]), self.steps == 4, False, {}


HARDER = f"{__file__}:Harder"
STAGES = {"difficulty": [(0, 1), (128, 2), (256, 4)]}
SHORT: dict[str, Any] = TINY | {"num_envs": 4, "num_steps": 8, "hidden": (4,), "stop_episodes": 8, "quiet": True}


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


def test_play_load_and_export_name_their_checkpoint(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    settings = TINY | {"total_steps": 512, "num_envs": 8, "num_steps": 32, "quiet": True}
    headrace.train("CartPole-v1", run_dir=run, **settings)
    assert capsys.readouterr().out == ""
    words = describe_checkpoint(RunFolder(run))
    assert words.startswith("best checkpoint, of step ") and "episodes without exploration" in words
    assert headrace.load(run).run_dir == run
    assert capsys.readouterr().out == ""
    for command in (["play", "--no-film"], ["export", str(tmp_path / "policy.pt")]):
        assert main([command[0], str(run), *command[1:]]) == 0
        assert words in capsys.readouterr().out


def test_a_harder_stage_is_not_beaten_by_the_returns_of_an_easier_one(tmp_path: Path) -> None:
    settings = SHORT | {"total_steps": 384, "evaluate_episodes": 0, "curriculum": STAGES}
    headrace.train(HARDER, "ppo", run_dir=tmp_path / "run", **settings)
    best = counters(tmp_path / "run")
    assert best["step"] > 256 and best["best_stage"] == 256
    assert best["judged"]["by"] == "training" and abs(best["judged"]["return"] - 1.0) < 0.05


def test_the_best_of_a_stage_stays_when_the_run_goes_on(tmp_path: Path) -> None:
    settings = SHORT | {"evaluate_episodes": 0, "curriculum": STAGES}
    headrace.train(HARDER, "ppo", run_dir=tmp_path / "run", total_steps=320, **settings)
    before = counters(tmp_path / "run", "step-000000000320")
    headrace.train.resume(tmp_path / "run", total_steps=352, quiet=True)
    after = counters(tmp_path / "run", "step-000000000352")
    assert before["best_stage"] == after["best_stage"] == 256 and after["best_return"] >= before["best_return"]


@pytest.mark.parametrize(("named", "earned"), [({}, 1.0), ({"difficulty": 2}, 2.0)])
def test_evaluations_are_of_the_final_task(tmp_path: Path, named: dict[str, Any], earned: float) -> None:
    settings = SHORT | {"total_steps": 160, "evaluate_episodes": 2, "curriculum": STAGES, "env_options": named}
    settings |= {"deterministic": True}  # evaluations take as long as they need
    headrace.train(HARDER, "ppo", run_dir=tmp_path / "run", **settings)
    found = counters(tmp_path / "run")["judged"]
    assert found["by"] == "evaluation" and abs(found["return"] - earned) < 0.05
    assert abs(evaluate(tmp_path / "run", 2).mean_return - earned) < 0.05


def test_a_goal_that_an_easier_stage_reaches_does_not_end_the_run(tmp_path: Path) -> None:
    settings = SHORT | {"total_steps": 2000, "curriculum": STAGES, "stop_at_return": 0.9}
    result = headrace.train(HARDER, "ppo", run_dir=tmp_path / "run", **settings)
    assert result.reason == "solved" and 256 < result.steps < 400 and (result.mean_return or 9) < 1.1


@pytest.mark.nightly
def test_the_returns_of_training_do_not_overrule_an_evaluation(tmp_path: Path) -> None:
    """The last weights of a run with an evaluator are not the best because training earned more, in an easier stage."""
    settings = SHORT | {"algo": "sac", "samplers": 1, "learning_starts": 64, "total_steps": 300}
    settings |= {"curriculum": {"difficulty": [(0, 1), (10**6, 4)]}, "evaluate_episodes": 2, "minibatch_size": 8}
    settings.pop("num_steps")
    result = headrace.train(HARDER, run_dir=tmp_path / "run", **settings)
    assert (result.mean_return or 0) > 3.5
    best = counters(tmp_path / "run")["judged"]
    assert best["by"] == "evaluation" and abs(best["return"] - 1.0) < 0.05

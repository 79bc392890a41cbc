"""`reward=`: runs learn from the function's rewards, and report and evaluate returns of the game's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError, TrustError
from headrace.train import resume
from headrace.train.play.evaluate import evaluate
from headrace.train.runs.metrics import read_metrics
from headrace.wrappers import Step
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
SHORT = SMALL | {"total_steps": 512, "quiet": True}


def nothing(step: Step) -> Any:
    """No reward at all, whatever happens."""
    return step.reward * 0


def same(step: Step) -> Any:
    """The rewards as they are."""
    return step.reward


class Memo:
    """A function with a state: the rewards that it made last, and of what."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, step: Step) -> Any:
        self.seen.append(step.reward.sum())
        return step.reward


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "tensors": ("CartPole-v1", {}),
    "groups": ("CartPole-v1", {"batch_size": 4}),
    "python": ("CartPole-v1", {"env_options": {"executor": "processes"}, "num_steps": 8, "total_steps": 512}),
    "agents": ("TagGridWorld-v0", {}),
    "replay in turn": ("CartPole-v1", {"algo": "dqn", "samplers": 0, "learning_starts": 128}),
}


@pytest.mark.parametrize("case", rest_nightly(CASES, "tensors", "python", "replay in turn"))
def test_a_function_that_returns_the_rewards_changes_nothing(tmp_path: Path, case: str):
    task, settings = CASES[case]
    train(task, **(SHORT | settings), run_dir=tmp_path / "plain")
    train(task, **(SHORT | settings), run_dir=tmp_path / "own", reward=same)
    assert_same_run(tmp_path / "plain", tmp_path / "own")


@pytest.mark.parametrize("case", ["tensors", "groups"])
def test_returns_are_those_of_the_game_and_values_those_of_the_function(tmp_path: Path, case: str):
    task, settings = CASES[case]
    run = train(task, **(SHORT | settings), run_dir=tmp_path / "run", reward=nothing).run_dir
    last = read_metrics(run / "metrics.jsonl")[-1]
    assert last["return"] == pytest.approx(last["length"]) and last["return"] > 5
    assert last["loss"]["value_loss"] < 0.05  # nothing to expect
    assert evaluate(run, 2).mean_return > 5
    assert headrace.load(run).act(np.zeros(4, np.float32)) in (0, 1)
    assert json.loads((run / "config.json").read_text())["reward"] == "<given>:nothing"


@pytest.mark.parametrize("algo", rest_nightly(["dqn", "ppo"], "dqn"))
def test_samplers_use_the_function_of_rewards(tmp_path: Path, algo: str):
    """A lambda of a test is no name that another process could import."""
    settings: dict[str, Any] = {
        "samplers": 1,
        "total_steps": 1200,
        "evaluate_episodes": 0,
        "viewer": False,
        "video": False,
    }
    settings |= {"learning_starts": 200} if algo == "dqn" else {"num_envs": 8, "num_steps": 16, "minibatch_size": 32}
    run = train(
        "CartPole-v1", algo, **settings, run_dir=tmp_path / "run", quiet=True, reward=lambda s: s.reward * 0 + 7
    )
    lines = read_metrics(run.run_dir / "metrics.jsonl")
    assert lines[-1]["return"] == pytest.approx(lines[-1]["length"])
    if algo == "dqn":
        assert lines[-1]["loss"]["q_mean"] > 3


def test_a_run_goes_on_with_the_function_given_again(tmp_path: Path):
    train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", reward=nothing)
    with pytest.raises(OptionError, match=r"began with the object nothing as reward, .* pass it again, reward="):
        resume(tmp_path / "run", total_steps=1024, quiet=True)
    memo = Memo()
    assert resume(tmp_path / "run", total_steps=1024, quiet=True, reward=memo).steps == 1024
    assert memo.seen


def test_a_file_names_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "mine.py"
    file.write_text("def half(step):\n    return step.reward / 2\n")
    train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", reward=f"{file}:half")
    assert resume(tmp_path / "run", total_steps=1024, quiet=True).steps == 1024
    other = tmp_path / "theirs.py"
    other.write_text("def half(step):\n    return step.reward / 2\n")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace("mine.py", "theirs.py"))
    with pytest.raises(TrustError, match=r"theirs\.py"):
        resume(tmp_path / "run", total_steps=2048, quiet=True)


@pytest.mark.parametrize(
    ("reward", "words"), [("nothing", "file.py:name"), ("math:pi", "not a function"), (3, "not a function")]
)
def test_a_reward_that_is_no_function_is_refused(tmp_path: Path, reward: Any, words: str):
    with pytest.raises(OptionError, match=words):
        train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", reward=reward)
    assert not (tmp_path / "run").exists()

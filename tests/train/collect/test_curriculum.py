"""Options of the task change at the curriculum's steps, in every kind of run; a resumption knows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError
from headrace.train import Callback, Training, resume
from headrace.train.collect.curriculum import options_at
from headrace.train.recipes.make import make_config
from headrace.train.runs.metrics import read_metrics
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
SHORT = SMALL | {"total_steps": 2048, "quiet": True, "stop_episodes": 5}
LIMITS = {"max_episode_steps": [(0, 4), (512, 16), (1024, 9)]}


def test_each_value_of_a_curriculum_holds_from_its_step_on():
    config = make_config("CartPole-v1", curriculum=LIMITS, env_options={"max_episode_steps": 100})
    assert [options_at(config, step)["max_episode_steps"] for step in (0, 511, 512, 1023, 1024, 9999)] == [
        4, 4, 16, 16, 9, 9,
    ]  # fmt: skip
    later = make_config(
        "CartPole-v1", curriculum={"max_episode_steps": [(100, 7)]}, env_options={"max_episode_steps": 3}
    )
    assert options_at(later, 99) == {"max_episode_steps": 3} and options_at(later, 100) == {"max_episode_steps": 7}


class Limits(Callback):
    """The options of the environments after each update."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def on_update(self, training: Training) -> None:
        self.seen[training.step] = training._trainer.source.pool.config["max_episode_steps"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("CartPole-v1", {}),
        ("CartPole-v1", {"batch_size": 4}),
        pytest.param("CartPole-v1", {"network": "gru", "hidden": (8,)}, marks=pytest.mark.nightly),
        ("CartPole-v1", {"algo": "dqn", "samplers": 0, "learning_starts": 128}),
        pytest.param("TagGridWorld-v0", {}, marks=pytest.mark.nightly),
        pytest.param("CartPole-v1", {"reward": lambda step: step.reward}, marks=pytest.mark.nightly),
    ],
)
def test_environments_change_between_rollouts(tmp_path: Path, task: str, settings: dict[str, Any]):
    limits = Limits()
    run = train(task, **(SHORT | settings), run_dir=tmp_path / "run", curriculum=LIMITS, callback=limits).run_dir
    for step, limit in limits.seen.items():
        assert limit == (4 if step < 512 else 16 if step < 1024 else 9)
    lengths = {line["step"]: line["length"] for line in read_metrics(run / "metrics.jsonl")}
    assert max(length for step, length in lengths.items() if step < 512 and length) <= 4
    assert 4 < max(length for step, length in lengths.items() if 512 < step <= 1024) <= 16


@pytest.mark.parametrize("algo", rest_nightly(["dqn", "ppo"], "ppo"))
def test_samplers_change_their_environments(tmp_path: Path, algo: str):
    settings: dict[str, Any] = {
        "samplers": 2, "num_envs": 4, "total_steps": 6000, "evaluate_episodes": 0, "viewer": False, "video": False,
        "stop_episodes": 10, "quiet": True,
    }  # fmt: skip
    settings |= {"learning_starts": 200} if algo == "dqn" else {"num_steps": 16, "minibatch_size": 32}
    stages = {"max_episode_steps": [(0, 3), (3000, 12)]}
    run = train("CartPole-v1", algo, **settings, run_dir=tmp_path / "run", curriculum=stages).run_dir
    lines = read_metrics(run / "metrics.jsonl")
    assert 3 < lines[-1]["length"] <= 12
    with pytest.raises(OptionError, match="curriculum cannot change"):
        resume(run, curriculum={}, quiet=True)  # type: ignore[call-arg]


def test_a_resumed_run_is_the_same(tmp_path: Path):
    train("CartPole-v1", **SHORT, run_dir=tmp_path / "whole", curriculum=LIMITS, anneal_learning_rate=False)
    for end in (640, 1024, 2048):
        settings = SHORT | {"total_steps": end}
        if end == 640:
            train("CartPole-v1", **settings, run_dir=tmp_path / "parts", curriculum=LIMITS, anneal_learning_rate=False)
        else:
            resume(tmp_path / "parts", total_steps=end, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_python_environments_are_made_anew(tmp_path: Path):
    limits = Limits()
    options = {"executor": "processes"}
    train(
        "CartPole-v1", **(SHORT | {"num_steps": 8, "total_steps": 1024}), run_dir=tmp_path / "run", env_options=options,
        curriculum={"max_episode_steps": [(0, 5), (512, 10)]}, callback=limits,
    )  # fmt: skip
    assert set(limits.seen.values()) == {5, 10}


def test_evaluation_keeps_to_the_options_of_the_task(tmp_path: Path):
    from headrace.train.play.evaluate import evaluate

    run = train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", curriculum=LIMITS).run_dir
    assert max(evaluate(run, 4).lengths) > 16 or np.mean(evaluate(run, 4).lengths) > 7


@pytest.mark.parametrize(
    ("curriculum", "words"),
    [
        ({"nothing": [(0, 1)]}, "nothing"),
        ({"max_episode_steps": []}, "growing steps"),
        ({"max_episode_steps": [(5, 1), (5, 2)]}, "growing steps"),
        ({"max_episode_steps": [(0.5, 1)]}, "growing steps"),
        ({"max_episode_steps": [(0, -3)]}, "max_episode_steps"),
        ({"max_episode_steps": [(0, object())]}, "cannot hold"),
    ],
)
def test_a_malformed_curriculum_is_refused_at_once(tmp_path: Path, curriculum: Any, words: str):
    with pytest.raises(OptionError, match=words):
        train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", curriculum=curriculum)
    assert not (tmp_path / "run").exists()


def test_other_observations_are_refused(tmp_path: Path):
    with pytest.raises(OptionError, match=r"changes the task's observation at step 100 \(num_taggers=2\)"):
        train("TagGridWorld-v0", **SHORT, run_dir=tmp_path / "run", curriculum={"num_taggers": [(100, 2)]})

"""A user's code at known moments of a run: called in order, able to log, to change a schedule, to stop and to save."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError
from headrace.train import Callback, Training, resume
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.metrics import read_metrics
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
IN_TURN = SMALL | {"total_steps": 1024, "log_steps": 256, "quiet": True}
WORKERS: dict[str, Any] = {
    "algo": "dqn", "samplers": 1, "learning_starts": 128, "total_steps": 4000, "log_steps": 1000, "num_envs": 8,
    "quiet": True, "video": False, "evaluate_episodes": 0, "viewer": False, "checkpoint_seconds": 0.2,
}  # fmt: skip
RUNS = {
    "in turn": ("CartPole-v1", IN_TURN),
    "on the host": ("CartPole-v1", IN_TURN | {"batch_size": 4}),
    "many agents": ("TagGridWorld-v0", IN_TURN),
    "replay": ("CartPole-v1", WORKERS),
    "rollouts": (
        "CartPole-v1",
        IN_TURN | {"samplers": 1, "keep_checkpoints": 100, "total_steps": 4096, "evaluate_episodes": 0, "epochs": 1},
    ),
}


class Diary(Callback):
    """Notes every call and its step."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.steps: list[int] = []

    def _note(self, moment: str, training: Training) -> None:
        self.moments.append(moment)
        self.steps.append(training.step)

    def on_start(self, training: Training) -> None:
        self._note("start", training)

    def on_update(self, training: Training) -> None:
        self._note("update", training)

    def on_log(self, training: Training, line: Mapping[str, Any]) -> None:
        assert line["step"] == training.step and line["episodes"] == training.episodes
        training.log(halved=training.step / 2, count=np.int64(len(self.moments)))
        self._note("log", training)

    def on_checkpoint(self, training: Training, path: Path) -> None:
        assert path.is_dir() and path.parent == training.run_dir / "checkpoints"
        self._note("checkpoint", training)

    def on_end(self, training: Training, reason: str) -> None:
        self._note(f"end {reason}", training)


@pytest.mark.parametrize("case", rest_nightly(RUNS, "in turn", "replay", "rollouts"))
def test_a_callback_hears_every_moment_of_every_kind_of_run(tmp_path: Path, case: str):
    task, settings = RUNS[case]
    diary = Diary()
    run = train(task, **settings, run_dir=tmp_path / "run", callback=diary).run_dir
    assert diary.moments[0] == "start" and diary.moments[-1] == "end finished"
    assert {"update", "log", "checkpoint"} <= set(diary.moments)
    assert diary.steps == sorted(diary.steps) and diary.steps[-1] >= settings["total_steps"]
    lines = read_metrics(run / "metrics.jsonl")
    assert len(lines) == diary.moments.count("log")
    assert all(line["own"]["halved"] == line["step"] / 2 for line in lines)


def test_a_callback_that_does_nothing_changes_nothing(tmp_path: Path):
    train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "one")

    class Asks(Callback):
        def on_update(self, training: Training) -> None:
            training.agent().act(np.zeros(4, np.float32), deterministic=False)

    train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "two", callback=Asks())
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("case", rest_nightly(RUNS, "on the host", "rollouts"))
def test_stop_ends_a_run_that_can_be_resumed(tmp_path: Path, case: str):
    task, settings = RUNS[case]

    class Enough(Callback):
        def on_update(self, training: Training) -> None:
            if training.step >= 256:
                training.stop()

    result = train(task, **settings, run_dir=tmp_path / "run", callback=Enough())
    assert result.reason == "interrupted" and 256 <= result.steps < settings["total_steps"]
    assert resume(tmp_path / "run", quiet=True).reason == "finished"


def test_stop_at_the_start_takes_no_step(tmp_path: Path):
    class Never(Callback):
        def on_start(self, training: Training) -> None:
            training.stop()

    assert train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "run", callback=Never()).steps == 0


def test_a_function_is_called_with_each_line(tmp_path: Path):
    seen: list[int] = []
    callbacks = [lambda training, line: seen.append(line["step"]), lambda training, line: training.log({"two": 2})]
    run = train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "run", callback=callbacks).run_dir
    lines = read_metrics(run / "metrics.jsonl")
    assert seen == [line["step"] for line in lines] and lines[0]["own"] == {"two": 2}


@pytest.mark.parametrize("case", rest_nightly(["in turn", "replay", "rollouts"], "in turn", "rollouts"))
def test_set_takes_the_place_of_a_schedule(tmp_path: Path, case: str):
    """With a rate of next to nothing, nothing more is learnt."""
    task, settings = RUNS[case]
    seen: list[dict[str, Any]] = []

    class Freeze(Callback):
        def on_start(self, training: Training) -> None:
            training.set(learning_rate=1e-30)

        def on_checkpoint(self, training: Training, path: Path) -> None:
            seen.append(checkpoints.load(path).model)

    settings = settings | {"keep_checkpoints": 100}
    run = train(task, **settings, run_dir=tmp_path / "run", callback=Freeze()).run_dir
    newest = checkpoints.newest(run / "checkpoints")
    assert newest is not None
    last = checkpoints.load(newest).model
    assert all(np.allclose(last[name], seen[0][name], atol=1e-12) for name in last)
    assert '"schedules": {}' in (run / "config.json").read_text()


@pytest.mark.parametrize(
    ("values", "words"),
    [({"gamma": 0.5}, "a schedule of gamma"), ({"learning_rate": -1.0}, "above 0"), ({"nothing": 1.0}, "nothing")],
)
def test_setting_an_unknown_or_wrong_value_ends_the_run(tmp_path: Path, values: dict[str, float], words: str):
    def change(training: Training, line: Mapping[str, Any]) -> None:
        training.set(**values)

    with pytest.raises(OptionError, match=words):
        train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "run", callback=change)


@pytest.mark.parametrize("value", [math.nan, "many", None])
def test_a_metric_that_is_no_number_is_refused(tmp_path: Path, value: Any):
    with pytest.raises(OptionError, match=r"the metric odd=.* is not a finite number"):
        train(
            "CartPole-v1", **IN_TURN, run_dir=tmp_path / "run", callback=lambda training, line: training.log(odd=value)
        )


@pytest.mark.parametrize("case", rest_nightly(RUNS, "in turn", "rollouts"))
def test_an_error_of_a_callback_ends_the_run_and_saves_it(tmp_path: Path, case: str):
    task, settings = RUNS[case]
    settings = settings | {"checkpoint_seconds": 1e6}

    class Faulty(Callback):
        def on_update(self, training: Training) -> None:
            if training.step >= 512:
                raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as found:
        train(task, **settings, run_dir=tmp_path / "run", callback=Faulty())
    assert found.traceback[-1].name == "on_update"
    newest = checkpoints.newest(tmp_path / "run" / "checkpoints")
    assert newest is not None and checkpoints.load(newest).counters["step"] >= 512
    assert resume(tmp_path / "run", quiet=True).reason == "finished"


def test_save_writes_a_checkpoint_at_once(tmp_path: Path):
    class Keeper(Callback):
        def on_update(self, training: Training) -> None:
            training.save()
            newest = checkpoints.newest(training.run_dir / "checkpoints")
            assert newest is not None and checkpoints.load(newest).counters["step"] == training.step

    train("CartPole-v1", **(IN_TURN | {"checkpoint_seconds": 1e6}), run_dir=tmp_path / "run", callback=Keeper())


def test_an_object_that_is_no_callback_is_refused(tmp_path: Path):
    for wrong in (3, Callback, [Diary(), "x"]):
        with pytest.raises(OptionError, match=r"callback must be a headrace\.train\.Callback or a function"):
            train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "run", callback=wrong)
    with pytest.raises(OptionError, match="leave devices out"):
        train("CartPole-v1", **IN_TURN, run_dir=tmp_path / "run", devices=("cpu", "cpu"), callback=Diary())
    assert not (tmp_path / "run").exists()

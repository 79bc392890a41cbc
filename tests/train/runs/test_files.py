"""Of a run folder that somebody sent, only regular files are opened, by all that read or write it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace import studies
from headrace.cli.main import main
from headrace.errors import OptionError, StateError, StorageError
from headrace.studies.jobs.processes import MetricsTail, Processes
from headrace.studies.plots.curves import read_curves
from headrace.studies.sweep.plan import JOURNAL, Plan
from headrace.studies.sweep.study import begin_study, load_study, repair, value_of
from headrace.train.logging.loggers import MetricsWriter
from headrace.train.logging.plot import plot_returns, read_curve
from headrace.train.play.evaluate import evaluate
from headrace.train.runs import checkpoint, episodes, files, live, lock
from headrace.train.runs.events import EventLog, read_events, read_status
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import Tail, last_measurement, read_metrics, sample

TINY = {"num_envs": 4, "num_steps": 8, "minibatch_size": 32, "hidden": [8], "video": False, "tensorboard": False}
TOP = (
    "config.json metrics.jsonl events.jsonl viewer.json curve.png episode.npz live.safetensors train.lock watched "
    "checkpoints replay replay-1 episodes videos tensorboard wandb"
).split()
BELOW = "checkpoints/best checkpoints/best/model.safetensors episodes/episodes.jsonl replay/replay.json".split()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file of the user's that no run may change."""
    file = tmp_path / "kept"
    file.write_text("kept")
    return file


def put_link(file: Path, target: Path) -> None:
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(target)


@pytest.mark.parametrize("name", [*TOP, *BELOW])
def test_a_run_with_a_link_in_it_is_refused_by_name(run: Path, tmp_path: Path, name: str, capsys) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    put_link(run / name, outside if (run / name).is_dir() or "." not in name else outside / "precious")
    for act in (headrace.train.resume, evaluate, headrace.load, RunFolder.read, plot_returns, read_curve):
        with pytest.raises(StateError, match=f"{name} is a link"):
            act(run)
    assert main(["play", str(run)]) == 1 and "is a link" in capsys.readouterr().err
    assert [each.name for each in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "kept"
    assert read_curves([run], skipped=lambda words: None) == []


def test_other_files_of_the_user_may_be_links(run: Path, tmp_path: Path, kept: Path) -> None:
    (run / "notes").symlink_to(kept)
    (run / "wandb").mkdir()
    (run / "wandb" / "latest-run").symlink_to(kept)
    (tmp_path / "best").symlink_to(run)
    assert evaluate(tmp_path / "best", 1).returns


def test_a_new_run_writes_through_no_link_that_its_folder_held(tmp_path: Path, kept: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "curve.png").symlink_to(kept)
    with pytest.raises(StateError, match=r"curve\.png is a link"):
        headrace.train.train("CartPole-v1", run_dir=tmp_path / "new", quiet=True, **TINY)


@pytest.mark.parametrize(
    "write",
    [
        lambda file: EventLog(file).note("began", "words", 0, 0.0),
        lambda file: lock.held(file).__enter__(),
        lambda file: MetricsWriter(file),
        files.touch,
        lambda file: files.append(file, b"more"),
        lambda file: begin_study(file.parent),
        lambda file: repair(file.parent),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_no_writer_follows_a_link(tmp_path: Path, kept: Path, write: Callable[[Path], object], is_there: bool) -> None:
    (tmp_path / "run").mkdir()
    file = tmp_path / "run" / JOURNAL
    if not is_there:
        kept.unlink()
    file.symlink_to(kept)
    with suppress(OSError, StorageError):
        write(file)
    assert kept.read_text() == "kept" if is_there else not kept.exists()


def test_replacing_a_link_leaves_its_target(tmp_path: Path, kept: Path) -> None:
    file = tmp_path / "state.json"
    file.symlink_to(kept)
    (tmp_path / f".state.json.{os.getpid()}.tmp").symlink_to(kept)
    files.replace(file, "new")
    assert file.read_text() == "new" and not file.is_symlink()
    assert kept.read_text() == "kept"


READERS = [
    lambda file: read_events(file) == [],
    lambda file: lock.holder(file) is None,
    lambda file: last_measurement(file) is None,
    lambda file: MetricsTail(file).refresh() == [],
    lambda file: episodes.kept(file.parent) == [],
    lambda file: read_status(file.parent).kind == "damaged",
]
RAISING = [
    (StateError, read_metrics),
    (StateError, live.read_live),
    (OSError, lambda file: Tail(file).read()),
    (OSError, lambda file: sample(file, 4)),
    (StateError, lambda file: checkpoint.load(file.parent)),
    (StateError, lambda file: RunFolder.read(file.parent)),
    (StateError, lambda file: load_study(file.parent, Plan("CartPole-v1", {"algo": "ppo"}, {"gamma": [0.9]}, 64))),
]


@pytest.fixture(params=["pipe", "endless", "link", "folder", "vast"])
def odd(tmp_path: Path, kept: Path, request: pytest.FixtureRequest) -> Path:
    """A folder whose files, of all names that readers know, are no regular files, or too large."""
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in ("file", "config.json", "episodes.jsonl", "state.json", "train.lock", "events.jsonl", JOURNAL):
        file = folder / name
        if request.param == "pipe":
            os.mkfifo(file)
        elif request.param == "folder":
            file.mkdir()
        elif request.param == "vast":
            file.touch()
            os.truncate(file, 1 << 40)
        else:
            file.symlink_to("/dev/zero" if request.param == "endless" else kept)
    return folder


def test_no_reader_waits_for_a_pipe_or_reads_without_end(odd: Path) -> None:
    for read in READERS:
        assert read(odd / "file")
    for raised, read in RAISING:
        with pytest.raises(raised):
            read(odd / "file")


def test_a_number_of_400_digits_is_damage_that_is_named(run: Path) -> None:
    huge = "9" * 400
    metrics = (run / "metrics.jsonl").read_text()
    for line in (f'{{"step": {huge}}}', f'{{"step": 1, "return": {huge}}}'):
        (run / "metrics.jsonl").write_text(metrics + line + "\n")
        with pytest.raises(StateError, match=r"metrics\.jsonl, line \d+"):
            read_curve(run)
    (run / "metrics.jsonl").write_text(metrics + f'{{"step": 1, "return": 1.0, "time": {{"seconds": {huge}}}}}\n')
    assert np.isnan(read_curve(run).seconds[-1])
    assert value_of("area", [{"step": int(huge), "return": 1.0}, {"step": 1, "return": int(huge)}]) is None
    (run / "events.jsonl").write_text(f'{{"time": 1, "kind": "began", "step": {huge}}}\n')
    assert read_events(run / "events.jsonl") == []
    values = json.loads((run / "config.json").read_text()) | {"stop_at_return": int(huge), "total_steps": int(huge)}
    (run / "config.json").write_text(json.dumps(values))
    assert read_status(run).kind == "interrupted"


def test_runs_of_seeds_and_sweeps_stay_in_their_folder(tmp_path: Path, kept: Path) -> None:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "seeds" / "seed-1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "seeds" / "seed-2.log").symlink_to(kept)
    with Processes(1) as processes:
        for seed in (1, 2):
            with pytest.raises(StorageError, match="it is a link"):
                processes.start("run", "CartPole-v1", tmp_path / "seeds" / f"seed-{seed}", {})
    assert kept.read_text() == "kept" and not list((tmp_path / "elsewhere").iterdir())
    plan = tmp_path / "seeds" / "seeds.json"
    plan.symlink_to("/dev/zero")
    with pytest.raises((StateError, OptionError)):
        studies.resume_seeds(tmp_path / "seeds")


def test_a_line_that_was_cut_off_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    files.append(file, b"one\n")
    files.append(file, b"tw")  # a full disk, or the writer was killed
    files.append(file, b"three\n")
    assert file.read_bytes() == b"one\ntw\nthree\n"

"""The run folder: one process at a time trains into it, and damaged files are named."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
import headrace.train
import programs
from headrace import studies
from headrace.cli.main import main
from headrace.errors import HeadraceError, OptionError, StateError, StorageError
from headrace.train.logging.plot import plot_returns
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

TINY = {"num_envs": 4, "num_steps": 8, "minibatch_size": 32, "hidden": [8], "video": False, "tensorboard": False}
TRAIN = f"""
import sys, headrace
headrace.train("CartPole-v1", total_steps=10**9, run_dir=sys.argv[1], checkpoint_seconds=0.0, **{TINY})
"""


# -- one process at a time -----------------------------------------------------------------------


def test_a_run_that_is_trained_cannot_be_resumed_until_its_process_is_dead(tmp_path, capsys):
    path = tmp_path / "run"
    process = programs.Program([sys.executable, "-c", TRAIN, str(path)], stdout=subprocess.DEVNULL)
    try:
        programs.wait_for(lambda: checkpoints.newest(path / "checkpoints"))
        assert RunFolder(path).holder == f"process {process.pid}"
        before = (path / "config.json").read_text()
        with pytest.raises(OptionError, match=f"is being trained by process {process.pid}"):
            headrace.train.resume(path, total_steps=50, quiet=True)
        with pytest.raises(OptionError, match=f"process {process.pid}"):
            headrace.train.train("CartPole-v1", run_dir=path, resume=True, quiet=True)
        assert main(["train", "--resume", str(path)]) == 2
        assert f"process {process.pid}" in capsys.readouterr().err
        assert (path / "config.json").read_text() == before
        assert process.poll() is None
        assert evaluate(path, 1).returns  # looking at it is no training
    finally:
        process.kill()
        process.wait()
    assert RunFolder(path).holder is None
    headrace.train.resume(path, total_steps=1, quiet=True)
    assert not (path / "train.lock").exists()


def test_a_look_at_a_runs_lock_does_not_hold_it(tmp_path):
    run = RunFolder.create(tmp_path / "run", make_config("CartPole-v1"))
    for _ in range(200):
        with run.held():
            assert run.holder == f"process {os.getpid()}"
        assert run.holder is None


def create(folder: Path, barrier, pipe) -> None:
    os.chdir(folder)
    barrier.wait()
    pipe.send(str(RunFolder.create(None, make_config("CartPole-v1")).path))


def test_runs_that_begin_together_get_folders_of_their_own(tmp_path):
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        barrier, pipes, processes = context.Barrier(4), [], []
        for _ in range(4):
            mine, theirs = context.Pipe(duplex=False)
            processes.append(context.Process(target=create, args=(tmp_path, barrier, theirs)))
            processes[-1].start()
            pipes.append(mine)
        paths = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
        assert len(set(paths)) == 4


@pytest.mark.parametrize("name", ["seeds.json", "sweep.json"])
def test_a_folder_of_several_runs_is_no_folder_of_one(tmp_path: Path, name: str):
    (tmp_path / name).write_text("{}")
    with pytest.raises(OptionError, match=f"already holds runs, as {name} says"):
        RunFolder.create(tmp_path, make_config("Pendulum-v1"))
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_folder_that_holds_a_run_is_left_alone(run):
    before = (run / "config.json").read_text()
    with pytest.raises(OptionError, match="already holds a run"):
        RunFolder.create(run, make_config("Pendulum-v1"))
    assert (run / "config.json").read_text() == before
    with pytest.raises(OptionError, match=r"config\.json"):
        RunFolder.create(run / "config.json", make_config("Pendulum-v1"))


# -- damaged files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", "3", "{", '{"seed": 1}', '{"task": 3}', '{"task": "CartPole-v1", "num_envs": 0}', "[" * 10**5,
     '{"task": "CartPole-v1", "hidden": ["a"]}', '{"task": "CartPole-v1", "colour": 1}', "\udcff",
     '{"task": "CartPole-v1", "policies": {"a": 3}}', '{"task": "CartPole-v1", "schedules": {"gamma": 3}}'],
)  # fmt: skip
def test_a_damaged_config_is_an_error_that_names_it(run, content, capsys):
    (run / "config.json").write_text(content, errors="surrogateescape")
    for act in (headrace.train.resume, evaluate, plot_returns, headrace.train.log_episode):
        with pytest.raises(StateError, match=r"run/config\.json"):
            act(run)
    for argv in (["play", str(run)], ["train", "--resume", str(run)]):
        assert main(argv) == 1
        assert "config.json" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "null", "[]", "3", '{"format": 2}', '{"format": 2, "step": "x"}'])
def test_damaged_counters_are_an_error_that_names_them(run, content):
    for each in (run / "checkpoints").iterdir():
        (each / "state.json").write_text(content)
    for act in (headrace.train.resume, evaluate):
        with pytest.raises(StateError, match=r"checkpoint .*run/checkpoints"):
            act(run)


@pytest.mark.parametrize(
    "content", ["null\n", "[]\n", "{}\n", "x\n", '{"step": null}\n', '{"step": 1, "return": "a"}\n']
)
def test_odd_metrics_are_an_error_that_names_the_line(run, content):
    good = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(good + content)
    for act in (headrace.train.resume, plot_returns):
        with pytest.raises(StateError, match=rf"metrics\.jsonl, line {good.count(chr(10)) + 1}:"):
            act(run)


def test_a_run_without_metrics_has_an_empty_curve(run):
    (run / "metrics.jsonl").write_bytes(b"")
    assert plot_returns(run).exists()
    (run / "metrics.jsonl").write_text('{"step": 1}\n')
    assert plot_returns(run).exists()
    (run / "metrics.jsonl").unlink()
    assert headrace.train.resume(run, total_steps=320, quiet=True).steps == 320


def test_a_flipped_bit_in_the_weights_is_found(run):
    for each in (run / "checkpoints").iterdir():
        weights = bytearray((each / "model.safetensors").read_bytes())
        weights[-5] ^= 1
        (each / "model.safetensors").write_bytes(weights)
    for act in (headrace.train.resume, evaluate):
        with pytest.raises(StateError, match=r"model\.safetensors is not what was written"):
            act(run)


# -- full disks ----------------------------------------------------------------------------------

FILL = f"""
import resource, sys, headrace
from headrace.train.runs import checkpoint as checkpoints
save, saved = checkpoints.save, []

def fill(folder, name, point):
    if len(saved) == 4:  # from now on there is room for nothing
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    saved.extend([name] * (name != checkpoints.step_name(0)))
    return save(folder, name, point)

checkpoints.save = fill
settings = {TINY} | dict(total_steps=10**7, checkpoint_seconds=0.0, quiet=True, run_dir=sys.argv[1])
settings["tensorboard"] = True
try:
    headrace.train(sys.argv[2], sys.argv[3], **settings)
except headrace.errors.StorageError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(error)
"""


@pytest.mark.parametrize(
    ("task", "algo"), [("CartPole-v1", "ppo"), pytest.param("Pendulum-v1", "sac", marks=pytest.mark.nightly)]
)
def test_a_full_disk_ends_a_run_whose_last_checkpoint_is_whole(tmp_path, task, algo):
    path = tmp_path / "run"
    done = programs.run([sys.executable, "-c", FILL, str(path), task, algo], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stdout.splitlines()
    newest = checkpoints.newest(path / "checkpoints")
    assert newest is not None
    assert str(path) in line and "File too large" in line and f"go on from {newest.name}" in line
    step = checkpoints.load(newest).counters["step"]
    assert not list(path.rglob("*.tmp"))
    assert headrace.train.resume(path, total_steps=step + 64, quiet=True).steps >= step + 64


def test_an_error_of_tensorboards_files_is_one_of_the_run(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path; from headrace.train.logging.loggers import TensorBoard\n"
        "from headrace.errors import StorageError\n"
        "events = TensorBoard(Path(sys.argv[1])); events.write([('a', 1.0)], 1)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    [events.write([('a', 1.0)], step) for step in range(9)]\n"
        "except StorageError as error:\n    print(error)\n"
        "events.close()"
    )
    done = programs.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == f"{tmp_path} cannot be written: File too large\n", done.stderr


def test_a_run_that_raises_before_its_first_checkpoint_leaves_its_folder_free(tmp_path):
    path, own = tmp_path / "run", tmp_path / "run" / "notes.txt"
    path.mkdir()
    own.write_text("mine")
    code = f"""
import sys, headrace
from headrace.train.runners.trainer import Trainer
def fail(self): raise RuntimeError("in the first rollout")
Trainer.iterate = fail
headrace.train("CartPole-v1", total_steps=10**4, run_dir=sys.argv[1], quiet=True, **{TINY})
"""
    done = programs.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "in the first rollout" in done.stderr
    assert list(path.iterdir()) == [own]
    headrace.train.train("CartPole-v1", total_steps=64, run_dir=path, quiet=True, **TINY)
    assert own.read_text() == "mine"


def test_settings_are_not_lost_on_a_full_disk(run):
    code = (
        "import resource, sys, headrace; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10));"
        "headrace.train.resume(sys.argv[1], total_steps=999)"
    )
    before = (run / "config.json").read_text()
    done = programs.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True)
    assert "StorageError" in done.stderr or "cannot be written" in done.stderr
    assert (run / "config.json").read_text() == before
    assert json.loads(before)["task"] == "CartPole-v1"


def test_errors_of_storage_are_headrace_errors():
    assert issubclass(StorageError, HeadraceError) and issubclass(StorageError, OSError)
    assert isinstance(make_config("CartPole-v1"), Config)
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN  # as Python has it: writing then raises


def test_a_run_whose_checkpoints_are_gone_is_not_begun_again_in_silence(tmp_path: Path) -> None:
    headrace.train.train("CartPole-v1", run_dir=tmp_path / "run", total_steps=128, quiet=True, video=False)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(StateError, match="no checkpoint to resume from"):
        headrace.train.resume(tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("path", [None, 3, b"runs/mine"])
def test_a_run_dir_that_is_no_path_is_refused(path) -> None:
    calls = [headrace.load, headrace.train.resume, studies.resume_seeds, evaluate, plot_returns]
    for call in calls if path is not None else calls[:1]:
        with pytest.raises(OptionError, match=r"run_dir=.* must be the path of a run folder"):
            call(path)
    for call in (headrace.train.train, studies.train_seeds) if path is not None else ():
        with pytest.raises(OptionError, match=r"run_dir=.* must be the path of a run folder"):
            call("CartPole-v1", run_dir=path, quiet=True, **TINY)


def test_a_run_has_a_folder_of_a_name() -> None:
    with pytest.raises(OptionError, match="run_dir is empty"):
        headrace.train.train("CartPole-v1", run_dir="", total_steps=128, quiet=True)


def test_replays_of_further_processes_alone_are_dropped(tmp_path):
    """A copy that somebody made stays, whatever its name."""
    run = RunFolder.create(tmp_path / "run", make_config("CartPole-v1"))
    names = ["replay", "replay-1", "replay-2", "replay-10", "replay-old", "replay-", "replay-1-old", "replay--1"]
    for name in names:
        (run.path / name).mkdir()
    run.drop_replays(2)
    assert sorted(path.name for path in run.path.glob("replay*")) == sorted({*names} - {"replay-2", "replay-10"})
    run.leave()
    assert sorted(path.name for path in run.path.glob("replay*")) == sorted(names[4:])

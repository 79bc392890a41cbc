"""Runs that torchrun starts: all processes learn the same, from all their samples; they go on after every end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from learners import (
    ALGORITHMS,
    both,
    go_on,
    learn_100_times,
    learn_from_halves,
    learn_in_halves,
    learnt_with_shared_chance,
    run,
    run_not_alike,
)

import headrace
from headrace import studies
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.launch.run import RunOptions
from headrace.train.launch.run import resume_run as go_on_here
from headrace.train.processes.place import place
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import Checkpoint, load, newest
from headrace.train.runs.events import read_events
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.lock import held
from whole_runs import SMALL, assert_same_run, facts, wait_for_lines

train: Any = headrace.train
EXAMPLES = Path(__file__).parents[3] / "examples"
TOLD = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "1",
}
QUICK = ("ppo", "sac", "dqn", "dqn on images", "my_algo.py:Reinforce")
"""from rollouts, from a replay with one network and with several, from one of steps, and of a user's own"""


def last_checkpoint(run_dir: Path) -> Checkpoint:
    path = newest(run_dir / "checkpoints")
    assert path is not None
    return load(path)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is one of four."""
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("algorithms", [QUICK, pytest.param(ALGORITHMS.keys() - set(QUICK), marks=pytest.mark.nightly)])
def test_both_processes_hold_the_same_weights_after_100_updates(tmp_path, algorithms):
    both(learn_100_times, tmp_path, sorted(algorithms))
    one, two = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert one.keys() == two.keys() == set(algorithms)
    for algo, learnt in one.items():
        assert not torch.equal(learnt.pop("seen"), two[algo].pop("seen")), "environments must differ"
        for name, tensor in learnt.items():
            assert torch.equal(tensor, two[algo][name]), (algo, name)


def test_an_update_of_two_processes_equals_that_of_one_with_all_samples(tmp_path):
    both(learn_from_halves, tmp_path)
    one, two = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    for name in ("advantages", "weighted advantages"):  # the first of each half is the same before
        assert torch.equal(*(found[name, "together"]["all"][:, 0] for found in (one, two)))
    for found in (one, two):
        assert len(found) == 18
        for (algo, name), learnt in found.items():
            for part, tensor in learnt.items() if name == "together" else ():
                alone = found[algo, "alone"][part]
                torch.testing.assert_close(tensor, alone, atol=1e-6, rtol=1e-6, msg=f"{algo}: {part}")


def test_rollouts_of_two_processes_lead_to_the_weights_of_one(tmp_path):
    """With the same chance: collected, normalised and learnt from in six rollouts, 48 updates."""
    both(learn_in_halves, tmp_path)
    alone = learnt_with_shared_chance(tmp_path, ProcessGroup())
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found.keys() == alone.keys()
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, alone[name], atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.nightly
def test_a_resumed_run_equals_one_without_a_stop(tmp_path):
    options = SMALL | {"anneal_learning_rate": False, "normalise_observations": True, "log_steps": 1}
    both(run, tmp_path / "whole", "Pendulum-v1", options | {"total_steps": 2048})
    both(run, tmp_path / "parts", "Pendulum-v1", options | {"total_steps": 1024})
    both(go_on, tmp_path / "parts", {"total_steps": 2048})
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    kinds = [event.kind for event in read_events(tmp_path / "parts" / "events.jsonl") if event.kind != "checkpoint"]
    assert kinds == ["began", "finished", "resumed", "finished"]


@pytest.mark.nightly
def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    """Each goes on with a replay of one of those before, and no episode is forgotten."""
    options = SMALL | {"anneal_learning_rate": False, "learning_starts": 64, "replay_size": 600, "replay_ratio": 0.1}
    options |= {"algo": "ddpg", "env_options": {"max_episode_steps": 20}, "stop_episodes": 21, "total_steps": 1024}
    path = tmp_path / "run"
    both(run, path, "Pendulum-v1", options)
    two, episodes = last_checkpoint(path), facts(path)[-1]["episodes"]
    held_by_two = torch.cat([two.state["replay.memory"], two.state["process1.replay.memory"]])
    assert len(held_by_two) == 1024 and episodes > 21
    resume(path, quiet=True, total_steps=1280)  # one more rollout or two, alone
    one = last_checkpoint(path)
    assert one.counters["step"] == 1280 and not any(name.startswith("process1") for name in one.state)
    assert len(one.state["replay.memory"]) == 600 and int(one.state["replay.collected"]) == 512 + 256
    rows = {tuple(row) for row in held_by_two.tolist()}
    assert sum(tuple(row) in rows for row in one.state["replay.memory"].tolist()) == 600 - 256
    assert facts(path)[-1]["episodes"] >= episodes
    both(go_on, path, {"total_steps": 2048})
    assert facts(path)[-1]["step"] == 2048
    # each adds its half
    assert int(last_checkpoint(path).state["process1.replay.collected"]) == 768 + (2048 - 1280) // 2


@pytest.mark.nightly
def test_self_play_goes_on_with_any_number(tmp_path):
    """Several policies, one of which plays as another one did before, and an exploration bonus."""
    past = {"learner": {"agents": [0], "normalise_observations": True}, "past": {"agents": [1], "copies": "learner"}}
    options = SMALL | {"policies": past, "copy_every": 256, "copies_kept": 4, "total_steps": 1024, "curiosity": 0.1}
    options |= {"env_options": {"num_taggers": 1, "num_runners": 1, "max_episode_steps": 50}}
    both(run, tmp_path / "run", "TagContinuous-v0", options)
    assert resume(tmp_path / "run", quiet=True, total_steps=1536).steps == 1536
    both(go_on, tmp_path / "run", {"total_steps": 2048})
    versions = [line["policies"]["past"]["version"] for line in facts(tmp_path / "run")]
    assert len(set(versions)) > 1


def test_processes_started_with_different_settings_are_refused(tmp_path):
    both(run_not_alike, tmp_path)
    said = (tmp_path / "1.txt").read_text()
    assert said == "OptionError: rank 1 was started with seed=2, rank 0 with 1: start all with the same command"
    assert "WorkerError: rank 0 of 2 has lost another one" in (tmp_path / "0.txt").read_text()
    assert not (tmp_path / "run").exists()


def test_the_place_of_a_process_is_read_from_its_environment_variables():
    where = place(TOLD)
    assert where is not None and not where.leads and not where.is_on_one_machine
    assert where.device("cpu") == "cpu" and where.device("cuda") == "cuda:1"
    with pytest.raises(OptionError, match=r"device='cuda:0' is one GPU for 2 processes"):
        where.device("cuda:0")
    assert place({}) is None and place({"RANK": "1"}) is None  # some programs set one of them
    for wrong, words in (({"RANK": "x"}, "RANK='x'"), ({"RANK": "4"}, "RANK=4"), ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2")):
        with pytest.raises(OptionError, match=words):
            place(TOLD | wrong)
    with pytest.raises(OptionError, match="not LOCAL_RANK"):
        place({name: value for name, value in TOLD.items() if name != "LOCAL_RANK"})


@pytest.mark.usefixtures("told")
def test_callbacks_seeds_and_sweeps_are_refused_under_torchrun(tmp_path, capsys):
    with pytest.raises(OptionError, match="callbacks"):
        train("CartPole-v1", run_dir=tmp_path, callback=headrace.train.Callback())
    with pytest.raises(OptionError, match="several seeds"):
        studies.train_seeds("CartPole-v1", seeds=2)
    for words in (
        ["train", "CartPole-v1", "--seeds", "2"],
        ["sweep", "CartPole-v1"],
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert said.startswith("headrace [rank 1]: ") and said.endswith("leave it out, or torchrun\n")


@pytest.mark.parametrize(
    "wrong",
    [
        {"devices": ("cpu", "cpu")},
        {"algo": "sac", "samplers": 2},
        {"algo": "sac", "ray": "local"},
        {"device": "cuda:0"},
    ],
)
def test_settings_that_start_processes_are_refused_under_torchrun(monkeypatch, wrong):
    from headrace.train.launch.checks import check_request

    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match="torchrun"):
        check_request("Pendulum-v1", wrong)
    assert check_request("Pendulum-v1", {"algo": "sac"}).config.samplers == 0


@pytest.mark.usefixtures("told")
def test_a_run_with_samplers_goes_on_without_torchrun(tmp_path):
    RunFolder.create(tmp_path / "run", make_config("Pendulum-v1", algo="sac", samplers=1))
    with pytest.raises(OptionError, match="samplers=1 would add processes to those of torchrun"):
        go_on_here(tmp_path / "run", {}, RunOptions(quiet=True))


def test_a_run_waits_for_the_lock_of_a_killed_process(tmp_path):
    """As of a process that was killed, and has not ended yet."""
    code = "import sys, time; from headrace.train.runs.lock import held; from pathlib import Path\n"
    code += "with held(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None and other.stdin is not None
    other.stdout.readline()
    with pytest.raises(OptionError, match="is being trained"), held(tmp_path / "lock"):
        pass
    other.stdin.close()
    with held(tmp_path / "lock", 300.0):
        assert other.wait(60) == 0


# -- torchrun itself -----------------------------------------------------------------------------


def torchrun(folder: Path, *words: str, restarts: int = 0, task: str = "CartPole-v1") -> subprocess.Popen:
    """A run of two processes, in a session of their own as in a terminal."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--max-restarts={restarts}"]
    small = [
        "--num-envs=8",
        "--num-steps=16",
        "--minibatch-size=32",
        "--no-video",
        "--no-viewer",
        "--torch-threads=1",
        "--stop-at-return=None",
    ]
    return subprocess.Popen(
        [*launcher, "-m", "headrace", "train", task, *small, *words],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ranks(launcher: int) -> dict[int, int]:
    """Rank → process of a torchrun, as the processes that run now were told."""
    found = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        told = {}
        for each in Path(f"/proc/{child}/environ").read_bytes().decode().split("\0"):
            name, _, told[name] = each.partition("=")
        if "RANK" in told:
            found[int(told["RANK"])] = int(child)
    return found


def at_work_in(folder: Path) -> list[str]:
    """The processes whose working folder this is: torchrun gives each a session of its own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
    return found


def wait_until(what: Any, process: subprocess.Popen) -> Any:
    deadline = time.monotonic() + 300
    while not (found := what()):
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("words", [(), ("--algo=dqn", "--learning-starts=500", "--replay-ratio=0.03")])
def test_a_killed_process_is_replaced_and_the_run_goes_on(tmp_path, killed, words):
    """Also where nobody has named the run folder, which they find, and where each has a replay of images to find."""
    task = "MinAtar-Breakout-v1" if words else "CartPole-v1"
    often = ("--total-steps=12000", "--checkpoint-seconds=0", "--log-steps=500")
    process = torchrun(tmp_path, *often, *words, restarts=3, task=task)
    (path,) = wait_until(lambda: list(tmp_path.glob("runs/*/checkpoints")), process)
    kept = wait_until(lambda: [each.name for each in path.glob("step-*") if int(each.name[5:])], process)
    os.kill(wait_until(lambda: ranks(process.pid).get(killed), process), signal.SIGKILL)
    said, _ = process.communicate(timeout=500)
    assert process.returncode == 0, said
    folder = RunFolder(path.parent)
    assert list(tmp_path.glob("runs/*")) == [folder.path]
    events = [event for event in read_events(folder.events.file) if event.kind != "checkpoint"]
    assert events[0].kind == "began" and events[-1].kind == "finished"
    (again,) = (event for event in events if event.kind == "resumed")
    assert again.step >= int(kept[0].removeprefix("step-"))
    steps = [line["step"] for line in facts(folder.path)]
    assert steps == sorted(set(steps)) and steps[-1] >= 12_000
    assert "warning" not in {event.kind for event in events}, "each must have found its replay"
    assert not at_work_in(tmp_path) and folder.holder is None


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_all_processes_with_a_checkpoint(tmp_path, how):
    """A terminal tells torchrun and its processes at the same time, a batch system torchrun alone."""
    process = torchrun(tmp_path, "--total-steps=100000000", "--run-dir=run", "--log-steps=500")
    wait_until((tmp_path / "run" / "metrics.jsonl").exists, process)
    wait_for_lines(tmp_path / "run", 2)
    assert len(at_work_in(tmp_path)) >= 3
    (os.killpg if how is signal.SIGINT else os.kill)(process.pid, how)
    said, _ = process.communicate(timeout=300)
    events = read_events(tmp_path / "run" / "events.jsonl")
    assert events[-1].kind == "interrupted" and "go on with:" in said, said
    assert last_checkpoint(tmp_path / "run").counters["step"] == facts(tmp_path / "run")[-1]["step"] > 0
    assert not at_work_in(tmp_path)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["devices"] == []


@pytest.mark.nightly
def test_the_sbatch_file_trains_and_goes_on(tmp_path):
    """On one machine, whose ``srun`` only starts what it is told, as SLURM does where a job has a single node."""
    for name, does in (("srun", 'exec "$@"'), ("scontrol", "echo localhost")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    told = {"JOB_NUM_NODES": "1", "JOB_ID": "7", "JOB_NODELIST": "here", "GPUS_ON_NODE": "2"}
    environment = os.environ | {f"SLURM_{name}": value for name, value in told.items()}
    environment |= {"HEADRACE_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{tmp_path}:{Path(sys.executable).parent}:{environment['PATH']}"
    small = ["--num-envs=4", "--num-steps=16", "--minibatch-size=32", "--torch-threads=1", "--no-viewer", "--no-video"]
    for total, words in ((256, small), (512, ["--no-video"])):
        command = ["bash", str(EXAMPLES / "torchrun.sbatch"), f"--total-steps={total}", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        assert facts(tmp_path / "runs" / "pong-7")[-1]["step"] == total

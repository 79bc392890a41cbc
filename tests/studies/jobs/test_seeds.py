"""Several seeds, each in a process: they end as they do alone, whatever happens to the others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import studies
from headrace.cli.main import main
from headrace.errors import OptionError, StateError, TrustError
from headrace.studies.jobs.processes import MetricsTail
from headrace.studies.jobs.seeds import chosen_seeds
from headrace.train.runs.metrics import read_metrics
from programs import Program

TINY: dict[str, Any] = {"num_envs": 4, "num_steps": 16, "minibatch_size": 64, "hidden": [8], "video": False}
WORDS = ["--num-envs", "4", "--num-steps", "16", "--minibatch-size", "64", "--hidden", "8", "--no-video"]
NETWORK = """
import os, torch

def net(space, outputs):
    if os.path.exists("fail"):
        raise ValueError("no network today")
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, outputs + 1)
        def forward(self, x):
            y = self.layer(x)
            return y[:, :-1], y[:, -1]
    return Net()
"""


def command(*words: str) -> list[str]:
    code = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, "train", *words]


def learnt(run: Path) -> list[dict[str, Any]]:
    """A run's metrics without its times."""
    return [
        {name: value for name, value in line.items() if name != "time"} for line in read_metrics(run / "metrics.jsonl")
    ]


def test_seeds_are_chosen_by_number_or_name() -> None:
    assert chosen_seeds("3") == (1, 2, 3) and chosen_seeds("1,2,7") == (1, 2, 7) and chosen_seeds("7,") == (7,)
    for wrong in ("0", "x", "", "1,1", "-1,2", "1.5", "2000"):
        with pytest.raises(OptionError, match="--seeds"):
            chosen_seeds(wrong)


@pytest.mark.nightly
@pytest.mark.usefixtures("forked_runs")
def test_each_seed_learns_as_a_single_run_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parent = tmp_path / "seeds"
    words = ["CartPole-v1", "--total-steps", "640", "--stop-at-return", "None", *WORDS]
    assert main(["train", *words, "--seeds", "2,5", "--run-dir", str(parent)]) == 0
    told = capfd.readouterr().out
    for seed in (2, 5):
        assert f"seed {seed} finished: return" in told
        alone: dict[str, Any] = {"total_steps": 640, "stop_at_return": None, "seed": seed, **TINY}
        headrace.train.train("CartPole-v1", run_dir=tmp_path / f"alone-{seed}", quiet=True, **alone)
        assert learnt(parent / f"seed-{seed}") == learnt(tmp_path / f"alone-{seed}")
        assert "Fatal" not in (parent / f"seed-{seed}.log").read_text(), "its interpreter could not end"
    assert "standard deviation over seeds" in told and (parent / "curves.png").exists()
    assert main(["train", "--resume", str(parent)]) == 0, "there is nothing left to do"
    assert "seed 2 finished" not in capfd.readouterr().out
    assert main(["train", *words, "--seeds", "2,5,6", "--resume", str(parent), "--total-steps", "640"]) == 0
    assert "seed 6 finished" in capfd.readouterr().out
    assert main(["train", "--resume", str(parent), "--learning-rate", "0.5"]) == 2
    assert "learning_rate cannot change in the middle of a run" in capfd.readouterr().err
    assert main(["train", *words, "--seeds", "3", "--run-dir", str(parent)]) == 2
    assert "already holds runs" in capfd.readouterr().err


def started(parent: Path, *more: str) -> Program:
    """Two seeds of a long run at once, once both have reported."""
    words = ["CartPole-v1", "--total-steps", "3000000", "--stop-at-return", "None", *WORDS, *more]
    words += [
        "--checkpoint-seconds",
        "0",
        "--log-steps",
        "640",
        "--seeds",
        "2",
        "--jobs",
        "2",
        "--run-dir",
        str(parent),
    ]
    process = Program(command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    files = [parent / f"seed-{seed}" / "metrics.jsonl" for seed in (1, 2)]
    until = time.monotonic() + 240
    while not all(file.exists() and len(file.read_bytes().splitlines()) > 3 for file in files):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    return process


@pytest.mark.nightly
@pytest.mark.usefixtures("forked_runs")  # those that go on
def test_ctrl_c_ends_all_seeds_with_checkpoints_and_they_go_on(tmp_path: Path) -> None:
    process = started(tmp_path / "seeds")
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=120)
    assert process.returncode == 130 and f"go on with:  headrace train --resume {tmp_path / 'seeds'}" in told
    results = [json.loads(line) for line in (tmp_path / "seeds" / "results.jsonl").read_text().splitlines()]
    assert {result["reason"] for result in results} == {"interrupted"} and len(results) == 2
    steps = {result["seed"]: result["steps"] for result in results}
    assert all(read_metrics(tmp_path / "seeds" / f"seed-{seed}" / "metrics.jsonl") for seed in steps)
    end = max(steps.values()) + 640
    # the same command goes on
    words = ["CartPole-v1", *WORDS, "--stop-at-return", "None", "--checkpoint-seconds", "0", "--log-steps", "640"]
    words += ["--total-steps", str(end), "--seeds", "2", "--resume", str(tmp_path / "seeds")]
    assert main(["train", *words]) == 0
    results = [json.loads(line) for line in (tmp_path / "seeds" / "results.jsonl").read_text().splitlines()][2:]
    assert {result["reason"] for result in results} == {"finished"} and min(r["steps"] for r in results) >= end


@pytest.mark.nightly
def test_runs_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    process = started(tmp_path / "seeds")
    process.kill()
    process.communicate()
    until = time.monotonic() + 60
    locks = [tmp_path / "seeds" / f"seed-{seed}" for seed in (1, 2)]
    while any(headrace.train.RunFolder(path).holder for path in locks):
        assert time.monotonic() < until, "they still train"
        time.sleep(0.1)
    steps = max(read_metrics(path / "metrics.jsonl")[-1]["step"] for path in locks)
    results = studies.resume_seeds(tmp_path / "seeds", quiet=True, total_steps=steps + 640)
    assert [result.reason for result in results] == ["finished", "finished"]


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.nightly
def test_a_seed_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = {name: value for name, value in TINY.items() if name != "hidden"}
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "seeds" / "seed-1").mkdir(parents=True)
    (tmp_path / "seeds" / "seed-1" / "config.json").write_text("{")  # damaged
    first, second = studies.train_seeds(
        "CartPole-v1", seeds=2, run_dir="seeds", quiet=True, network="net.py:net", total_steps=640, **own
    )
    assert first.reason == "failed" and "config.json cannot be read" in first.error
    assert second.reason == "finished" and second.steps >= 640
    (tmp_path / "seeds" / "seed-1" / "config.json").unlink()
    (tmp_path / "fail").touch()
    first, again = studies.resume_seeds("seeds", quiet=True)
    assert first.reason == "failed" and "no network today" in first.error and again == second
    (tmp_path / "fail").unlink()
    assert studies.resume_seeds("seeds", quiet=True)[0].reason == "finished"


def test_mistakes_are_refused_before_any_seed_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mistakes: list[dict[str, Any]] = [{"learning_rate": -1.0}, {"colour": 1}, {"network": len}, {"replay_ratio": 2.0}]
    for wrong in mistakes:
        with pytest.raises(OptionError):
            studies.train_seeds("CartPole-v1", quiet=True, **wrong)
    assert main(["train", "CartPole-v1", "--jobs", "2"]) == 2
    assert main(["train", "CartPole-v1", "--seeds", "2", "--seed", "3"]) == 2
    assert "leave --seed out" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    (tmp_path / "seeds.json").write_text("{")
    with pytest.raises(StateError, match=r"seeds\.json"):
        studies.resume_seeds(tmp_path)


def test_code_of_a_sent_plan_of_seeds_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sent.py").write_text("open('ran', 'w')")
    plan = {"task": "CartPole-v1", "settings": {"network": f"{tmp_path / 'sent.py'}:net"}, "seeds": [1]}
    (tmp_path / "seeds.json").write_text(json.dumps(plan))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrustError, match=r"runs code of .*sent\.py"):
        studies.resume_seeds(tmp_path)
    assert main(["train", "--resume", str(tmp_path)]) == 1
    assert not (tmp_path / "ran").exists()


def test_metrics_are_followed_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    tail = MetricsTail(file)
    assert tail.refresh() == []
    file.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert [line["step"] for line in tail.refresh()] == [1, 2] == [line["step"] for line in tail.refresh()]
    with file.open("a") as more:
        more.write('ep": 3}\nnull\n')
    assert [line["step"] for line in tail.refresh()] == [1, 2, 3]
    file.write_text('{"step": 1}\n')  # it goes on from an earlier checkpoint
    assert [line["step"] for line in tail.refresh()] == [1] == [line["step"] for line in tail.lines]

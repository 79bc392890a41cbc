"""`headrace sweep` searches, goes on after any end, and prints the best trial."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.studies.sweep.summary import summary
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from programs import Program

pytest.importorskip("torch")

TINY = ["--num-envs", "4", "--minibatch-size", "64", "--hidden", "8"]
WORDS = ["CartPole-v1", "--space", "learning_rate=1e-3..1e-2:log", "num_steps=16,32", *TINY]


@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_prints_the_command_of_its_best_trial(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = [*WORDS, "--total-steps", "1280", "--sampler", "random", "--trials", "2", "--pruner", "none"]
    assert main(["sweep", *words, "--run-dir", str(folder)]) == 0
    told = capfd.readouterr().out
    assert "2 trials: 2 complete" in told
    found = summary(folder)
    assert [trial["state"] for trial in found["trials"]] == ["complete", "complete"]
    (line,) = [line for line in told.splitlines() if line.startswith("train with the best:  ")]
    best = found["trials"][found["best"]]
    again = shlex.split(line.partition("  ")[2])
    assert main([*again[1:], "--run-dir", str(tmp_path / "again"), "--quiet"]) == 0
    ours, theirs = (
        Config.from_json((run / "config.json").read_text()) for run in (tmp_path / "again", folder / best["run"])
    )
    assert ours == theirs and {name: getattr(ours, name) for name in best["settings"]} == best["settings"]
    capfd.readouterr()
    # more trials, of the same sweep; and mistakes
    assert main(["sweep", "--resume", str(folder), "--trials", "3"]) == 0
    assert "3 trials: 3 complete" in capfd.readouterr().out
    for more, told in (
        (["--sampler", "tpe"], "--sampler cannot change"),
        (["--total-steps", "5"], "total_steps cannot change"),
        (["--space", "gamma=0.9,1"], "--space cannot change"),
        (["--run-dir", "x"], "--run-dir is for new sweeps"),
    ):
        assert main(["sweep", "--resume", str(folder), *more]) == 2
        assert told in capfd.readouterr().err
    assert main(["sweep", *words, "--run-dir", str(folder)]) == 2
    assert "already holds runs" in capfd.readouterr().err


def started(folder: Path) -> Program:
    """A sweep of two long trials, once both have reported."""
    code = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [*WORDS, "--total-steps", "3000000", "--trials", "2", "--sampler", "random", "--jobs", "2"]
    words += ["--checkpoint-seconds", "0", "--log-steps", "1280", "--run-dir", str(folder)]
    process = Program([sys.executable, "-c", code, "sweep", *words], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    files = [folder / f"trial-{number}" / "metrics.jsonl" for number in (0, 1)]
    while not all(file.exists() and len(file.read_bytes().splitlines()) > 3 for file in files):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    return process


@pytest.mark.nightly
@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_sweep_continues(tmp_path: Path, how: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    process = started(folder)
    process.send_signal(how)
    assert process.wait(60) == (130 if how == signal.SIGINT else -how)
    until = time.monotonic() + 60
    while any(RunFolder(folder / f"trial-{number}").holder for number in (0, 1)):
        assert time.monotonic() < until, "trials go on without their sweep"
        time.sleep(0.1)
    settings = [trial["settings"] for trial in summary(folder)["trials"]]
    assert len(settings) == 2
    plan = json.loads((folder / "sweep.json").read_text())
    plan["settings"]["total_steps"] = plan["total_steps"] = max(trial["steps"] for trial in summary(folder)["trials"])
    (folder / "sweep.json").write_text(json.dumps(plan))
    assert main(["sweep", "--resume", str(folder)]) == 0
    trials = summary(folder)["trials"]
    assert [trial["state"] for trial in trials] == ["complete"] * 2 and [t["settings"] for t in trials] == settings
    assert all(trial["steps"] >= plan["total_steps"] for trial in trials)


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.nightly
def test_a_poor_trial_ends_early(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rates of learning at which nothing is learnt are given up."""
    folder = tmp_path / "sweep"
    space = ["--space", "learning_rate=3e-3,3e-3,3e-3,3e-3,1e-9"]
    words = ["CartPole-v1", *space, "--total-steps", "20000", "--sampler", "random", "--sampler-seed", "46"]
    assert main(["sweep", *words, "--trials", "5", "--run-dir", str(folder)]) == 0
    trials = summary(folder)["trials"]
    poor = [trial for trial in trials if trial["settings"]["learning_rate"] < 1e-6]
    assert poor and poor[-1]["state"] == "pruned" and poor[-1]["steps"] < 20_000
    assert poor[-1]["note"].startswith("after ") and "pruned (after" in capfd.readouterr().out
    assert summary(folder)["trials"][summary(folder)["best"]]["settings"]["learning_rate"] == 3e-3


def test_mistakes_end_a_sweep_before_its_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, told in (
        ([], "which task?"),
        (["CartPole-v1"], "name the settings to vary"),
        (["CartPole-v1", "--space", "learning_rate=-1..1"], "learning_rate=-1.0 must be above 0"),
        (["CartPole-v1", "--space", "gamma=0.9..1.5"], "gamma=1.5 must be between 0 and 1"),
        (["CartPole-v1", "--space", "activation=tanh,sine"], "activation='sine'"),
        (["CartPole-v1", "--space", "gamma=0.9,1", "--gamma", "0.5"], "gamma is varied by --space"),
        (["CartPole-v1", "--space", "gamma=0.9,1", "--seeds", "3"], "--seeds is for headrace train"),
        (["CartPole-v1", "--space", "gamma=0.9,1", "--trials", "0"], "--trials must be at least 1"),
        (["CartPool-v1", "--space", "gamma=0.9,1"], "CartPool-v1"),
        (["--resume", "nowhere"], "nowhere is not the folder of a sweep"),
    ):
        assert main(["sweep", *words]) == 2, words
        assert told in capsys.readouterr().err, words
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_of_failures_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def net(space, outputs):\n    raise ValueError('no network today')\n")
    words = ["CartPole-v1", "--network", "net.py:net", "--space", "gamma=0.9,1", "--trials", "30", "--run-dir", "s"]
    assert main(["sweep", *words, "--sampler", "random"]) == 1
    told = capfd.readouterr().out
    assert "no network today" in told and told.count("trial-") < 12

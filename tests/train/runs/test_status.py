"""The log of events, and the status of a run that is read from its folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
import headrace.train
from headrace.errors import NotFiniteError, WorkerError
from headrace.train.runs.events import EventLog, one_line, read_events, read_status
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import last_measurement
from programs import Program, wait_for

TINY: dict[str, Any] = {
    "num_envs": 4, "num_steps": 8, "minibatch_size": 32, "hidden": [8], "video": False, "tensorboard": False,
    "stop_at_return": None,
}  # fmt: skip
ENDLESS = f"""
import sys, headrace
headrace.train("CartPole-v1", total_steps=10**9, run_dir=sys.argv[1], checkpoint_seconds=0.2, **{TINY})
"""
NAN = """
import numpy as np, gymnasium as gym
class Poisoned(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0
    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float("nan") if self.steps > 40 else 1.0, self.steps % 10 == 0, False, {}
def make():
    return Poisoned()
"""


def train(path: Path, **changes: Any) -> None:
    settings: dict[str, Any] = {"total_steps": 256, **TINY, **changes}
    headrace.train.train("CartPole-v1", run_dir=path, quiet=True, **settings)


def kinds(path: Path) -> list[str]:
    return [event.kind for event in read_events(path / "events.jsonl")]


def test_a_run_that_took_all_its_steps_is_finished_and_goes_on_in_the_same_log(tmp_path):
    train(tmp_path)
    assert kinds(tmp_path) == ["began", *["checkpoint"] * 4, "finished"]  # the best is two: of training, then judged
    status = read_status(tmp_path)
    assert (status.kind, status.text, status.resume) == ("finished", "all steps done", None)
    assert abs(status.when - time.time()) < 60
    last = read_events(tmp_path / "events.jsonl")[-1]
    assert last.step == 256 and last.seconds > 0
    headrace.train.resume(tmp_path, quiet=True, total_steps=512)
    assert kinds(tmp_path)[6] == "resumed" and kinds(tmp_path)[-1] == "finished"
    assert read_events(tmp_path / "events.jsonl")[-1].step == 512
    before = (tmp_path / "events.jsonl").read_bytes()
    headrace.train.resume(tmp_path, quiet=True)  # there is nothing left to do
    assert (tmp_path / "events.jsonl").read_bytes() == before


def test_a_solved_run_says_which_goal_it_reached(tmp_path):
    train(tmp_path, stop_at_return=1.0, stop_episodes=2, total_steps=10_000)
    status = read_status(tmp_path)
    assert status.kind == "solved" and status.text.endswith("reached the goal of 1")


@pytest.mark.parametrize(("how", "kind"), [(signal.SIGTERM, "interrupted"), (signal.SIGKILL, "killed")])
def test_a_run_that_was_ended_names_the_command_that_resumes_it(tmp_path, how, kind):
    pytest.importorskip("torch")
    path = tmp_path / "a run"
    process = Program([sys.executable, "-c", ENDLESS, path], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(kinds(path)) >= 4)
        running = read_status(path)
        assert running.kind == "running" and f"process {process.pid}" in running.text
        process.send_signal(how)
        process.wait(60)
    finally:
        process.kill()
    status = read_status(path)
    assert (status.kind, status.resume) == (kind, f"headrace train --resume '{path}'")
    assert abs(status.when - time.time()) < 60
    line = last_measurement(path / "metrics.jsonl")
    headrace.train.resume(path, quiet=True, total_steps=line["step"] if line else 32)  # which are done
    assert kinds(path)[-1] == "finished" and read_status(path).kind == "finished"


def test_a_reward_that_is_not_finite_is_a_failure_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "nan_env.py").write_text(NAN)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    settings = {**TINY, "log_steps": 8}
    with pytest.raises(NotFiniteError):
        headrace.train.train("nan_env.py:make", run_dir=run, total_steps=10_000, quiet=True, **settings)
    status = read_status(run)
    assert status.kind == "failed" and "gave the reward nan" in status.text and "\n" not in status.text


def test_an_error_is_one_line():
    assert one_line(WorkerError("the sampler raised:\nTraceback\n  File\nValueError: no\n")) == (
        "the sampler raised: ValueError: no"
    )
    assert one_line(ValueError("one\ntwo")) == "ValueError: one"
    assert one_line(MemoryError()) == "MemoryError"


def test_several_processes_have_one_log(tmp_path):
    train(tmp_path, devices=["cpu", "cpu"], total_steps=512)
    assert kinds(tmp_path).count("began") == 1 and kinds(tmp_path)[-1] == "finished"
    headrace.train.resume(tmp_path, quiet=True, total_steps=1024)
    assert kinds(tmp_path).count("resumed") == 1 and read_events(tmp_path / "events.jsonl")[-1].step == 1024


def test_workers_that_die_are_in_the_log(tmp_path):
    from headrace.train.logging.dashboard import Dashboard
    from headrace.train.recipes.make import make_config
    from headrace.train.runners.assembly import make_trainer

    options = {"samplers": 1, "num_envs": 4, "total_steps": 3000, "learning_starts": 64, "hidden": [8]}
    options |= {"minibatch_size": 16, "evaluate_episodes": 0, "video": False, "tensorboard": False, "viewer": False}
    config = make_config("Pendulum-v1", algo="sac", **options)
    run = RunFolder.create(tmp_path / "run", config)
    trainer: Any = make_trainer(config, run)
    try:
        killed: list[int] = []

        class Killing(Dashboard):
            def update(self, progress, force=False):
                if not killed and trainer.step > 100:
                    killed.append(trainer.source.supervisor.pids()["sampler"])
                    os.kill(killed[0], signal.SIGKILL)

        trainer.train(Killing(quiet=True))
    finally:
        trainer.close()
    (restart,) = [event for event in read_events(run.events.file) if event.kind == "restart"]
    assert restart.text.startswith("the sampler died (killed by SIGKILL")
    assert kinds(run.path)[-1] == "finished"


def test_the_log_begins_with_the_sizes_of_the_tuner(tmp_path):
    train(tmp_path, tuned={"text": "2 x 16 environments", "data": {"best": {"samplers": 2}}})
    first = read_events(tmp_path / "events.jsonl")[0]
    assert (first.kind, first.text, first.data) == ("tuned", "2 x 16 environments", {"best": {"samplers": 2}})


def test_a_run_that_ends_before_its_first_report_leaves_no_log(tmp_path, monkeypatch):
    from headrace.train.runners.trainer import Trainer

    def fail(self):
        raise RuntimeError("at once")

    monkeypatch.setattr(Trainer, "iterate", fail)
    with pytest.raises(RuntimeError):
        train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- files that are damaged, or of older versions ------------------------------------------------


def test_damaged_lines_are_left_out_and_the_log_goes_on_behind_them(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log.note("began", "", 0, 0.0)
    with log.file.open("ab") as file:
        file.write(b'\xff\n[]\n{"kind": 3, "time": 0}\n{"kind": "began", "time": "x"}\n{"kind": "warn')
    log.note("warning", "x" * 5000, 7, 1.0)
    began, warning = read_events(log.file)
    assert (began.kind, warning.kind, warning.step) == ("began", "warning", 7)
    assert len(warning.text) == 1000 and warning.text.endswith("…")
    assert read_events(tmp_path / "nothing.jsonl") == [] == read_events(tmp_path)


def test_a_log_on_a_full_disk_ends_nothing():
    EventLog(Path("/dev/full")).note("began", "", 0, 0.0)
    EventLog(Path("/nowhere/events.jsonl")).note("began", "", 0, 0.0)


def test_runs_of_older_versions_are_judged_by_their_metrics(run):
    (run / "events.jsonl").unlink()
    assert read_status(run).kind == "finished"
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"stop_at_return": 0.5}))
    assert read_status(run).kind == "solved"
    (run / "config.json").write_text(json.dumps(config | {"total_steps": 10**6}))
    status = read_status(run)
    assert status.kind == "interrupted" and status.resume == f"headrace train --resume {run}"
    (run / "train.lock").write_text("{}\n")  # who holds it no more was killed
    assert read_status(run).kind == "killed"
    (run / "metrics.jsonl").write_text("not JSON\n")
    assert read_status(run).kind == "killed"


def test_a_folder_that_is_no_run_is_explained(run, tmp_path):
    (run / "config.json").write_text("{")
    damaged = read_status(run)
    assert damaged.kind == "damaged" and str(run / "config.json") in damaged.text
    (run / "config.json").write_text("[]")
    assert read_status(run).kind == "damaged"
    assert "no config.json" in read_status(tmp_path).text
    assert read_status(tmp_path / "nothing") == read_status(tmp_path / "nothing")
    assert read_status(tmp_path / "nothing").when == 0.0


def test_the_last_line_of_metrics_is_read_from_the_end(tmp_path):
    file = tmp_path / "metrics.jsonl"
    assert last_measurement(file) is None
    file.write_text("".join(json.dumps({"step": i, "pad": "x" * 1000}) + "\n" for i in range(200)) + '{"step": 9')
    assert last_measurement(file) == {"step": 199, "pad": "x" * 1000}
    np.zeros(100_000).tofile(file)
    assert last_measurement(file) is None


def test_reading_a_status_loads_no_torch():
    code = "import sys; import headrace.train.runs.events; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Runs on a real Ray cluster of several nodes, all on this machine: they end as they should, whoever is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.errors import HeadraceError, OptionError
from headrace.train import resume, train
from headrace.train.play.evaluate import evaluate
from headrace.train.runs.checkpoint import newest
from headrace.train.runs.events import read_events
from headrace.train.runs.metrics import read_metrics
from headrace.train.workers.rate_limiter import SLACK
from programs import Program
from train.cluster.nodes import PATIENCE, WALK, actors_below, nodes, wait_until
from train.whole_runs import WITH_SAMPLERS, start

SETTINGS: dict[str, Any] = WITH_SAMPLERS | {
    "algo": "sac", "samplers": 2, "total_steps": 10**7, "log_steps": 200, "evaluate_episodes": 1,
    "evaluate_seconds": 0.5, "quiet": True,
}  # fmt: skip
KILLS = 100
PPO: dict[str, Any] = {
    "algo": "ppo", "samplers": 1, "num_envs": 4, "num_steps": 32, "hidden": (16, 16), "total_steps": 1500,
    "evaluate_episodes": 0, "viewer": False, "stop_at_return": None, "tensorboard": False, "video": False,
    "quiet": True,
}  # fmt: skip
ONE: dict[str, Any] = SETTINGS | {"samplers": 1, "evaluate_episodes": 0}
ACTORS = 3  # two samplers and the evaluator
LONG = pytest.mark.timeout(3600)  # a hundred interpreters start on a machine that may be busy


@pytest.fixture(scope="module")
def cluster():
    with nodes(1) as started:
        yield started


def kill_one(chance: random.Random) -> None:
    with suppress(psutil.NoSuchProcess, IndexError):
        chance.choice(actors_below()).send_signal(signal.SIGKILL)


def restarts(run_dir) -> int:
    return sum(event.kind == "restart" for event in read_events(run_dir / "events.jsonl"))


def state(run_dir: Path) -> dict[str, Any]:
    """The numbers of the newest checkpoint."""
    point = newest(run_dir / "checkpoints")
    assert point is not None
    return json.loads((point / "state.json").read_text())


@contextmanager
def started_run(task: str, run_dir: Path, options: dict[str, Any]) -> Iterator[Program]:
    """A run in a process of its own, once it samples; killed at the end of the context, if it has not ended."""
    with start(task, run_dir, options, start_new_session=True) as process:
        try:
            wait_until(lambda: any(line["step"] > 400 for line in read_metrics(run_dir / "metrics.jsonl")), "any step")
            yield process
        finally:
            process.kill()


def check_ratio(lines: list[dict], samplers: int) -> None:
    """Samplers were never further ahead than those of one machine may be."""
    for line in lines:
        ahead = SLACK * 4 * samplers + 4 * samplers
        assert line["step"] <= 400 + line["updates"] / 0.2 + ahead


def test_a_killed_actor_is_replaced(cluster, tmp_path):
    lines: list[dict] = []
    cores: set[tuple[int, ...]] = set()

    def look(training, line):
        lines.append(line)
        if line["cluster"]["actors"] == 1:
            cores.update(tuple(each.cpu_affinity()) for each in actors_below())
            if not line["cluster"]["restarts"]:
                kill_one(random.Random(1))
            elif any(each["cluster"]["received_bytes"] and each["cluster"]["sent_bytes"] for each in lines):
                training.stop()  # not before the learner, which begins after 400 steps, has sent weights

    result = train("Pendulum-v1", run_dir=tmp_path, ray=cluster.address, callback=look, **ONE)
    assert result.reason == "interrupted"
    assert lines[-1]["restarts"] == lines[-1]["cluster"]["restarts"] == restarts(tmp_path) >= 1
    assert any(line["cluster"]["received_bytes"] and line["cluster"]["sent_bytes"] for line in lines)
    check_ratio(lines, 1)
    assert cores == {tuple(psutil.Process().cpu_affinity())}  # as of samplers beside the learner, which are not bound
    assert not actors_below()


@pytest.mark.nightly
def test_ppo_learns_from_an_environment_of_a_users_own_file(cluster, tmp_path):
    (tmp_path / "walk.py").write_text(WALK)
    run = tmp_path / "run"
    result = train(f"{tmp_path / 'walk.py'}:Walk", run_dir=run, ray=cluster.address, **PPO)
    assert result.reason == "finished"
    line = read_metrics(run / "metrics.jsonl")[-1]
    assert line["return"] == 5.0 and line["length"] == 5
    assert 0 <= line["staleness"]["versions"] <= 2  # the slots' number of rollouts, one learnt from, one under way


@pytest.mark.nightly
def test_an_error_of_an_environment_is_that_of_local_samplers(cluster, tmp_path):
    (tmp_path / "walk.py").write_text(WALK.replace("self.count += 1", "raise ValueError('a broken leg')"))
    kinds = set()
    for name, ray in (("here", ""), ("cluster", cluster.address)):
        with pytest.raises(HeadraceError, match="a broken leg") as raised:
            train(f"{tmp_path / 'walk.py'}:Walk", run_dir=tmp_path / name, ray=ray, **PPO)
        kinds.add(raised.type)
    assert len(kinds) == 1


@pytest.mark.nightly
@LONG
def test_samplers_are_spread_over_the_nodes(tmp_path):
    """As many on each, though one alone would have room for all."""
    per_node: list[int] = []

    def look(training, line):
        if line["cluster"]["actors"] == 4:
            parents = Counter(each.ppid() for each in actors_below())  # an actor's is its node
            per_node.extend(parents.values())
            training.stop()

    settings: dict[str, Any] = ONE | {"samplers": 4}
    with nodes(2, cpus=4) as cluster:
        train("Pendulum-v1", run_dir=tmp_path, ray=cluster.address, callback=look, **settings)
    assert per_node == [2, 2]


def test_too_few_processors_are_counted(cluster, tmp_path):
    settings: dict[str, Any] = ONE | {"samplers": 12}
    with pytest.raises(OptionError, match="has 2 CPUs, and the samplers need 12"):
        train("Pendulum-v1", run_dir=tmp_path / "run", ray=cluster.address, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
@LONG
def test_a_run_outlives_kills_and_a_lost_node_and_finishes(tmp_path):
    """And what was lost is only what actors had not sent: every step that counts is in the replay.

    A sampler takes the only processor of its node: where that is lost, it waits for the next one.
    """
    lines: list[dict] = []
    chance, removed, returned = random.Random(1), 0, 0

    with nodes(2, cpus=1) as cluster:

        def look(training, line):
            nonlocal removed, returned
            lines.append(line)
            numbers = line["cluster"]
            if numbers["restarts"] < KILLS:
                kill_one(chance)
            elif not removed and numbers["actors"] == ACTORS:
                cluster.remove_one()
                removed = numbers["restarts"]
            elif removed and not returned and numbers["restarts"] > removed and numbers["actors"] < ACTORS:
                cluster.add()
                returned = line["step"]
            elif returned and numbers["actors"] == ACTORS:
                training.stop()

        settings: dict[str, Any] = SETTINGS | {"replay_size": 10**6}
        result = train("Pendulum-v1", run_dir=tmp_path, ray=cluster.address, callback=look, **settings)
        assert result.reason == "interrupted"
        assert max(line["cluster"]["nodes"] for line in lines) >= 2 and 0 < returned < result.steps
        check_ratio(lines, 2)
        counted = state(tmp_path)
        rows = counted["replay"]
        assert sum(rows) * 4 >= result.steps  # rows that begin episodes count no step
        end = result.steps + 400
        result = resume(tmp_path, total_steps=end, quiet=True)
        assert result.reason == "finished" and end <= result.steps < end + 4 * 2
        line = read_metrics(tmp_path / "metrics.jsonl")[-1]
        assert line["updates"] == int(0.2 * (end - 400))
        assert line["evaluation"]["length"] == 200  # of the weights at the end
        assert not actors_below()


@pytest.mark.nightly
@LONG
@pytest.mark.parametrize("way", ["local", "cluster"])
def test_a_killed_run_leaves_nothing_and_can_be_resumed(cluster, tmp_path, way):
    ray = "local" if way == "local" else cluster.address
    options = ONE | {"ray": ray, "checkpoint_seconds": 0.0, "replay_ratio": 0.01}
    folders = set(Path("/tmp").glob("headrace-ray-*"))
    with started_run("Pendulum-v1", tmp_path, options) as process:
        workers = {each.pid for each in psutil.Process(process.pid).children(recursive=True)}
        workers |= {each.pid for each in actors_below()}
    wait_until(lambda: not any(map(psutil.pid_exists, workers)), "the end of all that the run had started")
    wait_until(lambda: set(Path("/tmp").glob("headrace-ray-*")) <= folders, "the removal of Ray's files")
    step = state(tmp_path)["step"]
    result = resume(tmp_path, total_steps=step + 200, quiet=True)
    assert result.reason == "finished" and step + 200 <= result.steps < step + 204


@pytest.mark.nightly
@LONG
def test_ctrl_c_while_a_cluster_begins_leaves_nothing(tmp_path):
    before = set(Path("/tmp").glob("headrace-ray-*"))
    sessions = set(Path("/tmp").glob("headrace-ray-*/session_*"))
    with start("Pendulum-v1", tmp_path / "run", ONE | {"ray": "local"}, start_new_session=True) as process:
        wait_until(lambda: set(Path("/tmp").glob("headrace-ray-*/session_*")) - sessions, "the start of the cluster")
        started = {each.pid for each in psutil.Process(process.pid).children(recursive=True)}
        os.killpg(process.pid, signal.SIGINT)
        process.wait(PATIENCE)
    wait_until(lambda: set(Path("/tmp").glob("headrace-ray-*")) <= before, "the removal of Ray's files")
    wait_until(lambda: not any(map(psutil.pid_exists, started)), "the end of all that the run had started")


@pytest.mark.nightly
@LONG
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_ends_the_run_with_a_checkpoint(tmp_path, how):
    """As a terminal and a job queue send it; a local cluster's own processes hear TERM, too."""
    with started_run("Pendulum-v1", tmp_path, ONE | {"ray": "local"}) as process:
        os.killpg(process.pid, how)
        process.wait(PATIENCE)
    assert read_events(tmp_path / "events.jsonl")[-1].kind == "interrupted"
    assert state(tmp_path)["step"] == read_metrics(tmp_path / "metrics.jsonl")[-1]["step"] > 400


@pytest.mark.nightly
@LONG
def test_a_cluster_learns_as_one_machine_does(cluster, tmp_path):
    """SAC's return on Pendulum after equal steps, of two seeds each."""
    settings: dict[str, Any] = SETTINGS | {
        "samplers": 1,
        "hidden": (64, 64),
        "total_steps": 8000,
        "replay_ratio": 1.0,
        "num_envs": 2,
    }
    ends = {}
    for name, ray in (("here", ""), ("cluster", cluster.address)):
        found = []
        for seed in (1, 2):
            run = tmp_path / f"{name}{seed}"
            train("Pendulum-v1", run_dir=run, ray=ray, seed=seed, **settings)
            found.append(statistics.mean(evaluate(run, 20).returns))
        ends[name] = sum(found) / 2
    assert ends["here"] > -350 and ends["cluster"] > -350
    assert abs(ends["here"] - ends["cluster"]) < 150

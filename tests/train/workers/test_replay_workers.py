"""Runs with workers: the files that they leave, and their way on after a process was killed."""

import io
import json
import math
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from headrace.errors import OptionError
from headrace.train import resume, train
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.evaluate import evaluate
from headrace.train.processes.counters import FREE, Counters
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.workers.evaluator import interval
from headrace.train.workers.rate_limiter import RateLimiter
from nightly import rest_nightly
from programs import Program
from whole_runs import WITH_SAMPLERS

SETTINGS: dict[str, Any] = WITH_SAMPLERS | {
    "algo": "ddpg", "total_steps": 1200, "log_steps": 500, "evaluate_episodes": 0, "evaluate_seconds": 0.2,
}  # fmt: skip


def but(**changes: Any) -> dict[str, Any]:
    """The settings above, some of them changed."""
    return SETTINGS | changes


def with_evaluator(**changes: Any) -> dict[str, Any]:
    """The same for a run with an evaluator, which takes a core for itself."""
    return but(evaluate_episodes=2, **changes)


def test_a_run_has_metrics_checkpoints_and_evaluations(tmp_path):
    result = train("Pendulum-v1", run_dir=tmp_path, quiet=True, **with_evaluator())
    assert result.reason == "finished"
    assert 1200 <= result.steps < 1200 + 4
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert lines[-1]["step"] == result.steps
    assert lines[-1]["updates"] == int(0.2 * (1200 - 400))
    assert lines[-1]["episodes"] == 4 * (result.steps // 4 // 200)
    assert -2000 < lines[-1]["return"] < 0
    assert set(lines[-1]["loss"]) >= {"critic_loss", "actor_loss"}
    assert lines[-1]["evaluation"]["length"] == 200
    assert lines[-1]["staleness"]["steps"] >= 1
    assert len(evaluate(tmp_path, 2).returns) == 2
    assert len(evaluate(tmp_path, 2, which="best").returns) == 2


def test_evaluations_take_no_more_than_their_share_of_the_cores():
    config = make_config("Pendulum-v1", evaluate_seconds=5.0, evaluate_share=0.1)
    assert interval(config, used=0.01, cores=2) == 5.0
    assert interval(config, used=3.0, cores=2) == pytest.approx(15.0)
    assert interval(config, used=3.0, cores=8) == 5.0
    assert interval(config, used=10.0, cores=2, early=True) == pytest.approx(10.0)


def test_several_samplers_share_the_steps(tmp_path):
    config = make_config("Pendulum-v1", **but(samplers=3, num_envs=2, total_steps=100_000_000))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))

    def stop() -> None:
        while (trainer.source.counters.steps < 300).any():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop, daemon=True).start()
    try:
        assert trainer.train(Dashboard(quiet=True)) == "interrupted"
        assert trainer.step - 3 * 2 <= trainer.learner.memory.steps <= trainer.step
    finally:
        trainer.close()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_screen_shows_rates_and_evaluations(tmp_path, terminal):
    screen = io.StringIO()
    dashboard = Dashboard(screen)
    dashboard.console = Console(file=screen, force_terminal=terminal, width=110, color_system=None)
    config = make_config("Pendulum-v1", **with_evaluator(total_steps=1000))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    try:
        trainer.train(dashboard)
    finally:
        trainer.close()
    shown = screen.getvalue()
    assert all(words in shown for words in ("steps/s", "samples learnt from per second", "evaluated -"))
    assert all((words in shown) == terminal for words in ("learning", "updates/s", "samplers paced"))


def test_a_solved_run_stops_and_evaluates_its_weights(tmp_path):
    """No evaluation comes before: they begin with learning."""
    settings = with_evaluator(stop_at_return=-5000.0, stop_episodes=4, total_steps=10_000_000, learning_starts=100_000)
    result = train("Pendulum-v1", run_dir=tmp_path, quiet=True, **settings)
    assert result.reason == "solved"
    best = checkpoints.load(tmp_path / "checkpoints" / "best")
    assert best.counters["judged"]["by"] == "evaluation" and best.counters["judged"]["episodes"] == 2
    assert best.counters["best_return"] == best.counters["judged"]["return"]
    assert best.counters["step"] == result.steps
    assert len(evaluate(tmp_path, 2).returns) == 2


def test_samplers_run_ahead_without_a_replay_ratio(tmp_path):
    settings = but(replay_ratio=None, total_steps=10_000)
    result = train("Pendulum-v1", run_dir=tmp_path, quiet=True, **settings)
    spent = read_metrics(tmp_path / "metrics.jsonl")[-1]["time"]
    assert result.steps >= 10_000
    assert spent["waiting"] == 0.0
    assert spent["paced"] < 0.5 * (spent["env"] + spent["inference"])  # at the end, until that is noticed


def test_waiting_for_the_replay_ratio_differs_from_waiting_for_the_learner(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **but(total_steps=1000, replay_ratio=1.0))
    spent = read_metrics(tmp_path / "metrics.jsonl")[-1]["time"]
    assert spent["paced"] > 0.0 == spent["waiting"]


@pytest.mark.nightly
def test_a_killed_sampler_and_a_killed_evaluator_are_replaced(tmp_path):
    config = make_config("Pendulum-v1", **with_evaluator(total_steps=20_000, replay_ratio=0.05))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    over = threading.Event()

    def kill() -> None:
        chance, killed = random.Random(1), 0
        while killed < 8 and not over.wait(0.3):
            pids = list(trainer.source.supervisor.pids().values())
            if pids and trainer.source.counters.total_steps() > 0:
                with suppress(ProcessLookupError):  # dead already, and about to be replaced
                    os.kill(chance.choice(pids), signal.SIGKILL)
                    killed += 1

    thread = threading.Thread(target=kill)
    try:
        thread.start()
        assert trainer.train(Dashboard(quiet=True)) == "finished"
        assert trainer.source.restarts >= 4
        assert trainer.learner.updater.updates == int(0.05 * (20_000 - 400))
        assert trainer.step < 20_000 + 4
    finally:
        over.set()
        thread.join()
        trainer.close()


def test_dqn_draws_by_priority(tmp_path):
    settings = but(algo="dqn", prioritised=True, n_step=3, dueling=True, importance_exponent=0.4)
    config = make_config("CartPole-v1", **settings)
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    try:
        assert trainer.train(Dashboard(quiet=True)) == "finished"
        replay = trainer.learner.updater.replay
        assert isinstance(replay, PrioritisedReplay)
        assert 0.4 < replay.importance <= 1
        drawn = replay.read(replay.draw((256,), torch.Generator().manual_seed(0)))
        assert drawn.weights is not None
        assert drawn.weights.min() < drawn.weights.max() == 1
    finally:
        trainer.close()


@pytest.mark.parametrize("algo", rest_nightly(["ddpg", "td3", "sac"], "sac"))
def test_actor_and_critics_learn_apart(tmp_path, algo):
    config = make_config("Pendulum-v1", **but(algo=algo, actor_device="cpu"))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    policy = trainer.policies[0]
    assert isinstance(policy, OffPolicy)
    try:
        begun = {name: part.clone() for name, part in policy.parts.items()}
        assert trainer.train(Dashboard(quiet=True)) == "finished"
        assert not any(torch.equal(begun[name], part) for name, part in policy.parts.items())
    finally:
        trainer.close()
    last = read_metrics(tmp_path / "metrics.jsonl")[-1]
    assert last["updates"] == int(0.2 * (1200 - 400))
    assert all(math.isfinite(value) for value in last["loss"].values())
    assert resume(tmp_path, quiet=True, total_steps=1600).steps >= 1600


def test_a_killed_actor_goes_on_with_its_learnt_weights(tmp_path):
    config = make_config("Pendulum-v1", **but(algo="sac", actor_device="cpu", total_steps=12_000))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 2:
            time.sleep(0.05)
            pid = trainer.source.supervisor.pids().get("actor")  # there is none once the run ends
            if pid not in (None, *killed) and trainer.source.counters.actor_updates[0] > 50 * (1 + len(killed)):
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    try:
        assert trainer.train(Dashboard(quiet=True)) == "finished"
        assert len(killed) - 1 <= trainer.source.restarts <= len(killed) and killed  # the last may fall as the run ends
        trainer.learner.settle()
        policy = trainer.policies[0]
        assert isinstance(policy, OffPolicy)
        steps = policy.adam["actor"].steps
        assert 0.3 * trainer.source.counters.actor_updates[0] < steps <= trainer.source.counters.actor_updates[0]
    finally:
        trainer.close()


def test_a_resumed_run_of_replay_workers_keeps_its_metrics_and_counts_on(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **SETTINGS)
    before = read_metrics(tmp_path / "metrics.jsonl")
    result = resume(tmp_path, quiet=True, total_steps=2000)
    after = read_metrics(tmp_path / "metrics.jsonl")
    assert after[: len(before)] == before
    assert result.steps >= 2000
    assert after[-1]["updates"] > before[-1]["updates"]
    assert after[-1]["episodes"] > before[-1]["episodes"]


def test_a_run_goes_on_with_its_replay(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **SETTINGS)
    run, config = RunFolder.open(tmp_path)
    newest = checkpoints.newest(run.checkpoints)
    assert newest is not None

    def caveat(**changes: Any) -> tuple[int, str | None]:
        trainer: Any = make_trainer(config.replace(**changes), run, checkpoints.load(newest))
        try:
            assert trainer.learner.rate_limiter.due(trainer.step) >= 0
            return trainer.learner.memory.held, trainer.policies[0].caveat
        finally:
            trainer.close()

    held, none = caveat()
    assert none is None and 1150 < held <= 1200
    held, why = caveat(samplers=2)
    assert held == 0 and why is not None and "another task, size" in why
    for file in run.replay.glob("*.safetensors"):
        file.unlink()
    held, why = caveat()
    assert held == 0 and why is not None and "cannot be read" in why


CHILD = "import sys; from headrace.cli.main import main; sys.exit(main())"


def begin(tmp_path: Path) -> Program:
    """A long run in a process of its own, under way."""
    words = ["train", "Pendulum-v1", "--algo", "ddpg", "--samplers", "2", "--run-dir", str(tmp_path), "--no-video"]
    more = ["--total-steps", "100000000", "--replay-ratio", "None", "--log-steps", "1000", "--stop-at-return", "None"]
    process = Program([sys.executable, "-c", CHILD, *words, *more], start_new_session=True)
    until = time.monotonic() + 60
    while not read_metrics(tmp_path / "metrics.jsonl"):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.05)
    return process


def members(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(its) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_everything_with_a_checkpoint(tmp_path):
    process = begin(tmp_path)
    assert len(members(process.pid)) > 3
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=20) == 130
    until = time.monotonic() + 10
    while members(process.pid):
        assert time.monotonic() < until, "somebody was left behind"
        time.sleep(0.05)
    newest = max((tmp_path / "checkpoints").glob("step-*"))
    counters = json.loads((newest / "state.json").read_text())
    assert counters["step"] == read_metrics(tmp_path / "metrics.jsonl")[-1]["step"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_is_left_behind_by_a_killed_run(tmp_path):
    shared = set(Path("/dev/shm").iterdir())
    process = begin(tmp_path)
    process.kill()
    process.wait()
    until = time.monotonic() + 20
    while members(process.pid):
        assert time.monotonic() < until, "somebody was left behind"
        time.sleep(0.05)
    assert {path for path in set(Path("/dev/shm").iterdir()) - shared if "headrace" in path.name} == set()


def test_the_rate_limiter_keeps_the_ratio():
    counters = Counters(1)
    config = make_config("Pendulum-v1", **but(replay_ratio=0.5, total_steps=2000))
    limiter = RateLimiter(config, counters)
    assert limiter.due(399) == 0
    assert limiter.due(400) == 0
    assert limiter.due(500) == 50
    assert counters.allowed[0] == 400 + 8 * 4
    limiter.note(50)
    assert counters.allowed[0] == 500 + 8 * 4
    assert limiter.due(10_000) == 800
    limiter.note(10_000)
    assert counters.allowed[0] == 2000
    free = RateLimiter(make_config("Pendulum-v1", **but(replay_ratio=None)), counters)
    assert free.due(400) == FREE
    assert counters.allowed[0] == SETTINGS["total_steps"]


@pytest.mark.parametrize("ratio", [0.01, 1 / 16, 1 / 49, 1 / 3, 0.3, 1.0, 2.5])
def test_samplers_may_always_go_on_to_the_next_update(ratio: float):
    """Also where that takes more steps than they may be ahead: else neither they nor the learner would ever move."""
    counters = Counters(1)
    config = make_config("Pendulum-v1", **but(replay_ratio=ratio, num_envs=1, total_steps=10**9))
    limiter = RateLimiter(config, counters)
    for updates in range(2000):
        limiter.note(updates)
        assert limiter.due(int(counters.allowed[0])) > updates


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("Pendulum-v1", {"normalise_observations": True}, r"normalise_observations=True would not .* samplers=0"),
        ("Pendulum-v1", {"batch_size": 2}, r"batch_size=2 would not .* samplers=0"),
        ("TagContinuous-v0", {}, r"continuous actions, not MultiDiscrete"),
        ("CartPole-v1", {}, r"continuous actions, not Discrete\(2\); .* ppo, a2c, pqn, dqn"),
        ("Pendulum-v1", {"prioritised": True}, r"prioritised=True would not .* for dqn in tasks with one agent"),
        ("Pendulum-v1", {"replay_ratio": 0.0}, "replay_ratio"),
        ("Pendulum-v1", {"samplers": -2}, "samplers"),
    ],
)
def test_mistakes_are_named(tmp_path, task, settings, words):
    with pytest.raises(OptionError, match=words):
        train(task, run_dir=tmp_path, quiet=True, **but(**settings))


def test_the_best_weights_are_the_evaluated_ones(tmp_path):
    config = make_config("Pendulum-v1", **with_evaluator())
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    try:
        learning = trainer.policies[0].actor_parameters.clone()
        evaluated = torch.randn_like(learning)
        trainer.source.evaluations.publish(evaluated, torch.tensor([-100.0, 200.0, 123.0, 1.0], dtype=torch.float64))
        trainer.source.advance()
        trainer._read()
        assert torch.equal(trainer.policies[0].actor_parameters, learning)
        trainer.source.evaluations.publish(-evaluated, torch.tensor([-200.0, 200.0, 456.0, 2.0], dtype=torch.float64))
        trainer.source.advance()
        trainer._read()
        assert trainer.state.best_return == -100.0
        trainer.saver.close()
        counters = json.loads((tmp_path / "checkpoints" / "best" / "state.json").read_text())
        assert counters["step"] == 123
    finally:
        trainer.close()

"""Processes of environments that die within a run: they are replaced, learning stays right, and too many end it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dying_env import DYING

import headrace
from headrace.errors import EnvironmentFailure
from headrace.pool.executors.processes import deaths
from headrace.train import resume, train
from headrace.train.play.evaluate import play_episodes, playing_pool
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.events import read_events
from headrace.train.runs.folder import RunFolder
from whole_runs import SMALL, WITH_SAMPLERS, assert_same_run

QUICK: dict[str, Any] = SMALL | {"num_envs": 4, "num_threads": 2, "num_steps": 8, "minibatch_size": 16, "hidden": [8]}
QUICK |= {"viewer": False, "log_steps": 32, "checkpoint_seconds": 60.0, "total_steps": 1024}
REPLAY: dict[str, Any] = QUICK | {"learning_starts": 64, "samplers": 0}
del REPLAY["num_steps"], REPLAY["minibatch_size"]


def order(folder: Path, deaths: int = 1) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(deaths):
        (folder / f"die-{number}").touch()


def warnings(run: Path) -> list[str]:
    return [event.text for event in read_events(run / "events.jsonl") if event.kind == "warning"]


@contextmanager
def trainer(folder: Path, algo: str, **settings: Any) -> Iterator[Any]:
    options = {"orders": str(folder / "orders"), "continuous": algo == "sac"}
    config = make_config(DYING, algo=algo, env_options=options, **settings)
    with closing(make_trainer(config, RunFolder.create(folder / "run", config))) as made, made._running():
        yield made


@pytest.mark.parametrize("autoreset", ["ppo", "grouped"])
def test_an_episode_of_a_dead_process_ends_with_its_last_observation(tmp_path: Path, autoreset: str) -> None:
    """Its last step is no sample; the one before is followed by the value of what the agent saw then."""
    settings = QUICK | ({"batch_size": 2} if autoreset == "grouped" else {})
    with trainer(tmp_path, "ppo", **settings) as run:
        run.iterate()
        order(tmp_path / "orders")
        (samples,) = run.source.collect()
        collector = run.source.collector
        lost = collector.lost
        assert lost.sum() == 2 and collector.truncated[lost].all() and not collector.rewards[lost].any()
        assert not torch.isin(samples.rows, lost.flatten().nonzero().flatten()).any() and len(samples.rows) == 30
        found = collector._ended.of(run.policies[0].agent_group, "obs")
        for t, column, seen in zip(found.t, found.columns, found.observations, strict=True):
            assert seen[0] == collector.observations["obs"][t, column, 0]  # of the same episode
        run.source.advance()
        run._read()
        (told,) = warnings(tmp_path / "run")
        assert (
            "a worker process died (killed by SIGSEGV); environments" in told
            and "another process has taken over" in told
        )
        run.iterate()


@pytest.mark.parametrize(("algo", "more"), [("dqn", {"n_step": 3}), ("dqn", {}), ("sac", {})])
def test_no_transition_leads_from_one_episode_to_another(tmp_path: Path, algo: str, more: Any) -> None:
    with trainer(tmp_path, algo, **REPLAY, **more) as run:
        for death in range(40):
            if death == 12:
                order(tmp_path / "orders")
            run.iterate()
        assert len(warnings(tmp_path / "run")) == 1
        if run.source.replay is None:
            ring = run.learner.learners[0].replay
            known = ring.read(torch.arange(int(ring.written)))
        else:
            replay = run.source.replay
            known = replay.read(replay.draw((4096,), torch.Generator().manual_seed(0)))
        goes_on = known.discounts.view(-1) > 0
        one, two = known.inputs[goes_on], known.next_observations[goes_on]
        assert len(one) > 600
        assert (one[:, 0] == two[:, 0]).all()
        assert ((two - one)[:, 1] >= 1).all()


def test_the_third_death_within_a_minute_ends_the_run_by_name(tmp_path: Path) -> None:
    words = r"Dying: a worker process died \(killed by SIGSEGV\); environments \d to \d"

    def dies_again_and_again() -> None:
        with trainer(tmp_path, "ppo", **QUICK) as run:
            run.iterate()
            order(tmp_path / "orders", deaths=3)
            while not run.finished():
                run.iterate()

    with pytest.raises(EnvironmentFailure, match=words) as error:
        dies_again_and_again()
    assert "the last of 3 deaths within 60 s" in str(error.value)
    assert len(warnings(tmp_path / "run")) == 2
    assert resume(tmp_path / "run", quiet=True, trust=True).reason == "finished"


def test_a_pool_without_a_run_raises_at_a_death(tmp_path: Path) -> None:
    with headrace.make(DYING, num_envs=2, num_threads=1, orders=str(tmp_path / "orders")) as pool:
        pool.reset()
        order(tmp_path / "orders")
        for _ in range(6):
            pool.step([0, 0])
        with pytest.raises(EnvironmentFailure, match="reset them to go on"):
            pool.step([0, 0])


def test_a_deterministic_run_ends_at_a_death_and_goes_on_exactly(tmp_path: Path) -> None:
    settings = QUICK | {"deterministic": True, "total_steps": 192, "checkpoint_seconds": 0.0, "log_steps": 1}
    settings |= {"quiet": True}
    options = {"orders": str(tmp_path / "orders")}
    train(DYING, "ppo", run_dir=tmp_path / "alone", env_options=options, **settings)

    def kill(training: Any, line: Any) -> None:
        if line["step"] == 96:
            order(tmp_path / "orders")

    with pytest.raises(EnvironmentFailure, match="a deterministic run ends here: resume it"):
        train(DYING, "ppo", run_dir=tmp_path / "killed", env_options=options, callback=kill, **settings)
    resume(tmp_path / "killed", quiet=True)
    assert_same_run(tmp_path / "alone", tmp_path / "killed")


@pytest.mark.nightly
def test_a_run_outlives_deaths_of_processes_of_its_samplers_and_evaluator(tmp_path: Path) -> None:
    """A sampler's process, that of its environments, and the evaluator's, each of which dies once an hour."""
    options, killed = {"orders": str(tmp_path / "orders")}, []

    def kill(training: Any, line: Any) -> None:
        supervisor = training._trainer.source.supervisor
        supervisor._deaths = deaths.Deaths(9)
        for name, step in (("sampler", 300), ("orders", 700), ("evaluator", 1100)):
            if line["step"] >= step and name not in killed:
                killed.append(name)
                order(tmp_path / "orders") if name == "orders" else os.kill(supervisor.pids()[name], signal.SIGKILL)

    settings = WITH_SAMPLERS | {"env_options": options, "total_steps": 3000, "log_steps": 100, "replay_ratio": 0.1}
    result = train(DYING, "dqn", run_dir=tmp_path / "run", quiet=True, callback=kill, **settings)
    assert result.reason == "finished" and len(killed) == 3
    events = read_events(tmp_path / "run" / "events.jsonl")
    told = [event.text for event in events if event.kind in ("restart", "warning")]
    for words in ("the sampler died (killed by SIGKILL", "the evaluator died", "another process has taken over"):
        assert sum(words in each for each in told) == 1, told


class Idle:
    def reset(self, rows: Any = None) -> None:
        pass

    def act(self, obs: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        return np.zeros(len(obs), np.int64)

    def score(self, reward: np.ndarray) -> np.ndarray:
        return reward


def test_an_evaluation_plays_another_episode_for_one_that_was_lost(tmp_path: Path) -> None:
    idle: Any = Idle()
    order(tmp_path / "orders")
    config = make_config(DYING, env_options={"orders": str(tmp_path / "orders")})
    with playing_pool(config, num_envs=2, num_threads=1) as pool:
        played = play_episodes(idle, pool, 1)
    assert played is not None and played.returns == [50.0, 50.0]


def test_deaths_long_ago_are_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "SPAN", -1.0)
    counted = deaths.Deaths()
    assert not any(counted.one_too_many() for _ in range(9))

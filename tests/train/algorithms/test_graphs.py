"""What a GPU runs as CUDA graphs, on a CPU with a stand-in for graphs: it learns what the plain path learns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from graph_runs import RUNS, SMALL, STEPS
from graph_stand_in import graphs_on_a_cpu
from headrace.train import resume, train
from headrace.train.algorithms.updater import Updater
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from nightly import rest_nightly
from updates import a_policy, some_transitions


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Any] = []

    def make(settings: dict[str, Any]) -> Any:
        config = make_config(**{"total_steps": 10**9, "tensorboard": False, **SMALL, **settings})
        made.append(make_trainer(config, RunFolder.create(tmp_path / str(len(made)), config)))
        return made[-1]

    yield make
    for trainer in made:
        trainer.close()


def learnt(make: Any, settings: dict[str, Any]) -> Any:
    trainer = make(settings)
    for _ in range(8):
        trainer.iterate()
    return trainer


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(one.policies, other.policies, strict=True):
        assert a.updates == b.updates > 0
        for (name, tensor), theirs in zip(a.model().items(), b.model().values(), strict=True):
            torch.testing.assert_close(tensor, theirs, msg=name, atol=1e-4, rtol=1e-3)
    assert one.tracker.episodes == other.tracker.episodes
    mean = one.tracker.mean_return()
    assert (mean and pytest.approx(mean, rel=1e-3)) == other.tracker.mean_return()


def assert_graphs_learn_the_same(make: Any, settings: dict[str, Any]) -> Any:
    """As without graphs; where the plain path differs, as with fixed shapes alone."""
    alike = settings["task"] != "TagContinuous-v0"
    with graphs_on_a_cpu():
        graphs = learnt(make, settings)
        if not alike:
            assert_same(graphs, learnt(make, settings | {"graphs": False}))
    if alike:
        assert_same(graphs, learnt(make, settings))
    return graphs


@pytest.mark.parametrize("name", rest_nightly(list(RUNS), *(name for name in RUNS if name not in ("td3", "ddpg"))))
def test_graphs_end_with_the_weights_of_updates_without_them(make: Any, name: str) -> None:
    graphs = assert_graphs_learn_the_same(make, RUNS[name])
    assert graphs.source.rollout.captured == ("host" not in name)


@pytest.mark.parametrize("name", rest_nightly(list(STEPS), *list(STEPS)[:1]))
def test_replays_of_steps_are_read_in_graphs(make: Any, name: str) -> None:
    trainer = assert_graphs_learn_the_same(make, STEPS[name])
    assert trainer.learner.updater._graphs[True].captured


@pytest.mark.parametrize("algo", rest_nightly(["ppo", "sac", "dqn"], "sac"))
def test_learners_beside_samplers_use_graphs_and_resume(tmp_path: Path, algo: str) -> None:
    task = "Pendulum-v1" if algo == "sac" else "CartPole-v1"
    own = {"num_steps": 32} if algo == "ppo" else {"learning_starts": 100, "replay_ratio": 0.1, "log_steps": 100}
    sizes: dict[str, Any] = {"hidden": (16,), "minibatch_size": 32}
    settings: dict[str, Any] = {"samplers": 1, "num_envs": 4, "stop_at_return": None, "viewer": False, "video": False}
    with graphs_on_a_cpu():
        result = train(task, algo, run_dir=tmp_path, total_steps=1200, quiet=True, **sizes, **own, **settings)
        assert result.reason == "finished"
        assert resume(tmp_path, quiet=True, total_steps=1800).steps >= 1800
    line = read_metrics(tmp_path / "metrics.jsonl")[-1]
    assert line["updates"] > 8 and all(math.isfinite(value) for value in line["loss"].values())


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_halves_of_updates_are_graphs(algo: str) -> None:
    """As of two processes, of which one updates the critics and one the actor."""
    plain, graphs = a_policy(algo), a_policy(algo)
    plain.compiled = None
    ring, replay = plain._ring(), graphs._ring()
    for each in (ring, replay):
        each.add(some_transitions(plain, 32, 1))
    expected = [Updater(plain, ring, part=part) for part in ("critics", "actor")]
    with graphs_on_a_cpu():
        found = [Updater(graphs, replay, part=part) for part in ("critics", "actor")]
        for _ in range(10):
            for one, other in zip(expected, found, strict=True):
                torch.testing.assert_close(one.update(), other.update())
        assert found[0]._graphs[True].captured
    for (name, tensor), other in zip(plain.model().items(), graphs.model().values(), strict=True):
        torch.testing.assert_close(tensor, other, msg=name)

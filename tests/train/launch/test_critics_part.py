"""Runs whose critic sees more than the actor: equal bits, and agents that need nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import HeadraceError
from headrace.train import load, resume
from headrace.train.play.evaluate import evaluate
from headrace.train.play.export import export_policy
from headrace.train.runs.folder import RunFolder
from whole_runs import SMALL, assert_same_run, weights

train: Any = headrace.train
GO1 = {"physics": "lanes"}
RUN: dict[str, Any] = SMALL | {
    "algo": "ppo",
    "hidden": (70,),
    "total_steps": 512,
    "log_steps": 128,
    "quiet": True,
    "anneal_learning_rate": False,
    "option_schedules": {},
    "env_options": GO1 | {"critic": True},
}
ACTOR, CRITIC = 48, 73


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("critic") / "run"
    train("Go1Flat-v0", **RUN, run_dir=path)
    return path


def test_a_run_is_resumed_to_the_same_bits(run: Path, tmp_path: Path) -> None:
    train("Go1Flat-v0", **RUN | {"total_steps": 256}, run_dir=tmp_path / "parts")
    resume(tmp_path / "parts", total_steps=512, quiet=True)
    assert_same_run(run, tmp_path / "parts")
    known = weights(run)
    assert known["network.first_weight"].shape == (70, ACTOR)
    assert known["network.critic_weight"].shape == (70, ACTOR + CRITIC)
    assert known["normaliser.mean"].shape == (ACTOR + CRITIC,)
    _, settings = RunFolder.read(run)
    assert settings.mirror and settings.matmul_precision == "medium"
    symmetric = known["normaliser.mean"][[1, 3, ACTOR + 10, ACTOR + 12]]  # what a mirror turns round
    assert float(symmetric.abs().max()) < 1e-6


def test_an_agent_needs_nothing_of_what_the_critic_saw(run: Path) -> None:
    agent = load(run)
    with headrace.make("Go1Flat-v0", num_envs=3, seed=1, flat_observation=True, **RUN["env_options"]) as pool:
        whole = pool.reset()[0]
    seen = np.ascontiguousarray(whole[:, :ACTOR])
    acted = agent.act(whole)
    assert agent.insight().value is not None
    np.testing.assert_allclose(agent.act(seen), acted, rtol=1e-3, atol=1e-3)  # of bfloat16 in compiled code
    assert agent.insight().value is None and agent.act(seen[0]).shape == (12,)
    changed = whole.copy()
    changed[:, ACTOR:] += 1
    np.testing.assert_array_equal(agent.act(changed), acted)
    with pytest.raises(HeadraceError, match=r"it must be \[48\] of one environment"):
        agent.act(whole[:, :50])
    assert len(evaluate(run, episodes=2, max_steps=20).returns) == 2


@pytest.mark.parametrize("name", ["agent.pt", pytest.param("agent.onnx", marks=pytest.mark.nightly)])
def test_an_exported_policy_has_neither_that_part_nor_values(name: str, run: Path, tmp_path: Path) -> None:
    exported = export_policy(load(run), tmp_path / name)
    assert [each.shape for each in exported.inputs] == [(ACTOR,)] and exported.difference is not None
    assert [each.name for each in exported.outputs] == ["action", "parameters"]


def test_an_agent_plays_where_there_is_nothing_for_a_critic(run: Path) -> None:
    from headrace.train.play.agent import Agent, load_checkpoint

    folder, settings = RunFolder.read(run)
    with headrace.make("Go1Flat-v0", num_envs=2, seed=1, physics="lanes") as pool:
        agent = Agent(settings, pool.spec, load_checkpoint(folder))
        assert agent.act(pool.reset()[0]).shape == (2, 12)


def test_networks_are_loaded_from_runs_of_the_same_sight(run: Path, tmp_path: Path) -> None:
    again = train("Go1Flat-v0", **RUN | {"total_steps": 128}, load=str(run), run_dir=tmp_path / "again")
    assert again.steps >= 128
    with pytest.raises(HeadraceError, match="load a run of a task with the same spaces"):
        train("Go1Flat-v0", **RUN | {"env_options": GO1}, load=str(run), run_dir=tmp_path / "other")


@pytest.mark.nightly
def test_samplers_show_their_critic_as_much(tmp_path: Path) -> None:
    how = {"samplers": 1, "evaluate_episodes": 1, "evaluate_share": 1.0, "viewer": False}
    assert train("Go1Flat-v0", **RUN | how, run_dir=tmp_path / "run").steps >= 512

"""Agents of several types that share a policy: what each type earned, and how long its agents were in the game."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import headrace
from collecting import collecting, recorded_actions
from device_waits import NothingWaits
from headrace.train import resume
from headrace.train.collect.pools import make_pool
from headrace.train.logging.dashboard import Dashboard
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.runs.words import return_text
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
TASK = "TagContinuous-v0"
TYPES = {"tagger": [0, 1], "runner": [2, 3, 4, 5, 6]}
SHARED: dict[str, Any] = {
    "env_options": {"num_taggers": 2, "num_runners": 5, "tagging_distance": 0.2, "max_episode_steps": 20},
    "policies": {"all": {"agents": ["tagger", "runner"]}},
}


def tracker_of(policy: Any) -> Any:
    config = policy.config
    return EpisodeTracker(config.num_envs, config.stop_episodes, types=tuple(policy.agent_group.types))


def plain_loop(collector: Any, tracker: Any, rollouts: int) -> dict[str, list[tuple[float, float]]]:
    """Return and length of each type in every episode, from a twin pool that takes the same actions."""
    config = collector.config
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in TYPES}
    chance = torch.Generator().manual_seed(1)
    agent_group = collector.experiences[0].agent_group
    with make_pool(config) as twin:
        twin.reset()
        running = np.zeros((config.num_envs, twin.spec.num_agents, 2))
        present = np.ones((config.num_envs, twin.spec.num_agents), bool)
        for _ in range(rollouts):
            collector.draw(chance)
            collector.collect()
            tracker.update(collector.scores(agent_group), collector.ends, collector.scores_by_type(agent_group))
            for t in range(config.num_steps):
                _, reward, terminated, truncated, info = twin.step(recorded_actions(collector, t))
                running += np.stack([reward, present], -1)
                present = info["alive"].copy()
                for env in np.flatnonzero(terminated | truncated):
                    for name, agents in TYPES.items():
                        found[name].append(tuple(running[env, agents].mean(0)))
                    running[env] = 0
    return found


@pytest.mark.parametrize("kind", ["host", "device", "static"])
def test_returns_of_each_type_equal_those_of_a_plain_loop(kind: str) -> None:
    config = make_config(TASK, num_envs=6, num_steps=24, seed=3, stop_episodes=1000, **SHARED)
    collector, (policy,) = collecting(kind, config)
    tracker = tracker_of(policy)
    found = plain_loop(collector, tracker, 5)
    assert tracker.episodes == len(found["runner"]) > 20
    told = tracker.by_type()
    for name, episodes in found.items():
        np.testing.assert_allclose(told[name], np.mean(episodes, 0), rtol=1e-5)
    assert told["tagger"][1] == tracker.mean_length() > told["runner"][1] > 0, "runners leave, when caught"
    everybody = (2 * told["tagger"][0] + 5 * told["runner"][0]) / 7
    assert tracker.mean_return() == pytest.approx(everybody, rel=1e-5)
    collector.pool.close()


def test_returns_of_each_type_are_gathered_without_waiting_for_the_device() -> None:
    config = make_config(TASK, num_envs=6, num_steps=24, **SHARED, network="gru", hidden=(8,))
    collector, (policy,) = collecting("static", config)
    collector.draw(torch.Generator())
    collector.collect()
    tracker = tracker_of(policy)
    with NothingWaits():
        scores = collector.scores_by_type(policy.agent_group)
        tracker.update(collector.scores(policy.agent_group), collector.ends, scores)
    assert set(tracker.by_type()) == set(TYPES)
    collector.pool.close()


@pytest.mark.parametrize("batch_size", rest_nightly([0, 4], 0), ids=["device", "host"])
def test_metrics_name_the_types_that_share_a_policy(tmp_path: Path, batch_size: int) -> None:
    options = SMALL | SHARED | {"total_steps": 1024, "anneal_learning_rate": False, "batch_size": batch_size}
    train(TASK, run_dir=tmp_path / "alone", quiet=True, **options)
    policy = read_metrics(tmp_path / "alone" / "metrics.jsonl")[-1]["policies"]["all"]
    assert set(policy["types"]) == set(TYPES) and policy["types"]["tagger"]["length"] == policy["length"]
    train(TASK, run_dir=tmp_path / "apart", quiet=True, **(options | {"policies": {}}))
    apart = read_metrics(tmp_path / "apart" / "metrics.jsonl")[-1]["policies"]
    assert set(apart) == set(TYPES) and "types" not in apart["tagger"]
    if batch_size == 0:
        train(TASK, run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 512}))
        resume(tmp_path / "stopped", quiet=True, total_steps=1024)
        assert_same_run(tmp_path / "alone", tmp_path / "stopped")


def test_processes_together_report_all_their_episodes(tmp_path: Path) -> None:
    options = SMALL | SHARED | {"total_steps": 1024, "devices": ("cpu", "cpu"), "torch_threads": 1}
    train(TASK, run_dir=tmp_path, quiet=True, **options)
    line = read_metrics(tmp_path / "metrics.jsonl")[-1]
    types = line["policies"]["all"]["types"]
    assert line["return"] == pytest.approx((2 * types["tagger"]["return"] + 5 * types["runner"]["return"]) / 7)


@pytest.mark.parametrize("terminal", [True, False], ids=["picture", "lines"])
def test_the_dashboard_shows_each_agent_type(tmp_path: Path, terminal: bool) -> None:
    options: dict[str, Any] = SMALL | SHARED | {"total_steps": 1024}
    config = make_config(TASK, **options)
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    dashboard, screen = Dashboard(io.StringIO()), io.StringIO()
    dashboard.console = Console(file=screen, force_terminal=terminal, color_system=None, width=100)
    trainer.train(dashboard)
    told = {name: return_text(earned) for name, (earned, _) in trainer.tracker.by_type().items()}
    trainer.close()
    text = screen.getvalue()
    if terminal:
        last = text[text.rindex("╭") :].splitlines()
        for name in TYPES:
            (row,) = [line for line in last if name in line]
            assert row.split()[1:3] == [name, told[name]]
    else:
        assert f"(tagger {told['tagger']}, runner {told['runner']})" in text

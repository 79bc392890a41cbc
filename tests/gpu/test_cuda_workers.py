"""Runs, with and without workers, whose learner, or whose actor or critics, are on a GPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from headrace.train import resume, train
from headrace.train.runs.metrics import read_metrics

SETTINGS: dict[str, Any] = {
    "samplers": 1,
    "num_envs": 4,
    "total_steps": 4000,
    "learning_starts": 400,
    "replay_ratio": 0.5,
    "log_steps": 500,
    "stop_at_return": None,
    "evaluate_episodes": 2,
    "viewer": False,
    "video": False,
}
ON = [
    {"device": "cuda"},
    {"device": "cuda", "graphs": False},
    {"critic_device": "cuda", "actor_device": "cuda"},
    {"critic_device": "cuda", "actor_device": "cpu"},
    {"critic_device": "cpu", "actor_device": "cuda"},
]


def last(folder: Path) -> dict[str, Any]:
    return read_metrics(folder / "metrics.jsonl")[-1]


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
@pytest.mark.parametrize("where", ON, ids=lambda where: "-".join(map(str, where.values())))
def test_off_policy_learners_train_on_the_chosen_devices_and_resume(
    tmp_path: Path, algo: str, where: dict[str, Any]
) -> None:
    train("Pendulum-v1", algo=algo, run_dir=tmp_path, quiet=True, **(SETTINGS | where))
    line = last(tmp_path)
    assert line["updates"] == int(0.5 * (4000 - 400))
    assert all(math.isfinite(value) for value in line["loss"].values())
    assert resume(tmp_path, quiet=True, total_steps=5000).steps >= 5000


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("prioritised", [True, False])
def test_dqn_trains_on_a_gpu_with_finite_losses(tmp_path: Path, graphs: bool, prioritised: bool) -> None:
    how = {"graphs": graphs, "prioritised": prioritised, "n_step": 3, "device": "cuda"}
    train("CartPole-v1", algo="dqn", run_dir=tmp_path, quiet=True, **(SETTINGS | how))
    assert all(math.isfinite(value) for value in last(tmp_path)["loss"].values())


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("task", ["CartPole-v1", "MinAtar-Breakout-v1"])
def test_dqn_without_workers_trains_from_a_replay_on_a_gpu_and_resumes(tmp_path: Path, graphs: bool, task: str) -> None:
    how = {"graphs": graphs, "prioritised": True, "n_step": 3, "device": "cuda", "samplers": 0, "algo": "dqn"}
    settings = {name: value for name, value in SETTINGS.items() if name != "evaluate_episodes"} | how
    train(task, run_dir=tmp_path, quiet=True, **settings)
    assert all(math.isfinite(value) for value in last(tmp_path)["loss"].values())
    assert resume(tmp_path, quiet=True, total_steps=5000).steps >= 5000


@pytest.mark.parametrize("graphs", [True, False])
def test_sac_without_workers_trains_from_a_replay_on_a_gpu(tmp_path: Path, graphs: bool) -> None:
    how = {"graphs": graphs, "n_step": 2, "device": "cuda", "samplers": 0, "algo": "sac"}
    settings = {name: value for name, value in SETTINGS.items() if name != "evaluate_episodes"} | how
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **settings)
    assert all(math.isfinite(value) for value in last(tmp_path)["loss"].values())


def test_sac_learns_pendulum_on_a_gpu(tmp_path: Path) -> None:
    more = {"device": "cuda", "total_steps": 12_000, "replay_ratio": 1.0, "evaluate_episodes": 10}
    train("Pendulum-v1", algo="sac", run_dir=tmp_path, quiet=True, seed=1, **(SETTINGS | more))
    assert last(tmp_path)["evaluation"]["return"] > -250

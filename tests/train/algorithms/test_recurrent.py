"""Recurrent policies: they learn what must be remembered, and a stopped run keeps its memory."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams, integers
from headrace.train import resume
from headrace.train.play.evaluate import evaluate
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
WAIT = wp.constant(4)


@wp.struct
class State:
    cue: wp.array[wp.int32]
    steps: wp.array[wp.int32]


@wp.struct
class View:
    obs: wp.array2d[wp.float32]


@wp.func
def begin(state: State, env: int, streams: Streams):
    state.cue[env] = integers(streams, env, 0, 2)
    state.steps[env] = 0


@wp.func
def answer(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    state.steps[env] = state.steps[env] + 1
    over = state.steps[env] > WAIT
    right = over and int(actions[row]) == state.cue[env]
    return wp.where(right, 1.0, 0.0), over


@wp.func
def look(state: State, env: int, view: View, row: int):
    """The cue is seen in the first step only."""
    first = state.steps[env] == 0
    view.obs[row, 0] = wp.where(first, 2.0 * float(state.cue[env]) - 1.0, 0.0)
    view.obs[row, 1] = float(state.steps[env]) / float(WAIT)


ENV = KernelEnv("Recall", State, View, begin, answer, look)
headrace.register("Recall-v0", KernelTask(ENV, gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(2)))

OPTIONS: dict[str, Any] = SMALL | {
    "num_envs": 64,
    "num_steps": 16,
    "minibatch_size": 256,
    "epochs": 4,
    "learning_rate": 5e-3,
    "hidden": (16, 16),
    "total_steps": 60_000,
    "log_steps": 5_000,
    "quiet": True,
}


@pytest.mark.nightly
def test_a_gru_recalls_a_cue_that_an_mlp_cannot_see(tmp_path: Path):
    train("Recall-v0", run_dir=tmp_path / "gru", network="gru", **OPTIONS)
    train("Recall-v0", run_dir=tmp_path / "mlp", network="mlp", **OPTIONS)
    recalled, guessed = (evaluate(tmp_path / name, episodes=200).mean_return for name in ("gru", "mlp"))
    assert recalled > 0.95
    assert guessed < 0.7


def test_a_stopped_recurrent_run_continues_as_if_left_alone(tmp_path: Path):
    options = OPTIONS | {
        "network": "gru",
        "anneal_learning_rate": False,
        "num_envs": 8,
        "num_steps": 7,
        "log_steps": 56,
    }
    train("Recall-v0", run_dir=tmp_path / "alone", **(options | {"total_steps": 56 * 12}))
    train("Recall-v0", run_dir=tmp_path / "stopped", **(options | {"total_steps": 56 * 5}))
    resume(tmp_path / "stopped", quiet=True, total_steps=56 * 12)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


@pytest.mark.nightly
def test_a_gru_finds_its_way_through_a_maze_by_the_cue_at_the_entrance(tmp_path: Path):
    """Without a memory -0.11 is the most."""
    example = Path(__file__).parents[3] / "examples" / "t_maze.py"
    settings = runpy.run_path(str(example))["SETTINGS"] | {"total_steps": 100_000, "quiet": True, "video": False}
    train("TMaze-v0", run_dir=tmp_path / "run", network="gru", **settings)
    assert evaluate(tmp_path / "run", episodes=100).mean_return > 0.8

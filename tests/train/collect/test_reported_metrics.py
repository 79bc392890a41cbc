"""What environments report at the ends of episodes is reported by a run, however it collects."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.errors import OptionError
from headrace.kernels import KernelEnv, KernelTask, Streams
from headrace.train import resume, train
from headrace.train.collect.game_values import reported
from headrace.train.runs.events import read_events
from headrace.train.runs.metrics import read_metrics
from pool.mujoco_robot import TASK, with_env
from whole_runs import SMALL

FILE = Path(__file__).with_name("metric_envs.py")
RUN = {**SMALL, "total_steps": 1_200, "log_steps": 100, "stop_episodes": 30, "quiet": True, "viewer": False}
REPLAY = {"learning_starts": 100, "minibatch_size": 16, "hidden": (8,), "replay_ratio": 0.1}


def last_metrics(run_dir: Path) -> dict[str, float]:
    return read_metrics(run_dir / "metrics.jsonl")[-1]["metrics"]


def test_reported_metrics_are_those_of_the_last_step() -> None:
    over = np.array([True, False, True])
    info = {
        "score": np.array([9.0, 9.0, 9.0]),
        "final_info": {"score": np.array([1.0, 0.0, 3.0]), "_score": np.array([True, False, False])},
    }
    found = reported(("is_success", "score"), info, over)
    assert found is not None and found.tolist() == [[0, 0], [0, 0], [1, 0], [1, 0]]
    agents = {"won": np.array([[True, False], [True, True], [False, False]])}
    found = reported(("won",), agents, over)
    assert found is not None and found.tolist() == [[0.5, 0], [1, 1]]
    assert reported(("other",), info, over) is None
    assert reported(("is_success",), {"is_success": np.array(["yes"] * 3, object)}, over) is not None
    with pytest.raises(OptionError, match=r"metrics: info\['score'\] must be a number, not 'a'"):
        reported(("score",), {"score": np.array(["a", "b", "c"], object)}, over)


@pytest.mark.parametrize(
    ("env", "algo", "more"),
    [
        ("Reports", "ppo", {}),
        ("Reports", "ppo", {"batch_size": 4}),
        ("Reports", "dqn", {**REPLAY, "samplers": 0}),
        ("Reports", "dqn", {**REPLAY, "samplers": 0, "n_step": 3}),
        pytest.param("Reports", "ppo", {"samplers": 1}, marks=pytest.mark.nightly),
        pytest.param("Moves", "sac", {**REPLAY, "samplers": 1}, marks=pytest.mark.nightly),
    ],
)
def test_a_run_reports_them_as_means_of_the_last_episodes(
    env: str, algo: str, more: dict[str, Any], tmp_path: Path
) -> None:
    run = {key: value for key, value in (RUN | more).items() if algo == "ppo" or key != "num_steps"}
    train(f"{FILE}:{env}", algo, run_dir=tmp_path / "run", metrics=("steps",), **run)
    found = last_metrics(tmp_path / "run")
    assert found["is_success"] == pytest.approx(2 / 3, abs=0.15)
    assert found["steps"] == pytest.approx(read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["length"])


def test_means_are_of_the_episodes_that_reported(tmp_path: Path) -> None:
    """Of each three episodes one reports, that of two steps; and a run goes on with its means."""
    how = {"env_options": {"told": "rarely"}, "metrics": ("steps", "never")}
    train(f"{FILE}:Reports", "ppo", run_dir=tmp_path / "run", **RUN, **how)
    assert last_metrics(tmp_path / "run")["steps"] == 2.0
    said = [event.text for event in read_events(tmp_path / "run" / "events.jsonl")]
    assert "no episode has reported never: metrics are keys of info in its last step" in said
    resume(tmp_path / "run", total_steps=1_300, quiet=True)
    assert last_metrics(tmp_path / "run")["steps"] == 2.0


@pytest.mark.parametrize("device", ["", pytest.param("cpu", marks=pytest.mark.nightly)])
def test_a_run_reports_the_metrics_that_a_robots_task_declares(device: str, tmp_path: Path) -> None:
    headrace.register("Pair-v0", with_env(TASK, metrics=("command", "noise")), replace=True)
    run = {**RUN, "metrics": ("noise",), **({"device": device} if device else {})}
    train("Pair-v0", "ppo", run_dir=tmp_path / "run", **run)
    found = last_metrics(tmp_path / "run")
    assert {*found} == {"noise", "episode_command", "episode_noise"}
    assert all(-1 < found[name] < 1 and found[name] != 0 for name in found)
    assert abs(found["episode_noise"]) < abs(found["noise"]) + 0.05


def test_a_metric_in_words_is_refused(tmp_path: Path) -> None:
    how = {"env_options": {"told": "words"}, "metrics": ("steps",)}
    with pytest.raises(OptionError, match=r"info\['steps'\] must be a number, not 'many'"):
        train(f"{FILE}:Reports", "ppo", run_dir=tmp_path / "run", **RUN, **how)


@wp.struct
class State:
    steps: wp.array[wp.int32]


@wp.struct
class View:
    obs: wp.array2d[wp.float32]
    is_success: wp.array[wp.bool]


@wp.func
def begin(state: State, env: int, streams: Streams):
    state.steps[env] = 0


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    state.steps[env] += 1
    return 1.0, state.steps[env] == 3


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.steps[env])
    view.is_success[row] = state.steps[env] == 3


def test_kernels_report_their_info_fields(tmp_path: Path) -> None:
    env = KernelEnv("CountsToThree", State, View, begin, step, observe)
    spaces = gym.spaces.Box(0, 9, (1,), np.float32), gym.spaces.Discrete(2)
    field = headrace.Field("is_success", np.dtype(np.bool_))
    headrace.register("CountsToThree-v0", KernelTask(env, *spaces, info=(field,)), replace=True)
    train("CountsToThree-v0", "ppo", run_dir=tmp_path / "run", **RUN)
    assert last_metrics(tmp_path / "run") == {"is_success": 1.0}

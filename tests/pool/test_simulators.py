"""A compiled simulator that does not fit its task is an error when its pool is made, and writes nowhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import EnvironmentFailure, SimulatorError
from headrace.pool.executors.threads import ThreadsExecutor
from headrace.pool.spec import AgentType


@pytest.fixture(scope="module")
def mistaken(compiled: Callable[[str], ModuleType]) -> ModuleType:
    """The compiled simulators of ``native/mistaken_env.cpp``."""
    return compiled("_mistaken")


def register(module: ModuleType, simulator: str, **changed: Any) -> str:
    """The counter's task, run by one of the module's simulators."""

    def build(task: str) -> headrace.Task:
        described: dict[str, Any] = {
            "observation": gym.spaces.Box(-np.inf, np.inf, (4,), np.float64),
            "action": gym.spaces.Discrete(1000),
            "info": (headrace.Field("episode", np.dtype(np.int32)),),
        }
        spec = headrace.TaskSpec(task=task, **described | changed)
        return headrace.Task(spec, partial(ThreadsExecutor, module, getattr(module, simulator)()))

    headrace.register("Mistaken-v0", build, replace=True)
    return "Mistaken-v0"


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        ("missing_field", "does not declare the task's 'info:episode', int32 [] (4 bytes a row)"),
        ("extra_field", "declares 'info:more', float64 [1000] (8000 bytes a row); the task has obs, info:episode"),
        ("misspelt_field", "'info:episode', int32 [] (4 bytes a row); it has 'info:epsiode', which the task has not"),
        ("repeated_field", "declares 'info:episode' twice"),
        (
            "wrong_dtype",
            "'obs' is float32 [4] (16 bytes a row) in the simulator, but float64 [4] (32 bytes a row) in the task",
        ),
        ("wrong_dtype_of_one_size", "'info:episode' is float32 [] (4 bytes a row) in the simulator, but int32 []"),
        ("wrong_size", "'obs' is float64 [4000] (32000 bytes a row) in the simulator, but float64 [4] (32 bytes"),
        ("wrong_shape", "'obs' is float64 [2, 2] (32 bytes a row) in the simulator, but float64 [4] (32 bytes a row)"),
        ("wrong_order", "another order, info:episode, obs; the task's is obs, info:episode"),
        ("wrong_action_size", "'action' is int64 [3] (24 bytes a row) in the simulator, but int64 [] (8 bytes a row)"),
        ("wrong_action_dtype", "'action' is float64 [] (8 bytes a row) in the simulator, but int64 [] (8 bytes a row)"),
        ("no_action", "declares no action; the task's is int64 [] (8 bytes a row)"),
        ("two_actions", "takes one array of actions; this one declares two"),
        ("too_many_fields", "at most 64 fields; info:62 is one more"),
        ("negative_shape", "info:more has a negative extent: -1"),
    ],
)
def test_make_names_the_field_in_which_a_simulator_and_its_task_differ(
    mistaken: ModuleType, simulator: str, message: str
) -> None:
    with pytest.raises(SimulatorError) as caught:
        headrace.make(register(mistaken, simulator), num_envs=2)
    assert message in str(caught.value)


def test_a_simulator_that_matches_its_task_runs(mistaken: ModuleType, make: Callable[..., Any]) -> None:
    pool = make(register(mistaken, "right"), num_envs=3)
    obs, _ = pool.reset()
    assert obs.dtype == np.float64
    assert (obs == 1).all()
    assert pool.step(np.zeros(3, np.int64))[1].tolist() == [0, 0, 0]


def test_a_batch_of_other_arrays_is_refused(mistaken: ModuleType) -> None:
    engine = mistaken.Engine(mistaken.right(), 2, 2, 1, [0, 1], "next_step", 0, -1)
    shapes = [((2, 4), "f8"), ((2,), "f4"), ((2,), "?"), ((2,), "?"), ((2,), "i4"), ((2,), "i4"), ((2,), "i4")]
    right = [np.zeros(shape, dtype) for shape, dtype in shapes]
    engine.bind(right)
    for wrong, message in (
        (right[:-1], "it has 6 arrays, not 7"),
        ([], "it has 0 arrays, not 7"),
        ([np.zeros((2, 3)), *right[1:]], "obs has 48 bytes, not 2 rows of 32"),
        ([*right[:-1], np.zeros(3, np.int32)], "info:episode has 12 bytes, not 2 rows of 4"),
    ):
        with pytest.raises(SimulatorError, match=message):
            engine.bind(wrong)


@pytest.mark.parametrize("simulator", ["writes_too_little", "writes_too_much"])
def test_a_simulator_that_writes_another_size_than_declared_fails(
    mistaken: ModuleType, make: Callable[..., Any], simulator: str
) -> None:
    pool = make(register(mistaken, simulator), num_envs=3, num_threads=1)
    with pytest.raises(EnvironmentFailure, match=r"environment 0: obs has 32 bytes, and (24|40) were written"):
        pool.reset()


def test_arrays_of_a_dict_observation_follow_the_order_of_its_space(mistaken: ModuleType) -> None:
    both: dict[str, gym.Space] = {name: gym.spaces.Box(-1, 1, (4,), np.float64) for name in ("b", "a")}
    with pytest.raises(SimulatorError, match=r"the task's 'obs:a', float64 \[4\]"):
        headrace.make(register(mistaken, "right", observation=gym.spaces.Dict(both)), num_envs=1)


def test_a_dict_action_space_is_refused(mistaken: ModuleType) -> None:
    action = gym.spaces.Dict({"left": gym.spaces.Discrete(2), "right": gym.spaces.Discrete(2)})
    with pytest.raises(SimulatorError, match="one array of actions, not Dict"):
        headrace.make(register(mistaken, "right", action=action), num_envs=1)


def test_a_task_with_several_agents_is_refused(mistaken: ModuleType) -> None:
    one = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    agents = (AgentType("runner", 2, one, gym.spaces.Discrete(2)),)
    with pytest.raises(SimulatorError, match="has 2 agents"):
        headrace.make(register(mistaken, "right", agents=agents), num_envs=1)

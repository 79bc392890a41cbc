"""An environment of one agent whose actions are a `Dict`: a crane that is pushed, and grips or lets go."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
import headrace.testing
from headrace.errors import ActionError, KernelError
from headrace.kernels import KernelEnv, KernelTask, Streams, integers
from headrace.testing.trial import Trial, advance, on_device, play, same, start

OBSERVATION = gym.spaces.Box(-100.0, 100.0, (3,), np.float32)
ACTION = gym.spaces.Dict(
    push=gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    grip=gym.spaces.Discrete(3, start=-1),
    lights=gym.spaces.MultiDiscrete([2, 5]),
)


@wp.struct
class State:
    place: wp.array2d[wp.float32]
    load: wp.array[wp.int32]


@wp.struct
class View:
    obs: wp.array2d[wp.float32]


@wp.struct
class Actions:
    push: wp.array2d[wp.float32]
    grip: wp.array[wp.int64]
    lights: wp.array2d[wp.int64]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.place[env, 0] = wp.float32(integers(streams, env, 0, 5))
    state.place[env, 1] = wp.float32(0.0)
    state.load[env] = 0


@wp.func
def step(state: State, env: int, actions: Actions, row: int, streams: Streams):
    for axis in range(2):
        state.place[env, axis] = state.place[env, axis] + actions.push[row, axis]
    state.load[env] = state.load[env] + int(actions.grip[row])
    return wp.float32(actions.lights[row, 1] - actions.lights[row, 0]), state.load[env] > 3


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = state.place[env, 0]
    view.obs[row, 1] = state.place[env, 1]
    view.obs[row, 2] = wp.float32(state.load[env])


CRANE = KernelEnv("Crane", State, View, reset, step, observe, shapes={"place": (2,)}, actions=Actions)
TASK = "TestCrane-v0"
headrace.register(TASK, KernelTask(CRANE, OBSERVATION, ACTION), replace=True)


BY_NAME = {check.__name__: check for check in headrace.testing.CHECKS}


def sampled(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "push": rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        "grip": rng.integers(-1, 2, n),
        "lights": rng.integers(0, [2, 5], (n, 2)),
    }


def test_each_key_of_a_dict_action_reaches_its_own_array() -> None:
    with headrace.make(TASK, num_envs=4, seed=0, autoreset="disabled") as pool:
        before = pool.reset()[0].copy()
        for at in range(2):
            action = sampled(4, at)
            obs, reward, *_ = pool.step(action)
            np.testing.assert_array_equal(obs[:, :2], before[:, :2] + action["push"])
            np.testing.assert_array_equal(obs[:, 2], before[:, 2] + action["grip"])
            np.testing.assert_array_equal(reward, action["lights"][:, 1] - action["lights"][:, 0])
            before = obs.copy()
        some = sampled(2, 3)
        obs, *_ = pool.step({**some, "env_id": [3, 1]})
        np.testing.assert_array_equal(obs[:, :2], before[[3, 1], :2] + some["push"])


@pytest.mark.parametrize("check", headrace.testing.CHECKS)
def test_a_task_with_dict_actions_passes_every_check(check: headrace.testing.Check) -> None:
    """In parts, asynchronously, on several threads, in all autoreset modes, saved and loaded."""
    check(TASK)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_debug_mode_steps_dict_actions_as_compiled_code_does(mode: str) -> None:
    trial = Trial(TASK, steps=30)
    with trial.make(autoreset=mode) as compiled, trial.make(autoreset=mode, debug=True) as interpreted:
        same(play(compiled, trial.actions()), play(interpreted, trial.actions()), "as compiled")


@pytest.mark.parametrize("check", ["now", "later"])
def test_dict_actions_of_tensors_give_the_results_of_arrays(check: str) -> None:
    torch: Any = pytest.importorskip("torch")
    trial, cpu = Trial(TASK), torch.device("cpu")
    pool: Any
    with (
        trial.make() as ours,
        headrace.make_torch(TASK, 5, seed=0, autoreset="same_step", max_episode_steps=13) as pool,
    ):
        if check == "later":  # as a GPU does
            pool._executor.guards.now = False
        actions = trial.actions()
        same(play(ours, actions), play(pool, [on_device(action, cpu) for action in actions]), "as arrays")
        ids, some = np.array([4, 2]), sampled(2)
        there = advance(pool, on_device(some, cpu), torch.from_numpy(ids))
        same([advance(ours, some, ids)], [there], "some of them")
        wrong = {name: torch.full_like(tensor, 9) for name, tensor in on_device(sampled(5), cpu).items()}
        start(pool)

        def wrongly() -> None:
            pool.step(wrong)
            pool.check_errors()

        with pytest.raises(ActionError):
            wrongly()
        with pytest.raises(ActionError, match=r"\['grip', 'lights', 'push'\]"):
            pool.step(torch.zeros(5))


def test_views_pass_dict_actions_on() -> None:
    vector = headrace.make_vec(TASK, num_envs=3, seed=1)
    with closing(vector), headrace.make(TASK, num_envs=3, seed=1) as pool:
        assert vector.single_action_space == ACTION
        vector.action_space.seed(0)
        vector.reset()
        pool.reset()
        for _ in range(5):
            action = vector.action_space.sample()
            np.testing.assert_array_equal(vector.step(action)[0], pool.step(action)[0])
    with headrace.make_dm(TASK, num_envs=3, seed=1) as dm:
        assert set(dm.action_spec()) == set(ACTION)
        dm.reset()
        dm.step(sampled(3))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"push": np.zeros((2, 3), np.float32)}, r"push: actions have shape \(2, 3\)"),
        ({"grip": np.array([0, 2])}, r"grip: action 2 in row 1 is not in \[-1, 1\]"),
        ({"lights": np.array([[0, 0], [0, 5]])}, r"lights: action 5 at \(1, 1\)"),
        ({"more": np.zeros(2)}, "an array for each of"),
    ],
)
def test_bad_actions_step_nothing(change: dict[str, np.ndarray], told: str) -> None:
    with headrace.make(TASK, num_envs=2, seed=0) as pool:
        pool.reset()
        before = pool.save_state()
        with pytest.raises(ActionError, match=told):
            pool.step(sampled(2) | change)
        assert pool.save_state() == before


@wp.struct
class AwkwardActions:
    command: wp.array[wp.int64]
    seed: wp.array[wp.int64]
    rows: wp.array[wp.int64]


@wp.func
def awkward_step(state: State, env: int, actions: AwkwardActions, row: int, streams: Streams):
    state.load[env] = state.load[env] + int(actions.command[row] + actions.seed[row])
    return wp.float32(actions.rows[row]), state.load[env] > 3


AWKWARD = replace(CRANE, name="Awkward", step=awkward_step, actions=AwkwardActions)
AWKWARD_ACTION = gym.spaces.Dict({name: gym.spaces.Discrete(3) for name in ("command", "seed", "rows")})
headrace.register("TestAwkward-v0", KernelTask(AWKWARD, OBSERVATION, AWKWARD_ACTION), replace=True)


@pytest.mark.parametrize("check", ["resets", "partial_steps", "asynchronous", "saved_states"])
def test_action_keys_may_have_the_names_of_request_columns(check: str) -> None:
    BY_NAME[check]("TestAwkward-v0")


@wp.struct
class FewActions:
    push: wp.array2d[wp.float32]
    grip: wp.array[wp.int32]


NAMED = gym.spaces.Dict(env_id=gym.spaces.Discrete(2))


@pytest.mark.parametrize(
    ("actions", "space", "told"),
    [
        (None, ACTION, r"`actions` must be a warp\.struct of .*grip: array of int64, lights: array2d of int64"),
        (FewActions, ACTION, r"FewActions must have the arrays .*\n.*test_kernels_dict_actions.py:\d+, in FewActions"),
        (Actions, gym.spaces.Discrete(3), "one array, so it needs no Actions"),
        (Actions, NAMED, "no action can be called 'env_id'"),
        (int, ACTION, r"int is no warp\.struct: write @wp\.struct above its class"),
    ],
)
def test_mistakes_in_the_struct_of_actions_are_named(actions: Any, space: gym.Space, told: str) -> None:
    task = KernelTask(replace(CRANE, actions=actions), OBSERVATION, space)
    headrace.register("TestWrongCrane-v0", task, replace=True)
    with pytest.raises(KernelError, match=told):
        headrace.make("TestWrongCrane-v0")

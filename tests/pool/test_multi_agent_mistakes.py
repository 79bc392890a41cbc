"""Mistakes in a multi-agent environment, or in actions for it, are reported before anything is stepped."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import warp as wp
from multi_agent_plays import HUNT

import headrace
import headrace.testing
import multi_agent_games as games
from headrace.errors import ActionError
from headrace.pool.executors.kernels import AgentStreams, KernelTask
from headrace.pool.spec import AgentType, Field, multi_agent_spec

GOOD = {"archer": np.zeros((2, 3, 2), np.float32), "dog": np.zeros((2, 2, 2), int)}
BAD_ACTIONS = [
    ({"archer": GOOD["archer"]}, r"\['archer', 'dog'\]"),
    ({**GOOD, "cat": GOOD["dog"]}, "cat"),
    (GOOD["dog"], "must be a dict"),
    ({**GOOD, "dog": np.zeros((2, 2), int)}, "dog: actions have shape"),
    ({**GOOD, "dog": np.zeros((2, 2, 2))}, "dog: actions have dtype float64"),
    ({**GOOD, "dog": np.array([[[0, 0], [0, 10]]] * 2)}, r"dog: action 10 at \(0, 1, 1\) is not in \[0, 9\]"),
    ({**GOOD, "dog": np.array([[[0, 0], [0, 0]], [[-1, 0], [0, 0]]])}, r"dog: action -1 at \(1, 0, 0\)"),
    ({**GOOD, "archer": np.full((2, 3, 2), np.nan, np.float32)}, "archer: .* not finite"),
]


@pytest.mark.parametrize(("action", "message"), BAD_ACTIONS)
def test_bad_actions_are_refused_and_change_nothing(action, message):
    with headrace.make(HUNT, num_envs=2, seed=0) as pool:
        pool.reset()
        before = pool.save_state()
        with pytest.raises(ActionError, match=message):
            pool.step(action)
        with pytest.raises(ActionError, match=message):
            pool.send(action)
        assert pool.save_state() == before
        pool.step(GOOD)


@wp.struct
class FlatActions:
    archer: wp.array2d[wp.float32]
    dog: wp.array3d[wp.int64]


@wp.struct
class FewActions:
    archer: wp.array3d[wp.float32]


@wp.struct
class NarrowView:
    obs_archer: wp.array2d[wp.float32]
    obs_dog: wp.array2d[wp.int64]


@wp.func
def forgetful(state: games.HuntState, env: int, agent: int, streams: AgentStreams):
    state.hats[env, agent] = 1


@wp.func
def act_in_reset(
    state: games.HuntState, env: int, agent: int, actions: games.HuntActions, row: int, streams: AgentStreams
):
    state.lives[env, agent] = True


WRONG_ENVIRONMENTS = [
    ({"actions": None}, r"Hunt: its `actions` must be .* \(archer: array3d of float32, dog: array3d of int64"),
    ({"actions": FlatActions}, r"FlatActions must have the arrays .* \(archer: array3d of float32"),
    ({"actions": FewActions}, "FewActions must have the arrays .* dog: array3d of int64"),
    ({"view": NarrowView}, "NarrowView.obs_archer must be an array of float32 with 3 dimensions"),
    ({"view": games.RingView}, "RingView"),
    ({"shapes": {"aim": ("num_agents",), "lives": ("num_agents",)}}, "heard"),
    ({"reset": (forgetful,)}, "hats"),
    ({"reset": (act_in_reset,)}, "act_in_reset"),
    ({"step": (games.hunt_begin,)}, "hunt_begin"),
    ({"reward": games.hunt_over}, "hunt_over"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_ENVIRONMENTS)
def test_make_refuses_an_environment_with_a_wrong_definition(change, message):
    task = KernelTask(replace(games.HUNT, **change), agents=(games.ARCHER, games.DOG), options={"limit": 3})
    headrace.register("TestWrongHunt-v0", task, replace=True)
    with pytest.raises(TypeError, match=message):
        headrace.make("TestWrongHunt-v0")


@pytest.mark.parametrize(
    "change", [{"reset": ()}, {"step": ()}, {"step": games.hunt_act}, {"reset": [games.hunt_begin]}]
)
def test_reset_and_step_must_be_tuples_of_phases(change):
    with pytest.raises(TypeError, match=r"Hunt: (reset|step) must be a tuple of phases"):
        replace(games.HUNT, **change)


def test_tasks_and_environments_must_agree_on_one_or_many_agents():
    from headrace.envs.classic_control import cartpole

    for task, message in (
        (KernelTask(games.RING, observation=gym.spaces.Discrete(2), action=gym.spaces.Discrete(2)), "Ring .*agents"),
        (KernelTask(cartpole.ENV, agents=(games.ARCHER,)), "CartPole .* one agent"),
    ):
        headrace.register("TestMixedUp-v0", task, replace=True)
        with pytest.raises(TypeError, match=message):
            headrace.make("TestMixedUp-v0")
    needless = replace(games.RING, actions=games.HuntActions)
    headrace.register("TestMixedUp-v0", replace(games.RING_TASK, env=needless), replace=True)
    with pytest.raises(TypeError, match="one array, so it needs no HuntActions"):
        headrace.make("TestMixedUp-v0")


def some(name="walker", count=2, observation=None, action=None):
    box = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
    return AgentType(name, count, observation or box, action or gym.spaces.Discrete(3))


WRONG_TYPES = [
    ((), (), "agent types"),
    ((some("a b"),), (), "identifier"),
    ((some(count=0),), (), "at least one agent"),
    ((some(), some()), (), "two agent types of one name"),
    ((some("action"),), (), "cannot be called 'action'"),
    ((some(), some("env_id")), (), "cannot be called 'env_id'"),
    ((some(action=gym.spaces.Text(3)),), (), "walker's space must be one array"),
    ((some(), some("rider", action=gym.spaces.Dict(a=gym.spaces.Discrete(2)))), (), "rider's space must be one"),
    ((some(action=gym.spaces.Dict(a=gym.spaces.Dict(b=gym.spaces.Discrete(2)))),), (), "flat Dict"),
    ((some(),), (Field("alive", np.dtype(bool), (2,)),), "alive"),
    ((some(),), (Field("hits", np.dtype(np.int32), (3,), per_agent=True),), "a shape with 2 agents first"),
]


@pytest.mark.parametrize(("agents", "info", "message"), WRONG_TYPES)
def test_wrong_agent_types_are_refused(agents, info, message):
    with pytest.raises(TypeError, match=message):
        multi_agent_spec("TestTypes-v0", agents, info)


def test_spaces_of_all_agents_are_stacked():
    spaces = gym.spaces.Dict(where=gym.spaces.Box(0, 1, (2,)), what=gym.spaces.Discrete(3, start=1))
    spec = multi_agent_spec("TestTypes-v0", (some("a", 2, spaces), some("b", 1, spaces)))
    what = spec.observation["what"]
    assert spec.observation["where"].shape == (3, 2)
    assert (what.nvec == 3).all()
    assert (what.start == 1).all()
    assert spec.action == gym.spaces.MultiDiscrete([3, 3, 3])

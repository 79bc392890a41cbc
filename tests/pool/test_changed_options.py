"""Options that change while environments run."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import warp as wp

import headrace
import weighed_games  # noqa: F401 (registers its task)
from headrace import HeadraceError
from headrace.mujoco import Streams
from pool.mujoco_robot import ENV, TASK, F, View

KINDS = ["threads", "debug", "torch"]


def counting_pool(kind: str, **options: Any) -> Any:
    make = headrace.make_torch if kind == "torch" else headrace.make
    where = {"torch": {"device": "cpu"}, "debug": {"debug": True}, "threads": {}}
    return make("Counting-v0", num_envs=3, **where[kind], **options)


def rewards(pool: Any) -> list[float]:
    zeros = np.zeros(3, np.int64)
    return np.asarray(pool.step(torch.from_numpy(zeros) if "torch" in str(type(pool)) else zeros)[1]).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_have_the_new_weights_within_an_episode(kind: str) -> None:
    with counting_pool(kind, bonus=2.0) as pool:
        pool.reset()
        assert rewards(pool) == [2.0] * 3
        pool.set_options(bonus=0.5, slope=10.0)
        assert rewards(pool) == [20.5] * 3  # two steps of this episode
        pool.set_options(slope=0.0)
        pool.set_options()
        assert rewards(pool) == [0.5] * 3
        with counting_pool(kind, bonus=2.0) as other:  # has memory of its own
            other.reset()
            assert rewards(other) == [2.0] * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            {"speed": 2},
            "speed of Counting-v0 cannot change .*, as the scalar 'speed' of its state",
        ),
        ({"most": 2.0}, "most of .* cannot change while its environments run, as what the task shows depends on it"),
        ({"many": True}, "many of .* as a table's shape depends on it: only tables of the state can"),
        ({"max_episode_steps": 5}, "max_episode_steps of .* as what the task shows depends on it"),
        ({"bonus": "much"}, "bonus"),
        ({"malus": 1.0}, "malus"),
    ],
)
def test_what_cannot_change_is_refused_by_name(kind: str, option: dict[str, Any], told: str) -> None:
    with counting_pool(kind) as pool:
        pool.reset()
        with pytest.raises(HeadraceError, match=told):
            pool.set_options(slope=5.0, **option)
        assert rewards(pool) == [1.0] * 3


def test_nothing_may_be_in_flight() -> None:
    with headrace.make("Counting-v0", num_envs=3, batch_size=3) as pool:
        pool.reset()
        pool.send(np.zeros(3, np.int64))
        with pytest.raises(HeadraceError, match="in flight"):
            pool.set_options(bonus=0.5)
        pool.recv()
        pool.set_options(bonus=0.5)
    with headrace.make("CartPole-v1", num_envs=2) as pool, pytest.raises(HeadraceError, match="mass"):
        pool.set_options(mass=0.5)


@wp.struct
class Weighted:
    steps: wp.array[wp.int32]
    weight: wp.array[F]


@wp.func
def earn(physics: Any, state: Weighted, env: int, actions: wp.array2d[F], view: View):
    return wp.float32(state.weight[0]), False


@wp.func
def fall(physics: Any, state: Weighted, env: int, streams: Streams):
    state.steps[env] = 0


@wp.func
def look(physics: Any, state: Weighted, env: int, view: View):
    view.noise[env] = F(0.0)
    view.command[env] = F(0.0)
    for i in range(17):
        view.obs[env, i] = F(0.0)


def weighted(options: Any, model: Any) -> Any:
    table = {"weight": np.array([options["weight"] * float(model.nu)])}
    return replace(ENV, state=Weighted, reset=fall, step=earn, observe=look, act=None, tables=table)


def mass(options: Any) -> Any:
    import mujoco

    model = mujoco.MjModel.from_xml_string(TASK.model)
    model.body_mass[1] = options["mass"]
    return model


@pytest.mark.parametrize("physics", ["lanes", "lanes32", "mujoco", "torch"])
def test_a_robots_rewards_have_the_new_weights(physics: str) -> None:
    task = replace(TASK, env=weighted, model=mass, options={"weight": 1.0, "mass": 3.0})
    headrace.register("Weighted-v0", task, replace=True)
    on_torch = physics == "torch"
    make = headrace.make_torch if on_torch else headrace.make
    options = {"device": "cpu"} if on_torch else {"physics": physics, "num_threads": 2}
    with make("Weighted-v0", num_envs=9, **options) as pool:
        pool.reset()
        zeros = torch.zeros(9, 2, dtype=torch.float64) if on_torch else np.zeros((9, 2))
        for weight in (1.0, 0.25, 3.0):
            pool.set_options(weight=weight)
            assert np.asarray(pool.step(zeros)[1]).tolist() == [2 * weight] * 9
        with pytest.raises(HeadraceError, match=r"mass of Weighted-v0 cannot change .* as its model depends on it"):
            pool.set_options(mass=4.0)


class Paid(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)
    pay = 1.0

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), self.pay, False, False, {}


def test_attributes_of_python_environments_change() -> None:
    with headrace.make(Paid, num_envs=2, num_threads=1) as pool:
        pool.reset()
        pool.set_options(pay=4.0)
        assert pool.step(np.zeros(2, np.int64))[1].tolist() == [4.0, 4.0]
        with pytest.raises(HeadraceError, match="environments have no attribute 'salary' that could be set"):
            pool.set_options(salary=4.0)

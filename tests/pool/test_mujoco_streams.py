"""Tasks of MuJoCo that draw random numbers in every function: the same in any pool, saved state and interpreter."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import numpy as np
import pytest
import warp as wp

from headrace.errors import KernelError
from headrace.mujoco import Streams, uniform
from pool.mujoco_robot import F, State, View, played, pool_of, same, with_env


def test_draws_do_not_depend_on_threads_physics_or_device() -> None:
    with pool_of(num_envs=11, num_threads=1, seed=4, physics="mujoco") as pool:
        expected = played(pool)
    drawn = np.stack([row["noise"] for row in expected])
    assert len(np.unique(drawn)) == drawn.size
    with pool_of(num_envs=11, num_threads=3, seed=4, physics="mujoco") as pool:
        same(played(pool), expected)
    for physics in ("lanes", "lanes32"):
        with pool_of(num_envs=11, num_threads=2, seed=4, physics=physics) as pool:
            near = 1e-8 if physics == "lanes" else 1e-2
            same(played(pool, 5), expected[:6], obs=near, reward=near)
    with pool_of(on_torch=True, num_envs=11, seed=4) as pool:
        same(played(pool, 5), expected[:6], obs=5e-2, reward=5e-2)


def test_a_seed_and_a_saved_state_repeat_the_draws() -> None:
    with pool_of(num_envs=4, seed=1) as pool, pool_of(num_envs=4, seed=2, physics="mujoco") as other:
        first = played(pool, seed=7)
        same(played(pool, seed=7), first)
        states = pool.save_state()
        then = [np.array(pool.step(np.full((4, 2), 0.1))[0]) for _ in range(8)]
        pool.load_state(None, states)
        np.testing.assert_array_equal([np.array(pool.step(np.full((4, 2), 0.1))[0]) for _ in range(8)], then)
        other.load_state(None, states)
        np.testing.assert_allclose(
            [np.array(other.step(np.full((4, 2), 0.1))[0]) for _ in range(3)], then[:3], atol=1e-8
        )


@wp.func
def observe_beyond(physics: Any, state: State, env: int, view: View, streams: Streams):
    view.noise[env] = uniform(streams, env, F(0.0), F(1.0))
    view.command[env] = state.command[env]
    for i in range(18):
        view.obs[env, i] = view.noise[env]


@wp.func
def step_of_six(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View, seeds: wp.array[wp.uint64]):
    return wp.float32(0.0), False


def test_first_steps_pass_streams_and_other_arguments_are_refused() -> None:
    with pytest.raises(KernelError, match=r"view\.obs"), pool_of(with_env(observe=observe_beyond), num_envs=1):
        pass
    with (
        pytest.raises(KernelError, match="step_of_six takes 6 arguments"),
        pool_of(with_env(step=step_of_six), num_envs=1),
    ):
        pass

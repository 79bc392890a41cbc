"""Cart-pole: balance one pole or a chain of poles on a cart, or first swing it up, by pushing the cart."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    PI,
    copy_row,
    excess,
    gaussian,
    quadratic,
    standard_normal,
    suite_env,
    suite_model,
    suite_task,
    within,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Option, Streams, uniform

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
CART_RANGE = wp.constant(wp.float64(0.25))  # m, sparse reward
LEAST_COSINE = wp.constant(wp.float64(0.995))  # of the poles' angles, sparse reward
START = wp.constant(wp.float64(0.1))  # m and, for the poles, rad
START_ANGLE = wp.constant(wp.float64(0.034))
NOISE = wp.constant(wp.float64(0.01))


@wp.struct
class State:
    """The constants: whether poles start hanging down, whether the reward is sparse, and the poles' number and body."""

    swing_up: wp.bool
    sparse: wp.bool
    poles: int
    first: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    if state.swing_up:
        physics.qpos[env, 0] = NOISE * standard_normal(streams, env)
        physics.qpos[env, 1] = PI + NOISE * standard_normal(streams, env)
        for pole in range(1, state.poles):
            physics.qpos[env, 1 + pole] = START * standard_normal(streams, env)
    else:
        physics.qpos[env, 0] = uniform(streams, env, -START, START)
        for pole in range(state.poles):
            physics.qpos[env, 1 + pole] = uniform(streams, env, -START_ANGLE, START_ANGLE)
    for i in range(1 + state.poles):
        physics.qvel[env, i] = NOISE * standard_normal(streams, env)


@wp.func
def sparse_reward(physics: Any, state: State, env: int):
    """Returns 1 if the cart is near the center and all poles are upright, else 0."""
    reward = within(physics.qpos[env, 0], -CART_RANGE, CART_RANGE)
    for pole in range(state.poles):
        reward *= within(physics.xmat[env, state.first + pole][2, 2], LEAST_COSINE, ONE)
    return reward


@wp.func
def smooth_reward(physics: Any, state: State, env: int, force: wp.float64):
    """Returns the shaped reward for upright poles, a centered cart, small angular velocities and a small force."""
    upright = ZERO
    calm = ONE
    for pole in range(state.poles):
        upright += (physics.xmat[env, state.first + pole][2, 2] + ONE) * HALF
        speed = excess(physics.qvel[env, 1 + pole], ZERO, ZERO, wp.float64(5.0))
        calm = wp.min(calm, gaussian(speed, AT_MARGIN))
    upright /= wp.float64(state.poles)
    centered = gaussian(excess(physics.qpos[env, 0], ZERO, ZERO, wp.float64(2.0)), AT_MARGIN)
    gentle = (wp.float64(4.0) + quadratic(force, ZERO)) / wp.float64(5.0)
    return upright * gentle * ((ONE + calm) * HALF) * ((ONE + centered) * HALF)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    reward = ZERO
    if state.sparse:
        reward = sparse_reward(physics, state, env)
    else:
        reward = smooth_reward(physics, state, env, actions[env, 0])
    return wp.float32(reward), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    view.obs_position[env, 0] = physics.qpos[env, 0]
    for pole in range(state.poles):
        frame = physics.xmat[env, state.first + pole]
        view.obs_position[env, 1 + 2 * pole] = frame[2, 2]
        view.obs_position[env, 2 + 2 * pole] = frame[0, 2]
    copy_row(physics.qvel, env, 0, 1 + state.poles, view.obs_velocity, 0)


def sizes(options: Any, model: Any) -> dict[str, int]:
    """Returns the lengths of the observation's arrays."""
    return {"position": 2 * model.nv - 1, "velocity": model.nv}


def cartpole(
    swing_up: bool, sparse: bool = False, num_poles: int = 1, options: Mapping[str, Any] | None = None
) -> MujocoTask:
    """Returns the task with these settings, which the options ``num_poles`` and ``sparse`` replace if there are any."""

    def env(given: Any, model: Any) -> MujocoEnv:
        first = model.body("pole_1").id
        constants = {"swing_up": swing_up, "sparse": sparse, "poles": model.nv - 1, "first": first}
        return suite_env("Cartpole", ("qpos", "qvel", "xmat"), State, View, reset, step, observe, constants=constants)

    def model(given: Any) -> Any:
        return suite_model("cartpole", given.get("num_poles", num_poles))

    return suite_task(env, model, sizes, **(options or {}))


TASKS = {
    "balance": cartpole(swing_up=False),
    "balance_sparse": cartpole(swing_up=False, sparse=True),
    "swingup": cartpole(swing_up=True),
    "swingup_sparse": cartpole(swing_up=True, sparse=True),
    "two_poles": cartpole(swing_up=True, num_poles=2),
    "three_poles": cartpole(swing_up=True, options={"num_poles": Option(3, 1, 100), "sparse": False}),
}

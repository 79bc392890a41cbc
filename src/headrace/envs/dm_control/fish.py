"""Fish: a robot in water that is rewarded for turning upright or for swimming to a target."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    copy_row,
    excess,
    gaussian,
    random_rotation,
    set_quaternion,
    set_row,
    suite_env,
    suite_model,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

ONE = wp.constant(wp.float64(1.0))
BEND = wp.constant(wp.float64(0.2))  # rad, bound of the joints' initial angles
FREE_JOINT = wp.constant(7)  # length of the root joint's position, which precedes the other joints'
ASIDE = wp.constant(wp.float64(0.4))  # m, bound of the target's x and y
LOWEST = wp.constant(wp.float64(0.1))  # m, bounds of its height
HIGHEST = wp.constant(wp.float64(0.3))


@wp.struct
class State:
    """The constants: ``swims`` is whether the task is to swim, ``radii`` the sum of the mouth's and target's (m)."""

    swims: wp.bool
    radii: wp.float64
    torso: int
    mouth: int
    target: int
    num_joints: int
    nv: int


@wp.struct
class View:
    """The observation, which includes the target if the task is to swim."""

    obs_joint_angles: wp.array2d[wp.float64]
    obs_upright: wp.array[wp.float64]
    obs_target: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    set_quaternion(physics.qpos, env, 3, random_rotation(streams, env))
    for i in range(state.num_joints):
        physics.qpos[env, FREE_JOINT + i] = uniform(streams, env, -BEND, BEND)
    if state.swims:
        x = uniform(streams, env, -ASIDE, ASIDE)
        y = uniform(streams, env, -ASIDE, ASIDE)
        physics.geom_pos[env, state.target] = wp.vec3d(x, y, uniform(streams, env, LOWEST, HIGHEST))


@wp.func
def mouth_to_target(physics: Any, state: State, env: int) -> wp.vec3d:
    """Returns the vector from the mouth to the target, in the mouth's frame (m)."""
    way = physics.geom_xpos[env, state.target] - physics.geom_xpos[env, state.mouth]
    return wp.transpose(physics.geom_xmat[env, state.mouth]) * way


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    upright = physics.xmat[env, state.torso][2, 2]
    reward = gaussian(excess(upright, ONE, ONE, ONE), AT_MARGIN)
    if state.swims:
        distance = wp.length(mouth_to_target(physics, state, env))
        away = excess(distance, wp.float64(0.0), state.radii, wp.float64(2.0) * state.radii)
        reward = (wp.float64(7.0) * gaussian(away, AT_MARGIN) + wp.float64(0.5) * (upright + ONE)) / wp.float64(8.0)
    return wp.float32(reward), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, FREE_JOINT, state.num_joints, view.obs_joint_angles, 0)
    view.obs_upright[env] = physics.xmat[env, state.torso][2, 2]
    if state.swims:
        set_row(view.obs_target, env, 0, mouth_to_target(physics, state, env))
    copy_row(physics.qvel, env, 0, state.nv, view.obs_velocity, 0)


def fish(swims: bool) -> MujocoTask:
    """Returns the task to swim to a target, or else to turn upright."""

    def model(options: Any) -> Any:
        built = suite_model("fish")
        if not swims:  # hidden in this task
            built.geom("target").rgba[3] = 0
        return built

    def env(options: Any, model: Any) -> MujocoEnv:
        mouth, target = model.geom("mouth"), model.geom("target")
        constants = {
            "swims": swims,
            "radii": mouth.size[0] + target.size[0],
            "torso": model.body("torso").id,
            "mouth": mouth.id,
            "target": target.id,
            "num_joints": model.njnt - 1,
        }
        reads = ("qpos", "qvel", "xmat", "geom_xpos", "geom_xmat", "geom_pos")
        varies = ("geom_pos",) if swims else ()
        return suite_env(
            "Fish",
            reads,
            State,
            View,
            reset,
            step,
            observe,
            varies=varies,
            constants=constants,
            shapes={"obs_target": (3,)},
        )

    sizes = {"joint_angles": 7, "upright": None, **({"target": 3} if swims else {}), "velocity": 13}
    return suite_task(env, model, sizes, frame_skip=10)


TASKS = {"upright": fish(swims=False), "swim": fish(swims=True)}

"""Walker: a planar two-legged robot that is rewarded for standing, walking or running."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    INFINITY,
    JOINTS,
    copy_row,
    excess,
    gaussian,
    linear,
    randomize_joints,
    suite_env,
    suite_model,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams

STAND_HEIGHT = wp.constant(wp.float64(1.2))  # m, of the torso
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))


@wp.struct
class State:
    """The constants: ``move_speed`` is the target speed (m/s), 0 to stand."""

    move_speed: wp.float64
    torso: int
    speed: int
    nbody: int
    njnt: int
    nv: int


@wp.struct
class View:
    obs_orientations: wp.array2d[wp.float64]
    obs_height: wp.array[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_joints(physics, env, state.njnt, streams)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    height = physics.xpos[env, state.torso][2]
    standing = gaussian(excess(height, STAND_HEIGHT, INFINITY, STAND_HEIGHT * HALF), AT_MARGIN)
    torso = physics.xmat[env, state.torso]
    upright = (ONE + torso[2, 2]) * HALF
    reward = (wp.float64(3.0) * standing + upright) / wp.float64(4.0)
    if state.move_speed > wp.float64(0.0):
        speed = physics.sensordata[env, state.speed]
        moving = linear(excess(speed, state.move_speed, INFINITY, state.move_speed * HALF), HALF)
        reward = reward * (wp.float64(5.0) * moving + ONE) / wp.float64(6.0)
    return wp.float32(reward), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for body in range(1, state.nbody):
        frame = physics.xmat[env, body]
        view.obs_orientations[env, 2 * body - 2] = frame[0, 0]
        view.obs_orientations[env, 2 * body - 1] = frame[0, 2]
    view.obs_height[env] = physics.xpos[env, state.torso][2]
    copy_row(physics.qvel, env, 0, state.nv, view.obs_velocity, 0)


def walker(move_speed: float) -> MujocoTask:
    """Returns the task with this target speed (m/s), 0 to stand."""

    def env(options: Any, model: Any) -> MujocoEnv:
        speed = "torso_subtreelinvel"
        constants = {
            "move_speed": move_speed,
            "torso": model.body("torso").id,
            "speed": int(model.sensor(speed).adr[0]),
        }
        reads = (*JOINTS, "qvel", "xpos", "xmat", "sensordata")
        return suite_env("Walker", reads, State, View, reset, step, observe, constants=constants, sensors=(speed,))

    sizes = {"orientations": 14, "height": None, "velocity": 9}
    return suite_task(env, lambda _: suite_model("walker"), sizes, frame_skip=10)


TASKS = {"stand": walker(0.0), "walk": walker(1.0), "run": walker(8.0)}

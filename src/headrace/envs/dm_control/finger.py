"""Finger: spin a body on a hinge with a planar finger, or turn it until its tip is at a target."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import JOINTS, PI, log1p, randomize_joints, suite_env, suite_model, suite_task
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

SPIN_VELOCITY = wp.constant(wp.float64(15.0))  # rad/s


@wp.struct
class State:
    """The constants.

    ``turns`` is whether the task is to turn the body to a target. The target, of radius ``target_radius``, lies on a
    circle of radius ``radius`` around the hinge (m). The other fields are mostly addresses of sensors, of which those
    of positions have three numbers.
    """

    turns: wp.bool
    target_radius: wp.float64
    hinge_x: wp.float64
    hinge_z: wp.float64
    radius: wp.float64
    target_site: int
    njnt: int
    proximal: int
    distal: int
    proximal_velocity: int
    distal_velocity: int
    hinge_velocity: int
    tip: int
    target: int
    spinner: int
    touchtop: int
    touchbottom: int


@wp.struct
class View:
    """The observation, which includes the last two fields if the task is to turn the body."""

    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]
    obs_touch: wp.array2d[wp.float64]
    obs_target_position: wp.array2d[wp.float64]
    obs_dist_to_target: wp.array[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    if state.turns:
        angle = uniform(streams, env, -PI, PI)
        place = physics.site_pos[env, state.target_site]
        place[0] = state.hinge_x + state.radius * wp.sin(angle)
        place[2] = state.hinge_z + state.radius * wp.cos(angle)
        physics.site_pos[env, state.target_site] = place
    randomize_joints(physics, env, state.njnt, streams)


@wp.func
def accept(physics: Any, state: State, env: int):
    return physics.ncon[env] == 0


@wp.func
def distance(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the distance from the tip to the target's surface (m), which is negative inside the target."""
    x = physics.sensordata[env, state.target] - physics.sensordata[env, state.tip]
    z = physics.sensordata[env, state.target + 2] - physics.sensordata[env, state.tip + 2]
    return wp.sqrt(x * x + z * z) - state.target_radius


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    good = physics.sensordata[env, state.hinge_velocity] <= -SPIN_VELOCITY
    if state.turns:
        good = distance(physics, state, env) <= wp.float64(0.0)
    return wp.where(good, wp.float32(1.0), wp.float32(0.0)), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    x = physics.sensordata[env, state.spinner]
    z = physics.sensordata[env, state.spinner + 2]
    view.obs_position[env, 0] = physics.sensordata[env, state.proximal]
    view.obs_position[env, 1] = physics.sensordata[env, state.distal]
    view.obs_position[env, 2] = physics.sensordata[env, state.tip] - x
    view.obs_position[env, 3] = physics.sensordata[env, state.tip + 2] - z
    view.obs_velocity[env, 0] = physics.sensordata[env, state.proximal_velocity]
    view.obs_velocity[env, 1] = physics.sensordata[env, state.distal_velocity]
    view.obs_velocity[env, 2] = physics.sensordata[env, state.hinge_velocity]
    view.obs_touch[env, 0] = log1p(physics.sensordata[env, state.touchtop])
    view.obs_touch[env, 1] = log1p(physics.sensordata[env, state.touchbottom])
    if state.turns:
        view.obs_target_position[env, 0] = physics.sensordata[env, state.target] - x
        view.obs_target_position[env, 1] = physics.sensordata[env, state.target + 2] - z
        view.obs_dist_to_target[env] = distance(physics, state, env)


SENSORS = (
    "proximal",
    "distal",
    "proximal_velocity",
    "distal_velocity",
    "hinge_velocity",
    "tip",
    "target",
    "spinner",
    "touchtop",
    "touchbottom",
)


def finger(target_radius: float = 0.0) -> MujocoTask:
    """Returns the task to turn the body to a target of this radius (m), or to spin it if the radius is 0."""
    turns = target_radius > 0

    def model(options: Any) -> Any:
        built = suite_model("finger")
        if turns:
            built.site("target").size[0] = target_radius
        else:
            built.dof_damping[built.joint("hinge").dofadr[0]] = 0.03
            for site in ("target", "tip"):  # hidden in this task
                built.site(site).rgba[3] = 0
        return built

    def env(options: Any, model: Any) -> MujocoEnv:
        hinge = model.body_pos[model.joint("hinge").bodyid[0]] + model.joint("hinge").pos
        constants = {
            "turns": turns,
            "target_radius": target_radius,
            "hinge_x": hinge[0],
            "hinge_z": hinge[2],
            "radius": model.geom("cap1").size.sum(),
            "target_site": model.site("target").id,
            **{name: int(model.sensor(name).adr[0]) for name in SENSORS},
        }
        return suite_env(
            "Finger",
            (*JOINTS, "sensordata", "ncon", "site_pos"),
            State,
            View,
            reset,
            step,
            observe,
            accept=accept,
            varies=("site_pos",) if turns else (),
            constants=constants,
            shapes={"obs_target_position": (2,)},
        )

    sizes: dict[str, int | None] = {"position": 4, "velocity": 3, "touch": 2}
    if turns:
        sizes |= {"target_position": 2, "dist_to_target": None}
    return suite_task(env, model, sizes, frame_skip=2)


TASKS = {"spin": finger(), "turn_easy": finger(0.07), "turn_hard": finger(0.03)}

"""Mazes: a ball that is pushed, or Gymnasium's Ant, has to get to a place in a maze.

The rules are those of D4RL's mazes (Fu et al. 2020, https://arxiv.org/abs/2004.07219) as Gymnasium-Robotics has them.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from headrace.envs.gymnasium_robotics.common import DENSE, OPTIONS, assets, goal_parts, goal_space
from headrace.envs.gymnasium_robotics.maps import MAPS
from headrace.envs.mujoco.common import copy_row, warnings_dropped
from headrace.envs.mujoco.signals import FORCES, of_bodies
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import (
    Camera,
    Control,
    MujocoEnv,
    MujocoTask,
    Signals,
    Streams,
    integers,
    joint_parts,
    uniform,
)
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.spec import Field

F = wp.float64
ZERO = wp.constant(F(0.0))
ONE = wp.constant(F(1.0))
REACH = 0.45  # m: how near a goal is reached
NEAR = wp.constant(F(REACH))
NOISE = wp.constant(F(0.25))  # of places in a cell, in parts of its side
HALF = wp.constant(F(0.5))
FASTEST = wp.constant(F(5.0))  # m/s, of the ball before a step


@wp.struct
class State:
    """The goal (m), whether it was reached in this step, and constants; tables are the middles of cells (m)."""

    goal: wp.array[wp.vec2d]
    reached: wp.array[wp.bool]
    goals: wp.array2d[F]
    starts: wp.array2d[F]
    num_goals: int
    num_starts: int
    nq: int
    nv: int
    nbody: int
    side: F
    height: F
    target: int
    dense: wp.bool
    continuing_task: wp.bool
    reset_target: wp.bool


@wp.struct
class View:
    obs_achieved_goal: wp.array2d[F]
    obs_desired_goal: wp.array2d[F]
    obs_observation: wp.array2d[F]
    success: wp.array[wp.bool]


@wp.func
def middle(cells: wp.array2d[F], count: int, env: int, streams: Streams) -> wp.vec2d:
    """Returns the middle of one of these cells, drawn uniformly (m)."""
    cell = integers(streams, env, 0, count)
    return wp.vec2d(cells[cell, 0], cells[cell, 1])


@wp.func
def around(place: wp.vec2d, state: State, env: int, streams: Streams) -> wp.vec2d:
    """Returns a place near the middle of a cell (m)."""
    x = uniform(streams, env, -NOISE, NOISE)
    y = uniform(streams, env, -NOISE, NOISE)
    return place + state.side * wp.vec2d(x, y)


@wp.func
def set_goal(physics: Any, state: State, env: int, goal: wp.vec2d):
    """Sets the goal, and where pictures show it."""
    state.goal[env] = goal
    physics.site_pos[env, state.target] = wp.vec3d(goal[0], goal[1], state.height)


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    goal = around(middle(state.goals, state.num_goals, env, streams), state, env, streams)
    set_goal(physics, state, env, goal)
    start = middle(state.starts, state.num_starts, env, streams)
    while wp.length(start - goal) <= HALF * state.side:
        start = middle(state.starts, state.num_starts, env, streams)
    start = around(start, state, env, streams)
    physics.qpos[env, 0] = start[0]
    physics.qpos[env, 1] = start[1]
    state.reached[env] = False


@wp.func
def act(physics: Any, state: State, env: int, actions: wp.array2d[F]):
    """Pushes the ball, whose speed is bounded before."""
    for i in range(2):
        physics.qvel[env, i] = wp.clamp(physics.qvel[env, i], -FASTEST, FASTEST)
        physics.ctrl[env, i] = wp.clamp(actions[env, i], -ONE, ONE)


@wp.func
def place_of(physics: Any, env: int) -> wp.vec2d:
    """Returns the place that is to be at the goal (m)."""
    return wp.vec2d(physics.qpos[env, 0], physics.qpos[env, 1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    distance = wp.length(place_of(physics, env) - state.goal[env])
    reached = distance <= NEAR
    state.reached[env] = reached
    view.success[env] = reached
    reward = wp.where(reached, ONE, ZERO)
    if state.dense:
        reward = wp.exp(-distance)
    return wp.float32(reward), wp.bool(reached and not state.continuing_task)


@wp.func
def see_goals(physics: Any, state: State, env: int, view: View, streams: Streams):
    """Writes both goals; then draws the next one if this was reached and another is to follow."""
    place = place_of(physics, env)
    for i in range(2):
        view.obs_achieved_goal[env, i] = place[i]
        view.obs_desired_goal[env, i] = state.goal[env][i]
    if state.reached[env] and state.continuing_task and state.reset_target and state.num_goals > 1:
        goal = state.goal[env]
        while wp.length(place - goal) <= NEAR:
            goal = around(middle(state.goals, state.num_goals, env, streams), state, env, streams)
        set_goal(physics, state, env, goal)
    state.reached[env] = False


@wp.func
def observe_point(physics: Any, state: State, env: int, view: View, streams: Streams):
    at = copy_row(physics.qpos, env, 0, state.nq, view.obs_observation, 0)
    copy_row(physics.qvel, env, 0, state.nv, view.obs_observation, at)
    see_goals(physics, state, env, view, streams)


@wp.func
def observe_ant(physics: Any, state: State, env: int, view: View, streams: Streams):
    at = copy_row(physics.qpos, env, 2, state.nq, view.obs_observation, 0)
    at = copy_row(physics.qvel, env, 0, state.nv, view.obs_observation, at)
    for i in range(1, state.nbody):
        force = physics.cfrc_ext[env, i]
        for k in range(6):
            view.obs_observation[env, at + (i - 1) * 6 + k] = wp.clamp(force[k], -ONE, ONE)
    see_goals(physics, state, env, view, streams)


class Maze(NamedTuple):
    """A maze of square cells around the origin.

    Attributes:
        side: of a cell (m).
        height: of walls, in cells.
        rows: from the greatest y to the least, each along x.
    """

    side: float
    height: float
    rows: list[str]

    def cells(self, kinds: str) -> np.ndarray:
        """Returns the middles of all cells of these kinds, float64 [n, 2] (m)."""
        high, wide = len(self.rows), len(self.rows[0])
        return np.array([
            ((j + 0.5 - wide / 2) * self.side, (high / 2 - i - 0.5) * self.side)
            for i in range(high) for j in range(wide) if self.rows[i][j] in kinds
        ])  # fmt: skip

    def model(self, file: Path) -> Any:
        """Returns the model of a file with walls, and a site for the goal."""
        tree = ET.parse(file)
        world = tree.find(".//worldbody")
        assert world is not None
        half = self.height / 2 * self.side
        for x, y in self.cells("#"):
            size = f"{self.side / 2} {self.side / 2} {half}"
            ET.SubElement(
                world, "geom", type="box", pos=f"{x} {y} {half}", size=size, contype="1", conaffinity="1",
                rgba="0.7 0.5 0.3 1",
            )  # fmt: skip
        seen = {"size": f"{0.2 * self.side}", "rgba": "1 0 0 0.7", "type": "sphere"}
        ET.SubElement(world, "site", name="target", pos=f"0 0 {half}", **seen)
        with warnings_dropped():
            return library().MjModel.from_xml_string(ET.tostring(tree.getroot(), encoding="unicode"))


def env_of(maze: Maze, ant: bool, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    """Returns the task in a maze."""
    text = "".join(maze.rows)
    goals = "gc" if "g" in text or "c" in text else "."
    starts = "rc" if "r" in text or "c" in text else "."
    tables = {"goals": maze.cells(goals), "starts": maze.cells(starts)}
    constants = {
        "num_goals": len(tables["goals"]), "num_starts": len(tables["starts"]), "side": maze.side,
        "height": maze.height / 2 * maze.side, "target": model.site("target").id,
        "dense": options["reward_type"] == DENSE,
    }  # fmt: skip
    reads = ("qpos", "qvel", "site_pos", "cfrc_ext" if ant else "ctrl")
    return MujocoEnv(
        "AntMaze" if ant else "PointMaze", reads, State, View, reset, step, observe_ant if ant else observe_point,
        None if ant else act,
        names={"is_success": "success"}, varies=("site_pos",), constants=constants, tables=tables,
        bounds={"goal": FINITE},
    )  # fmt: skip


def signals_of(ant: bool, options: Mapping[str, Any], model: Any) -> Signals:
    """Returns what the numbers are; what moves the ant its model says."""
    goals = goal_parts(("x", "y"))
    if ant:
        return Signals((*goals, *joint_parts(model, 2), *of_bodies(model, 1, f"{FORCES}, clipped", 6, "N m, N")))
    gears = model.actuator_gear[:, 0]
    forces = (Control(f"force along {axis}", "N", float(gear)) for axis, gear in zip("xy", gears, strict=True))
    return Signals((*goals, *joint_parts(model)), tuple(forces))


def goal_reward(
    options: Mapping[str, Any], achieved: np.ndarray, desired: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns what pairs of goals [B, 2] earn, float32[B], and which end an episode, if it ends at its goal."""
    distance = np.linalg.norm(achieved - desired, axis=-1)
    near = distance <= REACH
    earned = np.exp(-distance) if options["reward_type"] == DENSE else near
    return earned.astype(np.float32), None if options["continuing_task"] else near


def point_file() -> Path:
    """Returns the file of the ball's model."""
    return assets("point") / "point.xml"


def ant_file() -> Path:
    """Returns the file of the ant's model, which is Gymnasium's."""
    found = find_spec("gymnasium")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "envs" / "mujoco" / "assets" / "ant.xml"


def in_maze(name: str, ant: bool, limit: int) -> MujocoTask:
    """Returns the task in the maze of a name, whose episodes have at most so many steps."""
    maze = Maze(4.0 if ant else 1.0, 0.5 if ant else 0.4, MAPS[name].split())
    file = ant_file if ant else point_file
    camera = Camera() if ant else Camera(distance=12.5 if len(maze.rows) > 8 else 8.8)
    flags = (Field("success", np.dtype(np.bool_)), Field("is_success", np.dtype(np.bool_)))
    return MujocoTask(
        partial(env_of, maze, ant), lambda options: maze.model(file()), goal_space(2, 105 if ant else 4), flags,
        OPTIONS | {"continuing_task": True, "reset_target": False},
        frame_skip=5 if ant else 1, max_episode_steps=limit, camera=camera, goal_reward=goal_reward,
        signals=partial(signals_of, ant),
    )  # fmt: skip


LIMITS = {"UMaze": (300, 700), "Open": (300, 700), "Medium": (600, 1000), "Large": (800, 1000)}  # the ball's, the ant's
TASKS = {
    f"{kind}_{name}-{version}": in_maze(name, ant, LIMITS[name.partition("_")[0]][ant])
    for kind, version, ant in (("PointMaze", "v3", False), ("AntMaze", "v5", True))
    for name in MAPS
}

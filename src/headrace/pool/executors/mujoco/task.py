"""A MuJoCo task with its model, spaces and options, as `headrace.register` takes it."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import KernelError, OptionError
from headrace.limits import limits_named
from headrace.pool.batch import OBS
from headrace.pool.executors.kernels.changes import Changes
from headrace.pool.executors.mujoco.arrows import OPTION as ARROWS
from headrace.pool.executors.mujoco.arrows import Arrows
from headrace.pool.executors.mujoco.comparison import comes_with_headrace
from headrace.pool.executors.mujoco.declared import Servo, action_space, check_metrics, metric_fields
from headrace.pool.executors.mujoco.fields import MjModel, keyframe_of, library, sensors_of
from headrace.pool.executors.mujoco.lanes import OPTION, PHYSICS, physics_of, remark
from headrace.pool.executors.mujoco.pictures import Camera, camera_of, picture_options, picture_space
from headrace.pool.executors.mujoco.program import MujocoEnv
from headrace.pool.executors.mujoco.randomise import fields_of, tables_of
from headrace.pool.executors.mujoco.signals import completed_signals
from headrace.pool.goals import KEYS, Goals, Judge, goals_in, has_goals
from headrace.pool.mirror import Mirror
from headrace.pool.options import Option, Options, complete
from headrace.pool.signals import NO_SIGNALS, Signals, check_signals
from headrace.pool.spec import CRITIC, Field, TaskSpec, bounds, subspaces
from headrace.pool.task import Task

FLAT = "flat_observation"
"""the option that says whether a `Dict` of arrays is one array"""
ROBOTS = "robots"
"""the family whose recipe fits any robot that moves by targets of servos"""
RANDOMISE = "randomise"
"""the option of tasks with random fields of the model that says whether they are drawn"""
XML_FILE = "xml_file"
"""the option of some tasks that is a model's file"""


@dataclass(frozen=True)
class MujocoTask:
    """A `MujocoEnv` with its model, spaces and options, as `headrace.register` takes it.

    Every such task has the options ``frame_skip`` (number of physics steps before a reward), ``action_repeat`` (number
    of rewards in one agent step, which are added), ``frame_stack`` (number of latest observations to stack, oldest
    first, along a new first dimension; 1 for no such dimension), ``max_episode_steps``, in agent steps, and
    ``physics`` (``"lanes"``, which steps several simulations at once on a thread, ``"lanes32"``, twice as many in
    floats, or ``"mujoco"``, MuJoCo's own library; on a device it has no effect), and
    rendering options: ``from_pixels`` (whether pictures are the observation), ``render_width``, ``render_height``,
    ``render_camera_id`` or ``render_camera_name``, ``render_effects`` (whether shadows, reflections and antialiasing
    are drawn), ``visual_options`` (a dict `mujoco.mjtVisFlag` → whether it is drawn, in place of MuJoCo's default) and
    ``max_geom`` (greatest number of geoms in a scene).
    A task with a `Dict` observation may list ``flat_observation`` among its options, as in dm_control: whether its
    arrays are concatenated into one.

    Attributes:
        env: the task; or a function (options, model) → task.
        model: the model as XML or as the path of a file; or a function options → `mujoco.MjModel`.
        observation: one observation's space; or a function (options, model) → space.
        info: the info fields of every step; or a function (options, model) → fields.
        options: name → `Option`, or simply its default. A scalar field of the task's state with the name of an option
            holds its value; so do fields named after the model's sizes (``nq``, ``nv``, ``nu``, ``nbody``, …), and
            ``dt``, the seconds from one reward to the next.
        critic: the space of what only a critic sees, which is in ``view.obs_critic``; or a function (options, model) →
            space. The observation is then a `Dict` of ``obs``, which `observation` describes and ``view.obs`` has, and
            ``critic``, unless the option ``critic`` is false; with ``flat_observation`` one array that ends with it.
        frame_skip, max_episode_steps: defaults of these options, the latter divided by ``action_repeat``.
        camera: the default camera of pictures; by default one that shows all that the model can reach.
        arrows: what is drawn over pictures that people see, not over observations of pixels, unless the option
            ``render_arrows`` is false: a function model → arrows, such as `velocity_arrows`; None for nothing.
        steering: what a person may command who watches: label → least and greatest value, in the order of the
            columns of the state's array ``command``.
        kind: the key of recipes that fit the task if it belongs to no family; by default that of robots with servos.
        mirror: how observations and actions look in a mirror; or a function (options, model) → that. Of pictures it is
            not used.
        signals: what the numbers of observations and actions are, as an exported policy says; or a function (options,
            model) → that. What it leaves out is taken from the model: the keys of a `Dict`, the names and units of
            actuators, and the rate.
        goal_reward: of a task with goals, whose observation is a `Dict` of ``achieved_goal``, ``desired_goal`` and
            ``observation``: a function (options, achieved, desired) → what pairs of goals [B, k] earn, float32[B], and
            whether they end an episode, bool[B], or None if none does. Training with `hindsight` asks it.
    """

    env: MujocoEnv | Callable[[Options, MjModel], MujocoEnv]
    model: str | Path | Callable[[Options], MjModel]
    observation: gym.Space | Callable[[Options, MjModel], gym.Space]
    info: tuple[Field, ...] | Callable[[Options, MjModel], tuple[Field, ...]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    frame_skip: int = 1
    max_episode_steps: int = 1000
    critic: gym.Space | Callable[[Options, MjModel], gym.Space] | None = None
    camera: Camera = field(default_factory=lambda: Camera(on_reach=True))
    mirror: Mirror | Callable[[Options, MjModel], Mirror | None] | None = None
    steering: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    arrows: Callable[[MjModel], Arrows] | None = None
    kind: str = ""
    signals: Signals | Callable[[Options, MjModel], Signals] = NO_SIGNALS
    goal_reward: Callable[[Options, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]] | None = None

    def __call__(self, task: str, **options: Any) -> Task:
        """Returns the task under the name ``task``, with these options.

        Raises:
            OptionError: an option is unknown or its value is invalid, MuJoCo cannot compile the model, or lanes, which
            the options ask for, cannot step it.
        """
        from headrace.pool.executors.mujoco.executor import MujocoExecutor
        from headrace.pool.executors.mujoco.memory import WARNING, scalars_of

        known = {
            "max_episode_steps": Option(0),
            "frame_skip": Option(1, 1),
            "action_repeat": Option(1, 1),
            "frame_stack": Option(1, 1),
            PHYSICS: OPTION,
            RANDOMISE: Option(True),
            **({CRITIC: Option(True), FLAT: Option(False)} if self.critic is not None else {}),
            **({ARROWS: Option(True)} if self.arrows is not None else {}),
        }
        own = {"max_episode_steps": self.max_episode_steps, "frame_skip": self.frame_skip}
        given = complete(task, {**known, **picture_options(options), **self.options}, {**own, **options})
        if "max_episode_steps" not in options:
            given["max_episode_steps"] = math.ceil(self.max_episode_steps / given["action_repeat"])
        model = _compiled(task, self.model, given)
        env = self.env(given, model) if callable(self.env) else self.env
        if RANDOMISE not in self.options and not env.randomise and given.pop(RANDOMISE) and RANDOMISE in options:
            raise OptionError(f"{task} has nothing to randomise")
        env = completed(env if given.get(RANDOMISE, True) else replace(env, randomise={}), model)
        ours = comes_with_headrace(env, self.model) and not self._has_own_file(given)
        given[PHYSICS] = physics_of(task, given[PHYSICS], env, model, ours)
        observation = self.observation(given, model) if callable(self.observation) else self.observation
        signals, plain, unseen = self.signals, observation, 0
        if self.critic is not None:
            critic = self.critic(given, model) if callable(self.critic) else self.critic
            seen = with_critic(task, observation, critic)
            if given[CRITIC]:
                observation, env = seen, replace(env, names={**env.names, f"{OBS}:{OBS}": OBS})
                unseen = check_flat(task, seen, given) if given[FLAT] else 0
            else:  # it is written all the same, and shown to nobody
                env = replace(env, shapes={**env.shapes, f"{OBS}_{CRITIC}": critic.shape})
        info = self.info(given, model) if callable(self.info) else self.info
        mirror = self.mirror(given, model) if callable(self.mirror) else self.mirror
        check_metrics(env, info)
        means = metric_fields(env)
        shown = flattened(observation) if given.get(FLAT) else observation
        depth, pictured = given["frame_stack"], given["from_pixels"]
        shown = picture_space(given) if pictured else shown
        arrows = self.arrows(model) if self.arrows is not None and given[ARROWS] else None
        camera, frames = camera_of(task, model, given, self.camera), given["frame_skip"] * given["action_repeat"]
        rate, space = 1 / (model.opt.timestep * frames), action_space(env, model)
        told = completed_signals(signals(given, model) if callable(signals) else signals, env, model, plain, rate)
        check_signals(task, told, plain, space)
        spec = TaskSpec(
            task=task,
            observation=picture_space(given, depth) if pictured else stacked(shown, depth),
            action=space,
            info=(*info, *means, WARNING),
            max_episode_steps=given.pop("max_episode_steps"),
            frame_skip=frames,
            options=given,
            render_fps=rate,
            signals=replace(told, observation=()) if pictured else told,
            metrics=tuple(f.name for f in means),
            mirror=None if pictured else mirror,
            steering=self.steering,
            critic=0 if pictured else unseen,
            kind=self.kind or (ROBOTS if isinstance(env.actions, Servo) else ""),
        )
        parts, stack = (env, model, observation, shown), "frame_stack" if pictured else None

        def tables(now: Mapping[str, Any]) -> Mapping[str, Any]:
            return (self.env(now, model) if callable(self.env) else self.env).tables

        saved = partial(_saved, model)
        changes = Changes(self, options, spec, env, scalars_of(env, model, spec), tables, saved)
        goals = None
        if self.goal_reward is not None:
            goals = _goals(task, observation, partial(self.goal_reward, given))
        return Task(
            spec,
            partial(MujocoExecutor, *parts, camera, arrows),
            make_on_device=partial(_on_device, *parts),
            goals=goals if given.get(FLAT) and depth == 1 and not pictured else None,
            stack=stack,
            remark=partial(remark, task, given[PHYSICS], env, model, ours),
            changes=changes,
        )

    def _has_own_file(self, given: Options) -> bool:
        """Returns whether the model is of another file than the task's own, or that is a user's."""
        default = self.options.get(XML_FILE)
        return isinstance(default, Option) and (
            given[XML_FILE] != default.default or given[XML_FILE].startswith(("/", ".", "~"))
        )


def _on_device(*parts: Any) -> Any:
    from headrace.pool.executors.mujoco.device import WarpExecutor

    return WarpExecutor(*parts)


def with_critic(task: str, observation: gym.Space, critic: gym.Space) -> gym.spaces.Dict:
    """Returns the space of what the policy and the critic see; raises `KernelError` unless both are a `Box`."""
    for space in (observation, critic):
        if not isinstance(space, gym.spaces.Box):
            raise KernelError(f"{task} has a critic's observation: observation and critic must be a Box, not {space}")
    return gym.spaces.Dict(OrderedDict({OBS: observation, CRITIC: critic}))


def _goals(task: str, observation: gym.Space, judge: Judge) -> Goals:
    """Returns the goals of a task in its observations as one array; raises `KernelError` if these have none."""
    if not has_goals(observation):
        raise KernelError(f"{task} has a goal_reward: its observation must be a Dict of {', '.join(KEYS)}")
    assert isinstance(observation, gym.spaces.Dict)
    return goals_in(observation, lambda: judge)


def check_flat(task: str, both: gym.spaces.Dict, options: Options) -> int:
    """Returns the columns that only a critic sees at the end of one array; raises `OptionError` if there is no such."""
    observation, critic = both[OBS], both[CRITIC]
    if options["frame_stack"] > 1 or observation.dtype != critic.dtype:
        raise OptionError(
            f"{task}: with flat_observation=True, frame_stack={options['frame_stack']} and parts of dtypes "
            f"{observation.dtype} and {critic.dtype} no array ends with what only a critic sees: give one frame and "
            "one dtype, or critic=False"
        )
    return math.prod(critic.shape or ())


def completed(env: MujocoEnv, model: MjModel) -> MujocoEnv:
    """Returns a task that reads and varies what it declares; raises `KernelError` for what the model lacks."""
    keyframe_of(model, env.start)
    sensors = ("sensordata",) if sensors_of(model, env.sensors) else ()
    servos = ("ctrl",) if isinstance(env.actions, Servo) else ()
    drawn = fields_of(env.randomise)
    reads, varies = dict.fromkeys((*env.reads, *sensors, *servos, *drawn)), dict.fromkeys((*env.varies, *drawn))
    tables_of(env.name, env.randomise, model, 1)
    return replace(env, reads=tuple(reads), varies=tuple(varies))


def stacked(space: gym.Space, depth: int) -> gym.Space:
    """Returns the space of the latest ``depth`` observations, stacked along a new first dimension."""
    if depth == 1:
        return space
    if isinstance(space, gym.spaces.Dict):
        # ordered: Gymnasium would sort the keys of a plain dictionary
        return gym.spaces.Dict(OrderedDict((key, stacked(sub, depth)) for key, sub in subspaces(space).items()))
    assert isinstance(space, gym.spaces.Box)
    low, high = (np.stack([bound] * depth) for bound in (space.low, space.high))
    return gym.spaces.Box(low, high, dtype=np.dtype(space.dtype).type)


def flattened(space: gym.Space) -> gym.spaces.Box:
    """Returns the space of all arrays of a `Dict` of boxes, flattened and concatenated in the order of its keys."""
    boxes = [sub for sub in subspaces(space).values() if isinstance(sub, gym.spaces.Box)]
    low, high = (np.concatenate([np.ravel(bound) for bound in each]) for each in zip(*map(bounds, boxes), strict=True))
    return gym.spaces.Box(low, high, dtype=np.dtype(boxes[0].dtype).type)


def _saved(model: MjModel) -> bytes:
    """Returns a model as bytes."""
    made = np.empty(library().mj_sizeModel(model), np.uint8)
    library().mj_saveModel(model, None, made)
    return made.tobytes()


def _compiled(task: str, model: str | Path | Callable[[Options], MjModel], options: Options) -> MjModel:
    build = library().MjModel
    try:
        with limits_named(f"{task}'s model"):
            if isinstance(model, Path):
                return build.from_xml_path(str(model))
            return build.from_xml_string(model) if isinstance(model, str) else model(options)
    except ValueError as error:  # MuJoCo's compiler
        raise OptionError(f"{task}'s model cannot be compiled: {error}") from error

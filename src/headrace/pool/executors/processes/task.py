"""Tasks of Gymnasium environments: their spaces, and the executor that runs them.

An environment is given by its id in Gymnasium's registry, or as a class or function that makes one. PettingZoo
environments whose agents act simultaneously are accepted as well.
"""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from headrace.errors import OptionError
from headrace.pool.executors.processes.parallel import ParallelGame, is_parallel
from headrace.pool.goals import goals_of
from headrace.pool.sources import module_of
from headrace.pool.spec import POOL_OPTIONS, PoolSettings, TaskSpec
from headrace.pool.task import Task

if TYPE_CHECKING:
    from headrace.pool.batch import BatchRing
    from headrace.pool.executors.processes.executor import ProcessesExecutor

ON_FAILURE = ("raise", "restart")
OWN = ("max_episode_steps", "on_failure", "worker_timeout", "flat_observation")  # the executor's options
OF_BATCHES = ("single_observation_space", "step_async", "async_reset")
"""attributes by which vector environments of Gymnasium and stable-baselines3, and pools, are recognised"""


def in_gymnasium(name: str) -> bool:
    """Returns whether Gymnasium's registry has an environment of this id, such as ``"LunarLander-v3"``."""
    return name in gym.registry


def gymnasium_task(name: str, /, source: str = "", **options: Any) -> Task:
    """Returns the task of an id of Gymnasium's registry.

    Options other than the executor's are passed to the environment.

    Args:
        name: the id.
        source: the file or module that registers the id, which workers import first; empty for none.
        options: options of the executor and of the environment.
    """
    own, rest = split_options(options)
    if (limit := own.get("max_episode_steps")) is not None:
        rest["max_episode_steps"] = limit or -1  # Gymnasium's value for no limit
    spec = None if source else gym.spec(name)  # workers receive the registration of a script by value

    def make(_: int) -> gym.Env:
        if source:
            module_of(source)
        return gym.make(spec or name, **rest)

    label = f"{source}:{name}" if source else name
    return _task(label, make, own, {k: v for k, v in rest.items() if k != "max_episode_steps"})


def named_task(source: str, name: str, /, **options: Any) -> Task:
    """Returns the task of a class or function in a file or module, which workers import as well."""
    return _made_by(lambda: getattr(module_of(source), name), f"{source}:{name}", options)


def callable_task(made_by: Callable[..., Any], /, **options: Any) -> Task:
    """Returns the task of a class or function that makes an environment; options are its keyword arguments."""
    return _made_by(lambda: made_by, getattr(made_by, "__qualname__", type(made_by).__name__), options)


def _made_by(find: Callable[[], Callable[..., Any]], name: str, options: Mapping[str, Any]) -> Task:
    own, rest = split_options(options)
    limit = own.get("max_episode_steps")

    def make(_: int) -> Any:
        env = find()(**rest)
        if is_parallel(env):
            env = ParallelGame(env, name)
        return gym.wrappers.TimeLimit(env, limit) if limit else env

    return _task(name, make, own, rest)


def _task(name: str, make: Callable[[int], Any], own: Mapping[str, Any], options: Mapping[str, Any]) -> Task:
    """Returns the task of the environments that ``make`` makes; makes and closes one to read its spaces."""
    _checked(own)
    flat, plain = own.get("flat_observation", False), make
    if flat:
        make = _flattened(name, plain)
    try:
        env: Any = make(0)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise OptionError(f"{name} {_lacking(error)}") from error
    except TypeError as error:
        if unknown := [option for option in options if f"unexpected keyword argument {option!r}" in str(error)]:
            raise OptionError(f"{name} has no option {unknown[0]!r}{_hint(unknown[0])}: {error}") from error
        raise
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise OptionError(f"{name} makes a {type(env).__name__}, which is no gymnasium.Env: it has no spaces")
    if isinstance(env, type):
        raise OptionError(f"{name} makes the class {env.__qualname__}, not an environment: call it, or give it itself")
    for space in (env.observation_space, env.action_space):
        if not isinstance(space, gym.Space):
            raise OptionError(f"{name} makes a {type(env).__name__} that has {space!r} for a gymnasium.Space")
    if batch := next((word for word in OF_BATCHES if hasattr(env, word)), None):
        _close(env, name)
        raise OptionError(
            f"{name} makes a {type(env).__name__}, which steps several environments together (it has {batch}): "
            "give what makes one, and their number as num_envs"
        )
    try:
        limit = getattr(getattr(env, "spec", None), "max_episode_steps", None) or own.get("max_episode_steps") or 0
        fps = float(getattr(env, "metadata", {}).get("render_fps") or 30.0)
        game = getattr(env, "unwrapped", env)
        single = TaskSpec(name, env.observation_space, env.action_space)
        shown = replace(
            game.task if isinstance(game, ParallelGame) else single,
            max_episode_steps=limit,
            options=dict(options),
            render_fps=fps,
        )
        goals = goals_of(env.env, lambda: plain(0)) if flat else None
    finally:
        _close(env, name)
    return replace(process_task(shown, make, own), goals=goals)


def _flattened(name: str, make: Callable[[int], Any]) -> Callable[[int], Any]:
    """Returns a function that makes the same environments, with one array as observation in place of several."""

    def flat(env_id: int) -> Any:
        env = make(env_id)
        space = env.observation_space
        if isinstance(env, ParallelGame) or not space.is_np_flattenable:
            raise OptionError(f"{name} cannot have flat_observation=True: there is no one array of {space}")
        return gym.wrappers.FlattenObservation(env)

    return flat


def _close(env: Any, name: str) -> None:
    """Closes the environment whose spaces were read; an exception becomes a warning, as the pool does not need it."""
    try:
        env.close()
    except Exception as error:
        warnings.warn(f"close() of {name} raised {type(error).__name__}: {error}", stacklevel=2)


def process_task(spec: TaskSpec, make: Callable[[int], Any], own: Mapping[str, Any]) -> Task:
    """Returns a task whose environments run in worker processes.

    Args:
        spec: the task's spec.
        make: a function env_id → environment, whose info dicts always hold the fields of the spec's ``info``.
        own: the executor's options, from `split_options`.

    Raises:
        OptionError: one of these options has an invalid value.
    """
    timeout, restart = _checked(own)

    def make_executor(spec: TaskSpec, settings: PoolSettings, ring: BatchRing) -> ProcessesExecutor:
        from headrace.pool.executors.processes.executor import ProcessesExecutor

        if settings.device != "cpu":
            raise OptionError(f"{spec.task} runs in processes on the CPU, not on {settings.device!r}")
        return ProcessesExecutor(make, timeout, restart, spec, settings, ring)

    return Task(spec, make_executor)


def _lacking(error: Exception) -> str:
    """Returns what an environment could not import, and how to install it, in one line."""
    words = " ".join(str(error).split())
    return "needs Box2D: pip install 'headrace[box2d]'" if "gymnasium[box2d]" in words else f"cannot be made: {words}"


def _hint(option: str) -> str:
    """Returns a similar option of pools as a suggestion; the environment's error message names its own options."""
    close = difflib.get_close_matches(option, [*POOL_OPTIONS, *OWN], 1)
    return f", did you mean {close[0]!r}?" if close else ""


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits options into the executor's and the environment's own.

    Raises:
        OptionError: ``max_episode_steps`` is not a number of steps.
    """
    own = {name: value for name, value in options.items() if name in OWN}
    limit = own.get("max_episode_steps")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise OptionError(f"max_episode_steps must be a number of steps, 0 for no limit, not {limit!r}")
    return own, {name: value for name, value in options.items() if name not in OWN}


def _checked(own: Mapping[str, Any]) -> tuple[float, bool]:
    """Returns the seconds until a worker counts as hung, and whether lost environments restart automatically."""
    if not isinstance(flat := own.get("flat_observation", False), bool):
        raise OptionError(f"flat_observation must be True or False, not {flat!r}")
    return _timeout(own), _restarts(own)


def _timeout(own: Mapping[str, Any]) -> float:
    value = own.get("worker_timeout")
    if value is None:
        return math.inf
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise OptionError(f"worker_timeout must be a number of seconds above 0, or None, not {value!r}")
    return float(value)


def _restarts(own: Mapping[str, Any]) -> bool:
    value = own.get("on_failure", "raise")
    if value not in ON_FAILURE:
        raise OptionError(f"on_failure must be one of {', '.join(ON_FAILURE)}, not {value!r}")
    return value == "restart"

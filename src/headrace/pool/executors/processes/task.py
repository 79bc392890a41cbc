"""Tasks of Gymnasium environments: their spaces, and the executor that runs them.

An environment is given by its id in Gymnasium's registry, or as a class or function that makes one. PettingZoo
environments whose agents act simultaneously are accepted as well.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvCreator, EnvSpec, load_env_creator

from headrace.errors import OptionError
from headrace.pool import by_value
from headrace.pool.action_masks import GIVEN, MASK, heads_of, mask_array
from headrace.pool.executors.processes.deaths import accepted_deaths
from headrace.pool.executors.processes.parallel import ParallelGame, check_new, environments, is_parallel
from headrace.pool.flat_observation import PICTURES, flattened
from headrace.pool.goals import Goals, goals_of
from headrace.pool.infos import OURS
from headrace.pool.remarks import remark
from headrace.pool.sources import SCRIPT, module_of
from headrace.pool.spec import POOL_OPTIONS, Field, PoolSettings, TaskSpec
from headrace.pool.suggestions import close_names
from headrace.pool.task import Task

if TYPE_CHECKING:
    from headrace.pool.batch import BatchRing
    from headrace.pool.executors.processes.executor import ProcessesExecutor

ON_FAILURE = ("raise", "restart")
OWN = ("max_episode_steps", "on_failure", "worker_timeout", "flat_observation")  # the executor's options
PATIENCE = 10.0  # seconds of the reset that looks for action masks after which a remark is made
CLOSING = 2.0  # maximum wait for the close of the environment whose spaces were read, in seconds
Read = dict[str, tuple[TaskSpec, Goals | None]]
"""name and options of tasks, as JSON → what was read from an environment"""
_read: ContextVar[Read | None] = ContextVar("read", default=None)
OF_BATCHES = ("single_observation_space", "step_async", "async_reset")
"""attributes by which vector environments of Gymnasium and stable-baselines3, and pools, are recognised"""


def in_gymnasium(name: str) -> bool:
    """Returns whether Gymnasium's registry has an environment of this id, such as ``"Acrobot-v1"``."""
    return name in gym.registry


def maker_of(name: str) -> Callable[..., Any]:
    """Returns the class or function that makes the environment of an id of Gymnasium's registry."""
    made_by: Any = gym.spec(name).entry_point
    return load_env_creator(made_by) if isinstance(made_by, str) else made_by


def arguments_of(made_by: Callable[..., Any]) -> set[str]:
    """Returns the names of a function's arguments, or of a class's, with those that ``**kwargs`` hands to its bases."""
    while isinstance(made_by, functools.partial):
        made_by = made_by.func
    layers: list[Any] = [made_by]
    if isinstance(made_by, type):
        layers = [vars(kind)["__init__"] for kind in made_by.__mro__ if "__init__" in vars(kind)]
    found: set[str] = set()
    for each in layers:
        try:
            parameters = inspect.signature(each).parameters.values()
        except (TypeError, ValueError):  # of compiled code
            break
        found |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found - {"self"}


def gymnasium_task(name: str, /, source: str = "", **options: Any) -> Task:
    """Returns the task of an id of Gymnasium's registry.

    Options other than the executor's are passed to the environment.

    Args:
        name: the id.
        source: the file or module that registers the id, which workers import first; empty for none.
        options: options of the executor and of the environment.
    """
    own, rest = split_options(options)
    label = f"{source}:{name}" if source else name
    shared = _shared(own, lambda: maker_of(name), label)
    if (limit := own.get("max_episode_steps")) is not None:
        rest["max_episode_steps"] = limit or -1  # Gymnasium's value for no limit
    spec = None if source else portable_spec(name)

    def make(_: int) -> gym.Env:
        if source:
            module_of(source)
        found = spec or gym.spec(name)
        return gym.make(replace(found, kwargs=found.kwargs | shared) if shared else found, **rest)

    passed = {k: v for k, v in rest.items() if k != "max_episode_steps"}
    return _task(label, make, lambda: maker_of(name), own, passed)


def portable_spec(name: str) -> EnvSpec:
    """Returns the registration of an id, which other processes receive by value, as a script may have made it."""
    spec = gym.spec(name)
    if isinstance(spec.entry_point, str) and spec.entry_point.partition(":")[0] in SCRIPT:
        spec = copy(spec)
        spec.entry_point = cast(EnvCreator, load_env_creator(str(spec.entry_point)))
    return spec


def named_task(source: str, name: str, /, **options: Any) -> Task:
    """Returns the task of a class or function in a file or module, which workers import as well."""
    if (module := module_of(source)) is sys.modules["__main__"]:  # workers receive it by value
        made_by = getattr(module, name)
        return _made_by(lambda: made_by, f"{source}:{name}", options)
    return _made_by(lambda: getattr(module_of(source), name), f"{source}:{name}", options)


def callable_task(made_by: Callable[..., Any], /, **options: Any) -> Task:
    """Returns the task of a class or function that makes an environment; options are its keyword arguments."""
    name = getattr(made_by, "__qualname__", type(made_by).__name__)
    return _made_by(lambda: made_by, name, options, named=False)


def _made_by(find: Callable[[], Callable[..., Any]], name: str, options: Mapping[str, Any], named: bool = True) -> Task:
    own, rest = split_options(options)
    rest |= _shared(own, find, name)
    limit = own.get("max_episode_steps")

    def make(_: int) -> Any:
        env = find()(**rest)
        if is_parallel(env):
            env = ParallelGame(env, name)
        return gym.wrappers.TimeLimit(env, limit) if limit else env

    return _task(name, make, find, own, {k: v for k, v in rest.items() if k not in own}, named)


def _shared(own: Mapping[str, Any], find: Callable[[], Callable[..., Any]], name: str) -> dict[str, Any]:
    """Returns the options that both the executor and the environment take: a limit of steps.

    Raises:
        OptionError: another of the executor's options is an argument of the environment, too.
    """
    shared = {option: own[option] for option in own.keys() & arguments_of(find())} if own else {}
    if clash := shared.keys() - {"max_episode_steps"}:
        raise OptionError(
            f"{name} has an argument {(option := min(clash))}, and so have pools: to set the environment's, give a "
            f"function that makes it with {option}=…; to set the pool's, a function that has no such argument"
        )
    return shared


@contextmanager
def spaces_read_once() -> Iterator[None]:
    """Within this context, a named task's spaces are read from one environment for all that use equal options.

    Making one may take seconds, and a run asks for its task again and again. Outside, and for functions, an environment
    is made each time, as what it is made of may have changed.
    """
    token = None if _read.get() is not None else _read.set({})
    try:
        yield
    finally:
        if token is not None:
            _read.reset(token)


def _task(
    name: str,
    make: Callable[[int], Any],
    find: Callable[[], Callable[..., Any]],
    own: Mapping[str, Any],
    options: Mapping[str, Any],
    named: bool = True,
) -> Task:
    """Returns the task of the environments that ``make`` makes, by what ``find`` returns; reads the spaces of one."""
    _checked(own)
    plain = make
    if flat := own.get("flat_observation"):
        make = _flattened(name, plain, flat)
    kept = _read.get() if named else None
    read: Read = {} if kept is None else kept
    try:
        key = json.dumps((name, dict(own), dict(options)), sort_keys=True)
    except (TypeError, ValueError):  # an option is an object: there may be others that look like it
        read, key = {}, ""
    if key not in read:
        read[key] = _read_spaces(name, make, plain, find, own, options)
    spec, goals = read[key]
    return replace(process_task(spec, make, own), goals=goals)


def _read_spaces(
    name: str,
    make: Callable[[int], Any],
    plain: Callable[[int], Any],
    find: Callable[[], Callable[..., Any]],
    own: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[TaskSpec, Goals | None]:
    """Makes and closes an environment; returns its task's spec, and its goals if its observations are flattened."""
    try:
        env: Any = make(0)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise OptionError(f"{name} {_lacking(error)}") from error
    except TypeError as error:
        if unknown := [option for option in options if f"unexpected keyword argument {option!r}" in str(error)]:
            told = str(error).partition(" was raised from ")[0]  # what gymnasium.make adds
            hint = _hint(unknown[0], {*arguments_of(find()), *OWN})
            raise OptionError(f"{name} has no option {unknown[0]!r}, {hint}: {told}") from error
        raise
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise OptionError(f"{name} makes a {type(env).__name__}, which is no gymnasium.Env: it has no spaces")
    if isinstance(env, type):
        raise OptionError(
            f"{name} makes the class {env.__qualname__}, not an environment: let it return {env.__qualname__}(…)"
        )
    for space in (env.observation_space, env.action_space):
        if not isinstance(space, gym.Space):
            raise OptionError(f"{name} makes a {type(env).__name__} that has {space!r} for a gymnasium.Space")
    if batch := next((word for word in OF_BATCHES if hasattr(env, word)), None):
        _close(env, name)
        raise OptionError(
            f"{name} makes a {type(env).__name__}, which steps several environments together (it has {batch}): "
            "give what makes one, and their number as num_envs, or derive it from headrace.BatchedEnv"
        )
    try:
        limit = getattr(getattr(env, "spec", None), "max_episode_steps", None) or own.get("max_episode_steps") or 0
        fps = float(getattr(env, "metadata", {}).get("render_fps") or 30.0)
        game = getattr(env, "unwrapped", env)
        single = TaskSpec(name, env.observation_space, env.action_space)
        shown = replace(
            _with_masks(game.task if isinstance(game, ParallelGame) else single, env),
            max_episode_steps=limit,
            options=dict(options),
            render_fps=fps,
        )
        goals = goals_of(env.env, lambda: plain(0)) if own.get("flat_observation") is True else None
    finally:
        _close(env, name)
    if by_value.holds(make, environments(env)):  # it may return the same one again
        again, known = make(0), dict[int, Any]()
        for each in (env, again):
            check_new(each, known)
        _close(again, name)
    return shown, goals


def _with_masks(spec: TaskSpec, env: Any) -> TaskSpec:
    """Returns the spec with a field for an environment's action masks, if the info of a reset has one that fits."""
    sizes = [sum(heads_of(space)) for space in [kind.action for kind in spec.agents] or [spec.action]]
    if not any(sizes):
        return spec
    shape = (*spec.reward_shape, max(sizes))
    hangs = f"the first reset of {spec.task} has not ended for {PATIENCE:.0f} s; Ctrl-C ends the wait"
    told = threading.Timer(PATIENCE, remark, (hangs,))
    told.daemon = True
    try:
        told.start()  # in here, as Ctrl-C may interrupt it
        _, info = env.reset()
        dtype = mask_array(info[MASK], shape).dtype
    except Exception:  # no mask, or one that training refuses; what reset raises the pool's first reset raises again
        return spec
    finally:
        told.cancel()
    mask, given = Field(MASK, dtype, shape, per_agent=bool(spec.agents)), Field(GIVEN, np.dtype(np.bool_))
    return replace(spec, info=(*spec.info, mask, *(() if spec.agents else (given,))))


def _flattened(name: str, make: Callable[[int], Any], how: bool | str) -> Callable[[int], Any]:
    """Returns a function that makes the same environments, with one array as observation in place of several."""

    def flat(env_id: int) -> Any:
        env = make(env_id)
        try:
            return flattened(env, how == PICTURES)
        except OptionError as why:
            raise OptionError(f"{name} cannot have flat_observation={how!r}: {why}") from None

    return flat


def _close(env: Any, name: str) -> None:
    """Closes the environment whose spaces were read; an exception becomes a warning, as the pool does not need it."""
    raised: list[Exception] = []

    def close() -> None:
        try:
            env.close()
        except Exception as error:
            raised.append(error)

    closing = threading.Thread(target=close, name="headrace-closing", daemon=True)
    closing.start()
    closing.join(CLOSING)
    if closing.is_alive():
        remark(f"close() of {name} did not end within {CLOSING:.0f} s; nothing waits for it any more")
    for error in raised:
        warnings.warn(f"close() of {name} raised {type(error).__name__}: {error}", stacklevel=2)


def process_task(spec: TaskSpec, make: Callable[[int], Any], own: Mapping[str, Any]) -> Task:
    """Returns a task whose environments run in worker processes.

    Args:
        spec: the task's spec.
        make: a function env_id → environment, whose info dicts always hold the fields of the spec's ``info``.
        own: the executor's options, from `split_options`.

    Raises:
        OptionError: one of these options has an invalid value, or an info field has a name of the pool's own.
    """
    timeout, restart = _checked(own)
    if taken := OURS.intersection(f.name for f in spec.info):
        raise OptionError(
            f"{spec.task}: an info field cannot be called {min(taken)!r}, as every batch has one of this name"
        )

    def make_executor(spec: TaskSpec, settings: PoolSettings, ring: BatchRing) -> ProcessesExecutor:
        from headrace.pool.executors.processes.executor import ProcessesExecutor

        if settings.device != "cpu":
            raise OptionError(f"{spec.task} runs in processes on the CPU, not on {settings.device!r}")
        deaths = None if "on_failure" in own else accepted_deaths()
        return ProcessesExecutor(make, timeout, restart or deaths is not None, spec, settings, ring, deaths)

    return Task(spec, make_executor)


def _lacking(error: Exception) -> str:
    """Returns what an environment could not import, and how to install it, in one line."""
    words = " ".join(str(error).split())
    return "needs Box2D: pip install 'gymnasium[box2d]'" if "gymnasium[box2d]" in words else f"cannot be made: {words}"


def _hint(option: str, known: Iterable[str]) -> str:
    """Returns a similar option of a task or of pools as a suggestion; where there is none, the task's options."""
    close = close_names(option, [*POOL_OPTIONS, *known], 1)
    return f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(known))}"


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
    flat = own.get("flat_observation", False)
    if not isinstance(flat, bool) and flat != PICTURES:
        raise OptionError(f"flat_observation must be True or False or {PICTURES!r}, not {flat!r}")
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

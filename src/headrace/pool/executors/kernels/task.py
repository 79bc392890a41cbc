"""A kernel environment as a task: its spaces, its options, and what they decide.

A `KernelTask` is what `headrace.register` takes for an environment written as kernels;
Headrace's own families are made of them too.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from headrace.errors import KernelError, OptionError
from headrace.pool.spec import AgentType, Field, Task, TaskSpec, multi_agent_spec

if TYPE_CHECKING:
    from headrace.pool.executors.kernels.build import AnyEnv
    from headrace.pool.executors.kernels.executor import KernelExecutor

Options = Mapping[str, Any]
MOST = {int: 2**31 - 1, float: sys.float_info.max}  # what kernels can hold: int32, finite floats


@dataclass(frozen=True)
class Option:
    """A task's option with its default, whose type (bool, int, float or str) is the option's.

    Attributes:
        default: the value where none is given.
        low, high: a number's bounds, both allowed.
        choices: the values that a string may have.
    """

    default: Any
    low: float = 0
    high: float | None = None
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        plain = type(self.default) in (bool, int, float, str) and self._fits(self.default)
        if type(self) is Option and not plain:  # subclasses convert in their own way
            rule = "a bool, an int or a float within its bounds (low is 0 unless given), or one of its choices"
            raise KernelError(f"an option's default must be {rule}, not {self.default!r}")

    def convert(self, task: str, name: str, value: Any) -> Any:
        """The value in the option's type; raises `OptionError` where it does not fit."""
        if not self._fits(value):
            raise OptionError(f"{name} of {task} must be {self._wanted}, not {value!r}")
        return type(self.default)(value)

    def _fits(self, value: Any) -> bool:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(self.default, bool) or isinstance(value, bool):
            return isinstance(value, bool) and isinstance(self.default, bool)
        if isinstance(self.default, str):
            return value in self.choices
        number = isinstance(value, int) or (isinstance(value, float) and isinstance(self.default, float))
        most = MOST[type(self.default)]
        high = most if self.high is None else min(self.high, most)
        return number and max(self.low, -most) <= value <= high

    @property
    def _wanted(self) -> str:
        if isinstance(self.default, bool):
            return "True or False"
        if isinstance(self.default, str):
            return "one of " + ", ".join(self.choices)
        noun = "an integer" if isinstance(self.default, int) else "a finite number"
        if self.low == -math.inf:
            return noun
        return f"{noun} of at least {self.low}" if self.high is None else f"{noun} in [{self.low}, {self.high}]"


def decimal(default: float) -> Option:
    """An option that may be any finite number."""
    return Option(default, -math.inf)


@dataclass(frozen=True)
class Checked(Option):
    """An option that a function checks and converts, raising `TypeError` or `ValueError` where it cannot.

    Attributes:
        check: the function: value → value.
        wanted: what a value must be, in words.
    """

    check: Callable[[Any], Any] = lambda value: value
    wanted: str = ""

    def convert(self, task: str, name: str, value: Any) -> Any:
        try:
            return self.check(value)
        except (TypeError, ValueError):
            raise OptionError(f"{name} of {task} must be {self.wanted}, not {value!r}") from None


@dataclass(frozen=True)
class KernelTask:
    """A kernel environment with its spaces and options: what `headrace.register` takes.

    Example:
        >>> headrace.register("TargetCart-v0", KernelTask(CART, observation=…, action=…, max_episode_steps=100))
        >>> pool = headrace.make("TargetCart-v0", num_envs=1024)

    Attributes:
        env: the environment; or a function of the options that answers one.
        observation, action: one environment's spaces; or functions of the options that answer them.
        agents: the agent types of a multi-agent environment, in place of observation and action; or a function.
        info: the arrays that come with every step; or a function of the options.
        options: name → `Option`, or simply its default. Those whose names are scalar fields of the
            environment's state arrive there.
        max_episode_steps: an episode is truncated after so many agent steps, 0 for never; an option too.
        render_fps: agent steps a second at which pictures look natural.
    """

    env: AnyEnv | Callable[[Options], AnyEnv]
    observation: gym.Space | Callable[[Options], gym.Space] | None = None
    action: gym.Space | Callable[[Options], gym.Space] | None = None
    info: tuple[Field, ...] | Callable[[Options], tuple[Field, ...]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    max_episode_steps: int = 0
    agents: tuple[AgentType, ...] | Callable[[Options], tuple[AgentType, ...]] = ()
    render_fps: float = 30.0

    def __call__(self, task: str, **options: Any) -> Task:
        """The task of this name; raises `OptionError` for options that do not exist or do not fit.

        Every kernel task has the option ``debug`` too: run as plain Python, with every index checked; the
        environment variable ``HEADRACE_DEBUG=1`` asks for that everywhere.
        """
        from headrace.pool.executors.kernels.agents import MultiAgentEnv

        known = {"max_episode_steps": self.max_episode_steps, "debug": False, **self.options}
        given = complete(task, known, options)
        debug = given.pop("debug") or os.environ.get("HEADRACE_DEBUG", "0") not in ("", "0")
        env, info, agents = (_decide(what, given) for what in (self.env, self.info, self.agents))
        if isinstance(env, MultiAgentEnv) != bool(agents):
            rule = "needs agents=… in its task" if not agents else "is of one agent, so its task has no agents"
            raise KernelError(f"{task}: {env.name} is a {type(env).__name__}, which {rule}")
        rest = {"task": task, "info": info, "max_episode_steps": given.pop("max_episode_steps"), "options": given}
        rest["render_fps"] = self.render_fps
        if agents:
            spec = multi_agent_spec(agents=agents, **rest)
        else:
            spec = TaskSpec(observation=_decide(self.observation, given), action=_decide(self.action, given), **rest)
        return Task(spec, partial(_executor(debug), env), None if debug else env)


def complete(task: str, known: Options, given: Options) -> dict[str, Any]:
    """All options of a task, those given checked; ``known`` holds an `Option` or simply a default for each.

    Raises:
        OptionError: an option does not exist or does not fit.
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 3, 0.4) or sorted(known)
            raise OptionError(f"{task} has no option {name!r}: did you mean {', '.join(close)}?")
    options = {name: o if isinstance(o, Option) else Option(o) for name, o in known.items()}
    return {name: option.convert(task, name, given.get(name, option.default)) for name, option in options.items()}


def _executor(debug: bool) -> type[KernelExecutor]:
    """What runs a pool on the CPU."""
    if debug:
        from headrace.pool.executors.kernels.debug import DebugExecutor

        return DebugExecutor
    from headrace.pool.executors.kernels.executor import KernelExecutor

    return KernelExecutor


def _decide(what: Any, options: Options) -> Any:
    return what(options) if callable(what) else what

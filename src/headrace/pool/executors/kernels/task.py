"""A kernel environment as a task: its spaces and its options.

`headrace.register` takes a `KernelTask` for an environment written as kernels; Headrace's own families use it, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from headrace.errors import KernelError
from headrace.pool.mirror import Mirror
from headrace.pool.options import Option, Options, complete
from headrace.pool.signals import NO_SIGNALS, Signals, check_signals
from headrace.pool.spec import AgentType, Field, PoolSettings, TaskSpec, multi_agent_spec
from headrace.pool.task import Task

if TYPE_CHECKING:
    from headrace.pool.executors.kernels.build import AnyEnv
    from headrace.pool.executors.kernels.device import KernelDeviceExecutor
    from headrace.pool.executors.kernels.serving import SimulationExecutor


@dataclass(frozen=True)
class KernelTask:
    """A kernel environment with its spaces and options, as `headrace.register` takes it.

    Example:
        >>> headrace.register("TargetCart-v0", KernelTask(CART, observation=…, action=…, max_episode_steps=100))
        >>> pool = headrace.make("TargetCart-v0", num_envs=1024)

    Attributes:
        env: the environment; or a function options → environment.
        observation, action: one environment's spaces; or functions options → space.
        agents: the agent types of a multi-agent environment, in place of observation and action; or a function
            options → agent types.
        info: the info fields of every step; or a function options → fields.
        options: name → `Option`, or simply its default. A scalar field of the environment's state that has the name
            of an option holds its value.
        max_episode_steps: number of agent steps after which an episode is truncated, 0 for no limit; also an option.
        render_fps: agent steps per second at which rendered frames look natural.
        signals: what the numbers of observations and actions are; or a function options → that.
        mirror: how they look in a mirror, where the task is the same; or a function options → that.
    """

    env: AnyEnv | Callable[[Options], AnyEnv]
    observation: gym.Space | Callable[[Options], gym.Space] | None = None
    action: gym.Space | Callable[[Options], gym.Space] | None = None
    info: tuple[Field, ...] | Callable[[Options], tuple[Field, ...]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    max_episode_steps: int = 0
    agents: tuple[AgentType, ...] | Callable[[Options], tuple[AgentType, ...]] = ()
    render_fps: float = 30.0
    signals: Signals | Callable[[Options], Signals] = NO_SIGNALS
    mirror: Mirror | Callable[[Options], Mirror | None] | None = None

    def __call__(self, task: str, **options: Any) -> Task:
        """Returns the task under the name ``task``, with these options.

        Every kernel task also has the option ``debug``: whether its functions run as plain Python, with every index
        checked; the environment variable ``HEADRACE_DEBUG=1`` turns it on for all tasks.

        Raises:
            OptionError: an option is unknown, or its value is invalid.
            KernelError: the environment and the task differ in whether they have several agents; or an option has the
                name of one that all kernel tasks or all pools have.
        """
        from headrace.pool.executors.kernels.agents import MultiAgentEnv
        from headrace.pool.executors.kernels.build import scalars_of
        from headrace.pool.executors.kernels.changes import Changes

        common = {"max_episode_steps": Option(0), "debug": False}
        if taken := common.keys() & self.options:
            raise KernelError(f"{task}: {min(taken)!r} is an option of every kernel task: give this one another name")
        known = {**common, **self.options}
        given = complete(task, known, {"max_episode_steps": self.max_episode_steps, **options})
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
            seen, acted = _decide(self.observation, given), _decide(self.action, given)
            signals = check_signals(task, _decide(self.signals, given), seen, acted)
            mirror = _decide(self.mirror, given)
            spec = TaskSpec(observation=seen, action=acted, signals=signals, mirror=mirror, **rest)
        changes = Changes(self, options, spec, env, scalars_of(env, spec), lambda now: _decide(self.env, now).tables)
        if debug:
            return Task(spec, partial(_executor(debug), env), changes=changes)
        return Task(spec, partial(_executor(debug), env), env, partial(_on_device, env), changes=changes)


def _executor(debug: bool) -> type[SimulationExecutor]:
    """Returns the executor class of a pool on the CPU."""
    if debug:
        from headrace.pool.executors.kernels.diagnostics.debug import DebugExecutor

        return DebugExecutor
    from headrace.pool.executors.kernels.executor import KernelExecutor

    return KernelExecutor


def _on_device(env: AnyEnv, spec: TaskSpec, settings: PoolSettings) -> KernelDeviceExecutor:
    from headrace.pool.executors.kernels.device import KernelDeviceExecutor

    return KernelDeviceExecutor(env, spec, settings)


def _decide(what: Any, options: Options) -> Any:
    return what(options) if callable(what) else what

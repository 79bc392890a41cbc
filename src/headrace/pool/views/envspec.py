"""EnvPool's form of a spec: spaces, specs, and all options as attributes.

A pool needs only a `TaskSpec`. EnvPool describes the same task in three further forms (Gymnasium's spaces, dm_env's
specs, arrays by their names), together with the options of a pool; they are derived here on demand.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.pool.actions import ACTION
from headrace.pool.batch import INFO, OBS, observation_fields
from headrace.pool.spec import TaskSpec, bounds, subspaces
from headrace.pool.views.arrayspec import ArraySpec, action_dtype, observed_name

COMMON: dict[str, Any] = {
    "num_envs": 1,
    "batch_size": 0,
    "num_threads": 0,
    "max_num_players": 1,
    "thread_affinity_offset": -1,
    "base_path": str(Path(__file__).parents[2]),
    "seed": None,
    "env_seed": [],
    "gym_reset_return_info": True,
    "autoreset": "next_step",
    "device": "cpu",
}
"""the options that every task has, in EnvPool's order, with their defaults"""


class EnvSpec(TaskSpec):
    """A task's spec with the options of a pool, as in EnvPool; `make_spec` and ``env.spec`` return it.

    Args:
        spec: the task's spec, with its options completed.
        common: the options of `COMMON` that were given, and ``reward_threshold``.

    Attributes:
        id: the task's name; may be assigned, as programs written for Gymnasium do.
        reward_threshold: the mean return at which the task counts as solved; Gymnasium's by default, or None.
    """

    def __init__(self, spec: TaskSpec, common: Mapping[str, Any]):
        super().__init__(**{field.name: getattr(spec, field.name) for field in fields(TaskSpec)})
        self._common = _completed(common)
        known = gym.registry.get(spec.task)
        self.id = spec.task
        threshold = known.reward_threshold if known else None
        self.reward_threshold: float | None = common.get("reward_threshold", threshold)
        self.additional_wrappers: tuple[Any, ...] = ()  # Gymnasium's wrappers record themselves here

    @property
    def config(self) -> Any:
        """All options with their values, as a named tuple: `COMMON`, limits, then the task's own."""
        limits = {"max_episode_steps": self.max_episode_steps, "reward_threshold": self.reward_threshold}
        options = {**self._common, **limits, **self.options}
        return namedtuple("Config", options, rename=True)(*options.values())

    def __repr__(self) -> str:
        return described("EnvSpec", self)

    @property
    def observation_space(self) -> Any:
        return self.observation

    @property
    def action_space(self) -> Any:
        return self.action

    gymnasium_observation_space, gymnasium_action_space = observation_space, action_space

    def observation_spec(self) -> Any:
        """Returns dm_env's specs of a time step's observation, in a named tuple with the observation's fields."""
        from headrace.pool.views.dmspec import observation_spec

        return observation_spec(self)

    def action_spec(self) -> Any:
        """Returns dm_env's spec of one environment's action; a dict of specs for a `Dict` space."""
        from headrace.pool.views.dmspec import action_spec

        return action_spec(self)

    @property
    def state_array_spec(self) -> dict[str, ArraySpec]:
        """The arrays of every step's result, by EnvPool's names."""
        number, flag = ArraySpec(np.int32, []), ArraySpec(np.bool_, [])
        found = {"info:env_id": number, "info:players.env_id": ArraySpec(np.int32, [-1]), "elapsed_step": number}
        found |= {"done": flag, "reward": ArraySpec(np.float32, list(self.reward_shape) or [-1])}
        found |= {"discount": ArraySpec(np.float32, [-1], 0.0, 1.0), "step_type": number, "trunc": flag}
        one, spaces = observed_name(self), subspaces(self.observation, OBS).values()
        for field, space in zip(observation_fields(self.observation), spaces, strict=True):
            name = f"{OBS}:{one}" if field.name == OBS != one else field.name
            found[name] = ArraySpec(field.dtype, list(field.shape) or [-1], *bounds(space))
        return found | {INFO + f.name: ArraySpec(f.dtype, list(f.shape) or [-1]) for f in self.info}

    @property
    def action_array_spec(self) -> dict[str, ArraySpec]:
        """The arrays that `send` takes, by EnvPool's names."""
        found = {"env_id": ArraySpec(np.int32, []), "players.env_id": ArraySpec(np.int32, [-1])}
        for name, space in subspaces(self.action, ACTION).items():
            discrete = not isinstance(space, gym.spaces.Box)
            found[name] = ArraySpec(action_dtype(space), [-1, *(space.shape or ())], *bounds(space), discrete)
        return found


def described(name: str, spec: EnvSpec) -> str:
    """Returns a text with ``name``, the task's name and all options, for `repr`."""
    options = ", ".join(f"{key}={value!r}" for key, value in spec.config._asdict().items())
    return f"{name}({spec.task!r}, {options})"


def _completed(common: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all options of `COMMON`; as in EnvPool, ``batch_size`` is never 0 and a list of seeds is ``env_seed``."""
    values = {**COMMON, **{key: common[key] for key in COMMON if key in common}}
    values["batch_size"] = values["batch_size"] or values["num_envs"]
    seed = values["seed"]
    if seed is not None and not isinstance(seed, int | np.integer):
        values["seed"], values["env_seed"] = None, [int(s) for s in seed]
    return values

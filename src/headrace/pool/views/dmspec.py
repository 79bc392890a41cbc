"""dm_env's specs of a task's observations and actions."""

from __future__ import annotations

import re
from collections import namedtuple
from typing import Any

import gymnasium as gym
import numpy as np
from dm_env import specs

from headrace.errors import OptionError
from headrace.pool.spec import TaskSpec, bounds, subspaces
from headrace.pool.views.arrayspec import ArraySpec, action_dtype, observed_name

Players = namedtuple("Players", ["env_id"])


def observation_spec(spec: TaskSpec) -> Any:
    """Returns a named tuple of specs: ``env_id``, ``players``, observation fields, info fields, ``elapsed_step``.

    Raises:
        OptionError: two of them have one name.
    """
    seen = subspaces(spec.observation, observed_name(spec))
    names = [_name(key) for key in ("env_id", "players", *seen, *(f.name for f in spec.info), "elapsed_step")]
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"{spec.task}: two fields of a dm_env observation would be called {twice[0]!r}: rename one")
    number = _bounded("env_id", ArraySpec(np.int32, []))
    found = {"env_id": number, "players": Players(number)}
    found |= {key: spec_of(sub, key, sub.dtype) for key, sub in seen.items()}
    found |= {f.name: _bounded(f.name, ArraySpec(f.dtype, list(f.shape))) for f in spec.info}
    found["elapsed_step"] = _bounded("elapsed_step", ArraySpec(np.int32, []))
    state = namedtuple("State", names)
    state.keys = tuple(found)  # type: ignore[attr-defined]
    return state(*found.values())


def _name(key: str) -> str:
    return re.sub(r"\W", "_", key)


def action_spec(spec: TaskSpec) -> Any:
    """Returns the spec of one environment's action; a dict of specs for a `Dict` space."""
    found = {key: spec_of(sub, key, action_dtype(sub)) for key, sub in subspaces(spec.action, "action").items()}
    return found if isinstance(spec.action, gym.spaces.Dict) else found["action"]


def spec_of(space: gym.Space, name: str, dtype: Any) -> specs.Array:
    """Returns the dm_env spec of one array: discrete for a `Discrete` space that starts at 0, otherwise bounded."""
    if isinstance(space, gym.spaces.Discrete) and space.start == 0:
        return specs.DiscreteArray(int(space.n), dtype, name)
    return _bounded(name, ArraySpec(dtype, list(space.shape or ()), *bounds(space)))


def _bounded(name: str, spec: ArraySpec) -> specs.BoundedArray:
    return specs.BoundedArray(spec.shape, spec.dtype, spec.minimum, spec.maximum, name)

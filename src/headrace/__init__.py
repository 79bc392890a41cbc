"""Headrace keeps every core and every GPU of one machine busy with reinforcement learning.

    >>> import headrace
    >>> pool = headrace.make("CartPole-v1", num_envs=8, seed=1)
    >>> obs, info = pool.reset()

`import headrace` is quick: simulators, Warp and torch are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import headrace.envs  # noqa: F401  (registers the families' names)
from headrace.errors import HeadraceError
from headrace.pool.batch import Batch
from headrace.pool.executors.threads import get_include
from headrace.pool.pool import Pool
from headrace.pool.registry import list_all_envs, make_spec, register
from headrace.pool.spec import Field, PoolSettings, Task, TaskSpec
from headrace.pool.views.gymnasium import register_with_gymnasium
from headrace.pool.views.make import make, make_dm, make_gym, make_gymnasium, make_torch

if TYPE_CHECKING:
    from headrace import train as train

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Field",
    "HeadraceError",
    "Pool",
    "PoolSettings",
    "Task",
    "TaskSpec",
    "get_include",
    "list_all_envs",
    "make",
    "make_dm",
    "make_gym",
    "make_gymnasium",
    "make_spec",
    "make_torch",
    "register",
    "train",
]

register_with_gymnasium(list_all_envs())


def __getattr__(name: str) -> Any:
    # training needs torch, which most users of a pool never import
    if name == "train":
        return importlib.import_module("headrace.train")
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")

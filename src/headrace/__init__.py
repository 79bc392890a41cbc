"""Headrace: fast environment pools and training for reinforcement learning, on all cores and GPUs of one machine.

    >>> import headrace
    >>> pool = headrace.make("CartPole-v1", num_envs=8, seed=1)
    >>> obs, info = pool.reset()

`import headrace` is fast: simulators, Warp and torch are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.envs import FAMILIES
from headrace.errors import HeadraceError, needs_train
from headrace.pool.batch import Batch
from headrace.pool.executors.batched import BatchedEnv
from headrace.pool.executors.threads import get_include
from headrace.pool.family import Family
from headrace.pool.mirror import Mirror
from headrace.pool.pool import Pool
from headrace.pool.registry import list_all_envs, register
from headrace.pool.spec import Field, PoolSettings, TaskSpec
from headrace.pool.task import Task
from headrace.pool.views.envpool import EnvPool
from headrace.pool.views.envspec import EnvSpec
from headrace.pool.views.gymnasium import register_with_gymnasium
from headrace.pool.views.make import make, make_dm, make_gym, make_gymnasium, make_spec, make_torch, make_vec
from headrace.version import __version__ as __version__

if TYPE_CHECKING:
    from headrace import wrappers as wrappers
    from headrace.python.protocol import DMEnvPool, GymnasiumEnvPool
    from headrace.train import CallableModule, load

    train: CallableModule
    train = CallableModule("headrace.train")  # of a name that is declared once, pyright shows the module in its place

__all__ = [  # noqa: RUF022 (EnvPool's names, in its order, and then Headrace's own)
    "register",
    "make",
    "make_dm",
    "make_gym",
    "make_gymnasium",
    "make_spec",
    "list_all_envs",
    "EnvSpec",
    "EnvPool",
    "DMEnvPool",
    "GymnasiumEnvPool",
    "Batch",
    "BatchedEnv",
    "Family",
    "Field",
    "HeadraceError",
    "Mirror",
    "Pool",
    "PoolSettings",
    "Task",
    "TaskSpec",
    "get_include",
    "load",
    "make_torch",
    "make_vec",
    "train",
    "wrappers",
]

register_with_gymnasium({name: family.tasks for name, family in FAMILIES.items()})


def __getattr__(name: str) -> Any:
    # training needs torch, and time steps need dm_env; most users of a pool need neither
    if name in ("train", "load"):
        with needs_train(f"headrace.{name}"):
            train = importlib.import_module("headrace.train")
        return train if name == "train" else train.load
    if name == "wrappers":
        return importlib.import_module("headrace.wrappers")
    if name in ("DMEnvPool", "GymnasiumEnvPool"):
        return getattr(importlib.import_module("headrace.python.protocol"), name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

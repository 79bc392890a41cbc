"""Makes a pool of a task from its name and the options that every task shares, which are checked here."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import numpy as np

from headrace.errors import OptionError
from headrace.limits import limits_named
from headrace.machine import usable_cores
from headrace.pool.pool import Pool
from headrace.pool.registry import TaskLike, build_task
from headrace.pool.seeds import SeedLike, seeds_of
from headrace.pool.spec import LAST_CORE, MOST_ENVS, MOST_THREADS, AutoresetMode, PoolSettings


def make_pool(
    task: TaskLike,
    num_envs: int = 1,
    batch_size: int = 0,
    num_threads: int = 0,
    seed: SeedLike = None,
    autoreset: AutoresetMode = "next_step",
    device: str = "cpu",
    thread_affinity_offset: int = -1,
    max_num_players: int = 1,
    **options: Any,
) -> Pool:
    """Returns a pool of one task; see `headrace.make` for the options and errors."""
    if max_num_players != 1:
        raise OptionError(f"max_num_players must be 1 for a pool of dense rows, not {max_num_players!r}: see make")
    settings = pool_settings(num_envs, batch_size, num_threads, seed, autoreset, device, thread_affinity_offset)
    recipe = partial(
        make_pool,
        task=task,
        num_envs=num_envs,
        batch_size=batch_size,
        num_threads=num_threads,
        seed=settings.seeds.tolist(),
        autoreset=settings.autoreset,
        device=settings.device,
        thread_affinity_offset=thread_affinity_offset,
        **options,
    )
    try:
        with limits_named(f"a pool of {num_envs} environments of {task}"):
            return Pool(build_task(task, **options), settings, recipe)
    except MemoryError as error:
        raise OptionError(f"{num_envs} environments of {task} need more memory than there is: {error}") from error


def pool_settings(
    num_envs: int = 1,
    batch_size: int = 0,
    num_threads: int = 0,
    seed: SeedLike = None,
    autoreset: AutoresetMode = "next_step",
    device: str = "cpu",
    thread_affinity_offset: int = -1,
) -> PoolSettings:
    """Returns the options that every task shares, checked and completed.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """
    check_int("num_envs", num_envs, 1, MOST_ENVS)
    check_int("batch_size", batch_size, 0, num_envs)
    check_int("num_threads", num_threads, 0, MOST_THREADS)
    check_int("thread_affinity_offset", thread_affinity_offset, -1, LAST_CORE)
    batch = batch_size or num_envs
    return PoolSettings(
        num_envs=num_envs,
        batch_size=batch,
        num_threads=num_threads or min(batch, usable_cores()),
        seeds=seeds_of(seed, np.arange(num_envs, dtype=np.int32)),
        autoreset=autoreset_mode(autoreset),
        device=str(device),
        thread_affinity_offset=thread_affinity_offset,
    )


def autoreset_mode(mode: Any) -> AutoresetMode:
    """Returns the autoreset mode of a name or a `gymnasium.vector.AutoresetMode`; raises `OptionError` for others."""
    names: dict[Any, AutoresetMode] = {name: name for name in get_args(AutoresetMode)}
    names |= {"NextStep": "next_step", "SameStep": "same_step", "Disabled": "disabled"}
    try:
        return names[getattr(mode, "value", mode)]
    except (KeyError, TypeError):
        raise OptionError(f"autoreset must be one of {', '.join(get_args(AutoresetMode))}, not {mode!r}") from None


def check_int(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raises `OptionError` unless the value is an integer in [low, high]."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise OptionError(f"{name} must be an integer {span}, not {value!r}")

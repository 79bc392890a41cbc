"""Functions that adapters to torch libraries share, to step both kinds of pool with tensors.

A pool's arrays become tensors without a copy. A `TorchPool` overwrites its tensors in the next step, while these
libraries keep results, so the tensors are cloned on their device.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from headrace.errors import OptionError
from headrace.pool.pool import Pool
from headrace.pool.spec import AutoresetMode
from headrace.pool.structure import mapped
from headrace.pool.torch.pool import TorchPool
from headrace.pool.torch.tensors import torch_dtype

AnyPool = Pool | TorchPool


def check_pool(pool: Any, library: str, modes: Collection[AutoresetMode] = ("same_step",)) -> None:
    """Raises `OptionError` unless ``pool`` is a synchronous pool with one of these autoreset modes.

    ``library`` is the name of the library that needs it, for messages.
    """
    if not isinstance(pool, AnyPool):
        raise OptionError(f"{library} needs a pool, of headrace.make or make_torch, not {pool!r}")
    if isinstance(pool, Pool) and pool.is_async:
        raise OptionError(f"{library} steps all environments at once: leave batch_size out, or make it num_envs")
    if pool.autoreset not in modes:
        named = " or ".join(map(repr, modes))
        raise OptionError(f"{library} needs a pool made with autoreset={named}, not {pool.autoreset!r}")


def device_of(pool: AnyPool) -> torch.device:
    """Returns the device of a pool's tensors."""
    return pool.device if isinstance(pool, TorchPool) else torch.device("cpu")


def given(pool: AnyPool, action: Any) -> Any:
    """Returns actions in the dtypes and shapes that the pool takes; tensors of k rows, or dicts and tuples of them."""
    return _given(pool, action, pool.action_space)


def kept(value: Any) -> Any:
    """Returns a pool's results as tensors that no later step overwrites, in the same nested dicts and tuples."""
    return mapped(_kept, value)


def _kept(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.clone()
    return torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) and leaf.dtype != object else leaf


def _given(pool: AnyPool, action: Any, space: Any) -> Any:
    if isinstance(action, dict):
        return {key: _given(pool, part, space[key]) for key, part in action.items()}
    if isinstance(action, tuple | list):
        return tuple(_given(pool, part, one) for part, one in zip(action, space.spaces, strict=True))
    rows = action.shape[:1]
    action = action.detach().to(device_of(pool), torch_dtype(space.dtype)).reshape(*rows, *space.shape).contiguous()
    return action if isinstance(pool, TorchPool) else action.numpy()

"""What adapters to torch's libraries share: both kinds of pool, stepped with tensors.

A pool's arrays are wrapped where they lie, and stay the caller's. A `TorchPool` writes over its tensors in the
next step, while these libraries keep what they are given: its results are cloned on their device.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from headrace.errors import OptionError
from headrace.pool.pool import Pool
from headrace.pool.spec import AutoresetMode
from headrace.pool.torch.pool import TorchPool

AnyPool = Pool | TorchPool


def check_pool(pool: Any, library: str, modes: Collection[AutoresetMode] = ("same_step",)) -> None:
    """Raise `OptionError` unless a library can drive this pool: a synchronous one that resets as it should."""
    if not isinstance(pool, AnyPool):
        raise OptionError(f"{library} needs a pool, of headrace.make or make_torch, not {pool!r}")
    if isinstance(pool, Pool) and pool.is_async:
        raise OptionError(f"{library} steps all environments at once: leave batch_size out, or make it num_envs")
    if pool.autoreset not in modes:
        named = " or ".join(map(repr, modes))
        raise OptionError(f"{library} needs a pool made with autoreset={named}, not {pool.autoreset!r}")


def device_of(pool: AnyPool) -> torch.device:
    """Where a pool's tensors are."""
    return pool.device if isinstance(pool, TorchPool) else torch.device("cpu")


def given(pool: AnyPool, action: Any) -> Any:
    """Actions in tensors of k rows, in dicts and tuples or not, of the dtypes and shapes that the pool takes."""
    return _given(pool, action, pool.action_space)


def kept(value: Any) -> Any:
    """A pool's results as tensors that no later step writes to; in dicts and tuples as before."""
    if isinstance(value, dict):
        return {key: kept(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(kept, value))
    if isinstance(value, torch.Tensor):
        return value.clone()
    return torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype != object else value


def dtype_of(dtype: Any) -> torch.dtype:
    """torch's dtype for NumPy's."""
    return torch.from_numpy(np.empty(0, dtype)).dtype


def _given(pool: AnyPool, action: Any, space: Any) -> Any:
    if isinstance(action, dict):
        return {key: _given(pool, part, space[key]) for key, part in action.items()}
    if isinstance(action, tuple | list):
        return tuple(_given(pool, part, one) for part, one in zip(action, space.spaces, strict=True))
    rows = action.shape[:1]
    action = action.detach().to(device_of(pool), dtype_of(space.dtype)).reshape(*rows, *space.shape).contiguous()
    return action if isinstance(pool, TorchPool) else action.numpy()

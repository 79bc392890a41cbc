"""Refuses operations for which a program would have to wait for a GPU, also where there is none."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NothingWaits(TorchDispatchMode):
    """Refuses whatever needs a tensor's values on the host, or whose shape depends on them."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "item", "equal", "is_nonzero")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        assert name.strip("_") not in [w.strip("_") for w in self.WAITING], f"{func} waits for the device"
        if name in ("index", "index_put", "index_put_"):
            masks = [i for i in args[1] if i is not None and i.dtype == torch.bool]
            assert not masks, f"{func} by a mask waits for the device"
        return func(*args, **(kwargs or {}))

"""Result batches of a `TorchPool`: tensors that every step overwrites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.errors import OptionError
from headrace.pool.batch import FINAL, final_info_of, info_of, observation_of
from headrace.pool.spec import Field
from headrace.pool.structure import renewed
from headrace.pool.torch.tensors import torch_dtype

TorchResult = tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]


class TorchBatch:
    """Tensors of k result rows, and the executor's handle for writing them.

    Args:
        rows: k.
        fields: the fields of the pool's batches, by name.
        given: name → the caller's tensor; other fields get new tensors.
        space: the space of one observation.
        device: the pool's device.
        owner: the executor that writes into this batch.

    Attributes:
        tensors: field (``obs``, ``reward``, ``info:lives``, …) → tensor [k, …].
        held: aliases of the tensors, which hold the memory even if the caller resizes or reassigns the originals.
        binding: the executor's handle for filling this batch.
    """

    __slots__ = ("_addresses", "_note_done", "_result", "binding", "held", "owner", "rows", "tensors")

    def __init__(
        self,
        rows: int,
        fields: Mapping[str, Field],
        given: Mapping[str, torch.Tensor],
        space: gym.Space,
        device: torch.device,
        owner: Any,
    ):
        def new(f: Field) -> torch.Tensor:
            return torch.zeros((rows, *f.shape), dtype=torch_dtype(f.dtype), device=device)

        self.rows, self.owner = rows, owner
        self.tensors = tensors = {name: given[name] if name in given else new(f) for name, f in fields.items()}
        self.held = held = {name: tensor.detach() for name, tensor in tensors.items()}
        self.binding: Any = None
        if device.type == "cpu":
            for tensor in held.values():
                tensor.numpy()  # after this torch refuses to resize the tensor
        # the addresses at binding, of tensors that can still be resized
        self._addresses = [] if device.type == "cpu" else [tensor.data_ptr() for tensor in held.values()]
        self._note_done: Callable[[], object] | None = None  # same-step mode: marks the rows with valid final values
        info = info_of(tensors) | {"players": {"env_id": tensors["env_id"]}}
        if (final := observation_of(space, tensors, FINAL)) is not None:
            done = torch.zeros(rows, dtype=torch.bool, device=device)
            self._note_done = _either(held["terminated"], held["truncated"], done)
            info |= {"final_obs": final, "_final_obs": done, "final_info": final_info_of(tensors), "_final_info": done}
        earned = (tensors["reward"], tensors["terminated"], tensors["truncated"])
        self._result: TorchResult = (observation_of(space, tensors), *earned, info)

    def result(self) -> TorchResult:
        """Returns ``(obs, reward, terminated, truncated, info)`` with this batch's tensors, in new dicts."""
        if self._note_done is not None:
            self._note_done()
        obs, reward, terminated, truncated, info = self._result
        return renewed(obs), reward, terminated, truncated, renewed(info)

    def check_place(self) -> None:
        """Raises `OptionError` if a tensor's memory has moved since it was bound."""
        if self._addresses and [tensor.data_ptr() for tensor in self.held.values()] != self._addresses:
            places = zip(self.held.items(), self._addresses, strict=True)
            moved = next(name for (name, tensor), address in places if tensor.data_ptr() != address)
            raise OptionError(f"{moved} was resized after it was bound: bind its tensors anew with make_batch")


def _either(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """Returns a function that writes ``a | b`` of booleans to ``out``; on a CPU with NumPy, which is faster."""
    if out.device.type == "cpu":
        return partial(np.logical_or, a.numpy(), b.numpy(), out.numpy())
    return partial(torch.logical_or, a, b, out=out)

"""Dtypes and checks of the tensors that a pool takes and returns."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import torch


def torch_dtype(dtype: Any) -> torch.dtype:
    """Returns the torch dtype of a NumPy dtype."""
    return torch.from_numpy(np.zeros(0, dtype)).dtype


def convertible(dtype: torch.dtype, wanted: torch.dtype) -> bool:
    """Returns whether numbers of a dtype, another than ``wanted``, are converted to it: floats, and what it holds."""
    both_float = dtype.is_floating_point and wanted.is_floating_point
    return dtype != wanted and (both_float or torch.promote_types(dtype, wanted) == wanted)


def mismatch(tensor: Any, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device) -> str:
    """Returns a description of how a tensor's dtype, shape, device or layout is wrong; empty if it is right."""
    if not isinstance(tensor, torch.Tensor):
        return f"must be a torch tensor on {device}, not {type(tensor).__name__}"
    if tensor.device != device:
        return f"must be on {device}, not on {tensor.device}"
    if tensor.shape != shape:
        return f"must have shape {list(shape)}, not {list(tensor.shape)}"
    if tensor.dtype != dtype:
        return f"must be {dtype}, not {tensor.dtype}"
    return "" if tensor.is_contiguous() else "must be contiguous"


def running_sum(values: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns the sums of the elements so far along a dimension, as `torch.cumsum`, which on CUDA is not deterministic.

    Where torch is told to be deterministic, it adds one slice after the other.
    """
    if values.is_cuda and torch.are_deterministic_algorithms_enabled():
        return torch.stack(list(accumulate(values.unbind(dim))), dim)
    return values.cumsum(dim)

"""The inputs and outputs of an exported policy, and examples of the inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headrace.pool.flat_observation import Joined
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import MASK


@dataclass(frozen=True)
class Array:
    """An input or output of an exported policy.

    Attributes:
        shape: shape of one row; arrays have one more dimension in front, of any length.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str


def arrays_of(played: Policy) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    group, module = played.agent_group, played.module
    seen, done = group.acting, group.action
    memory = (module.memory_size,) if module.memory_size else None
    given = f"in one row: {seen.words()}" if isinstance(seen, Joined) else "as the environment gives it"
    inputs = [Array("observation", str(np.dtype(seen.dtype)), tuple(seen.shape or ()), given)]
    if memory:
        inputs.append(Array("memory", "float32", memory, "zeros at the start of an episode"))
    if module.heads:
        inputs.append(Array(MASK, "int8", (sum(module.heads),), f"info[{MASK!r}]; 0 for forbidden actions"))
    size = module.distribution.size
    outputs = [
        Array("action", str(np.dtype(done.dtype)), tuple(done.shape or ()), "the most likely, for env.step"),
        Array("parameters", "float32", (size,), "logits or values of actions; or means, and log standard deviations"),
    ]
    if not group.critic:
        outputs.append(Array("value", "float32", (), "what the policy expects to earn, discounted"))
    if memory:
        outputs.append(Array("next_memory", "float32", memory, "the memory of the next step"))
    return tuple(inputs), tuple(outputs)


def examples(played: Policy, inputs: tuple[Array, ...], rows: int) -> tuple[Tensor, ...]:
    """Returns example inputs with ``rows`` rows, of the spaces' shapes and dtypes."""
    space = played.agent_group.acting
    space.seed(rows)
    generator = torch.Generator().manual_seed(rows)
    found = []
    for array in inputs:
        if array.name == "observation":
            found.append(torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)])))
        elif array.name == MASK:
            allowed = torch.rand(rows, *array.shape, generator=generator) < 0.7
            found.append(allowed.to(torch.int8))
        else:
            found.append(torch.randn(rows, *array.shape, generator=generator).tanh())
    return tuple(found)

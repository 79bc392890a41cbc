"""Shared by the tests of torch pools: tasks, actions, and the comparison of their results with a `Pool`'s."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from headrace.envs import FAMILIES
from headrace.pool.torch.pool import TorchPool

NATIVE = ("atari", "box2d", "dm_control", "gymnasium_robotics", "mujoco", "robots", "vizdoom")
TEXTURED = () if find_spec("craftax") else ("Craftax-Classic-Pixels-v1",)  # drawn with that package's textures
KERNEL_TASKS = [
    task for name, family in FAMILIES.items() if name not in NATIVE for task in family.tasks if task not in TEXTURED
]
N = 5


def deferred(pool: TorchPool) -> TorchPool:
    """Checks actions as on a GPU: by a kernel, and raised later."""
    pool._executor.guards.now = False
    return pool


def sampled(space: Any, rows: int, rng: np.random.Generator) -> Any:
    """Random actions of a space, [rows, …]; a dict of them for a `Dict` space."""
    space.seed(int(rng.integers(2**31)))
    samples = [space.sample() for _ in range(rows)]
    if isinstance(samples[0], dict):
        return {name: np.stack([s[name] for s in samples]) for name in samples[0]}
    return np.stack(samples)


def tensors(tree: Any) -> Any:
    return {k: tensors(v) for k, v in tree.items()} if isinstance(tree, dict) else torch.from_numpy(np.asarray(tree))


def assert_same(ours: Any, theirs: Any) -> None:
    """Bit by bit, whatever is nested; NumPy's side may have more info (``players``)."""
    if isinstance(ours, dict):
        for name in ours:
            assert_same(ours[name], theirs[name])
    elif isinstance(ours, tuple):
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    else:
        assert ours.numpy().dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs)


def flat(result: Any) -> list[Any]:
    parts = result.values() if isinstance(result, dict) else result
    return [result] if isinstance(result, torch.Tensor) else [leaf for part in parts for leaf in flat(part)]

"""A pool's calls as functions that JAX can compile into a loop, like EnvPool's ``xla()``.

JAX calls the pool from the compiled program, in the program's order. Shapes must be known before the first call, so
every call handles one whole batch. float64 becomes float32 unless JAX has 64-bit types enabled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import OptionError


def functions(env: Any) -> tuple[Any, Any, Any, Any]:
    """Returns (handle, recv, send, step).

    ``recv(handle) → (handle, results)``, ``send(handle, action, env_id) → handle``, and
    ``step(handle, action, env_id) → (handle, results)``, which sends and receives. The handle represents the pool.

    Args:
        env: a view that is an `EnvPool`.

    Raises:
        OptionError: JAX is not installed, or the pool's autoreset mode is ``"same_step"``.
    """
    try:
        import jax
        from jax.experimental import io_callback
    except ImportError as error:
        raise OptionError("xla() needs JAX: pip install jax") from error
    if env.pool.autoreset == "same_step":
        raise OptionError("xla() needs autoreset 'next_step' or 'disabled': a result with final_obs has another shape")
    batch = env.pool._ring.take(env.pool.batch_size)
    leaves, tree = jax.tree.flatten(env._presented(batch.result()))
    shapes = [jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in leaves]
    told = jax.ShapeDtypeStruct((), np.int32)

    def receive(handle: Any) -> tuple[Any, list[Any]]:
        found = jax.tree.leaves(env.recv())
        return handle, [np.asarray(leaf, shape.dtype) for leaf, shape in zip(found, shapes, strict=True)]

    def start(handle: Any, action: Any, env_id: Any) -> Any:
        env.send(jax.tree.map(np.asarray, action), None if env_id is None else np.asarray(env_id))
        return handle

    def recv(handle: Any) -> tuple[Any, Any]:
        handle, found = io_callback(receive, (told, shapes), handle, ordered=True)
        return handle, jax.tree.unflatten(tree, found)

    def send(handle: Any, action: Any, env_id: Any = None) -> Any:
        return io_callback(start, told, handle, action, env_id, ordered=True)

    def step(handle: Any, action: Any, env_id: Any = None) -> tuple[Any, Any]:
        return recv(send(handle, action, env_id))

    return np.int32(0), recv, send, step

"""JAX's arrays over a pool's memory: nothing is copied, nothing that JAX holds changes."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import ActionError, OptionError
from walks import Walk

pytest.importorskip("jax")

import jax

from headrace.adapters.jax import JaxPool, make, on_host, shared


def pointers(pool: JaxPool, name: str) -> set[int]:
    """Where the pool's batches have this array."""
    return {batch.arrays[name].ctypes.data for ring in pool.pool._ring._batches.values() for batch in ring}


@pytest.mark.parametrize(
    ("task", "options"),
    [("CartPole-v1", {}), ("Pong-v5", {}), ("HalfCheetah-v5", {}), ("CartPole-v1", {"executor": "processes"})],
)
def test_jax_results_share_the_memory_of_the_pools_batches(task: str, options: dict[str, Any]) -> None:
    with make(task, 3, seed=0, num_threads=1, **options) as pool:
        obs, _ = pool.reset()
        assert isinstance(obs, jax.Array)
        results = [pool.step(np.stack([pool.action_space.sample() for _ in range(3)])) for _ in range(5)]
        doubles = pool.observation_space.dtype == np.float64  # JAX converts them to float32
        for obs, reward, terminated, truncated, _ in results:
            found: dict[str, Any] = {"reward": reward, "terminated": terminated, "truncated": truncated}
            for name, array in found.items() if doubles else {"obs": obs, **found}.items():
                assert array.unsafe_buffer_pointer() in pointers(pool, name)


def test_the_pool_reads_actions_from_jax_memory_without_a_copy() -> None:
    with make("MountainCarContinuous-v0", 8, seed=0) as pool:
        obs, _ = pool.reset()
        action = jax.jit(lambda obs: jax.numpy.tanh(obs[:, :1]))(obs)
        checked: Any = pool.pool._check_action(on_host(action), 8)
        assert checked.ctypes.data == action.unsafe_buffer_pointer()
        pool.step(action)


def test_arrays_held_by_jax_never_change_and_free_memory_is_reused() -> None:
    act = jax.jit(lambda obs: (obs[:, 2] > 0).astype("int32"))
    with make("CartPole-v1", 16, seed=0) as pool, headrace.make("CartPole-v1", num_envs=16, seed=0) as twin:
        obs, _ = pool.reset()
        there, _ = twin.reset()
        kept = []
        for _ in range(40):
            kept.append((obs, there.copy()))
            obs, *_ = pool.step(act(obs))
            there, *_ = twin.step((there[:, 2] > 0).astype(np.int64))
        for array, was in kept:
            np.testing.assert_array_equal(array, was)
        del kept, array  # pyright: ignore[reportPossiblyUnboundVariable]
        gc.collect()
        seen = set()
        for _ in range(40):
            obs, *_ = pool.step(act(obs))
            obs.block_until_ready()
            seen.add(obs.unsafe_buffer_pointer())
        assert len(seen) < 20


def test_a_dispatched_computation_keeps_the_observation_it_was_given() -> None:
    """A dispatched computation holds its inputs, though Python has let go of them."""
    slow = jax.jit(lambda obs: jax.lax.fori_loop(0, 2000, lambda _, x: jax.numpy.tanh(x @ x.T)[:, :4] + x, obs).sum())
    with make("CartPole-v1", 64, seed=0) as pool, headrace.make("CartPole-v1", num_envs=64, seed=0) as twin:
        obs, _ = pool.reset()
        there = [twin.reset()[0].copy()]
        under_way = []
        for _ in range(12):
            under_way.append(slow(obs))
            obs, *_ = pool.step(np.ones(64, np.int64))
            there.append(twin.step(np.ones(64, np.int64))[0].copy())
        for result, was in zip(under_way, there[:-1], strict=True):
            np.testing.assert_array_equal(result, slow(jax.numpy.array(was)))


def test_asynchronous_pools_give_dict_and_final_observations_as_jax_arrays() -> None:
    with make(Walk, 4, batch_size=2, num_threads=1, autoreset="same_step", length=3) as pool:
        pool.async_reset()
        ended = 0
        for _ in range(20):
            obs, _reward, terminated, truncated, info = pool.recv()
            assert obs["place"].shape == (2, 2)
            assert isinstance(info["env_id"], np.ndarray)
            if "final_obs" in info:
                assert isinstance(info["final_obs"]["place"], jax.Array)
                ended += int((terminated | truncated).sum())
            pool.send(jax.numpy.ones((2, 2), "int8"), jax.numpy.asarray(info["env_id"]))
        assert ended > 5
        first, _ = pool.reset(seed=1)
        assert isinstance(first["place"], jax.Array)
        assert len(pool) == 4


def test_nested_values_are_unchanged_after_conversion_to_jax_and_back() -> None:
    value = {"a": np.arange(4.0, dtype=np.float32), "b": (np.zeros(2, np.bool_),)}
    again = on_host(shared(value))
    np.testing.assert_equal(again, value)
    assert on_host([1, 2]) == [1, 2]


def test_invalid_actions_and_options_are_refused() -> None:
    with make("CartPole-v1", 2) as pool:
        pool.reset()
        with pytest.raises(ActionError, match="not in"):
            pool.step(jax.numpy.array([0, 7]))
    with pytest.raises(OptionError, match="nothing"):
        make("CartPole-v1", 2, nothing=1)


def test_importing_the_adapter_without_jax_names_it_in_the_error() -> None:
    code = "import sys; sys.modules['jax'] = None; import headrace.adapters.jax"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: this adapter needs JAX" in done.stderr

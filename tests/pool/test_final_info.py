"""``final_info`` has all that ``info`` has, env_id and players included, from every executor and in every view."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)

TASKS = ["CartPole-v1", "InvertedPendulum-v5", "CheetahRun-v1", "TestRing-v0"]  # kernels, threads; one agent or many
N = 4


def action_of(pool: Any, rows: int = N) -> np.ndarray:
    return np.stack([pool.action_space.sample() for _ in range(rows)])


def keys_of(info: dict[str, Any]) -> set[str]:
    """The keys of an info without masks and final results, and the keys of dicts in it."""
    own = {key for key in info if not key.startswith(("_", "final_"))}
    return own | {f"{key}.{inner}" for key in own if isinstance(info[key], dict) for inner in info[key]}


@pytest.mark.parametrize("task", TASKS)
def test_final_info_names_the_environments_of_its_rows(task: str) -> None:
    with headrace.make(task, num_envs=N, seed=0, autoreset="same_step", max_episode_steps=2) as pool:
        pool.reset()
        pool.step(action_of(pool))
        *_, info = pool.step(action_of(pool, 3), [2, 0, 3])
        final = info["final_info"]
        assert keys_of(final) == keys_of(info)
        assert final["env_id"].tolist() == final["players"]["env_id"].tolist() == [2, 0, 3]
        assert final["env_id"].dtype == np.int32
        assert (final["elapsed_step"] == 2).all()


@pytest.mark.parametrize("task", ["CartPole-v1", "InvertedPendulum-v5"])
def test_final_info_of_asynchronous_results_names_their_environments(task: str) -> None:
    settings = {"seed": 0, "autoreset": "same_step", "max_episode_steps": 2}
    with headrace.make(task, num_envs=N, batch_size=2, **settings) as pool:
        pool.async_reset()
        for _ in range(12):
            *_, info = pool.recv(timeout=60)
            if "final_info" in info:
                assert info["final_info"]["env_id"].tolist() == info["env_id"].tolist()
            pool.send(action_of(pool, 2), info["env_id"])


def test_final_info_has_all_keys_of_info_in_gymnasiums_view() -> None:
    settings = {"seed": 0, "autoreset": "same_step", "max_episode_steps": 2}
    pool = gym.make_vec("headrace:headrace/CartPole-v1", num_envs=N, **settings)
    pool.reset()
    pool.step(np.zeros(N, np.int64))
    *_, info = pool.step(np.zeros(N, np.int64))
    final = info["final_info"]
    assert keys_of(final) == keys_of(info)
    assert final["_env_id"].all()
    assert final["_players"].all()
    pool.close()


def test_final_info_has_all_keys_of_info_in_the_players_view() -> None:
    options = {"autoreset": "same_step", "max_episode_steps": 1, "players": 3, "max_num_players": 3}
    with headrace.make("TestRing-v0", num_envs=2, seed=0, **options) as pool:
        pool.reset()
        *_, info = pool.step(np.ones(6, np.int64))
        final = info["final_info"]
        assert keys_of(final) == keys_of(info)
        assert final["players"]["env_id"].tolist() == [0, 0, 0, 1, 1, 1]
        assert final["players"]["id"].tolist() == [0, 1, 2] * 2


def test_final_info_has_all_keys_of_info_in_pools_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    settings = {"seed": 0, "autoreset": "same_step", "max_episode_steps": 2}
    with headrace.make_torch("CartPole-v1", num_envs=N, device="cpu", **settings) as pool:
        pool.reset()
        action = torch.zeros(N, dtype=torch.int64)
        pool.step(action)
        *_, info = pool.step(action)
        assert keys_of(info["final_info"]) == keys_of(info) >= {"env_id", "players.env_id"}
        assert info["final_info"]["env_id"].tolist() == list(range(N))

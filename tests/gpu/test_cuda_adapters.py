"""Adapters to torch's libraries over a pool on a GPU: results stay on it; TorchRL's equal those on a CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

CUDA = "cuda:0"


def test_torchrl_rollouts_on_a_gpu_equal_those_on_a_cpu(make_torch: Any) -> None:
    pytest.importorskip("torchrl")
    from torchrl.envs.utils import check_env_specs

    from headrace.adapters.torchrl import HeadraceEnv

    here, there = (
        HeadraceEnv(make_torch("CartPole-v1", num_envs=16, seed=3, device=device, autoreset="same_step"))
        for device in (CUDA, "cpu")
    )
    check_env_specs(here)

    def policy(td: Any) -> Any:
        return td.set("action", (td["observation"][:, 2] > 0).long())

    for env in (here, there):
        env.set_seed(5)
    for kind in ({"break_when_any_done": False}, {"break_when_any_done": False, "break_when_all_done": True}, {}):
        data, twin = (env.rollout(120, policy, **kind) for env in (here, there))
        assert data["next", "observation"].device == torch.device(CUDA)
        assert twin["next", "done"].any()
        for key in ("observation", "reward", "done"):
            torch.testing.assert_close(data["next", key].cpu(), twin["next", key], atol=1e-5, rtol=0)


def test_torchrls_check_env_specs_passes_for_many_agents_on_a_gpu(make_torch: Any) -> None:
    pytest.importorskip("torchrl")
    from torchrl.envs.utils import check_env_specs

    from headrace.adapters.torchrl import HeadraceEnv

    check_env_specs(HeadraceEnv(make_torch("TagContinuous-v0", num_envs=4, device=CUDA, autoreset="same_step")))


def test_skrl_results_are_on_the_gpu_and_are_not_overwritten(make_torch: Any) -> None:
    pytest.importorskip("skrl")
    from headrace.adapters.skrl import HeadraceWrapper

    env = HeadraceWrapper(make_torch("CartPole-v1", num_envs=4, seed=1, device=CUDA, autoreset="same_step"))
    assert env.device == torch.device(CUDA)
    first = env.reset()[0]
    seen = first.clone()
    results = env.step(torch.zeros(4, 1, device=CUDA))
    assert all(tensor.device == torch.device(CUDA) for tensor in (first, *results[:4]))
    assert (first == seen).all()


def test_rl_games_results_are_on_the_gpu_and_are_not_overwritten(make_torch: Any) -> None:
    pytest.importorskip("rl_games")
    from headrace.adapters.rl_games import HeadraceVecEnv

    env = HeadraceVecEnv(make_torch("CartPole-v1", num_envs=4, seed=1, device=CUDA, autoreset="same_step"))
    first = env.reset()
    seen = first.clone()
    *results, infos = env.step(torch.zeros(4, dtype=torch.int64, device=CUDA))
    assert all(tensor.device == torch.device(CUDA) for tensor in (first, *results, infos["time_outs"]))
    assert (first == seen).all()

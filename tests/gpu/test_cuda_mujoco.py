"""MuJoCo's tasks on a GPU give the results of Warp's CPU device, and can be captured in CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("mujoco_warp")

CUDA = "cuda:0"
TASKS = ("HalfCheetah-v5", "WalkerWalk-v1")


def tensor_of(obs):
    return torch.cat([part.flatten(1) for part in obs.values()], 1) if isinstance(obs, dict) else obs


@pytest.mark.parametrize("task", TASKS)
def test_steps_on_a_gpu_equal_steps_on_a_cpu(make_torch, task):
    gpu, cpu = make_torch(task, 8, CUDA, seed=5), make_torch(task, 8, seed=5)
    one, two = tensor_of(gpu.reset()[0]).cpu(), tensor_of(cpu.reset()[0])
    torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)
    actions = torch.rand((20, 8, *cpu.action_space.shape), dtype=torch.float64) * 2 - 1
    for action in actions[:5]:  # contacts let float32's rounding grow
        a, b = gpu.step(action.to(CUDA)), cpu.step(action)
        torch.testing.assert_close(tensor_of(a[0]).cpu(), tensor_of(b[0]), atol=2e-2, rtol=2e-2)
    gpu.check_errors()


@pytest.mark.parametrize("task", TASKS)
def test_a_step_can_be_captured_in_a_cuda_graph(make_torch, task):
    plain, graphed = (make_torch(task, 64, CUDA, seed=5, max_episode_steps=20) for _ in range(2))
    plain.reset()
    graphed.reset()
    action = torch.zeros((64, *plain.action_space.shape), dtype=torch.float64, device=CUDA)
    for _ in range(3):
        plain.step(action)
        graphed.step(action)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = graphed.step(action)
    for _ in range(30):
        graph.replay()
        wanted = plain.step(action)
        assert torch.equal(result[4]["elapsed_step"], wanted[4]["elapsed_step"])
        torch.testing.assert_close(tensor_of(result[0]), tensor_of(wanted[0]), atol=1e-2, rtol=1e-2)


def test_training_of_half_cheetah_runs_on_a_gpu(tmp_path):
    from headrace.train import train

    settings: Any = {"num_envs": 256, "num_steps": 16, "minibatch_size": 1024, "total_steps": 3 * 256 * 16}
    result = train("HalfCheetah-v5", device=CUDA, run_dir=tmp_path / "run", quiet=True, **settings)
    assert result.steps == 3 * 256 * 16

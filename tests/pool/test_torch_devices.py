"""Devices of torch pools: those that do not exist are refused; kernels compile for a GPU on a machine without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warp as wp

import headrace
from headrace.errors import OptionError
from headrace.pool.registry import build_task
from nightly import rest_nightly

pytest.importorskip("torch")

from torch_pools import KERNEL_TASKS, TEXTURED

from headrace.pool.executors.kernels.build import program_of


@pytest.mark.parametrize("device", ["cuda:99", "cpu:3x", "tpu", "mps", 1.5])
def test_devices_that_do_not_exist_are_refused(device: Any) -> None:
    with pytest.raises(OptionError, match="cpu"):
        headrace.make_torch("CartPole-v1", 2, device=device)
    with pytest.raises(OptionError):
        headrace.make("CartPole-v1", num_envs=2, device=device)


def test_only_kernel_environments_can_run_on_a_device() -> None:
    with pytest.raises(OptionError, match=r"debug=True.*Take headrace\.make, without a device"):
        headrace.make_torch("CartPole-v1", 2, debug=True)
    with pytest.raises(OptionError, match="gymnasium"):
        headrace.make("CartPole-v1", "gymnasium", num_envs=2, device="cuda:0")
    pytest.importorskip("headrace_atari._atari")
    pytest.importorskip("ale_py")
    with pytest.raises(OptionError, match="no kernel environment"):
        headrace.make_torch("Pong-v5", 2)


# of each family a task whose kernel is compiled in little time; of MiniGrid's a BabyAI level, too
COMPILED = (
    "CartPole-v1", "Taxi-v4", "ConnectFour-v0", "MinAtar-Breakout-v1", "SimpleTag-v3", "TagGridWorld-v0",
    "MiniGrid-MemoryS13Random-v0", "BabyAI-GoToLocalS8N5-v0",
)  # fmt: skip


@pytest.mark.parametrize("task", rest_nightly([*KERNEL_TASKS, *TEXTURED], *COMPILED, *TEXTURED))
def test_kernels_compile_for_a_gpu(task: str, tmp_path: Path) -> None:
    """To PTX for Hopper; where neither device calls a library function, without a fused operation."""
    if not wp.get_cuda_supported_archs():
        pytest.skip("this Warp has no CUDA compiler")
    built = build_task(task)
    assert built.kernel is not None
    kernel = program_of(built.kernel, built.spec, "cuda:0").kernel
    wp.compile_aot_module(kernel.module, device=None, arch=90, module_dir=str(tmp_path), use_ptx=True)
    (ptx,) = tmp_path.glob("*.ptx")
    text = ptx.read_text()
    assert f".entry {kernel.key}" in text
    if task.startswith(("CartPole", "Acrobot", "Pendulum")):
        assert "fma.rn" not in text

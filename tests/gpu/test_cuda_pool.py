"""A pool on a GPU gives a CPU's results, on torch's streams and in CUDA graphs; steps allocate nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from headrace.envs import FAMILIES
from headrace.errors import ActionError, EnvIdError, OptionError, SequenceError

torch = pytest.importorskip("torch")

CUDA = "cuda:0"
NATIVE = ("atari", "box2d", "dm_control", "gymnasium_robotics", "mujoco", "robots", "vizdoom")
KERNEL_TASKS = [task for name, family in FAMILIES.items() if name not in NATIVE for task in family.tasks]


def sampled(space: Any, rows: int, seed: int) -> Any:
    """Random actions of a space on the CPU, [rows, …]; a dict of them for a `Dict` space."""
    space.seed(seed)
    samples = [space.sample() for _ in range(rows)]
    if isinstance(samples[0], dict):
        return {name: torch.from_numpy(np.stack([s[name] for s in samples])) for name in samples[0]}
    return torch.from_numpy(np.stack(samples))


def on_gpu(tree: Any) -> Any:
    return {name: t.to(CUDA) for name, t in tree.items()} if isinstance(tree, dict) else tree.to(CUDA)


def assert_agree(gpu: Any, cpu: Any, where: str) -> None:
    """Integers exactly, floats within 1e-5."""
    if isinstance(gpu, dict):
        for name in gpu:
            assert_agree(gpu[name], cpu[name], f"{where}, {name}")
    elif isinstance(gpu, tuple):
        for i, (a, b) in enumerate(zip(gpu, cpu, strict=True)):
            assert_agree(a, b, f"{where}, {i}")
    else:
        assert gpu.device == torch.device(CUDA)
        tolerance = 1e-5 if gpu.is_floating_point() else 0
        torch.testing.assert_close(gpu.cpu(), cpu, atol=tolerance, rtol=0, msg=lambda text: f"{where}: {text}")


@pytest.mark.parametrize("task", KERNEL_TASKS)
def test_a_thousand_steps_on_a_gpu_equal_those_on_a_cpu(make_torch: Any, task: str) -> None:
    """Over 1,000 steps with one synchronisation, the seed; classic control's arithmetic even to the last bit."""
    rows = 33
    gpu, cpu = make_torch(task, rows, CUDA, seed=5), make_torch(task, rows, seed=5)
    assert_agree(gpu.reset(), cpu.reset(), "reset")
    actions = [sampled(cpu.action_space, rows, seed) for seed in range(50)]
    for t in range(1000):
        action = actions[(t * 7 + t // 50) % 50]
        assert_agree(gpu.step(on_gpu(action)), cpu.step(action), f"step {t}")
    gpu.check_errors()
    if task.startswith(("CartPole", "Acrobot", "Pendulum")):
        assert gpu.save_state() == cpu.save_state()


def test_partial_steps_and_resets_equal_those_on_a_cpu(make_torch: Any) -> None:
    gpu, cpu = make_torch("CartPole-v1", 8, CUDA, seed=5), make_torch("CartPole-v1", 8, seed=5)
    assert_agree(gpu.reset(), cpu.reset(), "reset")
    for ids in ([3, 1, 7], [0], [7, 6, 5, 4, 3, 2, 1, 0]):
        which, action = torch.tensor(ids), torch.ones(len(ids), dtype=torch.int64)
        assert_agree(gpu.step(on_gpu(action), which.to(CUDA)), cpu.step(action, which), str(ids))
    assert_agree(gpu.reset([2, 4], seed=1), cpu.reset([2, 4], seed=1), "reset of two")


def test_a_state_saved_on_a_cpu_continues_on_a_gpu(make_torch: Any) -> None:
    gpu, cpu = make_torch("Acrobot-v1", 8, CUDA, seed=5), headrace.make("Acrobot-v1", num_envs=8, seed=6)
    cpu.reset()
    action = np.ones(8, np.int64)
    cpu.step(action)
    gpu.load_state(None, cpu.save_state())
    assert_agree(gpu.step(torch.from_numpy(action).to(CUDA))[0], torch.from_numpy(cpu.step(action)[0]), "after load")
    np.testing.assert_array_equal(gpu.render([3]), cpu.render([3]))
    cpu.close()


def test_steps_run_on_the_current_stream_of_torch(make_torch: Any) -> None:
    """A step on another stream reads the actions that the same stream writes, late as they may be."""
    gpu, cpu = (
        make_torch("MountainCarContinuous-v0", 64, CUDA, seed=5),
        make_torch("MountainCarContinuous-v0", 64, seed=5),
    )
    gpu.reset()
    cpu.reset()
    torch.cuda.synchronize()
    stream, action = torch.cuda.Stream(), torch.zeros(64, 1, device=CUDA)
    with torch.cuda.stream(stream):
        for t in range(20):
            torch.cuda._sleep(2_000_000)
            action.fill_(0.05 * t)
            gpu.step(action)
    stream.synchronize()
    for t in range(20):
        cpu.step(torch.full((64, 1), 0.05 * t))
    assert_agree(gpu.step(action), cpu.step(action.cpu()), "the step after")


def test_a_rollout_and_its_policy_in_one_graph_equal_plain_steps(make_torch: Any) -> None:
    rows, horizon = 256, 32
    graphed, plain = make_torch("CartPole-v1", rows, CUDA, seed=5), make_torch("CartPole-v1", rows, CUDA, seed=5)
    obs, reward = (torch.zeros(horizon, rows, *shape, device=CUDA) for shape in ((4,), ()))
    batches = [graphed.make_batch(obs=obs[t], reward=reward[t]) for t in range(horizon)]
    torch.manual_seed(0)
    policy = torch.nn.Linear(4, 2, device=CUDA)
    seen = graphed.reset()[0]
    last = seen.clone()

    @torch.no_grad()
    def rollout() -> None:
        now = last
        for batch in batches:
            now = graphed.step(policy(now).argmax(1), out=batch)[0]
        last.copy_(now)

    state = graphed.save_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        rollout()  # once without a graph, as torch asks
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rollout()
    graphed.load_state(None, state)
    last.copy_(seen)

    now = plain.reset()[0]
    for _ in range(3):
        graph.replay()
        for t in range(horizon):
            with torch.no_grad():
                now, earned, *_ = plain.step(policy(now).argmax(1))
            torch.testing.assert_close(obs[t], now, atol=0, rtol=0)
            torch.testing.assert_close(reward[t], earned, atol=0, rtol=0)
    graphed.check_errors()
    assert reward.eq(0).any()  # episodes ended and began inside the graph


def test_a_step_allocates_nothing_and_waits_for_nothing(make_torch: Any) -> None:
    for options in ({}, {"autoreset": "same_step"}):
        pool = make_torch("CartPole-v1", 1024, CUDA, seed=5, **options)
        pool.reset()
        action = torch.ones(1024, dtype=torch.int64, device=CUDA)
        some, ids = action[:10].clone(), torch.arange(10, device=CUDA)
        for _ in range(3):
            pool.step(action)
            pool.step(some, ids)
        torch.cuda.synchronize()
        before = torch.cuda.memory_stats(CUDA)["allocation.all.allocated"]
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(50):
                pool.step(action)
                pool.step(some, ids)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.cuda.memory_stats(CUDA)["allocation.all.allocated"] == before


def test_invalid_values_raise_an_error_at_a_later_call(make_torch: Any) -> None:
    pool = make_torch("CartPole-v1", 4, CUDA, seed=5)
    pool.reset()
    pool.step(torch.tensor([0, 1, 2, -1], device=CUDA))
    with pytest.raises(ActionError, match="row 2"):
        pool.check_errors()
    pool.check_errors()
    pool.step(torch.ones(2, dtype=torch.int64, device=CUDA), torch.tensor([1, 1 << 40], device=CUDA))
    with pytest.raises(EnvIdError, match="row 1"):
        pool.save_state()
    pool.step(torch.ones(2, dtype=torch.int64, device=CUDA), torch.tensor([3, 3], device=CUDA))
    with pytest.raises(EnvIdError, match="another row"):
        pool.reset()
    manual = make_torch("CartPole-v1", 2, CUDA, autoreset="disabled", max_episode_steps=1)
    manual.reset()
    for _ in range(2):
        manual.step(torch.ones(2, dtype=torch.int64, device=CUDA))
    with pytest.raises(SequenceError, match="over"):
        manual.check_errors()


def test_tensors_of_wrong_device_dtype_or_shape_raise_an_error_at_once(make_torch: Any) -> None:
    pool = make_torch("CartPole-v1", 4, CUDA, seed=5)
    pool.reset()
    for action in (torch.ones(4, dtype=torch.int64), torch.ones(4, device=CUDA), torch.ones(3, device=CUDA).long()):
        with pytest.raises(ActionError):
            pool.step(action)
    with pytest.raises(OptionError):
        pool.make_batch(obs=torch.zeros(4, 4))
    with pytest.raises(OptionError, match="cuda:0"):
        headrace.make_torch("CartPole-v1", 4, "cuda:99")


def test_make_with_a_cuda_device_gives_tensors_on_it(make_torch: Any) -> None:
    with headrace.make("CartPole-v1", num_envs=4, device="cuda", seed=5) as pool:
        assert pool.reset()[0].device == torch.device(CUDA)


def test_close_frees_the_memory() -> None:
    headrace.make_torch("CartPole-v1", 8, CUDA).close()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(CUDA)
    pool = headrace.make_torch("CartPole-v1", 1 << 18, CUDA)
    pool.reset()
    assert torch.cuda.memory_allocated(CUDA) > before + (1 << 24)
    pool.close()
    assert torch.cuda.memory_allocated(CUDA) == before


@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_pools_on_several_gpus_give_equal_results(make_torch: Any) -> None:
    pools = [make_torch("CartPole-v1", 64, f"cuda:{i}", seed=5) for i in range(torch.cuda.device_count())]
    for pool in pools:
        pool.reset()
    results: list[Any] = []
    for t in range(50):
        results = [pool.step(torch.full((64,), t % 2, device=pool.device)) for pool in pools]
    for pool, result in zip(pools, results, strict=True):
        assert result[0].device == pool.device
        torch.testing.assert_close(result[0].cpu(), results[0][0].cpu(), atol=0, rtol=0)


def test_the_bench_command_measures_a_gpu_and_refuses_async(capsys: pytest.CaptureFixture[str]) -> None:
    from headrace.cli.main import main

    options = ["--device", CUDA, "--num-envs", "64", "--seconds", "0.05", "--repeats", "2"]
    assert main(["bench", "CartPole-v1", *options]) == 0
    assert "steps/s" in capsys.readouterr().out
    assert main(["bench", "CartPole-v1", *options, "--async"]) == 2

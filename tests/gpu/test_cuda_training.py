"""Training on a GPU equals training on a CPU, has rollouts and updates as CUDA graphs, and loses no memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from graph_runs import RUNS, SMALL  # noqa: E402
from graph_stand_in import graphs_on_a_cpu  # noqa: E402
from headrace.train.recipes.make import make_config  # noqa: E402  (they need torch)
from headrace.train.runners.assembly import make_trainer  # noqa: E402
from headrace.train.runs.folder import RunFolder  # noqa: E402

CUDA = "cuda:0"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Any] = []

    def make(device: str, **settings: Any) -> Any:
        config = make_config(**{"total_steps": 10**9, "tensorboard": False, **SMALL, **settings, "device": device})
        made.append(make_trainer(config, RunFolder.create(tmp_path / str(len(made)), config)))
        return made[-1]

    yield make
    for trainer in made:
        trainer.close()


def assert_same(one: Any, other: Any, where: str, tolerance: float) -> None:
    for a, b in zip(one.policies, other.policies, strict=True):
        assert a.losses is not None and b.losses is not None
        torch.testing.assert_close(a.losses.cpu(), b.losses.cpu(), atol=tolerance, rtol=tolerance, msg=where)
        for name, tensor in a.network.state_dict().items():
            theirs = b.network.state_dict()[name]
            torch.testing.assert_close(
                tensor.cpu(), theirs.cpu(), atol=tolerance, rtol=tolerance, msg=f"{where} {name}"
            )


@pytest.mark.parametrize("name", RUNS)
def test_training_on_cpu_and_cuda_agrees_for_20_iterations(make: Any, name: str) -> None:
    torch.backends.cudnn.allow_tf32 = False
    settings = {**RUNS[name], "host_random": True, "adam_epsilon": 1e-3}
    gpu = make(CUDA, **settings)
    with graphs_on_a_cpu():  # there minibatches are drawn as on a GPU
        cpu = make("cpu", **settings, graphs=False)
    for iteration in range(20):
        gpu.iterate()
        cpu.iterate()
        assert_same(gpu, cpu, f"iteration {iteration}", 2e-3)
    assert gpu.tracker.episodes == cpu.tracker.episodes


@pytest.mark.parametrize("name", RUNS)
def test_training_with_cuda_graphs_equals_training_without_them(make: Any, name: str) -> None:
    torch.backends.cudnn.allow_tf32 = False
    graphs, eager = make(CUDA, **RUNS[name]), make(CUDA, **RUNS[name], graphs=False)
    for iteration in range(8):
        graphs.iterate()
        eager.iterate()
        assert_same(graphs, eager, f"iteration {iteration}", 1e-3)
    assert graphs.source.rollout.captured == ("host" not in name) and not eager.source.rollout.captured


def test_a_run_loaded_from_a_checkpoint_equals_an_uninterrupted_run(make: Any) -> None:
    alone, stopped = make(CUDA, **RUNS["ppo"]), make(CUDA, **RUNS["ppo"])
    for _ in range(5):
        alone.iterate()
        stopped.iterate()
    resumed = make(CUDA, **RUNS["ppo"])
    resumed.load(stopped.checkpoint())
    for _ in range(5):
        alone.iterate()
        resumed.iterate()
    assert_same(alone, resumed, "resumed", 1e-3)
    assert alone.tracker.episodes == resumed.tracker.episodes


def test_environments_on_the_host_train_a_policy_on_a_gpu(make: Any) -> None:
    """Groups that take turns live on the host; their episodes are counted on the policy's device."""
    trainer: Any = make(CUDA, **RUNS["environments on the host"])
    for _ in range(8):
        trainer.iterate()
    assert trainer.tracker.episodes > 0 and trainer.policies[0].losses.is_cuda


def test_a_thousand_iterations_take_no_more_gpu_memory(make: Any) -> None:
    trainer: Any = make(CUDA, **RUNS["ppo"], log_steps=128)  # so the first metrics are written before
    for _ in range(10):
        trainer.iterate()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for _ in range(1000):
        trainer.iterate()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_a_frozen_policy_keeps_its_parameters_in_graphs(make: Any) -> None:
    policies = {"tagger": {}, "runner": {"frozen": True}}
    trainer: Any = make(CUDA, task="TagGridWorld-v0", policies=policies)
    before = [p.clone() for p in trainer.policies[1].network.parameters()]
    for _ in range(6):
        trainer.iterate()
    after = list(trainer.policies[1].network.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert trainer.policies[1].losses is None


@pytest.mark.parametrize("host_random", [False, True])
def test_graphs_play_the_past_version_that_self_play_has_drawn(make: Any, host_random: bool) -> None:
    policies = {"learner": {"agents": [0, 1]}, "past": {"agents": [2, 3], "copies": "learner"}, "runner": {}}
    options = {"num_taggers": 4, "grid_length": 6, "random_start": True}
    settings = {"policies": policies, "env_options": options, "copy_every": 128, "copies_kept": 4}
    trainer: Any = make(CUDA, task="TagGridWorld-v0", host_random=host_random, **settings)
    versions, played = {}, set()
    for _ in range(20):
        versions[trainer.step] = [p.clone() for p in trainer.policies[0].network.parameters()]
        trainer.iterate()
        version = trainer.source.self_play.version("past")
        played.add(version)
        past = trainer.source.collector.experiences[1]
        assert all(torch.equal(a, b) for a, b in zip(past.policy.network.parameters(), versions[version], strict=True))
        with torch.no_grad():
            params, _ = past.policy.network(past.inputs[:-1].flatten(0, 1))
        torch.testing.assert_close(params, past.params.flatten(0, 1), atol=1e-3, rtol=1e-3)
    assert trainer.source.rollout.captured and len(played) > 3


def test_the_error_of_a_faulting_kernel_names_it() -> None:
    """In a process of its own, as a process cannot use a GPU any more after a fault."""
    code = f"""
import torch, headrace, faulty_env
from headrace.errors import KernelError
pool = headrace.make_torch("Faulty-v0", 64, "{CUDA}", seed=0)
pool.reset()
try:
    with pool.faults_named():  # a fault surfaces in any later call
        for _ in range(101):
            pool.step(torch.zeros(64, dtype=torch.int64, device="{CUDA}"))
        pool.check_errors()
except KernelError as error:
    print("named:", error)
"""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert "named:" in done.stdout and "write_far_away" in done.stdout, done.stderr


def test_a_run_trained_on_a_gpu_can_be_evaluated_on_a_cpu(tmp_path: Path) -> None:
    """A run trained on a GPU plays on a CPU."""
    from headrace.train import train
    from headrace.train.play.evaluate import evaluate

    train(
        "CartPole-v1", device=CUDA, run_dir=tmp_path / "run", total_steps=20_000, stop_at_return=None, video=False,
        tensorboard=False, quiet=True,
    )  # fmt: skip
    assert np.isfinite(evaluate(tmp_path / "run", episodes=4).mean_return)

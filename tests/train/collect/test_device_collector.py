"""Rollouts beside the environments: the same samples as on the host, and nothing that waits for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import faulty_env  # noqa: F401
import masked_games  # noqa: F401
import multi_agent_games  # noqa: F401  (registers the test tasks)
from collecting import collecting
from device_waits import NothingWaits
from headrace.errors import EnvironmentFailure, KernelError
from headrace.train import train
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.rates import Rates
from headrace.train.collect.pools import training_pool
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.modules.action_masks import masked
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples, draw_order
from nightly import rest_nightly

CPU = torch.device("cpu")
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"env_options": {"max_episode_steps": 11}},
    "Pendulum-v1": {"env_options": {"max_episode_steps": 20}, "normalise_observations": True, "normalise_values": True},
    "FrozenLake-v1": {"network": "gru", "hidden": (8,), "env_options": {"max_episode_steps": 5}},
    "MinAtar-Breakout-v1": {"algo": "ppo", "env_options": {"max_episode_steps": 9}},
    "TagGridWorld-v0": {"network": "gru", "hidden": (8, 8), "env_options": {"num_taggers": 4, "max_episode_steps": 9}},
    "TagContinuous-v0": {"env_options": {"num_taggers": 2, "num_runners": 5, "max_episode_steps": 10}},
    "TestRing-v0": {"env_options": {"max_episode_steps": 3}, "normalise_observations": True},
    "TestHunt-v0": {"env_options": {"max_episode_steps": 7}},
    "TestGate-v0": {},
    "TestLock-v0": {"network": "gru", "hidden": (8,)},
    "TestZoo-v0": {},
}


def build(kind: str, task: str) -> tuple[Any, list[Policy]]:
    """A started collector: ``host``, ``device``, or ``static`` as on a GPU."""
    config = make_config(task, num_envs=6, num_steps=24, minibatch_size=32, epochs=2, seed=3, **TASKS[task])
    return collecting(kind, config)


def check_inputs(policy: Policy, samples: Samples) -> None:
    """The inputs are those that the actions were chosen by: the policy still gives them the same probabilities."""
    with torch.no_grad():
        if samples.memory is None:
            params, values = policy.network(samples.inputs)
        else:
            params, values = policy.network.unroll(samples.inputs, samples.memory, samples.starts)  # type: ignore
    if samples.forbidden is not None:
        params = masked(params, samples.forbidden)
    assert samples.log_probs is not None
    torch.testing.assert_close(policy.distribution.evaluate(params, samples.actions)[0], samples.log_probs)
    if policy.value_normaliser is None:  # whose statistics have changed since
        torch.testing.assert_close(values, samples.values, atol=1e-5, rtol=1e-4)


def learn(policies: list[Any], rollouts: list[Samples], generator: torch.Generator) -> None:
    for policy, samples in zip(policies, rollouts, strict=True):
        orders = [draw_order(samples, policy.config.minibatch_size, generator) for _ in range(2)]
        policy.update(samples, Rates.of(policy.config, 0), orders)


@pytest.mark.parametrize("task", rest_nightly(TASKS, "CartPole-v1", "TagContinuous-v0", "TestHunt-v0"))
def test_three_ways_to_collect_give_the_same_samples(task):
    built = [build(kind, task) for kind in ("host", "device", "static")]
    for seed in range(3):
        collected = []
        for collector, _ in built:
            collector.draw(torch.Generator().manual_seed(seed))
            collected.append(collector.collect())
        assert built[0][0].truncated.any()
        for policy, samples in zip(built[0][1], collected[0], strict=True):
            check_inputs(policy, samples)
        for one, *others in zip(*collected, strict=True):
            for other in others:
                rows = slice(None) if one.rows is None else one.rows
                names = ["inputs", "actions", "log_probs", "advantages", "returns", "values"]
                for name in names + ["forbidden"] * (one.forbidden is not None):
                    torch.testing.assert_close(
                        getattr(other, name)[rows], getattr(one, name)[rows], atol=2e-3, rtol=1e-4, msg=name
                    )
                if one.rows is not None and other.weights is not None:
                    assert torch.equal(other.weights.nonzero().squeeze(1), one.rows)
        for (collector, _), (first, _) in zip(built[1:], built[:-1], strict=True):
            assert torch.equal(collector.ends, first.ends)
            for experience, other in zip(collector.experiences, first.experiences, strict=True):
                normaliser, twin = experience.encoder.normaliser, other.encoder.normaliser
                if normaliser is not None:
                    torch.testing.assert_close(normaliser.mean, twin.mean)
    for collector, _ in built:
        collector.pool.close()


@pytest.mark.parametrize("task", rest_nightly(TASKS, "Pendulum-v1", "MinAtar-Breakout-v1", "TestRing-v0"))
def test_no_iteration_waits_for_the_device(task):
    """What a GPU would have to wait for does not occur in an iteration, so that it can be a CUDA graph."""
    collector, policies = build("static", task)
    generator = torch.Generator().manual_seed(0)
    collector.draw(generator)
    learn(policies, collector.collect(), generator)
    trackers = [EpisodeTracker(collector.num_envs, 100) for _ in policies]
    with NothingWaits():
        collector.draw(generator)
        learn(policies, collector.collect(), generator)
        for policy, tracker in zip(policies, trackers, strict=True):
            tracker.update(collector.scores(policy.agent_group), collector.ends)
    assert all(tracker.episodes > 0 for tracker in trackers)
    collector.pool.close()


def test_the_device_is_seen_to_be_waited_for():
    """The check above finds what it looks for."""
    collector, _ = build("device", "TestRing-v0")
    collector.draw(torch.Generator().manual_seed(0))
    with pytest.raises(AssertionError, match="waits for the device"), NothingWaits():
        collector.collect()
    collector.pool.close()


def test_a_faulting_environment_is_named_in_debug_mode(tmp_path: Path):
    with pytest.raises(EnvironmentFailure, match=r"(?s)steps.*faulty_env.py:\d+, in write_far_away"):
        train(
            "Faulty-v0", num_envs=2, num_steps=8, minibatch_size=8, video=False, quiet=True, tensorboard=False,
            run_dir=tmp_path / "run", env_options={"debug": True},
        )  # fmt: skip


@pytest.mark.parametrize(
    "text", ["CUDA error: an illegal memory access was encountered", "CUDA error 719: unspecified launch failure"]
)
def test_a_fault_on_a_gpu_names_the_environments_functions(text):
    pool = training_pool(make_config("Faulty-v0"))
    with pytest.raises(KernelError, match=r"Faulty.*step: write_far_away.*observe: look"), pool.faults_named():  # type: ignore
        raise RuntimeError(text)
    with pytest.raises(RuntimeError, match="out of memory"), pool.faults_named():  # type: ignore[union-attr]
        raise RuntimeError("CUDA error: out of memory")
    pool.close()

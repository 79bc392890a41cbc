"""PPO that learns from a rollout and from what it is in a mirror."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace import HeadraceError, Mirror
from headrace.pool.registry import build_task
from headrace.pool.task import Task
from headrace.train import resume
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.update_threads import torch_threads
from headrace.train.modules.compiled import compiled_module
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import load, newest
from headrace.train.storage.samples import Samples
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
# a left and a right leg: what they see and what they do change places, and the last number changes its sign
MIRROR = Mirror(observation=((1, 0, 2, 4, 3), (1, 1, 1, -1, -1)), action=((1, 0, 2), (1, 1, -1)))
SEEN, ACTED = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32), gym.spaces.Box(-2.0, 2.0, (3,), np.float32)
LEGS = AgentGroup(SEEN, ACTED, mirror=MIRROR)
PENDULUM = Mirror(observation=((0, 1, 2), (1, -1, -1)), action=((0,), (-1,)))
SHORT = SMALL | {
    "total_steps": 768,
    "hidden": [16],
    "log_steps": 128,
    "quiet": True,
    "normalise_observations": True,
    "anneal_learning_rate": False,
}


def mirrored_pendulum(name: str, **options: Any) -> Task:
    task = build_task("Pendulum-v1", **options)
    return replace(task, spec=replace(task.spec, task=name, mirror=PENDULUM))


headrace.register("MirroredPendulum-v0", mirrored_pendulum)


def policy_of(agents: AgentGroup = LEGS, **settings: Any) -> PPO:
    torch.manual_seed(0)
    return PPO("", make_config("x", defaults=False, algo="ppo", epochs=2, **settings), agents, torch.device("cpu"))


def rollout() -> Samples:
    chance = torch.Generator().manual_seed(1)
    inputs, actions, columns = (torch.randn(*shape, generator=chance) for shape in ((96, 5), (96, 3), (4, 96)))
    return Samples(inputs, actions, columns[0] - 4, *columns[1:])


def in_a_mirror(samples: Samples) -> Samples:
    """By the words of `Mirror`, element by element."""
    pairs = ((samples.inputs, MIRROR.observation), (samples.actions, MIRROR.action))
    inputs, actions = (torch.stack([sign * x[:, i] for i, sign in zip(*side, strict=True)], 1) for x, side in pairs)
    return replace(samples, inputs=inputs, actions=actions)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("mirror", [True, False])
def test_a_rollout_and_its_mirrored_one_teach_the_same(mirror: bool, compiled: bool) -> None:
    if compiled and compiled_module() is None:
        pytest.skip("left out, or this processor has no registers for it")
    results = []
    for samples in (rollout(), in_a_mirror(rollout())):
        policy = policy_of(mirror=mirror, minibatch_size=32, adam_epsilon=1e-3)
        policy.compiled = policy.compiled if compiled else None
        with torch_threads(1):
            policy.learn(samples, 0, torch.Generator().manual_seed(0))
        assert policy.updates == 6
        results.append(policy.optimiser.parameters)
    assert torch.allclose(*results, rtol=1e-4, atol=1e-5) == mirror


def test_each_minibatch_is_learnt_with_its_mirrored_samples() -> None:
    """As torch learns from both, of which the other half was made by hand."""
    mirrored, both = policy_of(mirror=True, minibatch_size=32), policy_of(minibatch_size=64)
    one, other = rollout(), in_a_mirror(rollout())
    columns = {name: torch.cat((getattr(one, name), getattr(other, name))) for name in one.__dataclass_fields__
               if getattr(one, name) is not None}  # fmt: skip
    orders = mirrored.draw_orders(one, torch.Generator().manual_seed(0))
    with torch_threads(1):
        mirrored.learn(one, 0, torch.Generator().manual_seed(0))
        twice = [torch.cat((order, order + 96), 1) for order in orders if order is not None]
        both.compiled = None
        both.losses = both.update(Samples(**columns), both.rates(0), twice)
    torch.testing.assert_close(mirrored.optimiser.parameters, both.optimiser.parameters, rtol=1e-4, atol=1e-5)
    ours, theirs = mirrored.last_losses(), both.last_losses()
    for ratios in ("approx_kl", "clip_fraction"):  # which are those of the actions that were taken
        assert ours.pop(ratios) != theirs.pop(ratios)
    assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_code_measures_the_ratios_of_actions_that_were_taken(weighted: bool) -> None:
    """In a first update they are those of the policy that acted, whatever it would do in the mirror."""
    samples, found = rollout(), []
    if weighted:
        samples = replace(samples, weights=torch.ones(96))
    for compiled in (True, False):
        policy = policy_of(mirror=True, minibatch_size=96)
        with torch.no_grad():
            known = policy.distribution.evaluate(policy.network(samples.inputs)[0], samples.actions)[0]
        policy.compiled = policy.compiled if compiled and not weighted else None
        with torch_threads(1):
            order = [torch.arange(96).view(1, -1)]
            given, both = policy._mirrored(replace(samples, log_probs=known), policy.mirroring, order)  # type: ignore[arg-type]
            measured = policy.update(given, policy.rates(0), both)
        assert measured is not None
        found.append(dict(zip(policy.statistics, measured.tolist(), strict=True)))
    for each in found:
        assert abs(each["approx_kl"]) < 1e-6 and each["clip_fraction"] == 0
    assert found[0] == pytest.approx(found[1], rel=1e-3, abs=1e-5)


def test_rows_that_are_left_out_are_left_out_of_the_mirror() -> None:
    policy, samples = policy_of(mirror=True, minibatch_size=32), rollout()
    rows = torch.arange(0, 96, 3)
    spoilt = samples.inputs.clone()
    spoilt[1::3] = float("nan")
    policy.learn(replace(samples, inputs=spoilt, rows=rows), 0, torch.Generator().manual_seed(0))
    assert bool(policy.optimiser.parameters.isfinite().all())


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        (AgentGroup(SEEN, ACTED), "needs a task that says how it looks in a mirror: give its MujocoTask"),
        (replace(LEGS, observation=gym.spaces.Box(-1, 1, (4,))), r"has 5 elements of an observation of shape \(4,\)"),
        (replace(LEGS, action=gym.spaces.Box(-1, 1, (2,))), r"has 3 elements of an action of shape \(2,\)"),
        (replace(LEGS, critic=2), "needs to know how the 2 numbers that only the critic sees look in a mirror"),
        (replace(LEGS, action=gym.spaces.Discrete(3)), "needs observations and actions of numbers, not"),
        (
            replace(LEGS, action=gym.spaces.Box(np.array([-1, -2, -1]), np.array([1, 1, 1]), dtype=np.float64)),
            r"shows actions of other bounds, from \[-2. -1. -1.\] to \[1. 1. 1.\], than Box",
        ),
    ],
)
def test_what_does_not_fit_is_an_error(agents: AgentGroup, told: str) -> None:
    with pytest.raises(HeadraceError, match=told):
        policy_of(agents, mirror=True)


def test_stacked_observations_are_mirrored_one_by_one() -> None:
    stacked = replace(LEGS, observation=gym.spaces.Box(-1, 1, (2, 5)))
    mirroring = policy_of(stacked, mirror=True).mirroring
    assert mirroring is not None
    samples, seen = rollout(), in_a_mirror(rollout()).inputs
    assert torch.equal(mirroring.inputs(samples.inputs.view(48, 10)), seen.view(48, 10))


def test_what_only_the_critic_sees_is_mirrored_as_well() -> None:
    """As the same numbers are where the actor sees them."""
    observation, critic = (((1, 0, 2), (1, 1, 1)), ((1, 0), (-1, -1)))
    parts = replace(LEGS, mirror=Mirror(observation, MIRROR.action, critic), critic=2)
    mirroring = policy_of(parts, mirror=True).mirroring
    assert mirroring is not None
    assert torch.equal(mirroring.inputs(rollout().inputs), in_a_mirror(rollout()).inputs)
    with pytest.raises(HeadraceError, match="the mirror of the critic's part has the sign 2 of element 0"):
        Mirror(observation, MIRROR.action, ((0,), (2,)))


def test_a_run_is_resumed_to_the_same_bits_and_normalises_both_sides_alike(tmp_path: Path) -> None:
    train("MirroredPendulum-v0", **SHORT, mirror=True, run_dir=tmp_path / "whole")
    train("MirroredPendulum-v0", **SHORT | {"total_steps": 384}, mirror=True, run_dir=tmp_path / "parts")
    resume(tmp_path / "parts", total_steps=768, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    path = newest(tmp_path / "whole" / "checkpoints")
    assert path is not None
    model = load(path).model
    cosine, sine, speed = model["normaliser.mean"].tolist()
    assert abs(sine) < 1e-6 and abs(speed) < 1e-6 and cosine != 0


def test_a_task_without_a_mirror_is_told_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="needs a task that says how it looks in a mirror"):
        train("Pendulum-v1", **SHORT, mirror=True, run_dir=tmp_path / "run")
    with pytest.raises(HeadraceError, match="mirror=True would not be used by ppo"):
        train("CartPole-v1", **SHORT, mirror=True, run_dir=tmp_path / "run")

"""Updates over pictures in compiled code, beside torch's of the same losses: PPO, A2C and DQN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from compiled_pictures import BOX, CHOICE, NATURE, SMALL, STRIDED, Shape, distance, pictures, policy_of, samples_of
from headrace.pool.flat_observation import Joined
from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import Rates, UpdateRates
from headrace.train.algorithms.sac.sac import SAC
from headrace.train.algorithms.update_threads import torch_threads
from headrace.train.modules.cnn import PlainTrunk, cpu_has_bf16
from headrace.train.modules.compiled import compiled_module
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples, draw_order
from headrace.train.storage.transitions import Transitions
from nightly import rest_nightly

pytestmark = [
    pytest.mark.skipif(compiled_module() is None, reason="left out, or this processor has no registers for it"),
    pytest.mark.usefixtures("one_thread"),
]
RATES = UpdateRates(1e-3, 1e-3, 0.7)
EACH = pytest.mark.parametrize(("trunk", "shape"), [SMALL, NATURE, STRIDED])


def assert_alike(ours: Any, theirs: Any) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=2e-5)


@EACH
@pytest.mark.parametrize("action", [CHOICE, BOX], ids=["discrete", "continuous"])
@pytest.mark.parametrize("size", [13, 150])  # threads share the latter
def test_epochs_of_ppo_end_with_the_weights_of_torch(trunk: str, shape: Shape, action: gym.Space, size: int) -> None:
    results = []
    for threads, compiled in ((1, False), (1, True), (3, True), (8, True)):
        policy = policy_of("ppo", trunk, shape, action, minibatch_size=size, entropy_coef=0.01)
        samples, rates = samples_of(policy, shape, action, 2 * size), Rates.of(policy.config, 0)
        if not compiled:
            policy.compiled = None
        order = draw_order(samples, size, torch.Generator().manual_seed(0))
        with torch_threads(threads):
            measured = policy.update(samples, rates, [order])
        assert policy.updates == int(policy.optimiser.steps) == 2
        results.append((measured, policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    assert all(torch.equal(mine, other) for some in results[2:] for mine, other in zip(results[1], some, strict=True))
    assert_alike(results[1], results[0])


def test_an_epoch_of_ppo_with_masks_equals_that_of_torch() -> None:
    results = []
    for compiled in (True, False):
        policy = policy_of("ppo", *SMALL, minibatch_size=30, entropy_coef=0.1)
        samples = samples_of(policy, SMALL[1], CHOICE, 90)
        closed = (torch.rand(90, 3) < 0.5).scatter_(1, samples.actions.unsqueeze(1), False)
        samples = replace(samples, forbidden=closed, rows=(torch.rand(90) < 0.8).nonzero().squeeze(1))
        if not compiled:
            policy.compiled = None
        order = draw_order(samples, 30, torch.Generator().manual_seed(0))
        policy.update(samples, Rates.of(policy.config, 0), [order])
        results.append((policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    assert_alike(*results)


@EACH
def test_an_update_of_a2c_equals_that_of_torch(trunk: str, shape: Shape) -> None:
    results = []
    for compiled in (True, False):
        policy = policy_of("a2c", trunk, shape, BOX)
        samples = replace(samples_of(policy, shape, BOX, 21), log_probs=None)
        if not compiled:
            policy.compiled = None
        measured = policy.update(samples, Rates.of(policy.config, 0), policy.draw_orders(samples, torch.Generator()))
        results.append((measured, policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    assert_alike(*results)


def transitions_of(shape: Shape, rows: int, seed: int, weighted: bool = False) -> Transitions:
    """Transitions whose pictures do not follow each other in memory."""
    chance, both = torch.Generator().manual_seed(seed), pictures((2, *shape), rows, seed)
    actions, discounts = torch.randint(0, 3, (rows,), generator=chance), torch.rand(rows, generator=chance)
    rewards = torch.randn(rows, generator=chance)
    weights = torch.rand(rows, generator=chance) + 0.5 if weighted else None
    return Transitions(both[:, 0], actions, rewards, 0.9 * (discounts < 0.7), both[:, 1], weights)


def learnt_values(policy: Any, shape: Shape, updates: int, rows: int = 10) -> Tensor:
    batches = [transitions_of(shape, rows, seed, weighted=seed % 2 == 1) for seed in range(updates)]
    for number, batch in enumerate(batches):
        policy.improve(batch, RATES, number % 10 == 9)
    return policy.parts["q"].clone()


DOUBLE = {"double": True, "dueling": True, "loss": "huber"}
SQUARED = {"double": False, "dueling": False, "loss": "squared"}


@EACH
@pytest.mark.parametrize("settings", [DOUBLE, SQUARED, {"dueling": True, "loss": "squared"}])
def test_updates_of_action_values_equal_those_of_torch(trunk: str, shape: Shape, settings: dict[str, Any]) -> None:
    results = []
    for compiled in (True, False):
        policy = policy_of("dqn", trunk, shape, **settings, standardise_pixels=trunk == "strided")
        policy.prepare(lambda count: pictures(shape, min(count, 30), 8))  # after the compiled form has been made
        if not compiled:
            policy.compiled = None
        measured = [policy.improve(transitions_of(shape, rows, rows, rows > 1), RATES) for rows in (1, 9, 65)]
        results.append((*measured, policy.errors, *(getattr(policy.adam["q"], n) for n in ("parameters", "mean"))))
    assert_alike(*results)


@EACH
@pytest.mark.parametrize("bf16", [False, True])
def test_any_number_of_threads_ends_with_the_same_action_values(trunk: str, shape: Shape, bf16: bool) -> None:
    results = []
    for threads in (1, 2, 3, 8):
        policy = policy_of("dqn", trunk, shape, **DOUBLE, bf16=bf16)
        with torch_threads(threads):
            measured = [policy.improve(transitions_of(shape, rows, rows), RATES) for rows in (32, 65)]
            with torch.inference_mode():
                said = policy.network.q(pictures(shape, 90))
        results.append((*measured, policy.errors, policy.adam["q"].parameters, said))
    for some in results[1:]:
        assert all(torch.equal(mine, other) for mine, other in zip(results[0], some, strict=True))


@EACH
@pytest.mark.parametrize("updates", rest_nightly([20, 100], 20))
@pytest.mark.parametrize("settings", [DOUBLE, SQUARED])
def test_many_updates_of_action_values_stay_by_those_of_torch(
    trunk: str, shape: Shape, updates: int, settings: dict[str, Any]
) -> None:
    """As near as torch stays to itself where it begins with other roundings: units pass 0 earlier or later."""
    learnt = []
    for compiled, nudge in ((True, 0.0), (False, 0.0), (False, 1e-7)):
        policy = policy_of("dqn", trunk, shape, **settings)
        before = policy.parts["q"].clone()
        policy.parts["q"].mul_(1 + nudge * torch.randn_like(before))
        if not compiled:
            policy.compiled = None
        learnt.append(learnt_values(policy, shape, updates) - before)
    ours, theirs, nudged = learnt
    assert theirs.norm() > 0.1 and distance(ours, theirs) < 0.01 + 3 * distance(nudged, theirs)


@pytest.mark.parametrize(("trunk", "shape"), [NATURE, STRIDED])
def test_updates_in_bfloat16_repeat_and_go_where_those_in_float32_go(trunk: str, shape: Shape) -> None:
    module: Any = compiled_module()
    if not module.widths(bfloat16=True) or not cpu_has_bf16():
        pytest.skip("this processor does not multiply bfloat16")
    learnt = []
    for compiled, bf16 in ((True, True), (True, True), (False, True), (False, False)):
        policy = policy_of("dqn", trunk, shape, dueling=True, bf16=bf16)
        before = policy.parts["q"].clone()
        if not compiled:
            policy.compiled = None
        learnt.append(learnt_values(policy, shape, 10) - before)
    assert torch.equal(learnt[0], learnt[1])
    assert 0 < distance(learnt[0], learnt[3]) < 0.05 + 1.3 * distance(learnt[2], learnt[3]) < 0.6


PARTS = gym.spaces.Dict(
    speed=gym.spaces.Box(-9, 9, (2,), np.float32),
    near=gym.spaces.Box(0, 255, (9, 12, 3), np.uint8),
    far=gym.spaces.Box(0, 255, (40, 37, 1), np.uint8),
)
OVER: dict[str, tuple[Any, gym.Space, gym.Space]] = {
    "ppo": (PPO, Joined(PARTS, keep=True), CHOICE),
    "dqn": (DQN, Joined(PARTS, keep=True), CHOICE),
    "sac": (SAC, gym.spaces.Box(0, 255, (3, 40, 38), np.uint8), BOX),
}


@pytest.mark.parametrize("algo", OVER)
def test_updates_with_compiled_trunks_repeat_and_equal_those_of_torch(algo: str) -> None:
    kind, space, action = OVER[algo]
    space.seed(3)
    seen, after = (torch.from_numpy(np.stack([space.sample() for _ in range(9)])) for _ in range(2))
    learnt = []
    for compiled in (True, True, False):
        torch.manual_seed(5)
        config = make_config("x", defaults=False, algo=algo, adam_epsilon=1e-3, bf16=False, torch_threads=1)
        policy: Any = kind("", config, AgentGroup(space, action), torch.device("cpu"))
        assert policy.compiled is None and policy.updated_by.endswith(" with compiled convolutions")
        for network in (policy.network, getattr(policy, "targets", torch.nn.Module())):
            for part in network.modules():
                if not compiled and isinstance(part, PlainTrunk):
                    part.compiled = None
        columns = torch.randn(4, 9)
        if algo == "ppo":
            samples = Samples(seen, torch.arange(9) % 3, columns[0] - 1, *columns[1:])
            policy.update(samples, Rates.of(policy.config, 0), [torch.arange(8).view(2, 4)])
            learnt.append(policy.optimiser.parameters)
            continue
        actions = torch.arange(9) % 3 if algo == "dqn" else torch.rand(9, 2)
        for _ in range(2):
            policy.improve(Transitions(seen, actions, columns[0], 0.9 * torch.ones(9), after), RATES)
        learnt.append(torch.cat([optimiser.parameters for optimiser in policy.adam.values()]))
    assert torch.equal(learnt[0], learnt[1])
    torch.testing.assert_close(learnt[0], learnt[2], rtol=1e-3, atol=2e-5)

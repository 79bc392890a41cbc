"""Updates from a replay in compiled code, beside torch's of the same losses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from headrace.train.algorithms.ddpg.ddpg import DDPG
from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SAC
from headrace.train.algorithms.td3.td3 import TD3
from headrace.train.algorithms.update_threads import torch_threads
from headrace.train.modules.compiled import LEFT_OUT, compiled_module
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.transitions import Transitions

pytestmark = pytest.mark.skipif(compiled_module() is None, reason="left out, or this processor has no registers for it")
ALGORITHMS: dict[str, Any] = {"sac": SAC, "td3": TD3, "ddpg": DDPG}
CPU = torch.device("cpu")
RATES = UpdateRates(1e-3, 2e-3, 0.5)
# inputs, actions, hidden layers, activation, rows
SIZES = [
    (1, 1, (1,), "relu", 1),
    (1000, 3, (33, 5, 64), "tanh", 63),
    (17, 6, (64, 64), "relu", 130),
    (16, 2, (80, 48), "tanh", 300),
]


def policy_of(algo: str, inputs: int, actions: int, **settings: Any) -> Any:
    """A policy whose targets are not its networks."""
    seen = gym.spaces.Box(-1, 1, (inputs,), np.float32)
    action = gym.spaces.Discrete(actions) if algo == "dqn" else gym.spaces.Box(-1, 1, (actions,), np.float32)
    torch.manual_seed(5)
    config = make_config("x", defaults=False, algo=algo, target_rate=0.1, **settings)
    policy: Any = (ALGORITHMS | {"dqn": DQN})[algo]("", config, AgentGroup(seen, action), CPU)
    for module in (policy.network, policy.targets):
        for name, parameter in module.named_parameters():
            if "temperature" not in name:
                parameter.data.add_(torch.randn_like(parameter), alpha=0.05)
    return policy


def batch_of(inputs: int, actions: int, rows: int, seed: int, weighted: bool = False) -> Transitions:
    """Transitions whose rows are not one after the other in memory, as those of a replay."""
    chance = torch.Generator().manual_seed(seed)
    memory = torch.randn(rows, 2 * inputs + actions + 1, generator=chance)
    seen, acted, rewards, after = memory.split((inputs, actions, 1, inputs), 1)
    discounts = 0.9 * (torch.rand(rows, generator=chance) < 0.7)
    weights = torch.rand(rows, generator=chance) + 0.5 if weighted else None
    return Transitions(seen, acted.clamp(-1, 1), rewards.squeeze(1), discounts, after, weights)


def learnt(policy: Any, batches: list[Transitions], compiled: bool) -> list[torch.Tensor]:
    """The statistics of some updates, and all that they have changed."""
    assert policy.compiled is not None
    if not compiled:
        policy.compiled = None
    found = [policy.improve(batch, RATES, number % 2 == 1) for number, batch in enumerate(batches)]
    for optimiser in policy.adam.values():
        found += [optimiser.parameters, optimiser.mean, optimiser.square, optimiser.steps]
    return [*found, *policy._targets.values()]


def assert_alike(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(("inputs", "actions", "hidden", "activation", "rows"), SIZES)
@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_actors_and_critics_end_with_the_weights_of_torch(
    algo: str, inputs: int, actions: int, hidden: tuple[int, ...], activation: str, rows: int
) -> None:
    batches = [batch_of(inputs, actions, rows, seed, weighted=seed == 2) for seed in range(4)]
    sizes: dict[str, Any] = {"hidden": hidden, "activation": activation, "adam_epsilon": 1e-3}
    results = [learnt(policy_of(algo, inputs, actions, **sizes), batches, compiled) for compiled in (True, False)]
    assert_alike(*results)


@pytest.mark.parametrize(("inputs", "actions", "hidden", "activation", "rows"), SIZES)
@pytest.mark.parametrize("settings", [{}, {"dueling": True, "loss": "squared"}, {"double": False, "dueling": True}])
def test_action_values_end_with_the_weights_of_torch(
    settings: dict[str, Any], inputs: int, actions: int, hidden: tuple[int, ...], activation: str, rows: int
) -> None:
    batches = []
    for seed in range(4):
        chosen = torch.randint(actions, (rows, 1), generator=torch.Generator().manual_seed(seed)).float()
        batches.append(batch_of(inputs, actions, rows, seed, weighted=seed == 2)._replace(actions=chosen))
    how = {"hidden": hidden, "activation": activation, "adam_epsilon": 1e-3, **settings}
    policies = [policy_of("dqn", inputs, actions, **how) for _ in range(2)]
    assert_alike(*(learnt(policy, batches, compiled) for policy, compiled in zip(policies, (True, False), strict=True)))
    torch.testing.assert_close(policies[0].errors, policies[1].errors, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg", "dqn"])
@pytest.mark.parametrize(("hidden", "rows"), [((256, 256), 256), ((300, 130), 301), ((64,), 1)])
def test_any_number_of_threads_ends_with_the_same_bits(
    algo: str, hidden: tuple[int, ...], rows: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    batches = [batch_of(17, 3, rows, seed) for seed in range(3)]
    if algo == "dqn":
        batches = [batch._replace(actions=torch.arange(rows).view(-1, 1) % 3) for batch in batches]
    results = []
    for threads in (1, 2, 3, 8):
        policy = policy_of(algo, 17, 3, hidden=hidden)
        with torch_threads(threads):
            results.append(learnt(policy, batches, compiled=True))
    for some in results[1:]:
        assert all(torch.equal(mine, other) for mine, other in zip(results[0], some, strict=True))


@pytest.mark.parametrize("algo", ["sac", "td3"])
@pytest.mark.parametrize("hidden", [(256, 256), (70, 97)])
def test_products_of_bfloat16_are_close(algo: str, hidden: tuple[int, ...]) -> None:
    module: Any = compiled_module()
    if not module.widths(bfloat16=True):
        pytest.skip("this processor does not multiply bfloat16")
    gradients = []
    batch = batch_of(17, 6, 300, 0)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "medium"):
            torch.set_float32_matmul_precision(precision)
            policy = policy_of(algo, 17, 6, hidden=hidden)
            policy.improve(batch, RATES)
            assert ("BF16" in policy.updated_by or "AMX" in policy.updated_by) == (precision == "medium")
            gradients.append({name: each.gradient for name, each in policy.adam.items() if name != "temperature"})
    finally:
        torch.set_float32_matmul_precision(before)
    for name, exact in gradients[0].items():
        assert not torch.equal(gradients[1][name], exact)
        assert F.cosine_similarity(gradients[1][name], exact, 0) > 0.999, name


class Own(SAC):
    """May have another loss, as it does not name its compiled form again."""


class Named(SAC):
    compiled_form = SAC.compiled_form


def test_a_policy_names_the_form_of_its_updates_and_the_reason() -> None:
    best = {16: "AVX-512", 8: "AVX2", 1: "scalar"}[compiled_module().widths()[0]]  # type: ignore[union-attr]
    spaces = AgentGroup(gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32))
    masked = AgentGroup(spaces.observation, gym.spaces.Discrete(2), heads=(2,))
    images = AgentGroup(gym.spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.action)
    for algorithm, settings, agents, told in (
        (PPO, make_config("x", defaults=False), spaces, f"compiled ({best})"),
        (PPO, make_config("x", defaults=False, target_kl=0.01), spaces, "torch (target_kl)"),
        (PPO, make_config("x", defaults=False, network="gru"), spaces, "torch (network)"),
        (
            PPO,
            make_config("x", defaults=False),
            AgentGroup(spaces.observation, gym.spaces.MultiDiscrete([2, 3])),
            "torch (actions)",
        ),
        (SAC, make_config("x", defaults=False, algo="sac"), spaces, f"compiled ({best})"),
        (SAC, make_config("x", defaults=False, algo="sac"), images, "torch (network) with compiled convolutions"),
        (SAC, make_config("x", defaults=False, algo="sac", frozen=True), spaces, ""),
        (Own, make_config("x", defaults=False, algo="sac"), spaces, "torch (algorithm)"),
        (Named, make_config("x", defaults=False, algo="sac"), spaces, f"compiled ({best})"),
        (DQN, make_config("x", defaults=False, algo="dqn"), masked, "torch (action_masks)"),
    ):
        policy: Any = algorithm("", settings, agents, CPU)
        assert policy.updated_by == told and (policy.compiled is not None) == told.startswith("compiled"), told
    policy = policy_of("sac", 3, 2)
    policy.join_group(ProcessGroup())
    assert policy.updated_by == "torch (data-parallel)" and policy.compiled is None


def test_a_module_left_out_by_the_user_is_the_named_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEFT_OUT, "1")
    assert policy_of("td3", 3, 2, hidden=(8,)).updated_by == f"torch ({LEFT_OUT})"


@pytest.mark.parametrize("algo", ["sac", "td3", "dqn"])
def test_ctrl_c_is_not_lost_in_an_update(algo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """nanobind discards what a tensor's own conversion raises, and goes on."""

    def press(*_: object, **__: object) -> None:
        pressed.append("Ctrl-C")
        raise KeyboardInterrupt

    pressed: list[str] = []
    monkeypatch.setattr(torch.Tensor, "__dlpack__", press)
    policy, batch = policy_of(algo, 3, 2, hidden=(8,)), batch_of(3, 2, 8, 0)
    if algo == "dqn":
        batch = batch._replace(actions=torch.zeros(8, dtype=torch.int64))
    learnt(policy, [batch, batch], compiled=True)
    policy.move_targets()
    assert not pressed


def test_wrong_sizes_are_refused() -> None:
    policy, batch = policy_of("sac", 3, 2, hidden=(8,)), batch_of(3, 2, 8, 0)
    before = policy.actor_parameters.clone()
    for wrong in (
        batch._replace(inputs=torch.zeros(8, 4)),
        batch._replace(rewards=torch.zeros(7)),
        batch._replace(next_observations=torch.zeros(9, 3)),
        batch._replace(actions=torch.zeros(8, 1)),
        batch_of(3, 2, 0, 0),
    ):
        with pytest.raises((TypeError, ValueError)):
            policy.improve(wrong, RATES)
    values = policy_of("dqn", 3, 2, hidden=(8,))
    with pytest.raises(ValueError, match="an action that there is not"):
        values.improve(batch._replace(actions=torch.full((8,), 2)), RATES)
    assert torch.equal(policy.actor_parameters, before)

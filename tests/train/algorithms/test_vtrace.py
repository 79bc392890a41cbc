"""V-trace beside its definition, written out as a plain double sum; and what it is where nothing is off-policy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace.train.algorithms.gae import gae
from headrace.train.algorithms.vtrace import vtrace

STEPS, ENVS = 12, 7


def case(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    ends = torch.rand(2, STEPS, ENVS, generator=generator) < 0.15
    return {
        "rewards": normal(STEPS, ENVS),
        "values": normal(STEPS + 1, ENVS),
        "terminated": ends[0],
        "truncated": ends[1],
        "final_values": torch.where(ends[1], normal(STEPS, ENVS), math.nan),
        "log_ratios": normal(STEPS, ENVS),
    }


def plain(given: dict[str, Tensor], gamma: float, decay: float, rho: float, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Equation 1 of the paper, one environment and one step after the other."""
    r, v, terminated, truncated, final, log_ratios = (tensor.numpy() for tensor in given.values())
    targets, gains = np.zeros((STEPS + 1, ENVS)), np.zeros((STEPS, ENVS))

    def after(t: int, n: int) -> float:
        return 0.0 if terminated[t, n] else final[t, n] if truncated[t, n] else v[t + 1, n]

    for n in range(ENVS):
        targets[STEPS, n] = v[STEPS, n]
        for s in range(STEPS):
            total, weight = 0.0, 1.0
            for t in range(s, STEPS):
                ratio = math.exp(log_ratios[t, n])
                total += weight * min(rho, ratio) * (r[t, n] + gamma * after(t, n) - v[t, n])
                if terminated[t, n] or truncated[t, n]:
                    break
                weight *= gamma * decay * min(c, ratio)
            targets[s, n] = v[s, n] + total
        for s in range(STEPS):
            follows = not (terminated[s, n] or truncated[s, n])
            later = decay * (targets[s + 1, n] - v[s + 1, n]) if follows else 0.0
            gains[s, n] = r[s, n] + gamma * (after(s, n) + later) - v[s, n]
    return targets[:STEPS], gains


@pytest.mark.parametrize(("gamma", "decay", "rho", "c"), [(0.9, 1.0, 1.0, 1.0), (0.99, 0.8, 1.5, 0.7), (1, 0, 2, 2)])
def test_vtrace_equals_its_definition(gamma, decay, rho, c):
    given = case()
    kept = {name: tensor.clone() for name, tensor in given.items()}
    targets = vtrace(**given, gamma=gamma, trace_decay=decay, rho_clip=rho, c_clip=c)
    values, gains = plain(given, gamma, decay, rho, c)
    np.testing.assert_allclose(targets.values.numpy(), values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(targets.advantages.numpy(), gains, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(given[name].nan_to_num(), kept[name].nan_to_num()) for name in given)


@pytest.mark.parametrize("decay", [1.0, 0.95, 0.0])
def test_vtrace_on_policy_equals_generalised_advantage_estimation(decay):
    given = case(1)
    given["log_ratios"].zero_()
    targets = vtrace(**given, gamma=0.97, trace_decay=decay, rho_clip=1.0, c_clip=3.0)
    del given["log_ratios"]
    expected = gae(
        **{n: t.float() if t.dtype == torch.float64 else t for n, t in given.items()}, gamma=0.97, gae_lambda=decay
    )
    torch.testing.assert_close(targets.advantages.float(), expected)
    torch.testing.assert_close(targets.values, given["values"][:-1] + targets.advantages)


def test_targets_on_policy_are_returns():
    given = case(2)
    given["log_ratios"].zero_()
    targets = vtrace(**given, gamma=0.9, trace_decay=1.0, rho_clip=1.0, c_clip=1.0).values
    for n in range(ENVS):
        earned = given["values"][STEPS, n]
        for t in range(STEPS - 1, -1, -1):
            if given["terminated"][t, n]:
                earned = torch.zeros((), dtype=torch.float64)
            elif given["truncated"][t, n]:
                earned = given["final_values"][t, n]
            earned = given["rewards"][t, n] + 0.9 * earned
            torch.testing.assert_close(targets[t, n], earned)


@pytest.mark.parametrize("rho", [math.inf, 1.2])
def test_targets_of_the_acting_policy_average_to_the_value_of_the_learning_one(rho):
    """Of a step with three actions; clipped, of the policy proportional to min(ρ̄·μ, π), as the paper has it."""
    acts, learns = torch.tensor([0.2, 0.5, 0.3]).double(), torch.tensor([0.6, 0.1, 0.3]).double()
    rewards, value = torch.tensor([[1.0, -2.0, 5.0]]).double(), 0.7
    one = torch.ones(1, 3, dtype=torch.bool)
    targets = vtrace(
        rewards,
        torch.full((2, 3), value).double(),
        one,
        ~one,
        rewards,
        (learns / acts).log().view(1, 3),
        0.9,
        1,
        rho,
        1,
    )
    mean = (acts * targets.values[0]).sum()
    near = torch.minimum(rho * acts, learns)
    wanted = value + (near * (rewards[0] - value)).sum()
    torch.testing.assert_close(mean, wanted)
    if rho == math.inf:
        torch.testing.assert_close(mean, (learns * rewards[0]).sum())

"""XQC: distributions that move as Bellman's equation says, weights of length 1, and critics in the rewards' unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import headrace
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.batch_renorm import NormalisedPerceptron, Renorm
from headrace.train.modules.categorical_critics import CategoricalCritics
from headrace.train.play.evaluate import evaluate
from updates import a_policy, some_transitions

train: Any = headrace.train


def critics(atoms: int = 11, bound: float = 5.0) -> CategoricalCritics:
    return CategoricalCritics([NormalisedPerceptron(4, atoms, (8,), "relu", Renorm()) for _ in range(2)], atoms, bound)


def projected(chances: np.ndarray, shift: float, factor: float, values: np.ndarray) -> np.ndarray:
    """Bellemare et al. 2017, algorithm 1, one value after the other."""
    found, step = np.zeros_like(chances), values[1] - values[0]
    for chance, value in zip(chances, values, strict=True):
        place = (np.clip(shift + factor * value, values[0], values[-1]) - values[0]) / step
        below, above = int(np.floor(place)), int(np.ceil(place))
        if below == above:
            found[below] += chance
        else:
            found[below] += chance * (above - place)
            found[above] += chance * (place - below)
    return found


def test_distributions_are_projected_as_published():
    them, chance = critics(), torch.Generator().manual_seed(0)
    some = torch.rand(6, 11, generator=chance).softmax(1)
    shift, factor = torch.tensor([0.0, 1.0, -0.3, 40.0, -40.0, 2.7]), torch.tensor([1.0, 0.0, 0.9, 1.0, 1.0, 0.5])
    found = them.projected(some, shift, factor)
    expected = [
        projected(row.double().numpy(), float(s), float(f), them.values.double().numpy())
        for row, s, f in zip(some, shift, factor, strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(np.array(expected)), check_dtype=False, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.sum(1), torch.ones(6))


@pytest.mark.parametrize(("rewards", "size"), [([-3.0, -3.0], 30.0), ([2.0, -2.0], 4.588)])
def test_the_unit_is_the_size_of_returns(rewards: list[float], size: float):
    them = critics()
    for _ in range(5):
        them.observe(torch.tensor(rewards), torch.full((2,), 0.9))
    torch.testing.assert_close(float(them.size), size, rtol=1e-3, atol=0)
    x, actions = torch.randn(3, 3), torch.randn(3, 1)
    before = them(x, actions) / them.size
    them.size.mul_(10)
    torch.testing.assert_close(them(x, actions), before * them.size, msg="answers are in the unit of rewards")


def test_updates_keep_weights_short_and_descend():
    policy = a_policy("xqc", critic_hidden=(32, 16), policy_delay=1)
    batch = some_transitions(policy, 128, 1)
    losses = [float(policy.improve(batch, UpdateRates(1e-3, 1e-3, 0.5))[0]) for _ in range(60)]
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    network: Any = policy.network
    perceptrons: list[Any] = [each for each in network.modules() if isinstance(each, NormalisedPerceptron)]
    assert len(perceptrons) == 3
    for each in perceptrons:
        *hidden, last = each.layers
        for layer in hidden:
            torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(layer.weight)))
        assert not torch.allclose(last.weight.norm(dim=1), torch.ones(len(last.weight)))


def test_the_target_is_that_of_the_lower_critic():
    """Of two critics whose means differ everywhere, the lower one's distribution is what both learn."""
    policy = a_policy("xqc", critic_hidden=(8,), atoms=11)
    critic: Any = policy.network.critic
    for number, each in enumerate(critic.critics):
        each.layers[-1].weight.data.zero_()
        each.layers[-1].bias.data = torch.where(critic.values == (2.0, -1.0)[number], 50.0, 0.0)
    batch = some_transitions(policy, 16, 0)
    batch = batch._replace(rewards=torch.zeros(16), discounts=torch.full((16,), 0.5))
    with torch.no_grad():
        policy.network.temperature.log.fill_(-40.0)  # entropy counts for nothing
        loss = policy.critic_losses(batch).parts["critic"].item()
    chances = projected((critic.values == -1.0).double().numpy(), 0.0, 0.5, critic.values.double().numpy())
    logs = torch.stack([each.layers[-1].bias.log_softmax(0) for each in critic.critics]).double()
    torch.testing.assert_close(loss, -(torch.tensor(chances) * logs).sum().item(), rtol=1e-4, atol=0)


@pytest.mark.nightly
def test_pendulum_is_learnt(tmp_path):
    settings: dict[str, Any] = {
        "num_envs": 8,
        "replay_ratio": 0.5,
        "learning_starts": 1000,
        "gamma": 0.95,
        "samplers": 0,
    }
    settings |= {"gamma": 0.95, "total_steps": 20_000, "quiet": True, "run_dir": tmp_path / "run"}
    train("Pendulum-v1", algo="xqc", preset="fast", **settings)
    assert evaluate(tmp_path / "run", 20).mean_return > -300

"""The example FlashSAC: updates equal those of autograd and torch's Adam, and noise is kept as long as it should."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

import headrace
from headrace.errors import OptionError
from headrace.pool.sources import module_of
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.batch_renorm import BatchRenorm
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.storage.transitions import Transitions
from updates import a_policy, assert_same_parameters, some_transitions

train: Any = headrace.train
FILE = Path(__file__).parents[3] / "examples" / "algorithms" / "flash_sac.py"
FLASH_SAC = f"{FILE}:FlashSAC"
flash_sac: Any = module_of(str(FILE))
SMALL: dict[str, Any] = {"hidden": (8, 8), "critic_hidden": (12,), "atoms": 11, "policy_delay": 2}
ROWS = 32


# -- the update ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_updates_are_those_of_autograd(activation: str):
    policy = a_policy(FLASH_SAC, activation=activation, initial_temperature=0.3, target_rate=0.1, **SMALL)
    plain = PlainUpdate(policy, activation)
    for seed in range(6):
        batch = some_transitions(policy, ROWS, seed)
        before = policy.generator.get_state()
        measured = policy.improve(batch, UpdateRates(1e-2, 2e-2, 0.5), seed % 2 == 1)
        policy.generator.set_state(before)
        batch = Transitions(*(column if column is None else column.double() for column in batch))  # type: ignore
        expected = plain.critics(batch, policy.noise(ROWS).double())
        torch.testing.assert_close(measured[:2], torch.stack(expected), rtol=1e-3, atol=1e-4, check_dtype=False)
        if seed % 2 == 1:
            expected = plain.actor(batch, policy.noise(ROWS).double())
            torch.testing.assert_close(measured[2:], torch.stack(expected), rtol=1e-3, atol=1e-3, check_dtype=False)
    assert_same_parameters(policy.network, plain.network, rtol=1e-2, atol=2e-3)
    mine, theirs = policy.targets.critic.critics, plain.target.critics
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.last.weight, other.last.weight, check_dtype=False, rtol=1e-2, atol=2e-3)


def normalised(norm: Any, x: Tensor, learns: bool) -> Tensor:
    """A batch normalisation, layer by layer; the running statistics move as it learns."""
    mean, variance = (x.mean(0), x.var(0, correction=0)) if learns else (norm.mean, norm.variance)
    if learns:
        with torch.no_grad():
            norm.mean += (1 - norm.how.momentum) * (mean - norm.mean)
            norm.variance += (1 - norm.how.momentum) * (variance - norm.variance)
            norm.batches += 1
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


def unit_lengths(part: nn.Module) -> None:
    """Kim et al. 2026: rows of weights of length 1; scales and shifts of D columns together of length √D."""
    with torch.no_grad():
        for each in part.modules():
            if isinstance(each, nn.Linear):
                for row in each.weight:
                    row /= (row**2).sum().sqrt()
            elif isinstance(each, BatchRenorm):
                length = ((each.weight**2).sum() + (each.bias**2).sum()).sqrt()
                each.weight.data *= math.sqrt(len(each.weight)) / length
                each.bias.data *= math.sqrt(len(each.bias)) / length
            elif isinstance(each, nn.RMSNorm):
                each.weight.data *= math.sqrt(len(each.weight)) / (each.weight**2).sum().sqrt()


class PlainUpdate:
    """FlashSAC's update as one would write it with autograd, in double precision."""

    def __init__(self, policy: Any, activation: str):
        self.policy, self.act = policy, {"relu": torch.relu, "tanh": torch.tanh}[activation]
        self.network = copy.deepcopy(policy.network).double()
        self.target = copy.deepcopy(policy.targets.critic).double()
        rates = {"critic": 2e-2, "actor": 1e-2, "temperature": 1e-2}
        self.adams = {
            name: torch.optim.Adam([x for x in part.parameters() if x.requires_grad], rates[name], eps=1e-8)
            for name, part in self.network.named_children()
        }
        self.values = policy.network.critic.values.double()

    def outputs(self, module: Any, x: Tensor, learns: bool) -> Tensor:
        x = normalised(module.norm, x, learns) @ module.first.weight.t()
        for block in module.blocks:
            inside = self.act(normalised(block.inner, x @ block.widen.weight.t(), learns))
            x = x + self.act(normalised(block.outer, inside @ block.narrow.weight.t(), learns))
        x = x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt() * module.size.weight
        return x @ module.last.weight.t() + module.last.bias

    def drawn(self, inputs: Tensor, noise: Tensor, learns: bool) -> tuple[Tensor, Tensor]:
        params = self.outputs(self.network.actor, inputs, learns)[: len(noise)]
        mean, raw = params.chunk(2, 1)
        normal = Normal(mean, (-10 + 6 * (1 + raw.tanh())).exp())
        before = mean + normal.stddev * noise
        return torch.tanh(before), (normal.log_prob(before) + 2 * before.cosh().log()).sum(1)

    def logits(self, critic: Any, inputs: Tensor, actions: Tensor, learns: bool) -> Tensor:
        x = torch.cat((inputs, actions), 1)
        return torch.stack([self.outputs(each, x, learns) for each in critic.critics])

    def descend(self, loss: Tensor, name: str) -> None:
        self.adams[name].zero_grad()
        loss.backward()
        self.adams[name].step()
        unit_lengths(getattr(self.network, name))

    def critics(self, batch: Any, noise: Tensor) -> list[Tensor]:
        network = self.network
        with torch.no_grad():
            actions, log_prob = self.drawn(batch.next_observations, noise, learns=False)
            both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, actions))
            after = self.logits(self.target, *both, learns=True)[:, ROWS:].softmax(2)
            means = (after * self.values).sum(2)
            lower = torch.where((means[0] <= means[1]).unsqueeze(1), after[0], after[1])
            shift = batch.rewards - batch.discounts * network.temperature.log.exp() * log_prob
            wanted = network.critic.projected(lower, shift, batch.discounts)  # see test_xqc.py
        q = self.logits(network.critic, *both, learns=True)[:, :ROWS]
        loss = sum(-(wanted * each.log_softmax(1)).sum(1).mean() for each in q)
        value = (q.detach().softmax(2) * self.values).sum(2).mean()
        self.descend(loss, "critic")  # type: ignore[arg-type]
        return [loss.detach(), value]  # type: ignore[union-attr]

    def actor(self, batch: Any, noise: Tensor) -> list[Tensor]:
        network = self.network
        actions, log_prob = self.drawn(torch.cat((batch.inputs, batch.next_observations)), noise, learns=True)
        alpha = network.temperature.log.detach().exp()
        values = (self.logits(network.critic, batch.inputs, actions, False).softmax(2) * self.values).sum(2)
        loss = (alpha * log_prob - values.min(0).values).mean()
        entropy = -log_prob.detach().mean()
        self.descend(loss, "actor")
        target = self.policy.distribution.noise_size / 2 * math.log(2 * math.pi * math.e * 0.15**2)
        self.descend((network.temperature.log * (entropy - target)).sum(), "temperature")
        with torch.no_grad():
            for mine, theirs in zip(self.target.parameters(), network.critic.parameters(), strict=True):
                mine += 0.1 * (theirs - mine)
        return [loss.detach(), entropy, alpha[0]]


def test_a_row_is_answered_alone_as_among_others():
    policy = a_policy(FLASH_SAC, **SMALL)
    policy.improve(some_transitions(policy, 64, 0), UpdateRates(1e-3, 1e-3, 0.5))
    x = some_transitions(policy, 9, 1).inputs
    with torch.no_grad():
        together, alone = policy.network.actor(x), torch.cat([policy.network.actor(row) for row in x.split(1)])
    torch.testing.assert_close(together, alone)
    log_std = together[:, policy.distribution.noise_size :]
    assert log_std.min() >= -10 and log_std.max() <= 2


def test_features_keep_their_size_whatever_comes_in():
    actor = a_policy(FLASH_SAC, **SMALL).network.actor
    assert isinstance(actor, flash_sac.ResidualNetwork)
    flash_sac.normalise_units(actor)
    features: list[Tensor] = []
    actor.size.register_forward_hook(lambda *seen: features.append(seen[-1]))
    actor(torch.randn(50, 105) * 1e4)
    torch.testing.assert_close((features[0] / actor.size.weight).square().mean(1), torch.ones(50), rtol=1e-3, atol=0)
    before = {name: x.clone() for name, x in actor.named_parameters()}
    flash_sac.normalise_units(actor)
    for name, parameter in actor.named_parameters():
        torch.testing.assert_close(parameter, before[name], msg=f"{name} had its length")


# -- noise ---------------------------------------------------------------------------------------------


def runs(noise: Tensor) -> list[int]:
    """Steps that each noise is kept for, of [T, …]."""
    changes = [t for t in range(1, len(noise)) if not torch.equal(noise[t], noise[t - 1])]
    return np.diff([0, *changes, len(noise)]).tolist()


def expected_lengths(longest: int) -> Tensor:
    weights = torch.arange(1, longest + 1) ** -2.0
    return weights / weights.sum()


@pytest.mark.parametrize("steps", [20_000, 8, 1, 0])
def test_noise_is_kept_as_long_as_a_zeta_distribution_says(steps: int):
    """In one rollout, in rollouts shorter than some noise is kept, of a single step, and step by step without one."""
    noise, chance = flash_sac.RepeatedNoise(5), torch.Generator().manual_seed(0)
    buffer = torch.zeros(steps, 3, 2) if steps else torch.zeros(3, 2)
    drawn = [noise.draw(buffer, chance).clone() for _ in range(20_000 // max(steps, 1))]
    drawn = torch.cat(drawn) if steps else torch.stack(drawn)
    lengths = torch.tensor(runs(drawn)[:-1])
    shares = torch.bincount(lengths, minlength=6)[1:] / len(lengths)
    assert lengths.max() == 5
    torch.testing.assert_close(shares, expected_lengths(5), atol=0.02, rtol=0)
    fresh = drawn[torch.tensor([0, *np.cumsum(runs(drawn))[:-1]])]
    assert abs(float(fresh.mean())) < 0.03 and abs(float(fresh.std()) - 1) < 0.03, "it is standard normal"


def test_noise_is_new_where_rows_are_others_or_nothing_is_to_be_kept():
    chance = torch.Generator().manual_seed(0)
    assert runs(flash_sac.RepeatedNoise(1).draw(torch.zeros(100, 2, 1), chance)) == [1] * 100
    noise = flash_sac.RepeatedNoise(1000)
    for rows in (2, 3) * 20:
        assert noise.draw(torch.zeros(rows, 1), chance).abs().min() > 0
    assert int(Categorical(expected_lengths(1000)).probs.argmax()) == 0  # type: ignore[union-attr]


def test_actions_are_uniform_until_there_is_something_to_go_by():
    policy = a_policy(FLASH_SAC, learning_starts=100, **SMALL)
    params = torch.randn(5000, 2 * policy.distribution.noise_size)
    noise = torch.randn(5000, policy.distribution.noise_size, generator=torch.Generator().manual_seed(0))
    policy.explore(0, uniform=True)
    actions = policy.distribution.sample(params, noise)
    shares = torch.histc(actions, 10, -1, 1) / actions.numel()
    torch.testing.assert_close(shares, torch.full((10,), 0.1), atol=0.01, rtol=0)
    policy.explore(0, uniform=False)
    mean, log_std = params.chunk(2, 1)
    expected = torch.tanh(mean + log_std.clamp(-20, 2).exp() * noise)
    torch.testing.assert_close(policy.distribution.sample(params, noise), expected)


# -- runs ----------------------------------------------------------------------------------------------


def test_presets_are_named_by_what_they_are_for():
    config = make_config("Ant-v5", algo=FLASH_SAC, preset="published")
    assert (config.num_envs, config.minibatch_size, config.critic_hidden) == (1024, 2048, (256, 256))  # type: ignore
    with pytest.raises(OptionError, match=r"hidden=\(16, 8\): flashsac's blocks are all of one width"):
        a_policy(FLASH_SAC, hidden=(16, 8))
    with pytest.raises(OptionError, match=r"renorm_after=5 would not be used by .*FlashSAC"):
        train("Pendulum-v1", FLASH_SAC, renorm_after=5)


@pytest.mark.nightly
def test_it_learns_pendulum(tmp_path):
    train(
        "Pendulum-v1", FLASH_SAC, samplers=0, total_steps=20_000, num_envs=8, num_steps=8, learning_starts=1000,
        replay_ratio=0.25, minibatch_size=256, hidden=(64,), critic_hidden=(64,), gamma=0.95, quiet=True, seed=3,
        run_dir=tmp_path / "run", video=False, tensorboard=False, viewer=False,
    )  # fmt: skip
    assert evaluate(tmp_path / "run", 10, which="newest").mean_return > -300

"""CrossQ: updates as autograd and torch's own Adam make them over plain batch renormalisation, and runs of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

import headrace
from headrace.errors import OptionError, StateError
from headrace.pool.sources import module_of
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.storage.transitions import Transitions
from nightly import rest_nightly
from updates import CROSSQ, a_policy, assert_same_parameters, some_transitions

train: Any = headrace.train
EXAMPLE: Any = module_of(CROSSQ.rpartition(":")[0])
TINY: dict[str, Any] = {
    "hidden": (8,), "critic_hidden": (16,), "num_envs": 4, "num_steps": 4, "learning_starts": 64, "replay_ratio": 0.25,
    "replay_size": 1000, "minibatch_size": 16, "quiet": True, "video": False, "tensorboard": False, "viewer": False,
}  # fmt: skip


# -- batch renormalisation -----------------------------------------------------------------------------


def renormalised(layer: Any, x: Tensor) -> Tensor:
    """Ioffe 2017, algorithm 1, with the running statistics of a layer, which it moves."""
    mean, deviation = x.mean(0), (x.var(0, correction=0) + 1e-3).sqrt()
    running = (layer.variance + 1e-3).sqrt()
    r, d = torch.ones(()), torch.zeros(())
    if layer.batches >= layer.how.warm_up:
        r = (deviation / running).detach().clamp(1 / 3, 3)
        d = ((mean - layer.mean) / running).detach().clamp(-5, 5)
    with torch.no_grad():
        layer.mean += (1 - layer.how.momentum) * (mean - layer.mean)
        layer.variance += (1 - layer.how.momentum) * (x.var(0, correction=0) - layer.variance)
        layer.batches += 1
    return ((x - mean) / deviation * r + d) * layer.weight + layer.bias


@pytest.mark.parametrize("warm_up", [0, 2, 100])
def test_batches_are_renormalised_as_published(warm_up: int):
    chance = torch.Generator().manual_seed(0)
    layer = EXAMPLE.BatchRenorm(3, EXAMPLE.Renorm(momentum=0.7, warm_up=warm_up))
    layer.weight.data.uniform_(0.5, 2, generator=chance)
    layer.bias.data.normal_(generator=chance)
    plain = copy.deepcopy(layer).double()
    for shift in (0.0, 1.0, 30.0):  # the last one is beyond what a correction follows
        x = (torch.randn(20, 3, generator=chance) * torch.tensor([0.1, 1.0, 9.0]) + shift).requires_grad_()
        other = x.detach().double().requires_grad_()
        mine, expected = layer.of_batch(x), renormalised(plain, other)
        torch.testing.assert_close(mine, expected, check_dtype=False, rtol=1e-4, atol=1e-4)
        slope = torch.randn(20, 3, generator=chance)
        mine.backward(slope)
        expected.backward(slope.double())
        torch.testing.assert_close(x.grad, other.grad, check_dtype=False, rtol=1e-3, atol=1e-4)
    assert_same_parameters(layer, plain, rtol=1e-4, atol=1e-5)
    assert layer.mean.grad is None, "running statistics have no gradient"


def test_a_row_is_answered_alone_as_among_others():
    layer = EXAMPLE.BatchRenorm(3, EXAMPLE.Renorm(momentum=0.5))
    layer.of_batch(torch.randn(50, 3) * 4 + 2)
    x = torch.randn(10, 3)
    expected = (x - layer.mean) / (layer.variance + 1e-3).sqrt()
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(x[:1]), expected[:1])


# -- the update ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", rest_nightly(["relu", "tanh"], "relu"))
def test_updates_equal_those_of_autograd(activation: str):
    policy = a_policy(CROSSQ, activation=activation, critic_hidden=(24, 8), initial_temperature=0.3, renorm_after=3)
    plain = PlainUpdate(policy, copy.deepcopy(policy.network).double(), activation)
    for seed in range(6):
        batch = some_transitions(policy, 32, seed)
        before = policy.generator.get_state()
        measured = policy.improve(batch, UpdateRates(1e-2, 2e-2, 0.5), seed % 3 == 2)
        policy.generator.set_state(before)
        batch = Transitions(*(column if column is None else column.double() for column in batch))  # type: ignore
        expected = plain.critics(batch, policy.noise(32).double())
        torch.testing.assert_close(measured[:2], torch.stack(expected), rtol=1e-3, atol=1e-4, check_dtype=False)
        if seed % 3 == 2:  # every third update
            expected = plain.actor(batch, policy.noise(32).double())
            torch.testing.assert_close(measured[2:], torch.stack(expected), rtol=1e-3, atol=1e-3, check_dtype=False)
    assert_same_parameters(policy.network, plain.network, rtol=1e-2, atol=1e-3)
    assert not len(policy.targets), "there are no targets"


class PlainUpdate:
    """CrossQ's update as one would write it with autograd."""

    def __init__(self, policy: Any, network: Any, activation: str):
        self.policy, self.network, self.activation = (
            policy,
            network,
            {"relu": torch.relu, "tanh": torch.tanh}[activation],
        )
        self.adams = {
            name: torch.optim.Adam(
                [leaf for leaf in part.parameters() if leaf.requires_grad],
                2e-2 if name == "critic" else 1e-2,
                betas=(0.5, 0.999),
                eps=policy.config.adam_epsilon,
            )
            for name, part in network.named_children()
        }

    def answer(self, perceptron: Any, x: Tensor, learns: bool) -> Tensor:
        for number, (norm, layer) in enumerate(zip(perceptron.norms, perceptron.layers, strict=True)):
            x = self.activation(x) if number else x
            running = (x - norm.mean) / (norm.variance + 1e-3).sqrt() * norm.weight + norm.bias
            x = (renormalised(norm, x) if learns else running) @ layer.weight.t() + layer.bias
        return x

    def drawn(self, inputs: Tensor, noise: Tensor, learns: bool) -> tuple[Tensor, Tensor]:
        mean, log_std = self.answer(self.network.actor, inputs, learns).chunk(2, 1)
        normal = Normal(mean, log_std.clamp(-20, 2).exp())
        before = mean + normal.stddev * noise
        return torch.tanh(before), (normal.log_prob(before) + 2 * before.cosh().log()).sum(1)

    def values(self, inputs: Tensor, actions: Tensor, learns: bool) -> Tensor:
        x = torch.cat((inputs, actions), 1)
        return torch.stack([self.answer(each, x, learns)[:, 0] for each in self.network.critic.critics])

    def descend(self, loss: Tensor, name: str) -> None:
        self.adams[name].zero_grad()
        loss.backward()
        self.adams[name].step()

    def critics(self, batch: Any, noise: Tensor) -> list[Tensor]:
        temperature = self.network.temperature.log.detach().exp()
        with torch.no_grad():
            actions, log_prob = self.drawn(batch.next_observations, noise, learns=False)
        both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, actions))
        q, after = self.values(*both, learns=True).split(32, 1)
        wanted = batch.rewards + batch.discounts * (after.min(0).values - temperature * log_prob).detach()
        loss = 0.5 * ((q - wanted) ** 2).mean(1).sum()
        self.descend(loss, "critic")
        return [loss.detach(), q.mean().detach()]

    def actor(self, batch: Any, noise: Tensor) -> list[Tensor]:
        actions, log_prob = self.drawn(batch.inputs, noise, learns=True)
        temperature = self.network.temperature.log.detach().exp()
        loss = (temperature * log_prob - self.values(batch.inputs, actions, learns=False).min(0).values).mean()
        entropy = -log_prob.detach().mean()
        self.descend(loss, "actor")
        target = -float(self.policy.distribution.noise_size)
        self.descend((self.network.temperature.log * (entropy - target)).sum(), "temperature")
        return [loss.detach(), entropy, temperature[0]]


# -- runs ----------------------------------------------------------------------------------------------


def test_crossq_has_a_fast_and_a_published_preset():
    fast, published = (make_config("Ant-v5", algo=CROSSQ, preset=name) for name in ("fast", "published"))
    assert (published.num_envs, published.replay_ratio, published.critic_hidden) == (1, 1.0, (2048, 2048))
    assert (fast.num_envs, fast.replay_ratio, fast.n_step) == (32, 1 / 32, 3) and fast.anneal_learning_rate
    with pytest.raises(OptionError, match=r"target_rate=0\.1 would not be used by .*crossq.py:CrossQ"):
        train("Pendulum-v1", CROSSQ, target_rate=0.1)
    with pytest.raises(OptionError, match="networks of kind mlp, cnn, not gru"):
        train("Pendulum-v1", CROSSQ, network="gru")


@pytest.mark.parametrize("samplers", rest_nightly([0, 1], 0))
def test_crossq_trains_resumes_and_plays(tmp_path, samplers: int):
    settings = TINY | {"samplers": samplers, "total_steps": 400}
    if samplers:
        settings = {name: value for name, value in settings.items() if name != "num_steps"} | {"evaluate_episodes": 0}
    result = train("Pendulum-v1", CROSSQ, run_dir=tmp_path / "run", **settings)
    assert result.steps >= 400
    agent = headrace.load(tmp_path / "run", which="newest", trust=True)
    norm = agent.policies[0].network.actor.norms[0]
    assert norm.batches > 0 and norm.mean.abs().sum() > 0, "what acts has the running statistics of what learnt"
    result = train.resume(tmp_path / "run", trust=True, total_steps=600, quiet=True)
    assert result.steps >= 600
    agent = headrace.load(tmp_path / "run", which="newest", trust=True)
    assert agent.policies[0].network.actor.norms[0].batches > norm.batches


def test_the_name_that_crossq_had_says_where_it_is_now(tmp_path):
    where = r"algo='crossq' is an example now: take examples/algorithms/crossq.py .* algo='examples/.*py:CrossQ'"
    with pytest.raises(OptionError, match=where):
        train("Pendulum-v1", "crossq", run_dir=tmp_path / "new")
    small = {name: value for name, value in TINY.items() if name != "critic_hidden"}
    train("Pendulum-v1", "sac", run_dir=tmp_path / "run", samplers=0, total_steps=64, **small)
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"sac"', '"crossq"'))
    for use in (headrace.load, train.resume):
        with pytest.raises(StateError, match=where):
            use(tmp_path / "run")


@pytest.mark.nightly
def test_crossq_learns_pendulum(tmp_path):
    settings = {"hidden": (64, 64), "total_steps": 15_000, "num_envs": 4, "num_steps": 4, "critic_hidden": ()}
    train(
        "Pendulum-v1", CROSSQ, samplers=0, learning_starts=1000, replay_ratio=0.25, gamma=0.95, quiet=True,
        run_dir=tmp_path / "run", video=False, tensorboard=False, viewer=False, seed=3, **settings,
    )  # fmt: skip
    assert evaluate(tmp_path / "run", 10, which="newest", trust=True).mean_return > -300

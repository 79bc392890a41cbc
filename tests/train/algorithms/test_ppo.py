"""The arithmetic of PPO against slow references: GAE by the definition, gradients by autograd."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from collecting import collecting
from headrace.train import resume, train
from headrace.train.algorithms.a2c.a2c import A2C
from headrace.train.algorithms.gae import gae, gae_of_decisions
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.cnn import NatureTrunk
from headrace.train.modules.distributions import Distribution, distribution_for
from headrace.train.modules.gru import GRU
from headrace.train.modules.mlp import MLP
from headrace.train.modules.network import make_network
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import load, newest
from headrace.train.settings.config import Config
from headrace.train.storage.samples import Samples, draw_order, minibatches, normalised

SEEN = gym.spaces.Box(-1, 1, (5,), np.float32)
SPACES = {
    "discrete": gym.spaces.Discrete(3),
    "multi-discrete": gym.spaces.MultiDiscrete([2, 4]),
    "box": gym.spaces.Box(-2.0, 1.0, (2,), np.float32),
}


def policy_of(config: Config, action: gym.Space, observation: gym.Space = SEEN) -> PPO:
    """A policy with parameters as the seed 0 draws them."""
    torch.manual_seed(0)
    return PPO("", config, AgentGroup(observation, action), torch.device("cpu"))


def slow_gae(rewards, values, terminated, truncated, final_values, gamma, lam):
    """GAE as the sum over k of (gamma·lambda)^k·delta, episode by episode."""
    steps, envs = rewards.shape
    result = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                if terminated[k, n]:
                    after = 0.0
                elif truncated[k, n]:
                    after = final_values[k, n]
                else:
                    after = values[k + 1, n]
                delta = rewards[k, n] + gamma * after - values[k, n]
                result[t, n] += (gamma * lam) ** (k - t) * delta
                if terminated[k, n] or truncated[k, n]:
                    break
    return result


def test_advantages_equal_the_definition_with_both_kinds_of_ends():
    rng = np.random.default_rng(0)
    steps, envs = 12, 7
    rewards, final_values = rng.normal(size=(2, steps, envs))
    values = rng.normal(size=(steps + 1, envs))
    terminated, truncated = rng.random((2, steps, envs)) < 0.2  # some rows are both
    expected = slow_gae(rewards, values, terminated, truncated, final_values, 0.97, 0.9)
    real = [torch.from_numpy(a).float() for a in (rewards, values, final_values)]
    ends = [torch.from_numpy(a) for a in (terminated, truncated)]
    ours = gae(real[0], real[1], ends[0], ends[1], real[2], 0.97, 0.9)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)


def plain_decisions(rewards, values, terminated, waits, gamma, lam):
    """Advantages of one agent's decisions, by step: of those after which it decides again, or its game is over."""
    found, after = {}, None  # what is known of the next decision: its advantage and value, 0 after a game
    gained = 0.0
    for t in reversed(range(len(rewards))):
        if terminated[t]:
            after, gained = (0.0, 0.0), 0.0
        gained += rewards[t]
        if not waits[t]:
            advantage = 0.0
            if after is not None:
                advantage = found[t] = gained + gamma * after[1] - values[t] + gamma * lam * after[0]
            after, gained = (advantage, values[t]), 0.0
        elif t == len(rewards) - 1 and after is None:
            gained = 0.0
    return found


def test_advantages_of_decisions_skip_the_waiting_between():
    rng = np.random.default_rng(1)
    steps, envs = 20, 30
    rewards, final_values = rng.normal(size=(2, steps, envs)).astype(np.float32)
    values = rng.normal(size=(steps + 1, envs)).astype(np.float32)
    terminated, waits = rng.random((steps, envs)) < 0.15, rng.random((steps + 1, envs)) < 0.5
    waits[-1] = True  # so what comes after a last decision is not known
    nowhere = torch.zeros(steps, envs, dtype=torch.bool)
    one, two, three, four = (torch.from_numpy(a) for a in (rewards, values, terminated, final_values))
    ours, learnable = gae_of_decisions(one, two, three, nowhere, four, 0.97, 0.9, torch.from_numpy(waits), nowhere)
    for n in range(envs):
        expected = plain_decisions(rewards[:, n], values[:, n], terminated[:, n], waits[:, n], 0.97, 0.9)
        assert sorted(expected) == learnable[:, n].nonzero().flatten().tolist()
        np.testing.assert_allclose([float(ours[t, n]) for t in expected], list(expected.values()), atol=1e-5)


def test_advantages_of_decisions_without_waiting_are_the_usual_ones():
    rng = np.random.default_rng(2)
    rewards, final_values, values = (torch.from_numpy(rng.normal(size=(n, 7))).float() for n in (12, 12, 13))
    terminated, truncated = torch.from_numpy(rng.random((2, 12, 7)) < 0.2)
    given = (rewards, values, terminated, truncated, final_values, 0.97, 0.9)
    never = torch.zeros(13, 7, dtype=torch.bool)
    ours, learnable = gae_of_decisions(*given, never, never[1:])
    assert learnable.all()
    torch.testing.assert_close(ours, gae(*given))
    waits = truncated & ~terminated  # in final observations, whose values mean nothing
    _, learnable = gae_of_decisions(*given, never, waits)
    assert torch.equal(learnable, ~waits)


def reference_log_prob(distribution: Distribution, space: gym.Space, params: Tensor, actions: Tensor):
    """Log-probability and entropy from torch.distributions."""
    if isinstance(space, gym.spaces.Discrete):
        policy = torch.distributions.Categorical(logits=params)
        return policy.log_prob(actions), policy.entropy()
    if isinstance(space, gym.spaces.MultiDiscrete):
        parts = [torch.distributions.Categorical(logits=p) for p in params.split(list(space.nvec), -1)]
        log_probs = [part.log_prob(a) for part, a in zip(parts, actions.unbind(-1), strict=True)]
        return torch.stack(log_probs).sum(0), torch.stack([part.entropy() for part in parts]).sum(0)
    mean, log_std = params.chunk(2, -1)
    policy = torch.distributions.Normal(mean, log_std.exp())
    return policy.log_prob(actions).sum(-1), policy.entropy().sum(-1)


def reference_loss(distribution, space, config: Config, network, batch: Samples) -> Tensor:
    """The PPO loss, written down for autograd."""
    params, values = network(batch.inputs)
    log_prob, entropy = reference_log_prob(distribution, space, params, batch.actions)
    gain = batch.advantages
    assert batch.log_probs is not None
    ratio = (log_prob - batch.log_probs).exp()
    policy_loss = torch.max(-gain * ratio, -gain * ratio.clamp(1 - config.clip_range, 1 + config.clip_range)).mean()
    error = (values - batch.returns).square()
    if config.value_clip_range is not None:
        limited = batch.values + (values - batch.values).clamp(-config.value_clip_range, config.value_clip_range)
        error = torch.max(error, (limited - batch.returns).square())
    return policy_loss + config.value_coef * 0.5 * error.mean() - config.entropy_coef * entropy.mean()


def make_batch(distribution: Distribution, network, inputs: Tensor) -> Samples:
    """Samples whose old policy and values are off by enough that some ratios are clipped."""
    generator = torch.Generator().manual_seed(3)
    rows = len(inputs)
    with torch.no_grad():
        params, values = network(inputs)
        actions = distribution.sample(params, distribution.draw(torch.empty(rows, distribution.noise_size), generator))
        log_probs = distribution.evaluate(params, actions)[0] + 0.3 * torch.randn(rows, generator=generator)
    noise = torch.randn(3, rows, generator=generator)
    return Samples(inputs, actions, log_probs, noise[0], values + noise[1], values + 0.3 * noise[2])


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(16,), pytest.param((16, 8), marks=pytest.mark.nightly), (16, 8, 12)])
@pytest.mark.parametrize(("value_clip", "shared"), [(None, False), (0.2, False), (None, True)])
def test_gradients_equal_those_of_the_formulas(name, activation, hidden, value_clip, shared):
    config = make_config(
        "x",
        defaults=False,
        algo="ppo",
        hidden=hidden,
        activation=activation,
        entropy_coef=0.1,
        value_clip_range=value_clip,
        shared=shared,
    )
    policy = policy_of(config, SPACES[name])
    distribution, network, optimiser = policy.distribution, policy.network, policy.optimiser
    assert isinstance(network, MLP)
    network.policy_weight.data.mul_(50)  # far from uniform
    batch = make_batch(distribution, network, torch.randn(40, 5))
    measured = policy.backward(batch, Rates.of(config, 0), measure=True)
    ours = optimiser.gradient.clone()

    optimiser.gradient.zero_()
    loss = reference_loss(distribution, SPACES[name], config, network, batch)
    loss.backward()
    torch.testing.assert_close(ours, optimiser.gradient, atol=2e-6, rtol=1e-4)
    assert measured is not None
    parts = measured[0] + config.value_coef * measured[1] - config.entropy_coef * measured[2]
    torch.testing.assert_close(parts, loss.detach(), atol=1e-5, rtol=1e-4)
    assert 0 < float(measured[4]) < 1  # the clipping took part


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_gradients_of_a2c_equal_those_of_the_formulas(name, weighted):
    config = make_config("x", defaults=False, algo="a2c", hidden=(16, 8), entropy_coef=0.1)
    torch.manual_seed(0)
    policy = A2C("", config, AgentGroup(SEEN, SPACES[name]), torch.device("cpu"))
    policy.network.policy_weight.data.mul_(50)
    batch = replace(make_batch(policy.distribution, policy.network, torch.randn(40, 5)), log_probs=None)
    weights = (torch.rand(40) < 0.7).float()
    batch = replace(batch, weights=weights) if weighted else batch
    policy.backward(batch, Rates.of(config, 0), measure=True)
    ours = policy.optimiser.gradient.clone()

    policy.optimiser.gradient.zero_()
    params, values = policy.network(batch.inputs)
    log_prob, entropy = reference_log_prob(policy.distribution, SPACES[name], params, batch.actions)
    each = -batch.advantages * log_prob + config.value_coef * (values - batch.returns).square() / 2 - 0.1 * entropy
    loss = (each * weights).sum() / weights.sum() if weighted else each.mean()
    loss.backward()
    torch.testing.assert_close(ours, policy.optimiser.gradient, atol=2e-6, rtol=1e-4)


def gradient_of(policy: PPO, rates: Rates, batch: Samples) -> tuple[Tensor, Tensor]:
    measured = policy.backward(batch, rates, measure=True)
    assert measured is not None
    return policy.optimiser.gradient.clone(), measured


@pytest.mark.parametrize("name", SPACES)
def test_weights_and_rates_on_the_device_change_nothing(name):
    config = make_config("x", defaults=False, algo="ppo", hidden=(16, 8), entropy_coef=0.1, value_clip_range=0.2)
    policy = policy_of(config, SPACES[name])
    whole = make_batch(policy.distribution, policy.network, torch.randn(40, 5))
    kept = torch.arange(0, 40, 3)
    columns = {n: getattr(whole, n)[kept] for n in ("actions", "log_probs", "advantages", "returns", "values")}
    some = Samples(whole.inputs[kept], **columns)
    rates = Rates.of(config, 0)
    expected = gradient_of(policy, rates, some)
    weights = torch.zeros(40)
    weights[kept] = 1.0
    torch.testing.assert_close(gradient_of(policy, rates, replace(whole, weights=weights)), expected)
    there = Rates(*(torch.tensor(rate) for rate in rates))
    torch.testing.assert_close(gradient_of(policy, there, some), expected)


def test_advantages_are_normalised_over_counted_rows():
    gains, weights = torch.randn(3, 20), (torch.rand(3, 20) < 0.7).float()
    ours = normalised(gains, weights)
    for row, gain, weight in zip(ours, gains, weights, strict=True):
        kept = gain[weight > 0]
        torch.testing.assert_close(row[weight > 0], (kept - kept.mean()) / (kept.std() + 1e-8))


def test_value_targets_are_normalised_and_values_are_restored():
    options = {"num_envs": 4, "num_steps": 30, "gamma": 0.9, "gae_lambda": 0.8, "normalise_rewards": False}
    config = make_config("Pendulum-v1", normalise_values=True, normalise_observations=False, **options)
    collector, (policy,) = collecting("host", config)
    earlier = torch.randn(100) * 20 - 70
    policy.value_normaliser.update(earlier)
    collector.draw(torch.Generator().manual_seed(3))
    with torch.inference_mode():
        (samples,) = collector.collect()
    answers = collector.experiences[0].values
    values = answers.double() * earlier.double().std(correction=0) + earlier.double().mean()
    nowhere = torch.zeros(30, 4, dtype=torch.bool)
    expected = slow_gae(collector.rewards, values, nowhere, nowhere, None, 0.9, 0.8)
    returns = torch.from_numpy(expected) + values[:-1]
    so_far = torch.cat((earlier.double(), returns.flatten()))
    wanted = (returns - so_far.mean()) / so_far.std(correction=0)
    torch.testing.assert_close(samples.advantages.double(), torch.from_numpy(expected).flatten(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(samples.returns.double(), wanted.flatten(), rtol=1e-3, atol=1e-4)
    before = (values[:-1].flatten() - so_far.mean()) / so_far.std(correction=0)  # the same answers in the new units
    torch.testing.assert_close(samples.values.double(), before, rtol=1e-3, atol=1e-4)
    worth = policy.worth(torch.zeros(1, 3), torch.zeros(1, 2), torch.zeros(1)).double()
    torch.testing.assert_close(worth, so_far.mean().view(1), rtol=1e-4, atol=1e-3)
    collector.pool.close()


def test_a_recurrent_gradient_equals_that_of_episodes_played_one_by_one():
    """Back-propagation through time, against a network stepped through every episode by itself."""
    steps, columns, space = 7, 3, gym.spaces.Discrete(4)
    config = make_config("x", defaults=False, algo="ppo", network="gru", hidden=(8, 6), entropy_coef=0.1)
    policy = policy_of(config, space)
    distribution, network, optimiser = policy.distribution, policy.network, policy.optimiser
    assert isinstance(network, GRU)
    inputs, memory = torch.randn(steps, columns, 5), torch.randn(columns, 6)
    starts = torch.rand(steps, columns) < 0.3

    def unrolled() -> tuple[Tensor, Tensor]:
        answers = {}
        for column in range(columns):
            before = memory[column : column + 1]
            for t in range(steps):
                if starts[t, column]:
                    before = torch.zeros(1, 6)
                params, value, before = network.step(inputs[t, column : column + 1], before)
                answers[t, column] = params[0], value[0]
        both = [answers[t, column] for t in range(steps) for column in range(columns)]
        return torch.stack([p for p, _ in both]), torch.stack([v for _, v in both])

    batch = make_batch(distribution, lambda _: unrolled(), inputs.flatten(0, 1))
    batch = replace(batch, memory=memory, starts=starts.flatten())
    policy.backward(batch, Rates.of(config, 0), measure=False)
    ours = optimiser.gradient.clone()
    optimiser.gradient.zero_()
    reference_loss(distribution, space, config, lambda _: unrolled(), batch).backward()
    torch.testing.assert_close(ours, optimiser.gradient, atol=2e-6, rtol=1e-4)


def test_recurrent_minibatches_are_whole_sequences():
    steps, columns = 4, 6
    rows = torch.arange(steps * columns)
    memory = torch.arange(columns).float().unsqueeze(1)
    samples = Samples(rows, rows, *[rows.float()] * 4, memory=memory, starts=rows % 5 == 0)
    config = make_config("x", defaults=False, algo="ppo", minibatch_size=2 * steps, normalise_advantages=False)
    order = draw_order(samples, config.minibatch_size, torch.Generator().manual_seed(0))
    batches = list(minibatches(samples, order, config.normalise_advantages))
    assert len(batches) == 3
    for batch in batches:
        assert batch.memory is not None and batch.starts is not None
        picked = batch.inputs.view(steps, 2)
        assert torch.equal(picked % columns, picked[0].expand(steps, 2))
        assert torch.equal(picked // columns, torch.arange(steps).view(-1, 1).expand(steps, 2))
        assert torch.equal(batch.memory.flatten().long(), picked[0])
        assert torch.equal(batch.starts, batch.inputs % 5 == 0)
    assert torch.cat([batch.inputs for batch in batches]).unique().numel() == steps * columns


def test_any_module_is_differentiated_by_autograd():
    space = gym.spaces.Discrete(4)
    config = make_config("x", defaults=False, algo="ppo", entropy_coef=0.1)
    policy = policy_of(config, space, gym.spaces.Box(0, 255, (2, 44, 40), np.uint8))
    distribution, network, optimiser = policy.distribution, policy.network, policy.optimiser
    assert isinstance(network.trunk, NatureTrunk)
    images = torch.randint(0, 256, (6, 2, 44, 40), dtype=torch.uint8)
    batch = make_batch(distribution, network, images)
    policy.backward(batch, Rates.of(config, 0), measure=False)
    ours = optimiser.gradient.clone()
    optimiser.gradient.zero_()
    reference_loss(distribution, space, config, network, batch).backward()
    torch.testing.assert_close(ours, optimiser.gradient, atol=2e-6, rtol=1e-3)


def test_bfloat16_is_close_to_float32():
    space, networks = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8), []
    for bf16 in (False, True):
        torch.manual_seed(0)
        networks.append(make_network(space, distribution_for(gym.spaces.Discrete(6)), bf16=bf16))
    images = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8)
    with torch.no_grad():
        (params, values), (rough_params, rough_values) = (network(images) for network in networks)
    assert rough_params.dtype == rough_values.dtype == torch.float32
    torch.testing.assert_close(rough_values, values, atol=0.05 * float(values.abs().max()), rtol=0)
    torch.testing.assert_close(rough_params, params, atol=0.05 * float(params.abs().max()), rtol=0)


def test_a_policy_beyond_the_clip_range_is_not_pushed_further():
    config = make_config("x", defaults=False, algo="ppo")
    policy = policy_of(config, gym.spaces.Discrete(2))
    params = torch.tensor([[2.0, 0.0]] * 4, requires_grad=True)
    actions = torch.tensor([0, 0, 1, 1])
    log_prob, _ = policy.distribution.evaluate(params.detach(), actions)
    # the ratios are 2, 1/2, 2, 1/2 and the advantages push each of them further out, or (last two) back
    old = log_prob - math.log(2) * torch.tensor([1.0, -1.0, 1.0, -1.0])
    gain = torch.tensor([1.0, -1.0, -1.0, 1.0])
    zero = torch.zeros(4)
    policy.forward = lambda inputs: (inputs, zero)
    loss, _ = policy.loss(Samples(params, actions, old, gain, zero, zero), Rates.of(config, 0))
    loss.backward()
    assert params.grad is not None
    assert (params.grad[:2] == 0).all()
    assert (params.grad[2:] != 0).all()


def test_an_epoch_sees_every_row_once_with_normalised_advantages():
    rows = torch.arange(50)
    column = rows.float()
    samples = Samples(rows, rows, column, column.square(), column, column)
    config = make_config("x", defaults=False, algo="ppo", num_envs=5, num_steps=10, minibatch_size=16)
    order = draw_order(samples, config.minibatch_size, torch.Generator().manual_seed(0))
    batches = list(minibatches(samples, order, config.normalise_advantages))
    seen = torch.cat([batch.inputs for batch in batches]).tolist()
    assert len(seen) == len(set(seen)) == 48
    for batch in batches:
        assert torch.equal(batch.inputs, batch.actions)
        assert batch.log_probs is not None and torch.equal(batch.inputs.float(), batch.log_probs)
        gain = batch.inputs.float().square()
        torch.testing.assert_close(batch.advantages, (gain - gain.mean()) / gain.std())


@pytest.mark.parametrize("name", SPACES)
def test_samples_follow_the_distribution(name):
    space = SPACES[name]
    distribution = distribution_for(space)
    generator = torch.Generator().manual_seed(0)
    params = torch.randn(1, distribution.size, generator=generator).expand(20_000, -1)
    actions = distribution.sample(params, distribution.draw(torch.empty(20_000, distribution.noise_size), generator))
    log_prob, entropy = distribution.evaluate(params, actions)
    assert float(-log_prob.mean()) == pytest.approx(float(entropy[0]), abs=0.05)
    taken = distribution.to_env(actions).numpy().astype(space.dtype)
    assert all(space.contains(action) for action in taken[:500])


def test_discrete_spaces_that_do_not_start_at_zero():
    distribution = distribution_for(gym.spaces.Discrete(3, start=5))
    assert distribution.to_env(torch.tensor([0, 2])).tolist() == [5, 7]


def test_the_gradient_is_clipped_and_the_step_is_adams():
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 2)
    twin = torch.nn.Linear(3, 2)
    twin.load_state_dict(network.state_dict())
    optimiser = FlatAdam(network)
    reference = torch.optim.Adam(twin.parameters(), lr=1e-2, eps=1e-5)
    for _ in range(5):
        x = torch.randn(4, 3)
        for module in (network, twin):
            module.zero_grad(set_to_none=False)
            module(x).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        torch.testing.assert_close(optimiser.step(1e-2, 0.5), norm)
        reference.step()
    torch.testing.assert_close(network.weight, twin.weight)
    torch.testing.assert_close(network.bias, twin.bias)


def six_epochs(**settings: Any) -> tuple[PPO, Samples]:
    """A policy that learns from a rollout in six epochs of two minibatches, and the rollout."""
    policy = policy_of(
        make_config("x", defaults=False, algo="ppo", epochs=6, minibatch_size=16, num_envs=4, num_steps=8, **settings),
        SPACES["discrete"],
    )
    return policy, make_batch(policy.distribution, policy.network, torch.randn(32, 5))


@pytest.mark.parametrize(("target_kl", "updates"), [(1e-9, 2), (None, 12)])
def test_target_kl_ends_the_epochs(target_kl, updates):
    policy, samples = six_epochs(target_kl=target_kl)
    policy.learn(samples, 0, torch.Generator().manual_seed(0))
    assert int(policy.optimiser.steps) == updates


def test_no_epoch_begins_after_an_interrupt():
    policy, samples = six_epochs()
    answers = iter([False, False, True])
    policy.interrupted = lambda: next(answers)
    policy.learn(samples, 0, torch.Generator().manual_seed(0))
    assert int(policy.optimiser.steps) == 2 * 2
    assert policy.losses is None


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_pixels_are_standardised_by_the_first_rollout_alone(tmp_path, algo):
    """Later rollouts, and those after a resumption, see the pixels as the first one left them."""
    options: dict[str, Any] = {"num_envs": 4, "num_steps": 16, "trunk": "strided", "standardise_pixels": True}
    options |= {"video": False, "evaluate_episodes": 0, "tensorboard": False, "quiet": True, "samplers": 0}
    options |= {"env_options": {"img_height": 42, "img_width": 42}}
    seen = []
    for steps in (64, 192, 320):
        if seen:
            resume(tmp_path / "run", total_steps=steps, quiet=True)
        else:
            train("Pong-v5", algo, run_dir=tmp_path / "run", total_steps=steps, **options)
        path = newest(tmp_path / "run" / "checkpoints")
        assert path is not None
        model = load(path).model
        seen.append((model["network.trunk.mean"], model["network.trunk.scale"], model["network.trunk.dense.weight"]))
    mean, scale, weight = seen[0]
    assert 50 < float(mean.mean()) < 150 and float(scale.min()) > 1 / 128  # the field is neither black nor white
    for later in seen[1:]:
        assert torch.equal(later[0], mean) and torch.equal(later[1], scale)
        assert not torch.equal(later[2], weight)

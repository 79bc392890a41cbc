"""PQN: targets as a plain loop has them, gradients and steps as torch's own, and tasks that are learnt."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace
from collecting import CPU, collecting
from compiled_pictures import distance
from headrace.errors import OptionError
from headrace.pool.flat_observation import Joined
from headrace.train.algorithms.optimiser import FlatRAdam
from headrace.train.algorithms.pqn.pqn import PQN
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.compiled import compiled_module
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.settings.rollouts import Exploration
from headrace.train.storage.samples import Samples, draw_order
from nightly import rest_nightly

train: Any = headrace.train
VECTORS = gym.spaces.Box(-1, 1, (3,), np.float32)
SMALL_IMAGES = gym.spaces.Box(0, 1, (2, 12, 10), np.uint8)
IMAGES = gym.spaces.Box(0, 255, (2, 44, 41), np.uint8)
pytestmark = pytest.mark.usefixtures("one_thread")


def policy_for(space: gym.Space = VECTORS, actions: int = 4, **settings: Any) -> PQN:
    torch.manual_seed(5)
    config = make_config("x", defaults=False, algo="pqn", **({"hidden": (16, 12), "minibatch_size": 8} | settings))
    return PQN("", config, AgentGroup(space, gym.spaces.Discrete(actions)), CPU)


def some_samples(space: gym.spaces.Box, count: int) -> Samples:
    chance = torch.Generator().manual_seed(1)
    if space.dtype == np.uint8:
        inputs = torch.randint(0, int(space.high.max()) + 1, (count, *space.shape), generator=chance).to(torch.uint8)
    else:
        inputs = torch.randn(count, *space.shape, generator=chance)
    actions = torch.randint(0, 4, (count,), generator=chance)
    returns = torch.randn(count, generator=chance)
    return Samples(inputs, actions, None, returns, returns, torch.zeros(count))


# -- the update -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["host", "device"])
def test_targets_equal_those_of_a_plain_loop(kind):
    """Q(λ) backwards from the rollout's end, where poles fall and episodes reach their limit of 10 steps."""
    options = {"num_envs": 6, "num_steps": 40, "env_options": {"max_episode_steps": 10}, "q_lambda": 0.7, "gamma": 0.9}
    config = make_config("CartPole-v1", algo="pqn", **options)
    collector, (policy,) = collecting(kind, config)
    for parameter in policy.network.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    collector.draw(torch.Generator().manual_seed(3))
    (samples,) = collector.collect()
    best = policy.network(collector.observations["obs"].flatten(0, 1))[0].amax(1).detach().view(41, 6)
    finals = collector._final_observations(policy.agent_group)
    after = best[1:].clone()
    after[finals.t, finals.columns] = policy.network(finals.observations)[0].amax(1).detach()
    wanted = np.zeros((40, 6))
    for env in range(6):
        following = float(best[-1, env])
        for t in reversed(range(40)):
            reward, value = float(collector.rewards[t, env]), float(after[t, env])
            terminated, truncated = bool(collector.terminated[t, env]), bool(collector.truncated[t, env])
            mixed = value if truncated or t == 39 else 0.3 * value + 0.7 * following
            following = wanted[t, env] = reward + (0.0 if terminated else 0.9 * mixed)
    assert collector.truncated.any()
    np.testing.assert_allclose(samples.returns.view(40, 6).numpy(), wanted, rtol=1e-4, atol=1e-4)
    assert policy.distribution.epsilon == 1.0 and samples.actions.float().mean() == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("space", "settings"),
    [(VECTORS, {}), (SMALL_IMAGES, {}), (IMAGES, {}), (IMAGES, {"trunk": "strided"})],
)
def test_an_update_equals_that_of_torch(space, settings):
    policy = policy_for(space, max_grad_norm=0.3, **settings)
    plain = copy.deepcopy(policy.network)
    leaves = [leaf for leaf in plain.parameters() if leaf.requires_grad]
    optimiser = torch.optim.RAdam(leaves, lr=1e-2, eps=policy.config.adam_epsilon)
    samples = some_samples(space, 24)
    rates = Rates.of(policy.config, 0)._replace(learning_rate=1e-2)
    orders = [torch.randperm(24, generator=torch.Generator().manual_seed(i)).view(3, 8) for i in range(3)]
    statistics = policy.update(samples, rates, orders)
    losses = []
    for order in orders:
        for rows in order:
            optimiser.zero_grad()
            values = plain.q(samples.inputs[rows])[range(8), samples.actions[rows]]
            loss = F.mse_loss(values, samples.returns[rows]) / 2
            loss.backward()
            nn.utils.clip_grad_norm_(leaves, 0.3)
            optimiser.step()
            losses.append(float(loss.detach()))
    assert statistics is not None
    assert float(statistics[0]) == pytest.approx(np.mean(losses[-3:]), rel=1e-3)
    for (name, mine), other in zip(policy.network.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=2e-5, msg=name)


def test_rectified_steps_equal_those_of_torch():
    """The first five steps go by the mean gradient alone, later ones by the rectified second moment, too."""
    torch.manual_seed(0)
    mine, plain = nn.Linear(5, 3), nn.Linear(5, 3)
    plain.load_state_dict(mine.state_dict())
    ours, reference = FlatRAdam(mine, epsilon=1e-5), torch.optim.RAdam(plain.parameters(), lr=1e-2, eps=1e-5)
    for _ in range(20):
        gradients = [torch.randn_like(leaf) for leaf in plain.parameters()]
        for leaf, other, gradient in zip(mine.parameters(), plain.parameters(), gradients, strict=True):
            assert leaf.grad is not None
            leaf.grad.copy_(gradient)
            other.grad = gradient.clone()
        ours.step_unclipped(1e-2)
        reference.step()
        for leaf, other in zip(mine.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(leaf, other)


def test_each_hidden_layer_is_normalised():
    network: Any = policy_for(hidden=(16, 12)).network.q
    x = torch.randn(7, 3) * 100
    for linear, norm in ((network[0], network[1]), (network[3], network[4])):
        h = linear(x)
        wanted = (h - h.mean(1, keepdim=True)) / (h.var(1, keepdim=True, correction=0) + norm.eps).sqrt()
        torch.testing.assert_close(norm(h), wanted)
        x = torch.relu(norm(h))


def test_the_value_of_a_state_is_that_of_its_best_action():
    policy = policy_for()
    inputs = torch.randn(9, 3)
    q, values = policy.network(inputs)
    assert torch.equal(values, q.amax(1))
    assert torch.equal(policy.worth(inputs, q, values), values)


needs_compiled_code = pytest.mark.skipif(compiled_module() is None, reason="left out, or no registers for it")
SPACES = pytest.mark.parametrize(
    ("space", "settings"),
    [(VECTORS, {"activation": "tanh"}), (SMALL_IMAGES, {}), (IMAGES, {}), (IMAGES, {"trunk": "strided"})],
)


def learnt(policy: PQN, space: gym.spaces.Box, updates: int) -> list[torch.Tensor]:
    """All that updates of 10 samples leave."""
    samples, measured = some_samples(space, 200), None
    for seed in range(updates // 20):
        order = draw_order(samples, 10, torch.Generator().manual_seed(seed))
        measured = policy.update(samples, Rates.of(policy.config, 0), [order])
    assert measured is not None and policy.updates == int(policy.optimiser.steps) == updates
    optimiser = policy.optimiser
    return [each.clone() for each in (measured, optimiser.parameters, optimiser.mean, optimiser.square)]


@needs_compiled_code
@pytest.mark.parametrize("updates", rest_nightly([20, 100], 20))
@SPACES
def test_many_compiled_updates_stay_by_those_of_torch(space: Any, settings: dict[str, Any], updates: int) -> None:
    """As near as torch stays to itself where it begins with other roundings: units pass 0 earlier or later."""
    found = []
    for compiled, nudge in ((True, 0.0), (True, 0.0), (False, 0.0), (False, 1e-7)):
        policy = policy_for(space, learning_rate=1e-3, **settings)
        assert policy.updated_by.startswith("compiled (")
        before = policy.optimiser.parameters.clone()
        with torch.no_grad():
            policy.optimiser.parameters.mul_(1 + nudge * torch.randn_like(before))
        if not compiled:
            policy.compiled = policy.network.compiled = None
        results = learnt(policy, space, updates)
        found.append((results[1] - before, results))
    assert all(torch.equal(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))
    ours, theirs, nudged = (found[number][0] for number in (0, 2, 3))
    assert theirs.norm() > 1e-3 and distance(ours, theirs) < 0.01 + 3 * distance(nudged, theirs)
    for mine, other in zip(found[0][1][0], found[2][1][0], strict=True):
        assert float(mine) == pytest.approx(float(other), rel=0.02, abs=1e-3)


@needs_compiled_code
@SPACES
def test_a_resumed_policy_goes_on_with_the_same_bits(space: Any, settings: dict[str, Any]) -> None:
    """What is saved in the middle, parameters and RAdam's state, is torch's memory, which compiled code changes."""
    whole, resumed = (policy_for(space, **settings) for _ in range(2))
    learnt(whole, space, 20)
    saved = [{name: each.clone() for name, each in state.items()} for state in (whole.model(), whole.optimisers())]
    resumed.load_model(saved[0])
    resumed.load_optimisers(saved[1])
    samples = some_samples(space, 60)
    for policy in (whole, resumed):
        policy.update(samples, Rates.of(policy.config, 0), [torch.arange(60).view(6, 10)])
    left = [policy.optimisers() | policy.model() for policy in (whole, resumed)]
    assert left[0].keys() == left[1].keys() and all(torch.equal(left[0][name], left[1][name]) for name in left[0])
    with torch.no_grad():
        assert torch.equal(whole.network(samples.inputs)[0], resumed.network(samples.inputs)[0])


@needs_compiled_code
def test_wrong_choices_and_orders_are_refused() -> None:
    policy, samples = policy_for(), some_samples(VECTORS, 8)
    rates, before = Rates.of(policy.config, 0), policy.optimiser.parameters.clone()
    for wrong, order in (
        (replace(samples, actions=samples.actions + 4), torch.arange(8).view(2, 4)),
        (replace(samples, returns=torch.zeros(7)), torch.arange(8).view(2, 4)),
        (replace(samples, inputs=torch.zeros(8, 4)), torch.arange(8).view(2, 4)),
        (samples, torch.arange(8).view(2, 4) + 1),
    ):
        with pytest.raises(ValueError, match=r"a choice|as many|a row"):
            policy.update(wrong, rates, [order])
    assert torch.equal(policy.optimiser.parameters, before)


@needs_compiled_code
def test_a_policy_says_what_updates_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import torch\ndef make(space, outputs):\n    return Own(outputs)\n" + OWN)
    joined = Joined(gym.spaces.Dict(speed=VECTORS, eye=gym.spaces.Box(0, 255, (9, 9, 3), np.uint8)), keep=True)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (VECTORS, {}, "compiled ("),
        (IMAGES, {"torch_threads": 1}, "compiled ("),
        (joined, {"torch_threads": 1}, "torch (network) with compiled convolutions"),
        (VECTORS, {"network": f"{file}:make"}, "torch (network)"),
    ]
    for space, settings, told in cases:
        policy = policy_for(space, **settings)
        assert policy.updated_by.startswith(told) and (policy.compiled is not None) == told.startswith("compiled")


OWN = """
class Own(torch.nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(3, outputs + 1)
    def forward(self, x):
        out = self.layer(x)
        return out[:, :-1], out[:, -1]
"""


# -- whole runs -------------------------------------------------------------------------------------


def test_unsupported_settings_of_pqn_are_errors():
    continuous = AgentGroup(VECTORS, gym.spaces.Box(-1, 1, (2,), np.float32))
    with pytest.raises(OptionError, match="Discrete"):
        PQN("", make_config("x", defaults=False, algo="pqn"), continuous, CPU)
    for settings, words in (
        ({"network": "gru"}, "gru"),
        ({"samplers": 1}, "samplers=0"),
        ({"q_lambda": 2.0}, "q_lambda=2"),
        ({"entropy_coef": 0.1}, "entropy_coef=0.1 would not be used by pqn"),
    ):
        with pytest.raises(OptionError, match=words):
            train("CartPole-v1", "pqn", quiet=True, total_steps=100, run_dir="never", **settings)
    with pytest.raises(OptionError, match="continuous"):
        train("Pendulum-v1", "pqn", quiet=True, total_steps=100, run_dir="never")


def test_pqn_learns_to_balance_a_pole(tmp_path):
    """A random player balances for some 20 steps."""
    options = {"quiet": True, "tensorboard": False, "video": False, "torch_threads": 1, "total_steps": 60_000}
    train("CartPole-v1", "pqn", run_dir=tmp_path / "run", **options)
    assert evaluate(tmp_path / "run", episodes=20).mean_return > 150


@pytest.mark.nightly
def test_pqn_learns_a_game_of_minatar(tmp_path):
    """A random player of Breakout earns 0.5."""
    options = {"total_steps": 400_000, "torch_threads": 1, "tensorboard": False, "video": False, "quiet": True}
    result = train("MinAtar-Breakout-v1", "pqn", run_dir=tmp_path / "run", seed=3, **options)
    assert result.mean_return > 3


def test_the_fast_preset_of_pqn_holds_for_all_games_of_minatar() -> None:
    default, fast = (make_config("MinAtar-Breakout-v1", algo="pqn", preset=name) for name in ("default", "fast"))
    sooner, later = fast.get(Exploration), default.get(Exploration)
    assert sooner and later
    assert sooner.at(200_000, fast.total_steps) < later.at(200_000, default.total_steps) / 10, "exploration ends sooner"
    assert make_config("MinAtar-SpaceInvaders-v1", algo="pqn", preset="fast").q_lambda == fast.q_lambda
    assert make_config("CartPole-v1", algo="pqn", preset="fast").total_steps == 500_000, "others have none"

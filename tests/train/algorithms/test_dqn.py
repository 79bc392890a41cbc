"""DQN: updates as plain torch has them, targets as a plain loop has them, and values that come out right."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import headrace
from device_waits import NothingWaits
from dqn_updates import IMAGES, SMALL_IMAGES, VECTORS, generator, policy_for, some_transitions
from headrace.errors import OptionError
from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.updater import Updater
from headrace.train.modules.exploration import EpsilonGreedy
from headrace.train.modules.perceptron import Layers
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import load, newest
from headrace.train.runs.metrics import read_metrics
from headrace.train.settings.rollouts import Exploration
from headrace.train.storage.transitions import Transitions
from nightly import rest_nightly
from whole_runs import SMALL

train: Any = headrace.train
CPU = torch.device("cpu")
RATES = UpdateRates(1e-2, 1e-2, 0.7)
TINY = SMALL | {
    "samplers": 0,
    "hidden": (16,),
    "total_steps": 3000,
    "learning_starts": 400,
    "replay_ratio": 0.1,
    "replay_size": 1000,
}


pytestmark = pytest.mark.usefixtures("one_thread")


# -- networks ---------------------------------------------------------------------------------------


def test_gradients_in_bfloat16_are_close():
    networks: list[Any] = [policy_for(IMAGES, bf16=bf16).network.q for bf16 in (False, True)]
    q, rough = networks
    inputs, d = some_transitions(IMAGES, 32, 3).inputs, torch.randn(32, 4, generator=generator(1))
    for network in networks:
        network(inputs).backward(d)
    for (name, mine), other in zip(rough.named_parameters(), q.parameters(), strict=True):
        assert mine.grad is not None and other.grad is not None and mine.grad.dtype == torch.float32
        assert F.cosine_similarity(mine.grad.flatten(), other.grad.flatten(), 0) > 0.99, name


@pytest.mark.parametrize("space", [VECTORS, SMALL_IMAGES, IMAGES])
def test_dueling_values_are_a_state_value_and_advantages_around_0(space):
    q: Any = policy_for(space, dueling=True).network.q
    inputs = some_transitions(space, 5, 0).inputs
    with torch.no_grad():
        values = q(inputs)
        features = Layers.forward(q, inputs) if space is VECTORS else q.trunk(inputs)
        half = features.shape[1] // 2
        state = q.head.value(features[:, half:]).squeeze(1)
        advantage = q.head.advantage(features[:, :half])
    torch.testing.assert_close(values.mean(1), state)
    torch.testing.assert_close(values - state.unsqueeze(1), advantage - advantage.mean(1, keepdim=True))
    assert float(advantage.std()) > 0.01


def test_a_users_own_network_learns(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "class Mine(torch.nn.Module):\n"
        "    def __init__(self, space, outputs):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(3, outputs)\n"
        "        self.unused = torch.nn.Linear(3, 1)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x), self.unused(x).squeeze(1)\n"
    )
    policy = policy_for(network=f"{file}:Mine")
    batch = some_transitions(VECTORS, 32, 0)._replace(discounts=torch.zeros(32))
    with torch.inference_mode():  # as what a learner's loop reads
        batch = batch._replace(inputs=batch.inputs.clone(), next_observations=batch.next_observations.clone())
    losses = [float(policy.improve(batch, RATES)[0]) for _ in range(100)]
    assert losses[-1] < 0.8 * losses[0]
    with pytest.raises(OptionError, match="dueling"):
        policy_for(network=f"{file}:Mine", dueling=True)


# -- the update -------------------------------------------------------------------------------------


@pytest.mark.parametrize("double", [False, True])
def test_targets_equal_those_of_a_plain_loop(double):
    policy = policy_for(double=double, dueling=True)
    batch = some_transitions(VECTORS, 64, 1)
    wanted, differs = [], 0
    with torch.no_grad():
        for reward, discount, after in zip(batch.rewards, batch.discounts, batch.next_observations, strict=True):
            online, target = policy.network.q(after[None])[0].tolist(), policy.targets.q(after[None])[0].tolist()
            best = max(range(4), key=lambda a: (online if double else target)[a])
            differs += online.index(max(online)) != target.index(max(target))
            wanted.append(float(reward) + float(discount) * target[best])
    assert differs > 3, "the two networks should disagree about what is best"
    torch.testing.assert_close(policy.target_of(batch), torch.tensor(wanted))


@pytest.mark.parametrize("loss", ["huber", "squared"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("space", [VECTORS, IMAGES])
@pytest.mark.parametrize("compiled", [True, False])
def test_updates_equal_those_of_plain_torch(space, loss, weighted, compiled):
    policy = policy_for(space, loss=loss, target_rate=0.1, dueling=True)
    policy.compiled = policy.compiled if compiled else None
    q, target = copy.deepcopy(policy.network.q), copy.deepcopy(policy.targets.q)
    for parameter in q.parameters():
        parameter.grad = None
    adam = torch.optim.Adam(q.parameters(), 1e-2, eps=policy.config.adam_epsilon)
    for seed in range(4):
        batch = some_transitions(space, 16, seed, weighted)
        measured = policy.improve(batch, RATES)
        with torch.no_grad():
            best = q(batch.next_observations).argmax(1)
            wanted = batch.rewards + batch.discounts * target(batch.next_observations)[torch.arange(16), best]
        values = q(batch.inputs)
        chosen = values[torch.arange(16), batch.actions]
        losses = (F.huber_loss if loss == "huber" else F.mse_loss)(chosen, wanted, reduction="none")
        mean = (losses if batch.weights is None else losses * batch.weights).mean()
        adam.zero_grad()
        mean.backward()
        norm = torch.nn.utils.clip_grad_norm_(q.parameters(), 0.7)
        adam.step()
        with torch.no_grad():
            for slow, now in zip(target.parameters(), q.parameters(), strict=True):
                slow.mul_(0.9).add_(now, alpha=0.1)
        expected = torch.stack([mean, values.mean(), norm]).detach()
        torch.testing.assert_close(measured, expected, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(policy.errors, (chosen - wanted).detach().abs(), rtol=1e-3, atol=1e-4)
    for mine, plain in ((policy.network.q, q), (policy.targets.q, target)):
        for (name, parameter), other in zip(mine.named_parameters(), plain.parameters(), strict=True):
            # Adam makes whole steps of gradients that are nearly 0, as their rounding is
            torch.testing.assert_close(parameter, other, rtol=1e-2, atol=5e-3, msg=name)


def test_targets_are_copied_now_and_then():
    policy = policy_for(target_update=3)
    batch, ring = some_transitions(VECTORS, 8, 0), policy._ring()
    ring.add(batch._replace(actions=batch.actions.float().view(-1, 1)))
    updater, before, same = Updater(policy, ring), policy.targets.q.state_dict()["weights.0"].clone(), []
    for _ in range(7):
        updater.update()
        now, target = policy.network.q.state_dict()["weights.0"], policy.targets.q.state_dict()["weights.0"]
        same.append("network" if torch.equal(now, target) else "before" if torch.equal(target, before) else "between")
        before = target.clone()
    assert same == ["before", "before", "network", "before", "before", "network", "before"]
    # a run that goes on copies at the same updates
    other = policy_for(target_update=3)
    other.load_optimisers({name: tensor.clone() for name, tensor in policy.optimisers().items()})
    again = Updater(other, ring)
    again.load(updater.state())
    assert again.updates == 7


def test_an_update_waits_for_nothing():
    for space, settings in ((VECTORS, {}), (IMAGES, {"target_update": 2}), (IMAGES, {"dueling": True, "bf16": True})):
        policy, batch = policy_for(space, **settings), some_transitions(space, 8, 0)
        policy.improve(batch, RATES)
        with NothingWaits():
            policy.improve(batch, RATES)


def test_actions_stored_as_floats_lead_to_the_same_update():
    """A replay of one kind of numbers holds actions as floats, a column each."""
    policies = [policy_for(), policy_for()]
    batch = some_transitions(VECTORS, 8, 0)
    policies[0].improve(batch, RATES)
    policies[1].improve(batch._replace(actions=batch.actions.float().unsqueeze(1)), RATES)
    assert torch.equal(policies[0].actor_parameters, policies[1].actor_parameters)


def test_dqn_finds_the_values_of_a_chain():
    """A walk over 5 cells, left or right: 1 for leaving on the right, 0.2 on the left, where it ends."""
    cells, gamma = 5, 0.8
    exact = np.zeros((cells, 2))
    for _ in range(200):
        best = exact.max(1)
        exact[:, 0] = [0.2 if s == 0 else gamma * best[s - 1] for s in range(cells)]
        exact[:, 1] = [1.0 if s == cells - 1 else gamma * best[s + 1] for s in range(cells)]
    states, actions = (x.flatten() for x in np.meshgrid(np.arange(cells), np.arange(2), indexing="ij"))
    following = states + 2 * actions - 1
    over = (following < 0) | (following >= cells)
    eye = torch.eye(cells)
    batch = Transitions(
        eye[states],
        torch.from_numpy(actions),
        torch.from_numpy(np.where(following < 0, 0.2, np.where(following >= cells, 1.0, 0.0))).float(),
        gamma * torch.from_numpy(~over).float(),
        eye[following.clip(0, cells - 1)],
    )
    space = gym.spaces.Discrete(cells)
    for settings in ({}, {"double": False}, {"dueling": True, "target_update": 20}, {"loss": "squared"}):
        policy = policy_for(space, 2, hidden=(32,), target_rate=0.1, **settings)
        for step in range(1000):
            policy.improve(batch, UpdateRates(3e-3 if step < 700 else 3e-4, 0.0, 10.0))
        np.testing.assert_allclose(policy.network.q(eye).detach().numpy(), exact, atol=0.02, err_msg=str(settings))


# -- exploration ------------------------------------------------------------------------------------


def test_random_actions_are_as_frequent_as_epsilon():
    count, size = 40_000, 5
    params = torch.randn(count, size, generator=generator(1))
    params[:, 2] += 100.0
    for epsilon in (0.0, 0.3, torch.tensor(1.0)):
        distribution = EpsilonGreedy(size, 3, epsilon)
        actions = distribution.sample(params, distribution.draw(torch.empty(count, 2), generator(2)))
        share = float(epsilon)
        expected = np.full(size, share / size * count)
        expected[2] += (1 - share) * count
        found = np.bincount(actions.numpy(), minlength=size)
        if share == 0.0:
            assert (found == expected).all()
        else:
            chi_square = ((found - expected) ** 2 / expected).sum()
            assert chi_square < 18.5  # of 4 degrees of freedom, exceeded once in a thousand
        assert torch.equal(distribution.to_env(actions), actions + 3)
    assert torch.equal(distribution.mode(params), torch.full((count,), 2))


def test_the_largest_noise_leads_to_the_last_action():
    below_one = 1 - 2**-24
    for size in (3, 5, 18):
        noise = torch.tensor([[0.0, below_one], [below_one, below_one]])
        params = torch.zeros(2, size)
        params[:, 0] = 1.0
        assert EpsilonGreedy(size, 0, 0.5).sample(params, noise).tolist() == [size - 1, 0]
    each = EpsilonGreedy(3, 0, torch.tensor([1.0, 0.0]))  # a share of its own for every row
    assert each.sample(torch.tensor([[9.0, 0, 0]] * 2), torch.tensor([[0.5, 0.9]] * 2)).tolist() == [2, 0]


def test_exploration_falls_to_its_end():
    share = Exploration(epsilon_start=0.9, epsilon_end=0.1, epsilon_fraction=0.5)
    assert [round(share.at(step, 1000), 6) for step in (0, 250, 500, 800)] == [0.9, 0.5, 0.1, 0.1]
    policy = policy_for()
    assert float(policy.distribution.epsilon) == 1.0
    policy.explore(0, uniform=True)
    assert float(policy.distribution.epsilon) == 1.0
    policy.explore(0, uniform=False)
    assert float(policy.distribution.epsilon) == pytest.approx(policy.config.epsilon_start)
    policy.explore(policy.config.total_steps, uniform=False)
    assert float(policy.distribution.epsilon) == pytest.approx(policy.config.epsilon_end)
    assert float(policy_for(frozen=True).distribution.epsilon) == pytest.approx(0.05)


# -- whole runs -------------------------------------------------------------------------------------


def test_unsupported_settings_of_dqn_are_errors(tmp_path):
    continuous = AgentGroup(VECTORS, gym.spaces.Box(-1, 1, (2,), np.float32))
    with pytest.raises(OptionError, match="Discrete"):
        DQN("", make_config("x", defaults=False, algo="dqn"), continuous, CPU)
    with pytest.raises(OptionError, match="actor_device='cpu' would not be used by dqn"):
        make_config("x", algo="dqn", actor_device="cpu")
    with pytest.raises(OptionError, match="at least 8 x 8"):
        policy_for(network="cnn")
    quiet = {"quiet": True, "total_steps": 100, "run_dir": tmp_path / "run"}
    with pytest.raises(OptionError, match="networks of kind mlp, cnn, own, not gru"):
        train("CartPole-v1", "dqn", network="gru", **quiet)
    with pytest.raises(OptionError, match="epsilon_end=2"):
        make_config("CartPole-v1", algo="dqn", epsilon_end=2.0)


SEEN = ["Catch-v0", "FrozenLake-v1", "MinAtar-Breakout-v1", "MinAtar-Breakout-v1 as numbers"]
WAYS = list(itertools.product(SEEN, (0, 1)))


@pytest.mark.parametrize(("task", "samplers"), rest_nightly(WAYS, *WAYS[::3], WAYS[5]))
def test_dqn_learns_from_a_replay_of_steps(tmp_path, task, samplers):
    """Of vectors, numbers, images, and images that a perceptron takes as vectors."""
    task, _, numbers = task.partition(" ")
    options = TINY | {"n_step": 3, "learning_starts": 200, "quiet": True, "total_steps": 600}
    options |= {"samplers": 1, "evaluate_episodes": 0} if samplers else {"samplers": 0}
    if samplers:
        del options["num_steps"]  # samplers make no rollouts
    if numbers:
        options["network"] = "mlp"
    elif task.startswith("MinAtar"):
        del options["hidden"]
    result = train(task, "dqn", run_dir=tmp_path / "run", **options)
    assert result.reason == "finished"
    path = newest(tmp_path / "run" / "checkpoints")
    assert path is not None and load(path).optimizer["q.steps"] >= 30
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert np.isfinite(last["loss"]["critic_loss"])


@pytest.mark.nightly
def test_the_fast_preset_standardises_observations(tmp_path):
    """Pixels are fitted before the first update, and nothing moves them afterwards, in the network nor its targets."""
    options = {"learning_starts": 320, "total_steps": 1600, "replay_size": 5000, "target_update": 5, "video": False}
    options |= {"evaluate_episodes": 0, "tensorboard": False, "quiet": True, "save_replay": False}
    train("Pong-v5", "dqn", preset="fast", run_dir=tmp_path / "run", **options)
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert last["updates"] >= 20 and np.isfinite(last["loss"]["critic_loss"])
    path = newest(tmp_path / "run" / "checkpoints")
    assert path is not None
    model = load(path).model
    mean, scale = model["network.q.trunk.mean"], model["network.q.trunk.scale"]
    assert mean.shape == (4, 42, 42) and 50 < float(mean.mean()) < 150  # the field is neither black nor white
    assert float(scale.max()) == pytest.approx(1 / 8) and float(scale.min()) > 1 / 128
    assert evaluate(tmp_path / "run", episodes=1, max_steps=20).stopped == 1


@pytest.mark.nightly
def test_dqn_learns_cartpole(tmp_path):
    """A random player balances for some 20 steps."""
    options = {"quiet": True, "tensorboard": False, "video": False, "torch_threads": 1, "seed": 3, "samplers": 0}
    result = train("CartPole-v1", "dqn", run_dir=tmp_path / "run", **options)
    assert result.mean_return > 400

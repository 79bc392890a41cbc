"""SAC, TD3, and DQN over images: from equal weights, batches and noise, updates end where stable-baselines3's do."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn

from dqn_updates import IMAGES, policy_for
from dqn_updates import some_transitions as some_images
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.transitions import Transitions
from nightly import rest_nightly
from updates import a_policy, some_transitions

TASK, ROWS, GAMMA, RATE = "HalfCheetah-v5", 64, 0.9, 1e-3
# Adam's first steps are as large for a gradient of 1e-7 as for one of 1, which rounding alone would set apart
EPSILON = 1e-3


def linear(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def a_peer(algo: str, **settings: Any) -> Any:
    """Stable-baselines3's, with the hidden layers of `a_policy`, and its own weights."""
    maker = getattr(stable_baselines3, algo.upper())
    network: dict[str, Any] = {"policy_kwargs": {"net_arch": [16, 12]}, "batch_size": ROWS}
    peer = maker("MlpPolicy", gym.make(TASK), RATE, seed=3, device="cpu", gamma=GAMMA, tau=0.1, **network, **settings)
    set_epsilon(peer.actor.optimizer, peer.critic.optimizer, getattr(peer, "ent_coef_optimizer", None))
    peer.set_logger(configure(None, []))
    return peer


def set_epsilon(*optimisers: Any, factor: float = 1.0) -> None:
    for group in itertools.chain.from_iterable(optimiser.param_groups for optimiser in optimisers if optimiser):
        group["eps"] = factor * EPSILON


def our_actor(actor: Any) -> list[Tensor]:
    return [*actor.weights, *actor.biases]


def their_actor(actor: Any) -> list[Tensor]:
    """Laid out as ours."""
    weights, biases = ([getattr(layer, name) for layer in linear(actor)] for name in ("weight", "bias"))
    if hasattr(actor, "log_std"):  # two last layers side by side, where ours is one
        weights[-2:], biases[-2:] = [torch.cat(weights[-2:])], [torch.cat(biases[-2:])]
    return [part.detach() for part in weights + biases]


def our_critics(critics: Any) -> list[Tensor]:
    return [critics.first, *critics.weights, *critics.biases, critics.last, critics.last_bias]


def their_critics(critics: Any) -> list[Tensor]:
    """Laid out as ours."""
    first, *between, last = zip(*(linear(critic) for critic in critics.q_networks), strict=True)
    parts = [torch.stack([torch.cat((one.weight.t(), one.bias[None])) for one in first])]
    parts += [torch.stack([one.weight.t() for one in layer]) for layer in between]
    parts += [torch.stack([one.bias[None] for one in layer]) for layer in between]
    parts += [torch.stack([one.weight for one in last]), torch.stack([one.bias for one in last])]
    return [part.detach() for part in parts]


def both(policy: Any, peer: Any) -> list[tuple[Tensor, Tensor]]:
    """Our weights and biases beside the peer's: networks, then targets."""
    mine = our_actor(policy.network.actor) + our_critics(policy.network.critic) + our_critics(policy.targets.critic)
    other = their_actor(peer.actor) + their_critics(peer.critic) + their_critics(peer.critic_target)
    if hasattr(peer, "actor_target"):
        mine, other = mine + our_actor(policy.targets.actor), other + their_actor(peer.actor_target)
    return list(zip(mine, other, strict=True))


def as_samples(batch: Transitions) -> ReplayBufferSamples:
    """As stable-baselines3 reads a batch: with ends, where we have discounts."""
    done = (batch.discounts == 0).float()
    actions = batch.actions.view(len(done), -1)
    return ReplayBufferSamples(batch.inputs, actions, batch.next_observations, done[:, None], batch.rewards[:, None])


def noise(number: int) -> Tensor:
    """What a peer draws from torch's own generator in an update: SAC for its actor, then for what follows."""
    torch.manual_seed(number)
    return torch.cat([torch.normal(torch.zeros(ROWS, 6), torch.ones(ROWS, 6)) for _ in range(2)])


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sac": ({}, {}),
    "td3": ({"target_noise": 0.6, "policy_delay": 2}, {"target_policy_noise": 0.6}),
}
"""ours, and the peer's"""


@pytest.mark.parametrize("algo", rest_nightly(["sac", "td3"], "sac"))
def test_updates_equal_those_of_stable_baselines(algo, monkeypatch):
    settings, peers = SETTINGS[algo]
    policy = a_policy(algo, TASK, activation="relu", gamma=GAMMA, target_rate=0.1, adam_epsilon=EPSILON, **settings)
    peer = a_peer(algo, **peers)
    if algo == "td3":  # its critics' loss is twice ours, which Adam does not mind as long as ε is, too
        set_epsilon(peer.critic.optimizer, factor=2.0)
    with torch.no_grad():
        for mine, other in both(policy, peer):
            mine.copy_(other)
    before = [mine.clone() for mine, _ in both(policy, peer)]

    for number in range(20):
        batch, drawn = some_transitions(policy, ROWS, number), noise(number)
        monkeypatch.setattr(peer.replay_buffer, "sample", lambda *_, batch=batch, **__: as_samples(batch))
        actor, following = drawn.split(ROWS)
        halves = [actor] if algo == "td3" else [actor, following]  # ours draws for what follows first
        monkeypatch.setattr(policy, "noise", lambda _, halves=halves: halves.pop().clone())
        torch.manual_seed(number)
        peer.train(1, ROWS)
        policy.improve(batch, UpdateRates(RATE, RATE, 1.0), (number + 1) % policy.actor_every == 0)

    for was, (mine, other) in zip(before, both(policy, peer), strict=True):
        assert (mine - was).abs().max() > 1e-3, "nothing was learnt"
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)
    if algo == "sac":
        torch.testing.assert_close(policy.network.temperature.log.detach(), peer.log_ent_coef.detach())


class Screens(gym.Env):
    """The spaces of a game; a peer asks for an environment that has them."""

    observation_space = IMAGES
    action_space = gym.spaces.Discrete(4)


def test_updates_over_images_equal_those_of_stable_baselines(monkeypatch):
    clip = 0.1
    policy = policy_for(IMAGES, double=False, loss="huber", adam_epsilon=EPSILON, target_update=1000, bf16=False)
    peer: Any = stable_baselines3.DQN(
        "CnnPolicy", Screens(), RATE, 64, gamma=GAMMA, max_grad_norm=clip, seed=3, device="cpu"
    )
    set_epsilon(peer.policy.optimizer)
    peer.set_logger(configure(None, []))
    with torch.no_grad():
        for mine, other in ((policy.network, peer.q_net), (policy.targets, peer.q_net_target)):
            for parameter, theirs in zip(mine.parameters(), other.parameters(), strict=True):
                parameter.copy_(theirs)
    before = [parameter.detach().clone() for parameter in policy.network.parameters()]

    for number in range(10):
        batch = some_images(IMAGES, 16, number, weighted=False)
        monkeypatch.setattr(peer.replay_buffer, "sample", lambda *_, batch=batch, **__: as_samples(batch))
        peer.train(1, 16)
        *_, norm = policy.improve(batch, UpdateRates(RATE, RATE, clip), (number + 1) % policy.actor_every == 0)
        assert norm > clip, "no gradient was clipped"

    for was, mine, other in zip(before, policy.network.parameters(), peer.q_net.parameters(), strict=True):
        assert (mine - was).abs().max() > 1e-4, "nothing was learnt"
        torch.testing.assert_close(mine.detach(), other.detach(), rtol=1e-3, atol=1e-5)

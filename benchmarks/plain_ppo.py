"""PPO as most people write it: one file of plain PyTorch over EnvPool. The peer of `ppo_speed.py`.

The same algorithm, network and settings as ours, with nothing done for speed: `nn.Sequential` towers,
`torch.distributions`, autograd, `torch.optim.Adam`, observations copied into the rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import envpool
import numpy as np
import torch
from torch import Tensor, nn

from common import Contender, repeating


@dataclass(frozen=True)
class Settings:
    """The settings that all contenders share."""

    num_envs: int
    num_steps: int
    epochs: int
    minibatch_size: int
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    entropy_coef: float = 0.0
    max_grad_norm: float = 0.5


class ActorCritic(nn.Module):
    """Separate 64-64 tanh towers, as stable-baselines3's MlpPolicy."""

    def __init__(self, inputs: int, actions: int):
        super().__init__()
        self.actor = nn.Sequential(*_tower(inputs), _layer(64, actions, 0.01))
        self.critic = nn.Sequential(*_tower(inputs), _layer(64, 1, 1.0))

    def forward(self, obs: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        policy = torch.distributions.Categorical(logits=self.actor(obs))
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action), policy.entropy(), self.critic(obs).squeeze(-1)


def plain_ppo(task: str, s: Settings) -> Contender:
    """A contender: trains for so many seconds and returns its agent steps a second."""
    envs = envpool.make_gymnasium(task, num_envs=s.num_envs, num_threads=2, seed=1)
    torch.manual_seed(1)
    network = ActorCritic(int(np.prod(envs.observation_space.shape)), int(envs.action_space.n))
    optimiser = torch.optim.Adam(network.parameters(), lr=s.learning_rate, eps=1e-5)
    state: dict[str, Any] = {"obs": envs.reset()[0], "done": np.zeros(s.num_envs, bool)}

    def iterate() -> None:
        _learn(network, optimiser, _collect(envs, network, state, s), s)

    return repeating(iterate, s.num_envs * s.num_steps)


def _collect(envs: Any, network: ActorCritic, state: dict[str, Any], s: Settings) -> dict[str, Tensor]:
    shape = (s.num_steps, s.num_envs)
    obs = torch.zeros(*shape, *envs.observation_space.shape)
    actions = torch.zeros(shape, dtype=torch.int64)
    log_probs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))
    for t in range(s.num_steps):
        obs[t] = torch.as_tensor(state["obs"])
        dones[t] = torch.as_tensor(state["done"], dtype=torch.float32)
        with torch.no_grad():
            actions[t], log_probs[t], _, values[t] = network(obs[t])
        state["obs"], reward, terminated, truncated, _ = envs.step(actions[t].numpy().astype(np.int32))
        state["done"] = np.logical_or(terminated, truncated)
        rewards[t] = torch.as_tensor(reward)
    with torch.no_grad():
        next_value = network(torch.as_tensor(state["obs"]))[3]
    next_done = torch.as_tensor(state["done"], dtype=torch.float32)
    advantages, last = torch.zeros(shape), torch.zeros(s.num_envs)
    for t in reversed(range(s.num_steps)):
        alive = 1.0 - (next_done if t == s.num_steps - 1 else dones[t + 1])
        after = next_value if t == s.num_steps - 1 else values[t + 1]
        delta = rewards[t] + s.gamma * after * alive - values[t]
        advantages[t] = last = delta + s.gamma * s.gae_lambda * alive * last
    returns = advantages + values
    columns = {"obs": obs, "actions": actions, "log_probs": log_probs, "advantages": advantages, "returns": returns}
    return {name: column.flatten(0, 1) for name, column in columns.items()}


def _learn(network: ActorCritic, optimiser: torch.optim.Optimizer, data: dict[str, Tensor], s: Settings) -> None:
    indices = np.arange(s.num_envs * s.num_steps)
    for _ in range(s.epochs):
        np.random.shuffle(indices)
        for start in range(0, len(indices), s.minibatch_size):
            rows = torch.as_tensor(indices[start : start + s.minibatch_size])
            _, log_prob, entropy, value = network(data["obs"][rows], data["actions"][rows])
            ratio = (log_prob - data["log_probs"][rows]).exp()
            gain = data["advantages"][rows]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = ratio.clamp(1 - s.clip_range, 1 + s.clip_range)
            policy_loss = torch.max(-gain * ratio, -gain * clipped).mean()
            value_loss = 0.5 * (value - data["returns"][rows]).square().mean()
            loss = policy_loss - s.entropy_coef * entropy.mean() + value_loss
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), s.max_grad_norm)
            optimiser.step()


def _tower(inputs: int) -> list[nn.Module]:
    return [_layer(inputs, 64), nn.Tanh(), _layer(64, 64), nn.Tanh()]


def _layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer

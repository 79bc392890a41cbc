"""A2C on Tag as most people would write it without us: vectorised NumPy and plain PyTorch.

The peer of `tag_training.py`. The game is stepped for all environments at once by NumPy; the network, the settings
and what is learnt from a rollout are ours: `nn.Sequential`, `torch.distributions`, autograd, `torch.optim.Adam`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from common import Contender, repeating

MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.int32)


@dataclass(frozen=True)
class Settings:
    """The settings that both contenders share; those of WarpDrive's Tag, but for the number of environments."""

    num_envs: int = 512
    num_steps: int = 100
    num_taggers: int = 4
    grid_length: int = 100
    max_episode_steps: int = 100
    tag_penalty: float = 5.0
    tag_reward: float = 10.0
    wall_hit_penalty: float = 0.1
    step_cost: float = 0.01
    hidden: tuple[int, int] = (32, 32)
    gamma: float = 0.98
    gae_lambda: float = 0.95
    learning_rate: float = 1e-3
    entropy_coef: float = 0.05
    value_coef: float = 1.0
    max_grad_norm: float = 3.0


class GridTag:
    """Tag on the grid with random starts and partial observations, [N, agents] at a time; the last is the runner."""

    def __init__(self, s: Settings, seed: int):
        self.s, self.rng = s, np.random.default_rng(seed)
        self.agents = s.num_taggers + 1
        self.place = self._anywhere(s.num_envs)
        self.t = np.zeros(s.num_envs, np.int32)
        self.obs = np.zeros((s.num_envs, self.agents, 6), np.float32)
        self.obs[:, -1, 4] = 1.0

    def _anywhere(self, envs: int) -> np.ndarray:
        return self.rng.integers(0, self.s.grid_length + 1, (envs, self.agents, 2), np.int32)

    def observe(self) -> np.ndarray:
        """float32[N, agents, 6]: own cell, the target's cell, own type, time."""
        scale, obs = 1.0 / self.s.grid_length, self.obs
        apart = self.place[:, :-1] - self.place[:, -1:]
        nearest = (apart * apart).sum(-1).argmin(1)
        obs[:, :, :2] = self.place * scale
        obs[:, :-1, 2:4] = obs[:, -1:, :2]
        obs[:, -1, 2:4] = obs[np.arange(len(obs)), nearest, :2]
        obs[:, :, 5] = (self.t / self.s.max_episode_steps)[:, None]
        return obs

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Actions int[N, agents] to observations, rewards [N, agents], both ends [N], final observations."""
        s = self.s
        wanted = self.place + MOVES[actions]
        self.place = wanted.clip(0, s.grid_length)
        self.t += 1
        terminated = (self.place[:, :-1] == self.place[:, -1:]).all(-1).any(1)
        truncated = self.t >= s.max_episode_steps
        rewards = np.where(terminated[:, None], np.float32(s.tag_reward), np.float32(-s.step_cost)).repeat(
            self.agents, 1
        )
        rewards[:, -1] = np.where(terminated, -s.tag_penalty, s.step_cost)
        rewards -= np.float32(s.wall_hit_penalty) * (wanted != self.place).any(-1)
        final = self.observe()
        over = np.flatnonzero(terminated | truncated)
        if over.size:
            final = final.copy()
            self.place[over] = self._anywhere(len(over))
            self.t[over] = 0
            self.observe()
        return self.obs, rewards, terminated, truncated, final


class ActorCritic(nn.Module):
    """One perceptron with a policy head and a value head."""

    def __init__(self, hidden: tuple[int, int]):
        super().__init__()
        a, b = hidden
        self.body = nn.Sequential(nn.Linear(6, a), nn.ReLU(), nn.Linear(a, b), nn.ReLU())
        self.actor, self.critic = nn.Linear(b, 5), nn.Linear(b, 1)

    def forward(self, obs: Tensor) -> tuple[torch.distributions.Categorical, Tensor]:
        h = self.body(obs)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def plain_a2c(s: Settings, threads: int) -> Contender:
    """A contender: trains for so many seconds and returns its environment steps a second."""
    torch.manual_seed(1)
    game, network = GridTag(s, 1), ActorCritic(s.hidden)
    optimiser = torch.optim.Adam(network.parameters(), lr=s.learning_rate, eps=1e-5)
    obs = torch.from_numpy(game.observe()).clone()

    def iterate() -> None:
        nonlocal obs
        torch.set_num_threads(threads)
        obs = _iterate(game, network, optimiser, obs, s)

    return repeating(iterate, s.num_envs * s.num_steps)


def _iterate(game: GridTag, network: ActorCritic, optimiser: torch.optim.Optimizer, obs: Tensor, s: Settings) -> Tensor:
    """One rollout and the update from it; returns the observations to go on from."""
    shape = (s.num_steps, s.num_envs, game.agents)
    seen, actions = torch.zeros(*shape, 6), torch.zeros(shape, dtype=torch.int64)
    values, rewards, after, alive = (torch.zeros(shape) for _ in range(4))
    for t in range(s.num_steps):
        with torch.no_grad():
            policy, values[t] = network(obs)
            actions[t] = policy.sample()
        seen[t] = obs
        arrays = game.step(actions[t].numpy())
        obs, reward, terminated, truncated, final = (torch.from_numpy(a) for a in arrays)
        obs = obs.clone()
        rewards[t] = reward
        alive[t] = 1.0 - (terminated | truncated).float().unsqueeze(1)
        with torch.no_grad():
            cut = truncated & ~terminated
            if cut.any():
                after[t, cut] = network(final[cut])[1]
            if t > 0:
                after[t - 1] += values[t] * alive[t - 1]
    with torch.no_grad():
        after[-1] += network(obs)[1] * alive[-1]
        advantages, last = torch.zeros(shape), torch.zeros(shape[1:])
        for t in reversed(range(s.num_steps)):
            delta = rewards[t] + s.gamma * after[t] - values[t]
            advantages[t] = last = delta + s.gamma * s.gae_lambda * alive[t] * last
        returns = advantages + values
        gains = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy, value = network(seen)
    loss = -(gains * policy.log_prob(actions)).mean() - s.entropy_coef * policy.entropy().mean()
    loss = loss + s.value_coef * 0.5 * (value - returns).square().mean()
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), s.max_grad_norm)
    optimiser.step()
    return obs

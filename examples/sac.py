"""SAC in one file, over Headrace's environments or Gymnasium's: only `make_envs` differs.

python examples/sac.py [--vec gymnasium] [--task HalfCheetah-v5 --total-steps 300000]
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import mse_loss, softplus

import headrace


@dataclass
class Args:
    """Soft actor-critic with two critics and a learnt temperature."""

    task: str = "Pendulum-v1"
    """task with flat observations and continuous actions"""
    vec: Literal["headrace", "gymnasium"] = "headrace"
    total_steps: int = 20_000
    """agent steps, all environments together"""
    num_envs: int = 4
    learning_starts: int = 1_000
    """steps with random actions, before the first update"""
    updates_per_step: float = 1.0
    """gradient steps for each agent step"""
    batch_size: int = 256
    memory: int = 200_000
    """transitions that are kept"""
    learning_rate: float = 1e-3
    gamma: float = 0.99
    polyak: float = 0.005
    """how far the targets move to the critics in an update"""
    seed: int = 1


def make_envs(args: Args) -> gym.vector.VectorEnv:
    """N environments that start the next episode in the step that ends one."""
    if args.vec == "headrace":
        return headrace.make_vec(args.task, num_envs=args.num_envs, seed=args.seed, autoreset="same_step")
    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    return gym.make_vec(args.task, args.num_envs, "sync", vector_kwargs=same_step)


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


class Actor(nn.Module):
    """A Gaussian squashed by tanh into the action space."""

    def __init__(self, width: int, space: gym.spaces.Box):
        super().__init__()
        self.net = mlp(width, 2 * space.shape[0])
        self.scale = torch.as_tensor((space.high - space.low) / 2)
        self.centre = torch.as_tensor((space.high + space.low) / 2)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] in the space's range, and their log-probabilities [B]."""
        mean, log_std = self.net(obs).chunk(2, -1)
        noise, log_std = torch.randn_like(mean), log_std.clamp(-5, 2)
        raw = mean + log_std.exp() * noise
        log_prob = -noise.square() / 2 - log_std - np.log(2 * np.pi) / 2
        log_prob = log_prob - 2 * (np.log(2) - raw - softplus(-2 * raw)) - self.scale.log()  # log(1 - tanh²)
        return self.centre + self.scale * raw.tanh(), log_prob.sum(-1)


def values(critics: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
    """What each of the two critics expects: [2, B]."""
    both = torch.cat((obs, action), -1)
    return torch.stack([critic(both)[:, 0] for critic in critics])


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def main() -> None:
    args = tyro.cli(Args)
    torch.manual_seed(args.seed)
    envs = make_envs(args)
    seen, acted = envs.single_observation_space, envs.single_action_space
    assert isinstance(seen, gym.spaces.Box) and isinstance(acted, gym.spaces.Box)
    envs.action_space.seed(args.seed)
    width, dims = seen.shape[0], acted.shape[0]
    actor, critics = Actor(width, acted), nn.ModuleList(mlp(width + dims, 1) for _ in range(2))
    targets = deepcopy(critics)
    log_alpha = torch.zeros((), requires_grad=True)
    actor_step, critic_step, alpha_step = (
        torch.optim.Adam(p, args.learning_rate) for p in (actor.parameters(), critics.parameters(), [log_alpha])
    )
    # the newest transitions: observation, action, reward, next observation, and whether the episode was over
    memory = [torch.zeros(args.memory, *shape) for shape in ((width,), (dims,), (), (width,), ())]
    running, finished = np.zeros(args.num_envs), [0.0]
    obs, began, told, owed = envs.reset(seed=args.seed)[0], time.perf_counter(), 0, 0.0
    for steps in range(args.num_envs, args.total_steps + 1, args.num_envs):
        if steps <= args.learning_starts:
            action = envs.action_space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.as_tensor(np.asarray(obs, np.float32)))[0].numpy()
        after, reward, terminated, truncated, info = envs.step(action)
        running += reward
        last = after.copy()
        for i in np.flatnonzero(terminated | truncated):
            last[i] = info["final_obs"][i]  # of the episode that ended; `after` is the next one's first
            finished.append(running[i])
            running[i] = 0
        places = torch.arange(steps - args.num_envs, steps) % args.memory
        for column, new in zip(memory, (obs, action, reward, last, terminated), strict=True):
            column[places] = torch.as_tensor(np.asarray(new, np.float32))
        obs = after

        owed += args.updates_per_step * args.num_envs if steps > args.learning_starts else 0
        for _ in range(int(owed)):
            index = torch.randint(min(steps, args.memory), (args.batch_size,))
            o, a, r, following, over = (column[index] for column in memory)
            alpha = log_alpha.exp().detach()
            with torch.no_grad():
                next_action, next_log_prob = actor(following)
                next_value = values(targets, following, next_action).min(0).values - alpha * next_log_prob
                target = r + args.gamma * (1 - over) * next_value
            descend(critic_step, mse_loss(values(critics, o, a), target.expand(2, -1)) * 2)
            chosen, log_prob = actor(o)
            descend(actor_step, (alpha * log_prob - values(critics, o, chosen).min(0).values).mean())
            descend(alpha_step, -(log_alpha * (log_prob.detach() - dims).mean()))  # towards an entropy of -dims
            with torch.no_grad():
                for goal, own in zip(targets.parameters(), critics.parameters(), strict=True):
                    goal.lerp_(own, args.polyak)
        owed %= 1
        if steps - told >= 5_000 or steps + args.num_envs > args.total_steps:
            told, rate = steps, steps / (time.perf_counter() - began)
            print(f"{steps:>8} steps, mean return {np.mean(finished[-20:]):.1f}, {rate:,.0f} steps/s")
    envs.close()


if __name__ == "__main__":
    main()

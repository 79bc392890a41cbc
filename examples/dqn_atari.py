"""Double DQN on Atari in one file: a replay of pictures, a target network, the Nature CNN.

The replay is one array of bytes, [rows, N, 4, 84, 84], into which the pool writes what it sees;
the observation after a transition is the next row's.

    python examples/dqn_atari.py [--task Breakout-v5 --total-steps 5000000]
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

import headrace


@dataclass
class Args:
    """Double DQN on an Atari game."""

    task: str = "Pong-v5"
    """game to learn"""
    total_steps: int = 800_000
    """agent steps, all environments together; a step is 4 frames"""
    num_envs: int = 8
    """N: environments"""
    replay_size: int = 80_000
    """transitions that are kept; one takes 28 kB"""
    learning_starts: int = 10_000
    """steps before the first update"""
    steps_per_update: int = 4
    batch_size: int = 32
    """transitions in an update"""
    target_updates: int = 500
    """updates after which the target network is renewed"""
    learning_rate: float = 2e-4
    gamma: float = 0.99
    explore_steps: int = 80_000
    """steps in which random actions become rarer, from all to one in a hundred"""
    seed: int = 1


class Network(nn.Module):
    def __init__(self, actions: int):
        super().__init__()
        convolutions = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1)]
        self.layers = nn.Sequential(
            *convolutions, nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions)
        )

    def forward(self, pictures: Tensor) -> Tensor:
        """Values [B, actions] of pictures uint8[B, 4, 84, 84]."""
        return self.layers(pictures.float() / 255)


class Replay:
    """A ring of rows, each of a step of all environments."""

    def __init__(self, rows: int, envs: int):
        self.obs = np.zeros((rows, envs, 4, 84, 84), np.uint8)
        self.actions = np.zeros((rows, envs), np.int64)
        self.rewards = np.zeros((rows, envs), np.float32)
        self.ended, self.usable = np.zeros((rows, envs), np.bool_), np.zeros((rows, envs), np.bool_)
        self.next, self.filled = 0, 0

    def add(
        self, obs: np.ndarray, actions: np.ndarray, rewards: np.ndarray, ended: np.ndarray, cut: np.ndarray
    ) -> None:
        """Adds a step; where an episode was cut off, the next row does not follow, and the step is not used."""
        for array, values in ((self.obs, obs), (self.actions, actions), (self.rewards, rewards), (self.ended, ended)):
            array[self.next] = values
        self.usable[self.next] = ~cut
        self.next = (self.next + 1) % len(self.obs)
        self.filled = min(self.filled + 1, len(self.obs))

    def draw(self, size: int, rng: np.random.Generator) -> list[Tensor]:
        """Observations, actions, rewards, ends and next observations of random transitions."""
        newest = self.next - 1  # what follows it is not here yet
        rows = (newest - rng.integers(1, self.filled, 2 * size)) % len(self.obs)
        envs = rng.integers(self.obs.shape[1], size=2 * size)
        good = self.usable[rows, envs].nonzero()[0][:size]
        rows, envs = rows[good], envs[good]
        found = [array[rows, envs] for array in (self.obs, self.actions, self.rewards, self.ended)]
        return [torch.from_numpy(each) for each in (*found, self.obs[(rows + 1) % len(self.obs), envs])]


def main() -> None:
    args = tyro.cli(Args)
    torch.manual_seed(args.seed)
    rng, n = np.random.default_rng(args.seed), args.num_envs
    pool = headrace.make(
        args.task, num_envs=n, seed=args.seed, autoreset="same_step", episodic_life=True, reward_clip=True
    )
    choices = int(pool.action_space.n)
    network = Network(choices)
    target = copy.deepcopy(network)
    optimiser = torch.optim.Adam(network.parameters(), args.learning_rate, eps=1e-4)
    replay = Replay(args.replay_size // n, n)
    running, finished, updates = np.zeros(n), [math.nan], 0

    obs = pool.reset()[0]
    for step in range(0, args.total_steps, n):
        epsilon = max(0.01, 1 - step / args.explore_steps)
        actions = rng.integers(choices, size=n)
        greedy = rng.random(n) >= epsilon
        if greedy.any():
            with torch.no_grad():
                actions[greedy] = network(torch.from_numpy(obs[greedy])).argmax(1).numpy()
        after, reward, terminated, truncated, _ = pool.step(actions)
        replay.add(obs, actions, reward, terminated, truncated & ~terminated)
        obs = after
        running += reward
        ended = terminated | truncated
        finished += running[ended].tolist()
        running[ended] = 0

        while step >= args.learning_starts and updates < (step - args.learning_starts) // args.steps_per_update:
            o, a, r, ends, following = replay.draw(args.batch_size, rng)
            with torch.no_grad():  # the network chooses the next action, and the target network judges it
                best = network(following).argmax(1, keepdim=True)
                wanted = r + args.gamma * (~ends) * target(following).gather(1, best)[:, 0]
            loss = smooth_l1_loss(network(o).gather(1, a[:, None])[:, 0], wanted)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimiser.step()
            updates += 1
            if updates % args.target_updates == 0:
                target.load_state_dict(network.state_dict())
        if (step // n + 1) % 1000 == 0 or step + n >= args.total_steps:
            print(f"{step + n:>8} steps, {updates} updates, mean return {np.nanmean(finished[-20:]):.1f}", flush=True)
    pool.close()


if __name__ == "__main__":
    main()

"""PQN in one file: Q-learning from rollouts, with neither a replay nor a target network.

Layer normalisation keeps the network stable, many environments make the samples diverse, and
Q(lambda) returns carry rewards back over a rollout (Gallici et al. 2024, "Simplifying Deep
Temporal Difference Learning"). CartPole-v1 reaches a mean return of 475 in about 200 thousand
steps.

    python examples/pqn.py [--task MinAtar-Breakout-v1 --total-steps 2000000]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import headrace


@dataclass
class Args:
    """PQN on a task with numbers or small pictures as observations, and a discrete action."""

    task: str = "CartPole-v1"
    """task to learn"""
    total_steps: int = 400_000
    """agent steps, all environments together"""
    num_envs: int = 32
    """N: environments"""
    num_steps: int = 64
    """T: steps of each environment in a rollout"""
    epochs: int = 4
    """passes over a rollout"""
    minibatch_size: int = 128
    """samples in one gradient step"""
    learning_rate: float = 1e-3
    """at the beginning; it falls to 0"""
    gamma: float = 0.99
    lambda_: float = 0.95
    """how much later values count in returns; 0 for those of one step"""
    explore_until: float = 0.2
    """share of the steps in which random actions become rarer, from all to one in twenty"""
    seed: int = 1


def make_network(width: int, actions: int) -> nn.Sequential:
    def hidden(inputs: int) -> list[nn.Module]:
        return [nn.Linear(inputs, 128), nn.LayerNorm(128), nn.ReLU()]

    return nn.Sequential(*hidden(width), *hidden(128), nn.Linear(128, actions))


def returns(rewards: Tensor, going: Tensor, values: Tensor, args: Args) -> Tensor:
    """Q(lambda) returns [T, N] of rewards, of 1 where the episode goes on, and of the best values [T + 1, N]."""
    found = torch.zeros_like(rewards)
    later = values[-1]
    for t in reversed(range(len(rewards))):
        mixed = args.lambda_ * later + (1 - args.lambda_) * values[t + 1]
        found[t] = later = rewards[t] + args.gamma * going[t] * mixed
    return found


def main() -> None:
    args = tyro.cli(Args)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the network is too small to share out
    rng = np.random.default_rng(args.seed)
    n, t_max = args.num_envs, args.num_steps
    pool = headrace.make(args.task, num_envs=n, seed=args.seed, autoreset="same_step")
    width, choices = math.prod(pool.observation_space.shape or ()), int(pool.action_space.n)
    network = make_network(width, choices)
    optimiser = torch.optim.RAdam(network.parameters(), args.learning_rate)

    seen, actions = torch.zeros(t_max, n, width), torch.zeros(t_max, n, dtype=torch.int64)
    rewards, going, values = torch.zeros(t_max, n), torch.zeros(t_max, n), torch.zeros(t_max + 1, n)
    running, finished = np.zeros(n), [0.0]

    def tensor(observations: np.ndarray) -> Tensor:
        return torch.as_tensor(observations, dtype=torch.float32).flatten(1)

    obs = tensor(pool.reset()[0])
    updates = args.total_steps // (n * t_max)
    for update in range(updates):
        done_share = update / updates
        optimiser.param_groups[0]["lr"] = args.learning_rate * (1 - done_share)
        epsilon = max(0.05, 1 - done_share / args.explore_until)
        with torch.no_grad():
            for t in range(t_max):
                q = network(obs)
                random = torch.as_tensor(rng.random(n) < epsilon)
                drawn = torch.as_tensor(rng.integers(choices, size=n))
                seen[t], values[t], actions[t] = obs, q.amax(1), torch.where(random, drawn, q.argmax(1))
                after, reward, terminated, truncated, info = pool.step(actions[t].numpy())
                ended = terminated | truncated
                rewards[t], going[t] = torch.as_tensor(reward), torch.as_tensor(~ended)
                if truncated.any():  # cut off, not over: the future is worth what the network says
                    cut = truncated & ~terminated
                    rewards[t][torch.as_tensor(cut)] += args.gamma * network(tensor(info["final_obs"][cut])).amax(1)
                running += reward
                finished += running[ended].tolist()
                running[ended] = 0
                obs = tensor(after)
            values[t_max] = network(obs).amax(1)
            targets = returns(rewards, going, values, args).flatten()

        samples, taken = seen.flatten(0, 1), actions.flatten()
        for index in (i for _ in range(args.epochs) for i in torch.randperm(n * t_max).split(args.minibatch_size)):
            q = network(samples[index]).gather(1, taken[index, None])[:, 0]
            loss = mse_loss(q, targets[index])
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimiser.step()
        if (update + 1) % 20 == 0 or update + 1 == updates:
            print(f"{(update + 1) * n * t_max:>8} steps, mean return {np.mean(finished[-100:]):.1f}")
    pool.close()


if __name__ == "__main__":
    main()

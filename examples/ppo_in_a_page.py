"""PPO in a page: how to put a learner of your own on a pool.

The pool writes observations, rewards and ends straight into the rollout's arrays, one
bound batch a time step; torch sees the same memory. CartPole-v1 reaches a mean return
of 475 in about 300 thousand steps.

    python examples/ppo_in_a_page.py [--total-steps 500000]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import tyro
from torch import nn
from torch.distributions import Categorical
from torch.nn.functional import mse_loss

import headrace


@dataclass
class Args:
    """PPO on a task with a flat observation and a discrete action."""

    task: str = "CartPole-v1"
    """task to learn"""
    total_steps: int = 500_000
    """agent steps, all environments together"""
    num_envs: int = 64
    """N: environments"""
    num_steps: int = 32
    """T: steps of each environment in a rollout"""
    epochs: int = 4
    """passes over a rollout"""
    minibatch_size: int = 512
    """samples in one gradient step"""
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    seed: int = 1


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main() -> None:
    args = tyro.cli(Args)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the network is too small to share out
    n, t_max = args.num_envs, args.num_steps
    pool = headrace.make(args.task, num_envs=n, seed=args.seed, autoreset="same_step")
    width, choices = pool.observation_space.shape[0], int(pool.action_space.n)
    actor, critic = mlp(width, choices), mlp(width, 1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimiser = torch.optim.Adam(parameters, args.learning_rate, eps=1e-5)

    # time first, [T, N, …]; row t of these arrays is where step t writes
    obs = np.zeros((t_max + 1, n, width), np.float32)
    reward, terminated, truncated = (np.zeros((t_max, n), kind) for kind in (np.float32, np.bool_, np.bool_))
    rows = [
        pool.make_batch(obs=obs[t + 1], reward=reward[t], terminated=terminated[t], truncated=truncated[t])
        for t in range(t_max)
    ]
    actions, log_probs = torch.zeros(t_max, n, dtype=torch.int64), torch.zeros(t_max, n)
    running, finished = np.zeros(n), [0.0]

    obs[0] = pool.reset()[0]
    for update in range(1, args.total_steps // (n * t_max) + 1):
        for t in range(t_max):
            with torch.no_grad():
                policy = Categorical(logits=actor(torch.from_numpy(obs[t])))
                actions[t] = policy.sample()
                log_probs[t] = policy.log_prob(actions[t])
            *_, info = pool.step(actions[t].numpy(), out=rows[t])
            running += reward[t]
            done = terminated[t] | truncated[t]
            if done.any():
                finished += running[done].tolist()
                running[done] = 0
            if truncated[t].any():  # cut off, not over: the future is worth what the critic says
                cut = truncated[t] & ~terminated[t]
                with torch.no_grad():
                    reward[t, cut] += args.gamma * critic(torch.from_numpy(info["final_obs"][cut])).numpy()[:, 0]

        with torch.no_grad():
            value = critic(torch.from_numpy(obs))[..., 0]  # [T + 1, N]
        rewards, going_on = torch.from_numpy(reward), torch.from_numpy(~(terminated | truncated)).float()
        advantage, last = torch.zeros(t_max, n), torch.zeros(n)
        for t in reversed(range(t_max)):
            delta = rewards[t] + args.gamma * going_on[t] * value[t + 1] - value[t]
            advantage[t] = last = delta + args.gamma * args.gae_lambda * going_on[t] * last
        data = [torch.from_numpy(obs[:-1]), actions, log_probs, advantage, advantage + value[:-1]]
        flat = [x.reshape(t_max * n, *x.shape[2:]) for x in data]

        for index in (i for _ in range(args.epochs) for i in torch.randperm(t_max * n).split(args.minibatch_size)):
            o, a, old, adv, target = (x[index] for x in flat)
            policy = Categorical(logits=actor(o))
            ratio = (policy.log_prob(a) - old).exp()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            gain = torch.min(ratio * adv, ratio.clamp(1 - args.clip, 1 + args.clip) * adv).mean()
            loss = -gain + mse_loss(critic(o)[:, 0], target) / 2
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimiser.step()
        obs[0] = obs[-1]
        if update % 20 == 0:
            print(f"{update * n * t_max:>8} steps, mean return {np.mean(finished[-100:]):.1f}")
    pool.close()


if __name__ == "__main__":
    main()

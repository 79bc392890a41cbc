"""PPO in one file, over Headrace's environments or Gymnasium's: only `make_envs` differs.

python examples/ppo.py [--vec gymnasium] [--task HalfCheetah-v5 --total-steps 1000000 --num-envs 8 --num-steps 256]
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

import headrace


@dataclass
class Args:
    """Proximal policy optimisation."""

    task: str = "CartPole-v1"
    """task with flat observations, and discrete or continuous actions"""
    vec: Literal["headrace", "gymnasium"] = "headrace"
    total_steps: int = 300_000
    """agent steps, all environments together"""
    num_envs: int = 16
    """N: environments"""
    num_steps: int = 128
    """T: steps of each environment in a rollout"""
    epochs: int = 6
    """passes over a rollout"""
    minibatches: int = 8
    """gradient steps in a pass"""
    learning_rate: float = 1e-3
    """at the beginning; it falls to 0"""
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    """what randomness of the policy is worth"""
    max_grad_norm: float = 0.5
    seed: int = 1


def make_envs(args: Args) -> gym.vector.VectorEnv:
    """N environments that start the next episode in the step that ends one."""
    if args.vec == "headrace":
        return headrace.make_vec(args.task, num_envs=args.num_envs, seed=args.seed, autoreset="same_step")
    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    return gym.make_vec(args.task, args.num_envs, "sync", vector_kwargs=same_step)


def layer(inputs: int, outputs: int, scale: float = 2**0.5) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, scale)
    nn.init.zeros_(made.bias)
    return made


class Agent(nn.Module):
    def __init__(self, envs: gym.vector.VectorEnv):
        super().__init__()
        seen, acted = envs.single_observation_space, envs.single_action_space
        assert isinstance(seen, gym.spaces.Box) and len(seen.shape) == 1
        assert isinstance(acted, gym.spaces.Box | gym.spaces.Discrete)
        width, out = seen.shape[0], int(acted.n if isinstance(acted, gym.spaces.Discrete) else acted.shape[0])
        self.critic = nn.Sequential(layer(width, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(width, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, out, 0.01))
        self.log_std = nn.Parameter(torch.zeros(out)) if isinstance(acted, gym.spaces.Box) else None

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs)[..., 0]

    def policy(self, obs: Tensor) -> Any:
        out = self.actor(obs)
        if self.log_std is None:
            return Categorical(logits=out)
        return Independent(Normal(out, self.log_std.exp().expand_as(out)), 1)


def tensor(array: Any) -> Tensor:
    return torch.as_tensor(np.asarray(array, np.float32))


def main() -> None:
    args = tyro.cli(Args)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the networks are too small to share out
    envs = make_envs(args)
    agent = Agent(envs)
    optimiser = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    t_max, n = args.num_steps, args.num_envs
    width, shape = sum(envs.single_observation_space.shape or ()), envs.single_action_space.shape or ()

    seen = torch.zeros(t_max, n, width)
    actions = torch.zeros(t_max, n, *shape, dtype=torch.float32 if shape else torch.int64)
    log_probs, rewards, values, ends = (torch.zeros(t_max, n) for _ in range(4))
    running, finished = np.zeros(n), [0.0]

    obs, began = tensor(envs.reset(seed=args.seed)[0]), time.perf_counter()
    updates = args.total_steps // (t_max * n)
    for update in range(updates):
        optimiser.param_groups[0]["lr"] = args.learning_rate * (1 - update / updates)
        with torch.no_grad():
            for t in range(t_max):
                policy = agent.policy(obs)
                seen[t], actions[t], values[t] = obs, policy.sample(), agent.value(obs)
                log_probs[t] = policy.log_prob(actions[t])
                after, reward, terminated, truncated, info = envs.step(actions[t].numpy())
                running += reward
                rewards[t], ends[t] = tensor(reward), tensor(terminated | truncated)
                for i in np.flatnonzero(terminated | truncated):
                    if not terminated[i]:  # cut off, not over: the future is worth what the critic says
                        rewards[t, i] += args.gamma * agent.value(tensor(info["final_obs"][i]))
                    finished.append(running[i])
                    running[i] = 0
                obs = tensor(after)
            next_value, last, advantages = agent.value(obs), torch.zeros(n), torch.zeros(t_max, n)
            for t in reversed(range(t_max)):
                going = args.gamma * (1 - ends[t])
                last = rewards[t] + going * next_value - values[t] + going * args.gae_lambda * last
                advantages[t], next_value = last, values[t]

        flat = [x.flatten(0, 1) for x in (seen, actions, log_probs, advantages, advantages + values)]
        for index in (i for _ in range(args.epochs) for i in torch.randperm(t_max * n).chunk(args.minibatches)):
            o, a, old, advantage, target = (x[index] for x in flat)
            policy = agent.policy(o)
            ratio = (policy.log_prob(a) - old).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gain = torch.min(ratio * advantage, ratio.clamp(1 - args.clip, 1 + args.clip) * advantage).mean()
            error = (agent.value(o) - target).square().mean()
            loss = error / 2 - gain - args.entropy * policy.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimiser.step()
        if (update + 1) % 20 == 0 or update + 1 == updates:
            steps = (update + 1) * t_max * n
            rate = steps / (time.perf_counter() - began)
            print(f"{steps:>8} steps, mean return {np.mean(finished[-100:]):.1f}, {rate:,.0f} steps/s")
    envs.close()


if __name__ == "__main__":
    main()

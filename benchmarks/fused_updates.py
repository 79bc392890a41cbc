"""Updates by hand beside the same updates by autograd: what the hand-written gradients save of a whole update.

Three contenders for each algorithm, on the same batch: the hand-written update; the losses of the algorithm's file in
plain autograd (`autograd`); and, for SAC, autograd with each network, and the distribution, as one node whose backward
is written by hand (`nodes`), which would leave no gradients in an update. One torch thread. A hand-written update is
kept where the losses in autograd run at less than 0.85 of its rate.

DDPG had one that was deleted for that reason: it ran at 1.15 and 1.10 times the rate of autograd, with products
as they are and in bfloat16 (AMD EPYC with AVX-512 and bfloat16).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
import tyro

import headrace
from common import OURS, Args, Comparison, Contender, measure, repeating
from headrace.train.algorithms.off_policy import Losses, OffPolicy
from headrace.train.algorithms.rates import Rates, UpdateRates
from headrace.train.algorithms.sac import SAC
from headrace.train.collect.setup import make_policy
from headrace.train.config.settings import make_config
from headrace.train.modules.network import input_size
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.processes.allocator import keep_freed_memory
from headrace.train.storage.samples import Samples, draw_order
from headrace.train.storage.transitions import Transitions
from sac_update import ACTIONS, BOX, OBSERVATIONS, transitions

CHOICES = gym.spaces.Discrete(ACTIONS)


@dataclass
class FusedArgs(Args):
    """Hand-written updates beside autograd's."""

    seconds: float = 1.0
    """of each turn"""
    precisions: tuple[str, ...] = ("highest", "medium")
    """of float32 products"""


def policy_for(algo: str, hidden: tuple[int, ...], batch: int) -> Any:
    """An off-policy algorithm's policy on the CPU."""
    task, actions = ("CartPole-v1", CHOICES) if algo == "dqn" else ("HalfCheetah-v5", BOX)
    config = make_config(task, algo=algo, hidden=hidden, minibatch_size=batch)
    torch.manual_seed(0)
    return make_policy("", config, AgentGroup(OBSERVATIONS, actions), torch.device("cpu"))


def transitions_of(policy: OffPolicy, count: int) -> Transitions:
    """Random ones, with actions that the policy could have taken."""
    made = transitions(count, input_size(policy.agent_group.observation))
    if isinstance(policy.agent_group.action, gym.spaces.Discrete):
        choices = torch.randint(ACTIONS, (count,), generator=torch.Generator().manual_seed(0))
        return made._replace(actions=choices)
    return made


class _Actor(torch.autograd.Function):
    """An actor and its distribution as one node."""

    @staticmethod
    def forward(ctx: Any, policy: SAC, parameter: torch.Tensor, x: torch.Tensor, noise: torch.Tensor) -> Any:
        ctx.saved, ctx.policy = policy.network.actor.activations(x), policy
        actions, log_prob, ctx.drawn = policy.distribution.sample_with_log_prob(ctx.saved[-1], noise)
        return actions, log_prob

    @staticmethod
    def backward(ctx: Any, d_actions: torch.Tensor, d_log_prob: torch.Tensor) -> Any:  # type: ignore[override]
        d = ctx.policy.distribution.gradient(ctx.drawn, d_actions, d_log_prob.unsqueeze(1))
        saved, ctx.saved = ctx.saved, None
        ctx.policy.network.actor.backward_into_gradients(saved, d)
        return None, None, None, None


class _Critics(torch.autograd.Function):
    """Both critics as one node; with actions that need a gradient, down to them, and no further."""

    @staticmethod
    def forward(ctx: Any, critic: Any, parameter: torch.Tensor, x: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        values, ctx.saved = critic.forward_saving(critic.joined(x, actions))
        ctx.critic, ctx.begin = critic, x.shape[1]
        return values

    @staticmethod
    def backward(ctx: Any, d: torch.Tensor) -> Any:  # type: ignore[override]
        saved, ctx.saved = ctx.saved, None
        if ctx.needs_input_grad[3]:
            return None, None, None, ctx.critic.input_gradient(saved, d, ctx.begin)
        ctx.critic.backward_into_gradients(saved, d)
        return None, None, None, None


class NodesSAC(SAC):
    """SAC whose losses are autograd, and whose networks are one node each."""

    def critic_losses(self, batch: Transitions) -> Losses:
        """As `SAC.critic_losses`."""
        with torch.no_grad():
            next_actions, log_prob = self._sample(batch.next_observations)
            next_q = self.targets.critic(batch.next_observations, next_actions).amin(0)
            target = batch.rewards + batch.discounts * (next_q - self.network.temperature.log.exp() * log_prob)
        critic = self.network.critic
        values = _Critics.apply(critic, critic.first, batch.inputs, batch.actions)
        loss = batch.mean((values - target).square()).sum() / 2  # type: ignore[operator]
        return Losses({"critic": loss}, (loss, values.mean()))  # type: ignore[union-attr]

    def actor_losses(self, batch: Transitions) -> Losses:
        """As `SAC.actor_losses`."""
        actions, log_prob = self._sample(batch.inputs)
        log_alpha, critic = self.network.temperature.log, self.network.critic
        alpha, entropy = log_alpha.exp().detach(), -log_prob.detach().mean()
        values: Any = _Critics.apply(critic, critic.first, batch.inputs, actions)
        loss = (alpha * log_prob - values.amin(0)).mean()
        temperature = (log_alpha * (entropy - self.target_entropy)).sum()
        return Losses({"actor": loss, "temperature": temperature}, (loss, entropy, alpha[0]))

    def _sample(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _Actor.apply(self, self.network.actor.weights[0], inputs, self.noise(len(inputs)))  # type: ignore


def off_policy(algo: str, hidden: tuple[int, ...], batch: int) -> dict[str, Callable[[], Any]]:
    """Updates from one batch."""
    updates: dict[str, Callable[[], Any]] = {}
    ways = ("headrace", "autograd", "nodes") if algo == "sac" else ("headrace", "autograd")
    for way in ways:
        policy = policy_for(algo, hidden, batch)
        if way == "nodes":
            policy = NodesSAC("", policy.config, policy.agent_group, policy.device)
        if way != "headrace":
            policy._fused = None
        rates, some = UpdateRates.of(policy.config, 0), transitions_of(policy, batch)
        updates[way] = lambda policy=policy, some=some, rates=rates: policy.improve(some, rates)
    return updates


def ppo() -> dict[str, Callable[[], Any]]:
    """All updates from one rollout of CartPole, with its own settings."""
    updates: dict[str, Callable[[], Any]] = {}
    spec, config = headrace.make_spec("CartPole-v1"), make_config("CartPole-v1", num_envs=64)
    for way in ("headrace", "autograd"):
        torch.manual_seed(0)
        group = AgentGroup(spec.observation_space, spec.action_space)
        policy: Any = make_policy("", config, group, torch.device("cpu"))
        if way != "headrace":
            policy._fused = None
        chance = torch.Generator().manual_seed(0)
        rows = config.num_envs * config.num_steps
        numbers = torch.randn(4, rows, generator=chance)
        actions = torch.randint(2, (rows,), generator=chance)
        samples = Samples(torch.randn(rows, 4, generator=chance), actions, numbers[0] - 1, *numbers[1:])
        orders = [draw_order(samples, config.minibatch_size, chance) for _ in range(config.epochs)]
        rates = Rates.of(config, 0)
        updates[way] = lambda policy=policy, s=samples, r=rates, o=orders: policy.update(s, r, o)
    return updates


def timed(update: Callable[[], Any], precision: str) -> Contender:
    """A contender: updates a second of the processor's time, which other programs on the machine disturb less."""
    updates = repeating(update, clock=time.process_time)

    def run(seconds: float) -> float:
        torch.set_float32_matmul_precision(precision)
        return updates(seconds)

    return run


def comparisons(args: FusedArgs) -> Iterator[Comparison]:
    """Each algorithm with each precision."""
    cases = {
        "SAC, batch 256, 256 x 256": off_policy("sac", (256, 256), 256),
        "TD3, batch 256, 256 x 256": off_policy("td3", (256, 256), 256),
        "DQN, batch 128, 128 x 128": off_policy("dqn", (128, 128), 128),
        "PPO, CartPole-v1, N=64": ppo(),
    }
    for precision in args.precisions:
        for name, updates in cases.items():
            ways = {way: timed(update, precision) for way, update in updates.items()}
            yield Comparison(f"{name}, {precision}", ways.pop(OURS), ways, unit="updates/s")


if __name__ == "__main__":
    chosen = tyro.cli(FusedArgs)
    keep_freed_memory()
    torch.set_num_threads(1)
    measure("fused_updates", "Updates by hand and by autograd", comparisons(chosen), chosen, torch_threads=1)

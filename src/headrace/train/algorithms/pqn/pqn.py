"""Parallelised Q-learning: action values from rollouts of many environments, with neither a replay nor target networks.

Sources: Gallici et al. 2024 (arXiv:2407.04811); Peng and Williams 1996 (doi:10.1007/BF00114731) for Q(λ) as it is used
there, whose traces are not cut where an action was random; Liu et al. 2020 (arXiv:1908.03265) for RAdam.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.compiled_updates import CompiledRolloutQ
from headrace.train.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.optimiser import FlatRAdam
from headrace.train.algorithms.pqn import settings
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.compiled import has_form, why_torch_here
from headrace.train.modules.compiled_networks import CompiledValues
from headrace.train.modules.normed import make_normed_q_network
from headrace.train.storage.samples import Samples


class PQN(EpsilonGreedyPolicy, OnPolicy):
    """A policy that descends ``mean((Q(s, a) - R)²)/2`` with ``R = r + γ·((1 - λ)·max Q(s', ·) + λ·R')``.

    Here R' is the R of the next step; at the end of an episode R is r. Advantages are estimated with the values of the
    best actions, and R is the sum of an advantage and its value.

    Raises:
        OptionError: actions are not `Discrete`, or no network fits the observations.
    """

    settings = settings.PQN
    compiled_form = CompiledRolloutQ
    statistics = ("critic_loss", "q_mean", "gradient_norm")

    @property
    def normalises_advantages(self) -> bool:
        return False

    @property
    def trace_decay(self) -> float:
        """As `Policy.trace_decay`; an advantage plus the value of the best action is the target of Q(λ)."""
        return self.config.q_lambda

    def _build(self) -> None:
        config = self.config
        self.distribution = self.make_distribution("ppo is for all kinds")
        how = config.pick("network", "hidden", "activation", "trunk", "bf16")
        network = make_normed_q_network(self.agent_group.observation, self.distribution.size, **how)
        self.network = network.to(self.device)
        self.optimiser = FlatRAdam(self.network, epsilon=config.adam_epsilon)
        self.actor_parameters = self.optimiser.parameters
        if self.device.type == "cpu" and why_torch_here() is None and has_form(self.network.q):
            self.network.compiled = CompiledValues(self.network.q, (self.actor_parameters, self.optimiser.steps))
        self.explore(0)

    def explore(self, step: int) -> None:
        """Sets the share of random actions to its value at agent step `step`, or for a frozen policy at the end."""
        self.distribution.epsilon.fill_(self.config.epsilon_end if self.config.frozen else self.random_share(step))

    def learn(self, samples: Samples, step: int, generator: torch.Generator) -> None:
        super().learn(samples, step, generator)
        self.explore(step)

    def loss(self, batch: Samples, rates: Rates) -> tuple[Tensor, Tensor]:
        values, _ = self.forward(batch.inputs)
        chosen = values.gather(1, batch.actions.view(-1, 1)).squeeze(1)
        loss = batch.mean((chosen - batch.returns).square()) / 2
        return loss, torch.stack((loss, values.mean()))

    def update_at_once(self, samples: Samples, rates: Rates, order: Tensor | None) -> Tensor:
        assert order is not None, "there is a setting minibatch_size"
        return self.compiled.epoch(samples, rates, order)

"""XQC: CrossQ with critics that return distributions, and with weights of fixed length.

Before a batch normalisation, the length of a unit's weights does not change its output, but longer weights learn more
slowly. Normalisations therefore come before activations, hidden layers have no biases, and weights are normalised to
length 1 after each update. A cross-entropy between distributions has gradients of bounded size, whatever the rewards
are.

Sources: Palenicek et al. 2025 (arXiv:2509.25174) for the combination; Bellemare et al. 2017 (arXiv:1707.06887) for
distributions of values; Bhatt et al. 2024 (arXiv:1902.05605) for the rest. Rewards are divided as FlashSAC's
(`ReturnScaler`); the authors divide by the standard deviation of returns alone, so that values may exceed their range.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.crossq import CrossQ
from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.config.algorithms.xqc import XQCConfig, XQCDeclaration
from headrace.train.modules.batch_renorm import NormalisedPerceptron, Renorm
from headrace.train.modules.categorical_critics import CategoricalCritics, normalise_weights
from headrace.train.modules.normalisation import ReturnScaler
from headrace.train.storage.transitions import Transitions


class XQC(XQCDeclaration, CrossQ):
    """A stochastic policy π, critics that return distributions of Q, and the temperature α; there are no targets."""

    config: XQCConfig  # pyright: ignore[reportIncompatibleVariableOverride]  # a subclass's settings; the attribute is never assigned
    normalises_first = True

    def _make_reward_scaler(self, columns: int) -> ReturnScaler:
        return ReturnScaler(columns, self.config.gamma, self.config.value_bound, self.device)

    def _make(self) -> tuple[Any, nn.Module]:
        distribution, network = super()._make()
        normalise_weights(network)
        return distribution, network

    def _make_critics(self, columns: int, hidden: tuple[int, ...], activation: str, how: Renorm) -> nn.Module:
        atoms = self.config.atoms
        shape = columns, atoms, hidden, activation, how, self.normalises_first
        critics = [NormalisedPerceptron(*shape) for _ in range(2)]
        return CategoricalCritics(critics, atoms, self.config.value_bound)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``-Σ mean(Σ_z m(z) log p(z|s, a))`` over the critics.

        Here m is the projected distribution of ``r + discount · (z - α log π)``, where z is distributed as for the
        critic with the lower mean for (s', a'). (s, a) and (s', a') are in one batch; there is no gradient through the
        latter.
        """
        critic: CategoricalCritics = self.network.critic  # type: ignore[assignment]
        with torch.no_grad():
            next_actions, next_log_prob = self._sample(self.network.actor(batch.next_observations))
            alpha = self.network.temperature.log.exp()
        rows = len(batch.rewards)
        both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
        logits, next_q = critic.of_batch(*both).split(rows, 1)
        with torch.no_grad():
            shift = batch.rewards - batch.discounts * alpha * next_log_prob
            target = critic.projected(critic.lower(next_q), shift, batch.discounts)
            values = self.in_rewards(critic.expected(logits).mean())
        loss = -batch.mean((target * logits.log_softmax(2)).sum(2)).sum()
        return Losses({"critic": loss}, (loss, values))

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Updates the critics, as `OffPolicy.improve_critics`, and normalises their weights to length 1 afterwards."""
        measured = super().improve_critics(batch, rates)
        normalise_weights(self.network.critic)
        return measured

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Updates the actor, as `OffPolicy.improve_actor`, and normalises its weights to length 1 afterwards."""
        measured = super().improve_actor(batch, rates)
        normalise_weights(self.network.actor)
        return measured

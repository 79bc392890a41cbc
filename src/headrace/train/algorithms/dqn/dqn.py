"""Deep Q-learning: action values are learnt from a replay; actions are ε-greedy.

Sources: Mnih et al. 2015 (doi:10.1038/nature14236); van Hasselt et al. 2016 for double (arXiv:1509.06461), Wang et
al. 2016 for dueling (arXiv:1511.06581), Sutton 1988 for n-step targets, Schaul et al. 2016 for priorities
(arXiv:1511.05952), Hessel et al. 2018 for all of them together (arXiv:1710.02298), whose noisy layers and value
distributions are not here. Optimised by Adam, with clipped gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.algorithms.compiled_updates import CompiledQ
from headrace.train.algorithms.dqn import settings
from headrace.train.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from headrace.train.algorithms.off_policy import Losses, OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.action_masks import forbidden, masked
from headrace.train.modules.compiled import has_form, why_torch_here
from headrace.train.modules.compiled_networks import CompiledValues
from headrace.train.modules.q_network import QNetwork, make_q_network
from headrace.train.storage.transitions import Transitions


class DQN(EpsilonGreedyPolicy, OffPolicy):
    """Action values Q, and their targets Q'.

    Attributes:
        network: a `QNetwork`.
        errors: absolute errors of the last batch's action values, float32[B], for priorities.

    Raises:
        OptionError: actions are not `Discrete`, or no network fits the observations.
    """

    settings = settings.DQN
    compiled_form = CompiledQ
    critic_statistics = ("critic_loss", "q_mean", "gradient_norm")
    statistics = critic_statistics
    clips_gradients = True
    actor_part = "q"
    target_parts = ("q",)

    network: QNetwork

    def _build(self) -> None:
        self.actor_every = max(1, self.config.target_update)  # without an actor, it is the period of the targets alone
        super()._build()
        if self.device.type == "cpu" and why_torch_here() is None and has_form(self.network.q):
            steps = [optimiser.steps for optimiser in self.adam.values()]
            self.network.compiled = CompiledValues(self.network.q, (self.actor_parameters, *steps))
        self.errors = torch.zeros(self.config.minibatch_size, device=self.device)

    def make(self) -> tuple[Any, nn.Module]:
        distribution = self.make_distribution("for continuous ones there are sac, td3 and ddpg")
        how = self.config.pick("network", "hidden", "activation", "trunk", "bf16", "dueling")
        return distribution, make_q_network(self.agent_group.observation, distribution.size, **how)

    def explore(self, step: int, uniform: bool) -> None:
        """As `OffPolicy.explore`; unless they are uniform, the share of random actions is that of step ``step``."""
        self.distribution.epsilon.fill_(1.0 if uniform else self.random_share(step))

    def cnns(self) -> list[Any]:
        return [q.trunk for q in (self.network.q, self.targets.q)]

    # -- updates ---------------------------------------------------------------------------------

    def update_at_once(self, batch: Transitions, rates: UpdateRates, *, critics: bool, actor: bool) -> Tensor:
        return self.compiled.update(batch, rates, self._errors_of(len(batch.rewards)))

    def critic_losses(self, batch: Transitions) -> Losses:
        """``mean(weight · loss(Q(s, a) - y))`` with ``y = r + discount · Q'(s', a')``.

        Here a' is the best action that is allowed in s', by Q (``double``) or by Q'. The loss of an error e is e², or
        Huber's: e²/2 up to 1, and ``|e| - 1/2`` beyond.
        """
        with torch.no_grad():
            target = self.target_of(batch)
        values = self.network.q(batch.inputs)
        actions = batch.actions.view(-1, 1).to(torch.int64)
        error = values.gather(1, actions).squeeze(1) - target
        torch.abs(error.detach(), out=self._errors_of(len(error)))
        huber = self.config.loss == "huber"
        each = F.huber_loss(error, torch.zeros_like(error), reduction="none") if huber else error.square()
        loss = batch.mean(each)
        return Losses({"q": loss}, (loss, values.mean()))

    def target_of(self, batch: Transitions) -> Tensor:
        """Returns the targets for the values of a batch's actions, float32[B]."""
        next_q = self.targets.q(batch.next_observations)
        judged = self.network.q(batch.next_observations) if self.config.double else next_q
        if batch.masks is not None:
            judged = masked(judged, forbidden(batch.masks, self.heads))
        next_q = next_q.gather(1, torch.max(judged, 1, keepdim=True)[1]).squeeze(1)
        return torch.addcmul(batch.rewards, batch.discounts, next_q)

    def _errors_of(self, rows: int) -> Tensor:
        """Returns `errors`, float32[rows], whose memory is reused for batches of one size."""
        if len(self.errors) != rows:
            with torch.inference_mode(False):  # so that it can be written everywhere
                self.errors = torch.zeros(rows, device=self.device)
        return self.errors

    @torch.inference_mode()
    def move_targets(self) -> None:
        """Copies Q into its targets; or, where ``target_update`` is 0, moves them a step towards it."""
        if self.config.target_update:
            self._targets["q"].copy_(self.parts["q"])
        else:
            super().move_targets()

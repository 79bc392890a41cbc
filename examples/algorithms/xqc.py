"""XQC: CrossQ with critics that return distributions, and with weights of fixed length.

    headrace train Pendulum-v1 --algo examples/algorithms/xqc.py:XQC --preset fast
    headrace train Pendulum-v1 --algo examples/algorithms/xqc.py:XQC --help

Before a batch normalisation, the length of a unit's weights does not change its output, but longer weights learn more
slowly. Normalisations therefore come before activations, hidden layers have no biases, and weights are normalised to
length 1 after each update. A cross-entropy between distributions has gradients of bounded size, whatever the rewards
are:

    z       = values from -value_bound to value_bound
    p, p'   = chances of z, of [s, s'] and [a, a'] in one batch; p' of the critic with the lower mean
    r'      = r / max(σ(G), max |G| / value_bound)              of running discounted returns G
    m       = projection of r' + γ · d · (z - α · log π(a'|s')) with chances p' onto z
    critics : -Σ mean(Σ m · log p)
    actor, temperature: as of CrossQ, with Q = Σ p · z

Sources: Palenicek et al. 2025 (arXiv:2509.25174) for the combination; Bellemare et al. 2017 (arXiv:1707.06887) for
distributions of values; Bhatt et al. 2024 (arXiv:1902.05605) for the rest; Kim et al. 2026 (arXiv:2604.04539) for the
scale of rewards. XQC's authors divide by σ(G) alone, with which values may exceed the range of z.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from headrace.train.settings.algorithms import CrossQConfig
from torch import Tensor, nn

from headrace.train.algorithms.crossq.crossq import CrossQ
from headrace.train.algorithms.crossq.presets import CROSSQ
from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SoftActorCritic
from headrace.train.modules.batch_renorm import NormalisedPerceptron, Renorm
from headrace.train.modules.network import input_size
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.settings.algorithm import DEFAULT_PRESET
from headrace.train.settings.fields import setting
from headrace.train.storage.transitions import Transitions

LEAST, SMALLEST = 1e-6, 1e-4  # lengths of weights, and returns, that are divided by
PRESETS = {preset: CROSSQ[preset] for preset in (DEFAULT_PRESET, "fast")}


@dataclass(frozen=True)
class XQCConfig(CrossQConfig):
    """The settings of CrossQ, and those of distributions."""

    network_kinds = ("mlp",)
    presets = PRESETS

    initial_temperature: float = setting(
        0.01,
        "Weight of the entropy at the start, relative to scaled rewards; then it is learnt with learning_rate.",
        above=0,
    )
    atoms: int = setting(101, "Number of values in a critic's distribution.", low=2, speed=True)
    value_bound: float = setting(
        5.0, "Largest of these values; rewards are scaled so that discounted returns are within it.", above=0
    )


class XQC(CrossQ):
    """A stochastic policy π, critics that return distributions of Q, and the temperature α; there are no targets."""

    settings = XQCConfig
    config: XQCConfig  # pyright: ignore[reportIncompatibleVariableOverride]  # the attribute is never assigned

    def _make_reward_scaler(self, columns: int) -> RewardScaler:
        return ReturnScaler(columns, self.config.gamma, self.config.value_bound, self.device)

    def make(self) -> tuple[Any, nn.Module]:
        config, inputs = self.config, input_size(self.agent_group.observation)
        self.actor_every, self.betas = config.policy_delay, (config.adam_beta, 0.999)
        distribution = self.make_distribution()
        actions = distribution.noise_size
        how = config.activation, Renorm(config.batch_momentum, config.renorm_after)
        actor = Perceptron(inputs, 2 * actions, config.hidden, *how)
        shape = inputs + actions, config.atoms, config.critic_hidden or config.hidden, *how
        critic = CategoricalCritics([Perceptron(*shape) for _ in range(2)], config.atoms, config.value_bound)
        network = SoftActorCritic(actor, critic, config.initial_temperature)
        normalise_weights(network)
        return distribution, network

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``-Σ mean(Σ_z m(z) log p(z|s, a))`` over the critics; there is no gradient through p' and m."""
        critic: CategoricalCritics = self.network.critic  # type: ignore[assignment]
        with torch.no_grad():
            next_actions, next_log_prob = self.sample(self.network.actor(batch.next_observations))
            alpha = self.network.temperature.log.exp()
        rows = len(batch.rewards)
        both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
        logits, next_logits = critic.of_batch(*both).split(rows, 1)
        with torch.no_grad():
            shift = batch.rewards - batch.discounts * alpha * next_log_prob
            target = critic.projected(critic.lower(next_logits), shift, batch.discounts)
            values = self.in_rewards(critic.expected(logits).mean())
        loss = -batch.mean((target * logits.log_softmax(2)).sum(2)).sum()
        return Losses({"critic": loss}, (loss, values))

    def gradient_step(self, batch: Transitions, rates: UpdateRates, *, critics: bool) -> Tensor:
        """Makes a step as `OffPolicy.gradient_step`, and normalises the weights to length 1 that it changed."""
        measured = super().gradient_step(batch, rates, critics=critics)
        normalise_weights(self.network.critic if critics else self.network.actor)
        return measured


class Perceptron(NormalisedPerceptron):
    """A perceptron whose hidden layers have no biases, and are normalised before their activations."""

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, how: Renorm):
        super().__init__(inputs, outputs, hidden, activation, how)
        for layer in list(self.layers)[:-1]:
            layer.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by running statistics."""
        x = self.layers[0](self.norms[0](x))
        for norm, layer in zip(list(self.norms)[1:], list(self.layers)[1:], strict=True):
            x = layer(self._activation(norm(x)))
        return x

    def of_batch(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by this batch's statistics, which update the running ones."""
        x = self.layers[0](self.norms[0].of_batch(x))  # type: ignore[operator]
        for norm, layer in zip(list(self.norms)[1:], list(self.layers)[1:], strict=True):
            x = layer(self._activation(norm.of_batch(x)))  # type: ignore[operator]
        return x


@torch.no_grad()
def normalise_weights(module: nn.Module) -> None:
    """Scales the weights of each hidden unit of a module's `Perceptron`\\ s to length 1, in place."""
    for each in module.modules():
        if isinstance(each, Perceptron):
            for layer in list(each.layers)[:-1]:
                weight: Tensor = layer.weight  # type: ignore[assignment]
                weight.div_(weight.norm(dim=1, keepdim=True).clamp(min=LEAST))


class CategoricalCritics(nn.Module):
    """Critics of inputs and actions, each of which returns logits of ``atoms`` values from -``bound`` to ``bound``.

    Args:
        critics: networks [B, D + A] → [B, atoms] with ``of_batch``.
    """

    def __init__(self, critics: Iterable[nn.Module], atoms: int = 101, bound: float = 5.0):
        super().__init__()
        self.critics = nn.ModuleList(critics)
        self.register_buffer("values", torch.linspace(-bound, bound, atoms), persistent=False)
        self.values: Tensor

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B], by running statistics."""
        x = torch.cat((inputs, actions), 1)
        return self.expected(torch.stack([critic(x) for critic in self.critics]))

    def of_batch(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to logits [2, B, atoms], by the statistics of this batch."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic.of_batch(x) for critic in self.critics])  # type: ignore[operator]

    def expected(self, logits: Tensor) -> Tensor:
        """Returns the means of distributions, [..., atoms] to [...]."""
        return logits.softmax(-1) @ self.values

    def lower(self, logits: Tensor) -> Tensor:
        """Returns the probabilities [B, atoms] of the critic with the lower mean, from logits [K, B, atoms]."""
        number = self.expected(logits).argmin(0)
        return logits[number, torch.arange(logits.shape[1], device=logits.device)].softmax(1)

    def projected(self, chances: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        """Returns the distribution of ``shift + factor · value``, projected onto the atoms.

        Args:
            chances: probability of each value, float32[B, atoms].
            shift, factor: float32[B]. Values beyond the bound are clipped to it.

        Returns:
            Probabilities, float32[B, atoms]; each is divided between the two nearest atoms.
        """
        low, step = self.values[0], self.values[1] - self.values[0]
        moved = shift.unsqueeze(1) + factor.unsqueeze(1) * self.values
        places = ((moved - low) / step).clamp(0, len(self.values) - 1)
        below = places.floor()
        upper = places - below
        index = below.long()
        found = torch.zeros_like(chances).scatter_add_(1, index, chances * (1 - upper))
        return found.scatter_add_(1, (index + 1).clamp(max=len(self.values) - 1), chances * upper)


class ReturnScaler(RewardScaler):
    """Divides rewards by the larger of σ(G) and max |G| / ``bound``, of running discounted returns G; no clipping.

    Scaled returns are then within ± ``bound``, as critics with a fixed range need it.

    Attributes:
        largest: max |G| so far, float32[].
    """

    def __init__(self, num_envs: int, gamma: float, bound: float, device: torch.device | str = "cpu"):
        super().__init__(num_envs, gamma, device)
        self.bound, self.largest = bound, torch.zeros((), device=device)

    def _merge(self, returns: Tensor, present: Tensor | None) -> None:
        super()._merge(returns, present)
        sizes = returns.abs() if present is None else returns.abs() * present
        most, gather = sizes.amax(), self.statistics.gather
        torch.maximum(self.largest, most if gather is None else gather(most.view(1)).amax(), out=self.largest)

    def scaled(self, rewards: Tensor, steps: int = 1) -> Tensor:
        return rewards * self._scale

    @property
    def _scale(self) -> Tensor:
        return torch.minimum(super()._scale, self.bound / self.largest.clamp(min=SMALLEST))

    def known(self) -> dict[str, Tensor]:
        return super().known() | {"largest": self.largest}


if __name__ == "__main__":
    print(__doc__)

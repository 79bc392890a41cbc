"""Critics that return distributions over values, for rewards of any size.

A critic returns a distribution over ``atoms`` values, evenly spaced from -``bound`` to ``bound``, in units of the
expected size of returns. That size is estimated from the rewards in batches: the discounted sum of independent rewards
with mean μ and variance σ² has the mean μ / (1 - γ) and the variance σ² / (1 - γ²).

Source: Bellemare et al. 2017 (arXiv:1707.06887) for distributions over fixed values, and their projection.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headrace.train.modules.batch_renorm import NormalisedPerceptron

MOST_DISCOUNT = 0.9999
LEAST_SIZE = 1e-6
MEMORY = 0.999  # weight of the previous estimates at each batch


class CategoricalCritics(nn.Module):
    """Critics of inputs and actions, each of which returns logits of ``atoms`` values.

    Args:
        critics: networks [B, D + A] → [B, atoms] with ``of_batch``, such as `NormalisedPerceptron`.
        atoms: number of values, at least 2.
        bound: the largest value, in units of `size`.

    Attributes:
        size: the estimated size of returns, by which they are divided, float32[].
        moments: decayed sums of batches' mean rewards, of their mean squared rewards, and of the weights, float32[3].
    """

    def __init__(self, critics: Iterable[nn.Module], atoms: int = 101, bound: float = 5.0):
        super().__init__()
        self.critics = nn.ModuleList(critics)
        self.size = nn.Parameter(torch.ones(()), requires_grad=False)
        self.moments = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.register_buffer("values", torch.linspace(-bound, bound, atoms), persistent=False)
        self.values: Tensor

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B] in units of rewards, by running statistics."""
        x = torch.cat((inputs, actions), 1)
        return self.expected(torch.stack([critic(x) for critic in self.critics])) * self.size

    def of_batch(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to logits [2, B, atoms], by the statistics of this batch."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic.of_batch(x) for critic in self.critics])  # type: ignore[operator]

    def expected(self, logits: Tensor) -> Tensor:
        """Returns the means of distributions, [..., atoms] to [...], in units of `size`."""
        return logits.softmax(-1) @ self.values

    def lower(self, logits: Tensor) -> Tensor:
        """Returns the probabilities [B, atoms] of the critic with the lower mean, from logits [K, B, atoms]."""
        number = self.expected(logits).argmin(0)
        return logits[number, torch.arange(logits.shape[1], device=logits.device)].softmax(1)

    def projected(self, chances: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        """Returns the distribution of ``shift + factor · value``, projected onto the atoms.

        Args:
            chances: probability of each value, float32[B, atoms].
            shift, factor: float32[B], in units of `size`. Values beyond the bound are clipped to it.

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

    @torch.no_grad()
    def observe(self, rewards: Tensor, discounts: Tensor) -> None:
        """Updates `size` with the rewards of a batch, float32[B], and their discounts, float32[B]."""
        new = torch.stack((rewards.mean(), rewards.square().mean(), torch.ones_like(self.size)))
        self.moments.lerp_(new, 1 - MEMORY)
        mean, square, weight = self.moments.unbind()
        mean, square = mean / weight, square / weight
        gamma = discounts.amax().clamp(0, MOST_DISCOUNT)
        variance = (square - mean.square()).clamp(min=0) / (1 - gamma.square())
        self.size.copy_((mean / (1 - gamma)).square().add(variance).sqrt().clamp(min=LEAST_SIZE))

    def running(self) -> Iterable[Tensor]:
        """Returns the statistics that batches update, which processes that train together share."""
        return self.size.data.view(1), self.moments.data


@torch.no_grad()
def normalise_weights(module: nn.Module) -> None:
    """Scales the weights of each hidden unit of a module's `NormalisedPerceptron`\\ s to length 1, in place."""
    for each in module.modules():
        if isinstance(each, NormalisedPerceptron):
            for layer in list(each.layers)[:-1]:
                weight: Tensor = layer.weight  # type: ignore[assignment]
                weight.div_(weight.norm(dim=1, keepdim=True).clamp(min=LEAST_SIZE))

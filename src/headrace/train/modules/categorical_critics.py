"""Critics that return distributions over values, in units in which returns are within a bound.

A critic returns a distribution over ``atoms`` values, evenly spaced from -``bound`` to ``bound``. Rewards are scaled to
that range by `headrace.train.modules.normalisation.ReturnScaler`.

Source: Bellemare et al. 2017 (arXiv:1707.06887) for distributions over fixed values, and their projection.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headrace.train.modules.batch_renorm import NormalisedPerceptron

LEAST = 1e-6


class CategoricalCritics(nn.Module):
    """Critics of inputs and actions, each of which returns logits of ``atoms`` values.

    Args:
        critics: networks [B, D + A] → [B, atoms] with ``of_batch``, such as `NormalisedPerceptron`.
        atoms: number of values, at least 2.
        bound: the largest value.
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


@torch.no_grad()
def normalise_weights(module: nn.Module) -> None:
    """Scales the weights of each hidden unit of a module's `NormalisedPerceptron`\\ s to length 1, in place."""
    for each in module.modules():
        if isinstance(each, NormalisedPerceptron):
            for layer in list(each.layers)[:-1]:
                weight: Tensor = layer.weight  # type: ignore[assignment]
                weight.div_(weight.norm(dim=1, keepdim=True).clamp(min=LEAST))

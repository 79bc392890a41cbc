"""Networks that return action values."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.modules.cnn import trunk_for
from headrace.train.modules.layers import initialised, is_exporting, orthogonal
from headrace.train.modules.network import OwnNetwork, check_cnn, input_size, uses_images
from headrace.train.modules.perceptron import Layers


class QNetwork(nn.Module):
    """The base of networks that return action values as action parameters."""

    def __init__(self, q: nn.Module):
        super().__init__()
        self.q = q
        self.compiled: Any = None
        """a `CompiledValues` of this network, which then answers where no gradient is recorded"""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps inputs [B, …] to action values float32[B, A], and zeros [B] as values, as collection needs none."""
        q = self.values(x)
        return q, q.new_zeros(q.shape[0])

    def values(self, x: Tensor) -> Tensor:
        """Returns the action values of inputs [B, …], float32[B, A]."""
        if self.compiled is None or torch.is_grad_enabled() or is_exporting():
            return self.q(x)
        return self.compiled.values(x)


class Head(nn.Module):
    """A layer of action values from features float32[B, H]; a dueling one from features float32[B, 2·H].

    In a dueling layer (Wang et al. 2016, arXiv:1511.06581) half of the features determine a state's value V, the other
    half the advantages A of its actions, and ``Q = V + A - mean(A)``.
    """

    def __init__(self, features: int, actions: int, dueling: bool):
        super().__init__()
        self.dueling, self.width = dueling, features // 2 if dueling else features
        self.advantage = initialised(nn.Linear(self.width, actions), 0.01)
        if dueling:
            self.value = initialised(nn.Linear(self.width, 1), 1.0)

    def forward(self, h: Tensor) -> Tensor:
        """Maps features [B, H] or [B, 2·H] to action values [B, A]."""
        advantage = self.advantage(h[:, : self.width])
        if not self.dueling:
            return advantage
        return advantage + (self.value(h[:, self.width :]) - advantage.mean(1, keepdim=True))


class PerceptronQ(Layers):
    """A perceptron with a `Head`; with a dueling one, the last hidden layer has two copies, one for each stream."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...], activation: str, dueling: bool):
        widths = (inputs, *hidden[:-1], hidden[-1] * (2 if dueling else 1))
        weights = [orthogonal(b, a) for a, b in itertools.pairwise(widths)]
        super().__init__(weights, [torch.zeros(width) for width in widths[1:]], activation, activation)
        self.head = Head(widths[-1], actions, dueling)

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs float32[B, D] to action values float32[B, A]."""
        return self.head(super().forward(x))


class ImageQ(nn.Module):
    """A trunk of convolutions with a `Head`; with a dueling one, the trunk's last layer is twice as wide."""

    def __init__(self, space: gym.Space, actions: int, trunk: str, bf16: bool, dueling: bool):
        super().__init__()
        self.trunk: Any = trunk_for(space, trunk, bf16, 2 if dueling else 1)
        self.head = Head(self.trunk.features, actions, dueling)

    def forward(self, x: Tensor) -> Tensor:
        """Maps images uint8[B, C, H, W] to action values float32[B, A]."""
        return self.head(self.trunk(x))


class OwnQ(nn.Module):
    """A user's network, whose action parameters are the action values; its values are ignored."""

    def __init__(self, name: str, space: gym.Space, actions: int):
        super().__init__()
        self.own = OwnNetwork(name, space, actions, None)
        if self.own.memory_size:
            raise OptionError(
                f"{name} is recurrent, but action values are learnt from single steps: use a network without a memory"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, …] to action values float32[B, A]."""
        return self.own(x)[0]


def make_q_network(
    space: gym.Space,
    actions: int,
    *,
    network: str,
    hidden: tuple[int, ...],
    activation: str,
    trunk: str,
    bf16: bool,
    dueling: bool,
) -> QNetwork:
    """Returns the network for an observation space, on the CPU, initialised from torch's global generator.

    The arguments after the number of actions mean the same as the settings of these names.

    Raises:
        OptionError: no network fits the space, or a user's network does not have the required interface.
    """
    q: Any
    check_cnn(network, space)
    if ":" in network:
        if dueling:
            raise OptionError(
                f"dueling=True works with Headrace's own networks only: build it into network={network!r} yourself"
            )
        q = OwnQ(network, space, actions)
    elif uses_images(network, space):
        q = ImageQ(space, actions, trunk, bf16, dueling)
    else:
        q = PerceptronQ(input_size(space), actions, hidden, activation, dueling)
    return QNetwork(q)

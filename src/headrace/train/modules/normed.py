"""Networks of action values with layer normalisation after each hidden layer, which need no target networks.

Sources: Ba et al. 2016 (arXiv:1607.06450); Gallici et al. 2024 (arXiv:2407.04811) for the stability of temporal
differences with it.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from functools import partial
from typing import Any

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.pool.flat_observation import Joined
from headrace.train.modules.cnn import JoinedTrunk, cpu_has_bf16, pictures_in, trunk_for
from headrace.train.modules.layers import initialised, is_exporting
from headrace.train.modules.network import input_size, uses_images
from headrace.train.modules.q_network import OwnQ, QNetwork


class GreedyQNetwork(QNetwork):
    """A network that returns action values as action parameters, and the value of the best action as the value."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps inputs [B, …] to action values float32[B, A], and the greatest of each row, float32[B]."""
        q = self.values(x)
        return q, q.amax(1)


class NormedPerceptron(nn.Sequential):
    """Linear layers, each followed by a normalisation and a nonlinearity, and a linear layer of action values."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...], activation: str):
        layers: list[nn.Module] = []
        for below, above in itertools.pairwise((inputs, *hidden)):
            nonlinear = nn.ReLU() if activation == "relu" else nn.Tanh()
            layers += [initialised(nn.Linear(below, above)), nn.LayerNorm(above), nonlinear]
        super().__init__(*layers, initialised(nn.Linear(hidden[-1], actions), 0.01))
        self.relu = activation == "relu"


class NormedTrunk(nn.Module):
    """Convolutions and a dense layer, each followed by a normalisation and a ReLU.

    The layers are those of `trunk_for`. Features of an image are normalised together, with a scale and a shift for each
    channel.

    Attributes:
        shape, factor, convolutions, dense, dtype, features, compiled: as those of a `PlainTrunk`.
    """

    def __init__(self, space: gym.spaces.Box, trunk: str, bf16: bool):
        super().__init__()
        self.shape: tuple[int, ...] = space.shape
        self.factor = 1 / float(space.high.max())
        self.compiled: Any = None
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        plain: Any = trunk_for(space, trunk, bf16=False)
        convolutions, dense = [part for part in plain.modules() if isinstance(part, nn.Conv2d)], plain.dense
        layers: list[nn.Module] = []
        for layer in convolutions:
            layers += [layer, nn.GroupNorm(1, layer.out_channels), nn.ReLU()]
        layers += [nn.Flatten(), dense, nn.LayerNorm(dense.out_features), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.features = dense.out_features

    def forward(self, x: Tensor) -> Tensor:
        """Maps images uint8[B, C, H, W] to features float32[B, features], none of them negative."""
        if self.compiled is not None and not is_exporting():
            return F.relu(self.norms[-1](self.compiled(x)))
        x = x.to(torch.float32, memory_format=torch.channels_last) * self.factor
        rounds = self.dtype == torch.bfloat16 and not is_exporting() and (x.is_cuda or cpu_has_bf16())
        with torch.autocast(x.device.type, torch.bfloat16) if rounds else nullcontext():
            x = self.body(x)
        return x.float()

    @property
    def convolutions(self) -> list[Any]:
        return [layer for layer in self.body if isinstance(layer, nn.Conv2d)]

    @property
    def dense(self) -> Any:
        return self.body[-3]

    @property
    def norms(self) -> list[Any]:
        """The normalisations after the convolutions, and after the dense layer."""
        return [layer for layer in self.body if isinstance(layer, nn.GroupNorm | nn.LayerNorm)]


class NormedConvolutions(NormedTrunk):
    """A trunk of normalised layers, and a layer of action values."""

    def __init__(self, space: gym.spaces.Box, actions: int, trunk: str, bf16: bool):
        super().__init__(space, trunk, bf16)
        self.head = initialised(nn.Linear(self.features, actions), 0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Maps images uint8[B, C, H, W] to action values float32[B, A]."""
        return self.head(super().forward(x))


def make_normed_q_network(
    space: gym.Space,
    actions: int,
    *,
    network: str,
    hidden: tuple[int, ...],
    activation: str,
    trunk: str,
    bf16: bool,
) -> GreedyQNetwork:
    """Returns the network for an observation space, on the CPU, initialised from torch's global generator.

    The arguments after the number of actions mean the same as the settings of these names.

    Raises:
        OptionError: no network fits the space, or a user's network does not have the required interface.
    """
    if ":" in network:
        return GreedyQNetwork(OwnQ(network, space, actions))
    if uses_images(network, space):
        assert isinstance(space, gym.spaces.Box)
        if isinstance(space, Joined) and pictures_in(space):
            joined = JoinedTrunk(space, partial(NormedTrunk, trunk=trunk, bf16=bf16), normed=True)
            return GreedyQNetwork(nn.Sequential(joined, initialised(nn.Linear(joined.features, actions), 0.01)))
        return GreedyQNetwork(NormedConvolutions(space, actions, trunk, bf16))
    return GreedyQNetwork(NormedPerceptron(input_size(space), actions, hidden, activation))

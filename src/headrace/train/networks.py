"""Actor-critic networks: what maps observations to action parameters and a value.

The small networks of classic control and locomotion spend their time in dispatching tiny
operations, not in arithmetic. So `MLP` computes actor and critic side by side as one batched
product, and carries its own backward pass, which writes into the gradient buffer directly.
Everything else (`NatureCNN`, `SmallCNN`, or a user's module) is differentiated by autograd.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.config import Config
from headrace.train.distributions import DiagonalGaussian, Distribution

SMALL_SIDE = 8  # shorter images have nothing for a filter to find
NATURE_SIDE = 36  # the least that three layers of the Nature-CNN leave anything of


class MLP(nn.Module):
    """Separate actor and critic perceptrons of equal shape, evaluated together.

    Parameters hold both towers: the first layer maps [B, D] to [B, 2·H], all later ones are batched
    [2, H, H'], tower 0 the actor and tower 1 the critic. Orthogonal initialisation with gain √2,
    0.01 for the policy head and 1 for the value head (Andrychowicz et al. 2021, Huang et al. 2022).
    """

    def __init__(
        self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, log_std: nn.Parameter | None
    ):
        super().__init__()
        self.relu = activation == "relu"
        width = hidden[0]
        self.first_weight = nn.Parameter(torch.cat([_orthogonal(width, inputs) for _ in range(2)]))  # [2H, D]
        self.first_bias = nn.Parameter(torch.zeros(2 * width))
        pairs = list(itertools.pairwise(hidden))
        stack = [torch.stack([_orthogonal(b, a).t() for _ in range(2)]) for a, b in pairs]  # each [2, H, H']
        self.weights = nn.ParameterList([nn.Parameter(w.contiguous()) for w in stack])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(2, 1, b)) for _, b in pairs])
        self.policy_weight = nn.Parameter(_orthogonal(outputs, hidden[-1], 0.01))
        self.policy_bias = nn.Parameter(torch.zeros(outputs))
        self.value_weight = nn.Parameter(_orthogonal(1, hidden[-1], 1.0))
        self.value_bias = nn.Parameter(torch.zeros(1))
        self.log_std = log_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Observations float32[B, D] to action parameters [B, size] and values [B]."""
        return self.forward_saving(x)[:2]

    def forward_saving(self, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """As `forward`, and the activations [x, h1, h2, …] for `backward_into_gradients`."""
        act = F.relu if self.relu else torch.tanh
        h = act(F.linear(x, self.first_weight, self.first_bias))  # [B, 2H]
        h = h.view(len(x), 2, -1).transpose(0, 1)  # [2, B, H]
        saved = [x, h]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = act(torch.baddbmm(bias, h, weight))  # [2, B, H']
            saved.append(h)
        params = F.linear(h[0], self.policy_weight, self.policy_bias)
        value = F.linear(h[1], self.value_weight, self.value_bias).squeeze(1)
        return _with_log_std(params, self.log_std), value, saved

    @torch.inference_mode()
    def backward_into_gradients(self, saved: list[Tensor], d_params: Tensor, d_value: Tensor) -> None:
        """Overwrite every parameter's ``.grad`` with the gradient, given those of the outputs."""
        h = saved[-1]  # [2, B, H]
        if self.log_std is not None:
            d_params, d_log_std = d_params.chunk(2, -1)
            torch.sum(d_log_std, 0, out=_grad(self.log_std))
        d_value = d_value.unsqueeze(1)
        torch.mm(d_params.t(), h[0], out=_grad(self.policy_weight))
        torch.sum(d_params, 0, out=_grad(self.policy_bias))
        torch.mm(d_value.t(), h[1], out=_grad(self.value_weight))
        torch.sum(d_value, 0, out=_grad(self.value_bias))
        d = torch.empty(h.shape, device=h.device)  # d loss/d h, [2, B, H]
        torch.mm(d_params, self.policy_weight, out=d[0])
        torch.mm(d_value, self.value_weight, out=d[1])
        for layer in reversed(range(len(self.weights))):
            d = self._through_activation(d, saved[layer + 2])
            below = saved[layer + 1]
            torch.bmm(below.transpose(1, 2), d, out=_grad(self.weights[layer]))
            torch.sum(d, 1, keepdim=True, out=_grad(self.biases[layer]))
            # the first layer's activations are [B, 2, H] in memory, and so is their gradient
            into = torch.empty(below.shape[1], 2, below.shape[2], device=d.device) if layer == 0 else None
            into = into.transpose(0, 1) if into is not None else torch.empty_like(below)
            d = torch.bmm(d, self.weights[layer].transpose(1, 2), out=into)
        d = self._through_activation(d, saved[1]).transpose(0, 1).reshape(len(saved[0]), -1)  # [B, 2H]
        torch.mm(d.t(), saved[0], out=_grad(self.first_weight))
        torch.sum(d, 0, out=_grad(self.first_bias))

    def _through_activation(self, d: Tensor, output: Tensor) -> Tensor:
        if self.relu:
            return torch.ops.aten.threshold_backward.default(d, output, 0.0)
        return torch.ops.aten.tanh_backward.default(d, output)


class NatureCNN(nn.Module):
    """The network of Mnih et al. 2015 over stacked frames, with a policy and a value head.

    Takes uint8[B, C, H, W]. The division by 255 is folded into the first layer's weights, and
    the images are handed to the convolutions channels-last, which is what their CPU kernels want.
    """

    def __init__(self, channels: int, height: int, width: int, outputs: int, log_std: nn.Parameter | None, bf16: bool):
        super().__init__()
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        self.conv1 = _initialised(nn.Conv2d(channels, 32, 8, 4))
        self.conv2 = _initialised(nn.Conv2d(32, 64, 4, 2))
        self.conv3 = _initialised(nn.Conv2d(64, 64, 3, 1))
        with torch.no_grad():
            features = self.conv3(self.conv2(self.conv1(torch.zeros(1, channels, height, width)))).numel()
        self.dense = _initialised(nn.Linear(features, 512))
        self.policy = _initialised(nn.Linear(512, outputs), 0.01)
        self.value = _initialised(nn.Linear(512, 1), 1.0)
        self.log_std = log_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images uint8[B, C, H, W] to action parameters [B, size] and values [B], float32."""
        dtype = self.dtype
        x = x.to(dtype, memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=dtype != torch.float32):
            first = self.conv1
            x = F.relu(F.conv2d(x, first.weight * (1 / 255), first.bias, first.stride))
            x = F.relu(self.conv2(x))
            x = F.relu(self.conv3(x))
            x = F.relu(self.dense(x.flatten(1))).float()
        return _with_log_std(self.policy(x), self.log_std), self.value(x).squeeze(1)


class SmallCNN(nn.Module):
    """A convolution and a dense layer over small images, with a policy and a value head.

    The network of Young and Tian 2019 (arXiv:1903.03176) for MinAtar's 10 x 10 screens: 16 filters of 3 x 3,
    then 128 units. Takes uint8[B, C, H, W] and divides it by ``high``, folded into the first layer's weights.
    """

    def __init__(self, channels: int, height: int, width: int, high: float, outputs: int, log_std: nn.Parameter | None):
        super().__init__()
        self.scale = 1 / high
        self.conv = _initialised(nn.Conv2d(channels, 16, 3))
        self.dense = _initialised(nn.Linear(16 * (height - 2) * (width - 2), 128))
        self.policy = _initialised(nn.Linear(128, outputs), 0.01)
        self.value = _initialised(nn.Linear(128, 1), 1.0)
        self.log_std = log_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images uint8[B, C, H, W] to action parameters [B, size] and values [B], float32."""
        x = F.relu(F.conv2d(x.float(), self.conv.weight * self.scale, self.conv.bias))
        x = F.relu(self.dense(x.flatten(1)))
        return _with_log_std(self.policy(x), self.log_std), self.value(x).squeeze(1)


def make_network(config: Config, space: gym.Space, distribution: Distribution) -> nn.Module:
    """The actor-critic for an observation space, on the CPU, initialised from torch's global generator.

    Raises:
        OptionError: no network fits the space.
    """
    gaussian = isinstance(distribution, DiagonalGaussian)
    outputs = distribution.noise_size
    log_std = nn.Parameter(torch.full((outputs,), config.log_std_init)) if gaussian else None
    if config.network == "cnn" and not is_image(space):
        raise OptionError(f"network='cnn' needs uint8 images [C, H, W] of at least 8 x 8, not {space}")
    if uses_cnn(config, space):
        assert isinstance(space, gym.spaces.Box)
        channels, height, width = space.shape
        if min(height, width) < NATURE_SIDE:
            return SmallCNN(channels, height, width, float(space.high.max()), outputs, log_std)
        return NatureCNN(channels, height, width, outputs, log_std, config.bf16)
    return MLP(input_size(space), outputs, config.hidden, config.activation, log_std)


def is_image(space: gym.Space) -> bool:
    """Whether observations are uint8 images [C, H, W] that a CNN can take."""
    shape = space.shape or ()
    flat = not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(shape) != 3
    return not flat and min(shape[1:]) >= SMALL_SIDE


def uses_cnn(config: Config, space: gym.Space) -> bool:
    """Whether `make_network` gives a `NatureCNN` or a `SmallCNN`."""
    return is_image(space) and config.network != "mlp"


def input_size(space: gym.Space) -> int:
    """Columns of an `MLP`'s input: a flattened `Box`, or a `Discrete` as one-hot."""
    if isinstance(space, gym.spaces.Box):
        return int(np.prod(space.shape))
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n)
    raise OptionError(f"PPO has no network for the observation space {space}")


def _orthogonal(rows: int, columns: int, gain: float = math.sqrt(2)) -> Tensor:
    return nn.init.orthogonal_(torch.empty(rows, columns), gain)


def _initialised(layer: Any, gain: float = math.sqrt(2)) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _with_log_std(params: Tensor, log_std: Tensor | None) -> Tensor:
    return params if log_std is None else torch.cat((params, log_std.expand_as(params)), -1)


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None, "FlatAdam gives every parameter its gradient buffer"
    return parameter.grad

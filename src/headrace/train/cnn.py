"""Convolutional networks for images: trunks that give features, and actor-critics over them."""

from __future__ import annotations

from functools import cache

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.layers import initialised, with_log_std

SMALL_SIDE = 8  # shorter images have nothing for a filter to find
NATURE_SIDE = 36  # the least that three layers of the Nature-CNN leave anything of
BLOCK = 4  # pixels that the Nature-CNN's first filters move by


class NatureTrunk(nn.Module):
    """The layers of Mnih et al. 2015 over stacked frames uint8[B, C, H, W], up to its 512 units.

    The first layer's filters of 8 x 8 pixels, 4 apart, are filters of 2 x 2 blocks of 4 x 4 pixels: as such they have
    16·C channels instead of C, which matrix units can be filled with. The division by 255 is folded into their
    weights, and images are handed to the convolutions channels-last, which is what their CPU kernels want.

    Args:
        channels, height, width: of the images.
        bf16: whether products are made in bfloat16; parameters and features stay float32.
        outputs: how many units the last layer has.
    """

    def __init__(self, channels: int, height: int, width: int, bf16: bool = False, outputs: int = 512):
        super().__init__()
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        self.conv1 = initialised(nn.Conv2d(channels, 32, 8, BLOCK))
        self.conv2 = initialised(nn.Conv2d(32, 64, 4, 2))
        self.conv3 = initialised(nn.Conv2d(64, 64, 3, 1))
        with torch.no_grad():
            pixels = self.conv3(self.conv2(self.conv1(torch.zeros(1, channels, height, width)))).numel()
        self.dense = initialised(nn.Linear(pixels, outputs))
        self.features = outputs

    def forward(self, x: Tensor) -> Tensor:
        """Images uint8[B, C, H, W] to features float32[B, outputs], none of them negative."""
        dtype = self.dtype if x.is_cuda or cpu_has_bf16() else torch.float32
        first = self.conv1
        filters = (first.weight * (1 / 255)).unflatten(3, (2, BLOCK)).unflatten(2, (2, BLOCK))
        filters = filters.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)  # [32, 16·C, 2, 2]
        x = _conv(blocks(x).to(dtype), filters, first.bias, 1)
        x = _conv(x, self.conv2.weight, self.conv2.bias, 2)
        x = _conv(x, self.conv3.weight, self.conv3.bias, 1)
        return F.linear(x.flatten(1), self.dense.weight.to(dtype), self.dense.bias.to(dtype)).relu_().float()


class SmallTrunk(nn.Module):
    """A convolution and a dense layer over small images uint8[B, C, H, W], which are divided by ``high``.

    The layers of Young and Tian 2019 (arXiv:1903.03176) for MinAtar's 10 x 10 screens: 16 filters of 3 x 3,
    then 128 units.
    """

    def __init__(self, channels: int, height: int, width: int, high: float, outputs: int = 128):
        super().__init__()
        self.scale = 1 / high
        self.conv = initialised(nn.Conv2d(channels, 16, 3))
        self.dense = initialised(nn.Linear(16 * (height - 2) * (width - 2), outputs))
        self.features = outputs

    def forward(self, x: Tensor) -> Tensor:
        """Images uint8[B, C, H, W] to features float32[B, outputs], none of them negative."""
        x = F.relu(F.conv2d(x.float(), self.conv.weight * self.scale, self.conv.bias))
        return F.relu(self.dense(x.flatten(1)))


class ImageActorCritic(nn.Module):
    """A policy and a value head over the features of a trunk."""

    def __init__(self, trunk: NatureTrunk | SmallTrunk, outputs: int, log_std: nn.Parameter | None):
        super().__init__()
        self.trunk = trunk
        self.policy = initialised(nn.Linear(trunk.features, outputs), 0.01)
        self.value = initialised(nn.Linear(trunk.features, 1), 1.0)
        self.log_std = log_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images uint8[B, C, H, W] to action parameters [B, size] and values [B], float32."""
        x = self.trunk(x)
        return with_log_std(self.policy(x), self.log_std), self.value(x).squeeze(1)


class NatureCNN(ImageActorCritic):
    """An actor-critic over a `NatureTrunk`."""

    def __init__(self, channels: int, height: int, width: int, outputs: int, log_std: nn.Parameter | None, bf16: bool):
        super().__init__(NatureTrunk(channels, height, width, bf16), outputs, log_std)


class SmallCNN(ImageActorCritic):
    """An actor-critic over a `SmallTrunk`."""

    def __init__(self, channels: int, height: int, width: int, high: float, outputs: int, log_std: nn.Parameter | None):
        super().__init__(SmallTrunk(channels, height, width, high), outputs, log_std)


@cache
def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies in bfloat16 itself; without that, it would take far longer than in float32."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def trunk_for(space: gym.Space, bf16: bool, streams: int = 1) -> NatureTrunk | SmallTrunk:
    """The trunk that fits images of this size; its last layer has so many times the usual units."""
    assert isinstance(space, gym.spaces.Box)
    channels, height, width = space.shape
    if min(height, width) < NATURE_SIDE:
        return SmallTrunk(channels, height, width, float(space.high.max()), 128 * streams)
    return NatureTrunk(channels, height, width, bf16, 512 * streams)


def blocks(images: Tensor) -> Tensor:
    """Blocks of 4 x 4 pixels as channels: uint8[B, C, H, W] to uint8[B, 16·C, H // 4, W // 4], channels last.

    Four pixels of a row are moved as one word.
    """
    count, channels, height, width = images.shape
    rows, columns = height // BLOCK, width // BLOCK
    *strides, step = images.stride()
    if step != 1 or any(length % BLOCK for length in (height, width, images.storage_offset(), *strides)):
        images = images[..., : rows * BLOCK, : columns * BLOCK].clone(memory_format=torch.contiguous_format)
    words = images.view(torch.int32).view(count, channels, rows, BLOCK, columns).permute(0, 2, 4, 1, 3)
    pixels = words.contiguous().view(count, rows, columns, -1).view(torch.uint8)
    return pixels.permute(0, 3, 1, 2)


def is_image(space: gym.Space) -> bool:
    """Whether observations are uint8 images [C, H, W] that a CNN can take."""
    shape = space.shape or ()
    flat = not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(shape) != 3
    return not flat and min(shape[1:]) >= SMALL_SIDE


def _conv(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """A convolution in the type of its input, then a ReLU."""
    weight = weight.to(x.dtype, memory_format=torch.channels_last)
    return F.conv2d(x, weight, bias.to(x.dtype), stride).relu_()

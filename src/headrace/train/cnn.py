"""Convolutional actor-critics for images."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.layers import initialised, with_log_std

SMALL_SIDE = 8  # shorter images have nothing for a filter to find
NATURE_SIDE = 36  # the least that three layers of the Nature-CNN leave anything of


class NatureCNN(nn.Module):
    """The network of Mnih et al. 2015 over stacked frames, with a policy and a value head.

    Takes uint8[B, C, H, W]. The division by 255 is folded into the first layer's weights, and
    the images are handed to the convolutions channels-last, which is what their CPU kernels want.
    """

    def __init__(self, channels: int, height: int, width: int, outputs: int, log_std: nn.Parameter | None, bf16: bool):
        super().__init__()
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        self.conv1 = initialised(nn.Conv2d(channels, 32, 8, 4))
        self.conv2 = initialised(nn.Conv2d(32, 64, 4, 2))
        self.conv3 = initialised(nn.Conv2d(64, 64, 3, 1))
        with torch.no_grad():
            features = self.conv3(self.conv2(self.conv1(torch.zeros(1, channels, height, width)))).numel()
        self.dense = initialised(nn.Linear(features, 512))
        self.policy = initialised(nn.Linear(512, outputs), 0.01)
        self.value = initialised(nn.Linear(512, 1), 1.0)
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
        return with_log_std(self.policy(x), self.log_std), self.value(x).squeeze(1)


class SmallCNN(nn.Module):
    """A convolution and a dense layer over small images, with a policy and a value head.

    The network of Young and Tian 2019 (arXiv:1903.03176) for MinAtar's 10 x 10 screens: 16 filters of 3 x 3,
    then 128 units. Takes uint8[B, C, H, W] and divides it by ``high``, folded into the first layer's weights.
    """

    def __init__(self, channels: int, height: int, width: int, high: float, outputs: int, log_std: nn.Parameter | None):
        super().__init__()
        self.scale = 1 / high
        self.conv = initialised(nn.Conv2d(channels, 16, 3))
        self.dense = initialised(nn.Linear(16 * (height - 2) * (width - 2), 128))
        self.policy = initialised(nn.Linear(128, outputs), 0.01)
        self.value = initialised(nn.Linear(128, 1), 1.0)
        self.log_std = log_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images uint8[B, C, H, W] to action parameters [B, size] and values [B], float32."""
        x = F.relu(F.conv2d(x.float(), self.conv.weight * self.scale, self.conv.bias))
        x = F.relu(self.dense(x.flatten(1)))
        return with_log_std(self.policy(x), self.log_std), self.value(x).squeeze(1)


def is_image(space: gym.Space) -> bool:
    """Whether observations are uint8 images [C, H, W] that a CNN can take."""
    shape = space.shape or ()
    flat = not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(shape) != 3
    return not flat and min(shape[1:]) >= SMALL_SIDE

"""Convolutional networks for images: trunks that compute features, and actor-critics on top of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.pool.family import imported
from headrace.pool.flat_observation import SIDE, Joined
from headrace.train.modules.layers import initialised, is_exporting, with_log_std
from headrace.train.settings.kinds import TRUNKS

NATURE_SIDE = 36  # minimum height and width for which the Nature-CNN's three layers have an output
BLOCK = 4  # stride of the Nature-CNN's first filters, in pixels
STRIDES = 1, 2, 1  # of its layers, the first over blocks
SEEN = 2048  # number of images whose statistics standardise pixels


class PlainTrunk(nn.Module):
    """The base of trunks of convolutions and a dense layer, each followed by a ReLU, of which there is compiled code.

    Attributes:
        shape: channels, height and width of the images.
        factor: what the first layer's weights are multiplied by.
        convolutions: the convolutions; another layer, `dense`, sees what comes out of them.
        dtype: of the factors of products.
        features: outputs of the last layer.
        compiled: a `CompiledTrunk` of this one, which then computes the last layer's sums; None where torch does.
    """

    shape: tuple[int, int, int]
    factor: float
    convolutions: Any
    dense: nn.Linear
    dtype: torch.dtype = torch.float32
    features: int
    compiled: Any = None

    def forward(self, x: Tensor) -> Tensor:
        """Maps images uint8[B, C, H, W] to features float32[B, features], none of them negative."""
        if self.compiled is None or is_exporting():
            return self.layered(x)
        return F.relu(self.compiled(x))

    def layered(self, x: Tensor) -> Tensor:
        """Returns the results of `forward`, computed by torch layer by layer."""
        raise NotImplementedError


class NatureTrunk(PlainTrunk):
    """The layers of Mnih et al. 2015 over stacked frames uint8[B, C, H, W], up to its 512 units.

    The first layer's filters of 8 x 8 pixels with stride 4 are computed as filters over 2 x 2 blocks of 4 x 4 pixels:
    these have 16·C channels instead of C, which uses matrix units better. The division by 255 is folded into the
    weights, and images are channels-last, the layout for which CPU kernels of convolutions are fastest.

    Args:
        channels, height, width: shape of the images.
        bf16: whether products are computed in bfloat16; parameters and features stay float32.
        outputs: number of units of the last layer.
    """

    def __init__(self, channels: int, height: int, width: int, bf16: bool = False, outputs: int = 512):
        super().__init__()
        self.shape = channels, height, width
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        self.conv1 = initialised(nn.Conv2d(channels, 32, 8, BLOCK))
        self.conv2 = initialised(nn.Conv2d(32, 64, 4, 2))
        self.conv3 = initialised(nn.Conv2d(64, 64, 3, 1))
        self.factor = 1 / 255
        with torch.no_grad():
            pixels = self.conv3(self.conv2(self.conv1(torch.zeros(1, channels, height, width)))).numel()
        self.dense = initialised(nn.Linear(pixels, outputs))
        self.features = outputs

    def layered(self, x: Tensor) -> Tensor:
        if is_exporting():
            return self._exported(x)
        dtype = self.dtype if x.is_cuda or cpu_has_bf16() else torch.float32
        filters = (self.conv1.weight * self.factor).unflatten(3, (2, BLOCK)).unflatten(2, (2, BLOCK))
        weights = [filters.permute(0, 1, 3, 5, 2, 4).flatten(1, 3), self.conv2.weight, self.conv3.weight]
        x = blocks(x).to(dtype)  # [B, 16·C, H / 4, W / 4]
        for layer, weight, stride in zip(self.convolutions, weights, STRIDES, strict=True):
            weight = weight.to(dtype, memory_format=torch.channels_last)
            x = F.conv2d(x, weight, layer.bias.to(dtype), stride).relu_()
        return F.linear(x.flatten(1), self.dense.weight.to(dtype), self.dense.bias.to(dtype)).relu_().float()

    def _exported(self, x: Tensor) -> Tensor:
        """Returns the features, as `forward`, computed in float32 with standard layers, for exports."""
        x = x.float() * self.factor
        for layer in self.convolutions:
            x = F.relu(layer(x))
        return F.relu(self.dense(x.flatten(1)))

    @property
    def convolutions(self) -> tuple[Any, ...]:
        return self.conv1, self.conv2, self.conv3


class SmallTrunk(PlainTrunk):
    """A convolution and a dense layer over small images uint8[B, C, H, W], which are divided by ``high``.

    The layers of Young and Tian 2019 (arXiv:1903.03176) for MinAtar's 10 x 10 screens: 16 filters of 3 x 3,
    then 128 units.
    """

    def __init__(self, channels: int, height: int, width: int, high: float, outputs: int = 128):
        super().__init__()
        self.shape = channels, height, width
        self.factor = 1 / high
        self.conv = initialised(nn.Conv2d(channels, 16, 3))
        self.dense = initialised(nn.Linear(16 * (height - 2) * (width - 2), outputs))
        self.features = outputs

    @property
    def convolutions(self) -> tuple[Any, ...]:
        return (self.conv,)

    def layered(self, x: Tensor) -> Tensor:
        x = F.conv2d(x.float(), self.conv.weight * self.factor, self.conv.bias).relu_()
        return F.linear(x.flatten(1), self.dense.weight, self.dense.bias).relu_()


class StridedTrunk(PlainTrunk):
    """A few convolutions with large strides over images uint8[B, C, H, W], and a dense layer.

    Filters of 6 x 6 pixels with stride 3 are followed by filters of 3 x 3 with stride 2, until no side is longer than
    8. The network is several times cheaper than the Nature-CNN. Each pixel is standardised by its own mean and
    deviation, which `fit` sets once. They are parameters without a gradient, so that they are published and saved with
    the weights.

    Args:
        channels, height, width: shape of the images.
        bf16: whether products are computed in bfloat16; parameters and features stay float32.
        outputs: number of units of the last layer.
    """

    factor = 1.0
    FLOOR = 8.0
    """least deviation of a pixel, in grey levels, so that changes of nearly constant pixels are not amplified"""

    def __init__(self, channels: int, height: int, width: int, bf16: bool = False, outputs: int = 256):
        super().__init__()
        self.shape = channels, height, width
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        self.mean = nn.Parameter(torch.zeros(channels, height, width), requires_grad=False)
        self.scale = nn.Parameter(torch.full((channels, height, width), 1 / 255), requires_grad=False)
        convolutions = [initialised(nn.Conv2d(channels, 32, 6, 3))]
        sides = [(side - 6) // 3 + 1 for side in (height, width)]
        while max(sides) > 8 and min(sides) >= 3:
            convolutions.append(initialised(nn.Conv2d(32, 32, 3, 2)))
            sides = [(side - 3) // 2 + 1 for side in sides]
        self.convolutions = nn.ModuleList(convolutions)
        self.dense = initialised(nn.Linear(32 * sides[0] * sides[1], outputs))
        self.features = outputs

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Sets the means and deviations of pixels to those of ``images``, uint8[B, C, H, W]."""
        deviation, mean = torch.std_mean(images.float(), 0, correction=0)
        self.mean.copy_(mean)
        self.scale.copy_(1 / deviation.clamp_(min=self.FLOOR))

    def layered(self, x: Tensor) -> Tensor:
        dtype = self.dtype if (x.is_cuda or cpu_has_bf16()) and not is_exporting() else torch.float32
        x = ((x.float() - self.mean) * self.scale).to(dtype, memory_format=torch.channels_last)
        layers: Any = self.convolutions
        for number, layer in enumerate(layers):
            x = F.conv2d(x, layer.weight.to(dtype), layer.bias.to(dtype), 2 if number else 3).relu_()
        return F.linear(x.flatten(1), self.dense.weight.to(dtype), self.dense.bias.to(dtype)).relu_().float()


class JoinedTrunk(nn.Module):
    """A trunk for each picture in a row of numbers, and a layer that joins their features with the other numbers.

    Args:
        space: the space of the rows.
        make: returns the trunk for the images of a space.
        outputs: number of units of the last layer.
        normed: whether the last layer is normalised before its ReLU.
    """

    def __init__(self, space: Joined, make: Callable[[Any], Any], outputs: int = 256, normed: bool = False):
        super().__init__()
        self.numbers, self.shapes = space.numbers, [picture.shape for picture in space.pictures]
        trunks = [make(picture) for picture in space.pictures]
        self.trunks = nn.ModuleList(trunks)
        self.dense = initialised(nn.Linear(self.numbers + sum(trunk.features for trunk in trunks), outputs))
        self.norm = nn.LayerNorm(outputs) if normed else nn.Identity()
        self.features = outputs

    def forward(self, x: Tensor) -> Tensor:
        """Maps rows float32[B, D] to features float32[B, outputs], none of them negative."""
        seen = [trunk(pixels) for trunk, pixels in zip(self.trunks, self._pictures(x), strict=True)]
        return F.relu(self.norm(self.dense(torch.cat((x[:, : self.numbers], *seen), 1))))

    def fit(self, x: Tensor) -> None:
        """As `StridedTrunk.fit`, for rows float32[B, D]."""
        for trunk, pixels in zip(self.trunks, self._pictures(x), strict=True):
            trunk.fit(pixels)  # type: ignore[operator]

    def _pictures(self, x: Tensor) -> list[Tensor]:
        """Returns the pictures in rows, uint8[B, C, H, W] each."""
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = x[:, self.numbers :].to(torch.uint8).split(sizes, 1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]


Trunk = Any  # a module that maps images to features, whose number is its attribute `features`


class ImageActorCritic(nn.Module):
    """A policy head and a value head on the features of a trunk."""

    def __init__(self, trunk: Trunk, outputs: int, log_std: nn.Parameter | None):
        super().__init__()
        self.trunk = trunk
        self.policy = initialised(nn.Linear(trunk.features, outputs), 0.01)
        self.value = initialised(nn.Linear(trunk.features, 1), 1.0)
        self.log_std = log_std
        self.compiled: Any = None
        """as `headrace.train.modules.mlp.MLP.compiled`"""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps images uint8[B, C, H, W] to action parameters [B, size] and values [B], float32."""
        if self.compiled is not None and not torch.is_grad_enabled() and not is_exporting():
            outputs = self.compiled.forward(x)
            return with_log_std(outputs[:, :-1], self.log_std), outputs[:, -1]
        x = self.trunk(x)
        return with_log_std(self.policy(x), self.log_std), self.value(x).squeeze(1)


@cache
def cpu_has_bf16() -> bool:
    """Returns whether the CPU has bfloat16 products in hardware; without them, bfloat16 is far slower than float32."""
    supported = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if not torch.cpu._is_avx2_supported():  # another kind of processor
        return supported
    # oneDNN supports it on every processor with AVX-512, where it converts each number first
    return supported and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def trunk_for(space: gym.Space, trunk: str, bf16: bool, streams: int = 1) -> Trunk:
    """Returns the trunk for images of a space.

    Args:
        space: the space of images, uint8[C, H, W], or of rows with pictures.
        trunk, bf16: as the settings of these names.
        streams: factor of the number of units of the last layer.

    Raises:
        OptionError: the images are too small for the trunk.
    """
    assert isinstance(space, gym.spaces.Box)
    if isinstance(space, Joined) and pictures_in(space):
        return JoinedTrunk(space, lambda part: trunk_for(part, trunk, bf16), 256 * streams)
    channels, height, width = space.shape
    if min(height, width) >= NATURE_SIDE:
        kind = TRUNKS[trunk]
        return imported(kind.made_by)(channels, height, width, bf16, kind.outputs * streams)
    if trunk != "nature":
        raise OptionError(f"trunk={trunk!r} is for images of at least {NATURE_SIDE} x {NATURE_SIDE}, not {space}")
    return SmallTrunk(channels, height, width, float(space.high.max()), 128 * streams)


def blocks(images: Tensor) -> Tensor:
    """Returns images with blocks of 4 x 4 pixels as channels, copied as words of four pixels.

    Args:
        images: uint8[B, C, H, W].

    Returns:
        uint8[B, 16·C, H // 4, W // 4], channels last.
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
    """Returns whether observations are uint8 images [C, H, W] that a CNN can take."""
    shape = space.shape or ()
    flat = not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(shape) != 3
    return not flat and min(shape[1:]) >= SIDE


def pictures_in(space: gym.Space) -> tuple[gym.spaces.Box, ...]:
    """Returns the spaces of the pictures at the end of a row of numbers, uint8[C, H, W]; none for images alone."""
    return space.pictures if isinstance(space, Joined) and not is_image(space) else ()

"""Random shifts of pictures, without which critics of pixels soon fit the few that a replay has.

Source: Kostrikov et al. 2021 (arXiv:2004.13649).
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor

from headrace.train.modules.cnn import is_image

LEAST = 16
"""a side of a picture, in units of its largest shift, so that small ones keep most of what they show"""


def shifted(inputs: Tensor, space: gym.Space, most: int, generator: torch.Generator) -> Tensor:
    """Returns inputs whose pictures are moved at random, each by itself.

    Args:
        inputs: images uint8[B, C, H, W], or rows float32[B, D] with pictures at their ends.
        space: the space of one input: images, or a `Joined` with pictures.
        most: see `random_shift`.
    """
    if is_image(space):
        return random_shift(inputs, most, generator)
    joined: Any = space
    sizes = [math.prod(picture.shape) for picture in joined.pictures]
    numbers, *pictures = inputs.split([joined.numbers, *sizes], 1)
    for place, picture in enumerate(joined.pictures):
        images = pictures[place].reshape(-1, *picture.shape)
        pictures[place] = random_shift(images, most, generator).flatten(1)
    return torch.cat((numbers, *pictures), 1)


def random_shift(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Returns images [B, C, H, W], each moved by up to ``most`` pixels, or a sixteenth of a side, along each axis.

    All shifts are equally likely. Pixels at the edges are repeated.
    """
    rows, _, height, width = images.shape
    most = min(most, height // LEAST, width // LEAST)
    by = torch.randint(2 * most + 1, (2, rows), generator=generator, device=generator.device).to(images.device)
    if images.device.type == "cpu":
        moved = torch.empty(images.shape, dtype=images.dtype)
        padded = F.pad(images, (most, most, most, most), "replicate")
        for into, image, down, right in zip(moved.numpy(), padded.numpy(), *by.tolist(), strict=True):
            into[...] = image[:, down : down + height, right : right + width]  # a third of the time of one gather
        return moved
    padded = F.pad(images.half(), (most, most, most, most), "replicate")  # CUDA can pad these, which have all bytes
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    down, right = by
    return windows[torch.arange(rows, device=images.device), :, down, right].to(images.dtype)

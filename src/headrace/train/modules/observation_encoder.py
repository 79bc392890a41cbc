"""Encoding of observations as network inputs."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.modules.network import input_size, uses_images
from headrace.train.modules.normalisation import ObservationNormaliser


class InputEncoder:
    """A function from observations to inputs: images unchanged, others flattened to float32[B, D] and normalised.

    Args:
        network: the setting of this name, as images are inputs of some networks only.
        normalise: whether numbers are normalised, by standard deviations of at least ``floor``.

    Attributes:
        raw_dtype: the dtype of observations before they are normalised, see `raw_dtype_of`.
    """

    def __init__(
        self, space: gym.Space, device: torch.device, network: str = "auto", normalise: bool = False, floor: float = 0.0
    ):
        if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            raise OptionError(f"there is no network for the observation space {space}")
        self.image = uses_images(network, space)
        self.categories = int(space.n) if isinstance(space, gym.spaces.Discrete) else 0
        self.first = int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
        self.shape: tuple[int, ...] = tuple(space.shape or ()) if self.image else (input_size(space),)
        self.dtype = torch.uint8 if self.image else torch.float32
        wanted = normalise and not self.image and not self.categories
        self.raw_dtype = raw_dtype_of(space, normalise)
        self.normaliser = ObservationNormaliser(self.shape[0], device, floor, self.raw_dtype) if wanted else None
        plain = not self.image and not self.categories and space.dtype == np.float32 and len(space.shape or ()) == 1
        self.is_identity = (self.image or plain) and self.normaliser is None

    def __call__(self, observations: Tensor, out: Tensor) -> Tensor:
        """Encodes observations [B, …] into ``out`` [B, *shape], and returns the inputs."""
        if self.normaliser is None:
            return self.plain(observations, out)
        return self.normaliser(observations.to(out.device, self.raw_dtype).view(out.shape), out)

    def plain(self, observations: Tensor, out: Tensor) -> Tensor:
        """Encodes observations [B, …] into ``out`` [B, *shape] without normalisation, and returns the inputs."""
        if self.categories:
            rows = observations.to(out.device, torch.int64).unsqueeze(1) - self.first
            return out.zero_().scatter_(1, rows, 1.0)
        return out.copy_(observations.view(out.shape), non_blocking=True)


def raw_dtype_of(space: gym.Space, normalise: bool) -> torch.dtype:
    """Returns the dtype of observations before they are normalised: float64 where float32 would round the space's.

    The mean must be subtracted first: seconds since 1970, near 1.7e9, are multiples of 128 in float32.
    """
    kind = np.dtype(space.dtype)
    wide = isinstance(space, gym.spaces.Box) and kind.itemsize >= 4 and kind != np.float32
    return torch.float64 if wide and normalise else torch.float32

"""Encoding of observations as network inputs."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.modules.cnn import is_image, pictures_in
from headrace.train.modules.network import input_size, uses_images
from headrace.train.modules.normalisation import ObservationNormaliser


class InputEncoder(nn.Module):
    """A function from observations to inputs: images unchanged, others flattened to float32[B, D] and normalised.

    Pixels of pictures at the end of a row are not normalised.

    Args:
        network: the setting of this name, as images are inputs of some networks only.
        normalise: whether numbers are normalised, by standard deviations of at least ``floor``.
        critic: the last columns, that only a critic sees; observations may be without them.

    Attributes:
        raw_dtype: the dtype of observations before they are normalised, see `raw_dtype_of`.
    """

    def __init__(
        self,
        space: gym.Space,
        device: torch.device,
        network: str = "auto",
        normalise: bool = False,
        floor: float = 0.0,
        critic: int = 0,
    ):
        super().__init__()
        if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            raise OptionError(
                f"no network can learn from the observation space {space}: env_options={{'flat_observation': True}} "
                "makes one array of its arrays, categories and texts, and a gymnasium.ObservationWrapper of anything"
            )
        self.image = is_image(space) and uses_images(network, space)
        self.categories = int(space.n) if isinstance(space, gym.spaces.Discrete) else 0
        self.first = int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
        self.shape: tuple[int, ...] = tuple(space.shape or ()) if self.image else (input_size(space),)
        self._has_rows = critic > 0  # of one array, and perhaps without the critic's columns
        self.dtype = torch.uint8 if self.image else torch.float32
        wanted = normalise and not self.image and not self.categories
        self.raw_dtype = raw_dtype_of(space, normalise)
        columns = self.shape[0] - sum(math.prod(picture.shape) for picture in pictures_in(space))
        self.normaliser = ObservationNormaliser(columns, device, floor, self.raw_dtype) if wanted and columns else None
        plain = not self.image and not self.categories and space.dtype == np.float32 and len(space.shape or ()) == 1
        self.is_identity = (self.image or plain) and self.normaliser is None

    def forward(self, observations: Tensor, out: Tensor | None = None) -> Tensor:
        """Encodes observations [B, …] into ``out`` [B, *shape], by default new memory, and returns the inputs.

        Without ``out``, observations that are inputs already are returned, and inputs are on the observations' device.
        """
        if self.normaliser is None:
            return self.plain(observations, out)
        raw = observations.to(self.raw_dtype) if out is None else observations.to(out.device, self.raw_dtype)
        return self.normaliser(self._rows(raw), out)

    def _rows(self, observations: Tensor) -> Tensor:
        return observations if self._has_rows else observations.reshape(-1, *self.shape)

    def plain(self, observations: Tensor, out: Tensor | None = None) -> Tensor:
        """Encodes observations as `forward`, but without normalisation."""
        if self.categories:
            rows = observations.to(torch.int64) if out is None else observations.to(out.device, torch.int64)
            if out is None:
                out = rows.new_empty((rows.shape[0], self.categories), dtype=self.dtype)
            return out.zero_().scatter_(1, rows.unsqueeze(1) - self.first, 1.0)
        if out is not None:
            return out.copy_(observations.view(out.shape), non_blocking=True)
        return observations if self.image else self._rows(observations.to(self.dtype))


def raw_dtype_of(space: gym.Space, normalise: bool) -> torch.dtype:
    """Returns the dtype of observations before they are normalised: float64 where float32 would round the space's.

    The mean must be subtracted first: seconds since 1970, near 1.7e9, are multiples of 128 in float32.
    """
    kind = np.dtype(space.dtype)
    wide = isinstance(space, gym.spaces.Box) and kind.itemsize >= 4 and kind != np.float32
    return torch.float64 if wide and normalise else torch.float32

"""Random shifts of pictures: how far, how often, and what is at the edges."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from headrace.pool.flat_observation import Joined
from headrace.train.modules.random_shift import random_shift, shifted


def coordinates(rows: int, side: int) -> Tensor:
    """Images uint8[rows, 2, side, side] whose pixels are their own places: the line, and the column."""
    places = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"))
    return places.to(torch.uint8).expand(rows, 2, side, side)


def shifts(images: Tensor) -> Tensor:
    """By how much lines and columns of `coordinates` were moved, int64[rows, 2]; all pixels must agree."""
    side = images.shape[-1]
    by = images[:, :, side // 2, side // 2].long() - side // 2
    places = torch.arange(side)
    lines, columns = (torch.clamp(places + by[:, axis, None], 0, side - 1) for axis in (0, 1))
    assert torch.equal(images[:, 0].long(), lines[:, :, None].expand(-1, -1, side)), "edges are repeated"
    assert torch.equal(images[:, 1].long(), columns[:, None].expand(-1, side, -1))
    return by


def test_each_image_is_moved_by_itself_and_all_shifts_are_equally_likely() -> None:
    moved = random_shift(coordinates(8100, 64), 4, torch.Generator().manual_seed(1))
    assert moved.dtype == torch.uint8
    by = shifts(moved)
    counts = torch.bincount((by[:, 0] + 4) * 9 + by[:, 1] + 4, minlength=81)
    assert len(counts) == 81 and by.abs().max() == 4
    assert (counts - 100).abs().max() < 50, "five standard deviations of 100"
    assert not torch.equal(by[1:], by[:-1])


@pytest.mark.parametrize(("side", "most"), [(84, 4), (48, 3), (32, 2), (16, 1), (15, 0)])
def test_small_images_are_moved_less(side: int, most: int) -> None:
    by = shifts(random_shift(coordinates(200, side), 4, torch.Generator().manual_seed(1)))
    assert by.abs().max() == most


def test_pictures_in_rows_are_moved_and_numbers_are_not() -> None:
    picture = gym.spaces.Box(0, 255, (2, 32, 32), np.uint8)
    space = Joined(gym.spaces.Dict(one=picture, speed=gym.spaces.Box(-1, 1, (3,)), two=picture), keep=True)
    numbers, pixels = torch.randn(50, 3), coordinates(50, 32).flatten(1).float()
    rows = torch.cat((numbers, pixels, pixels), 1)
    moved = shifted(rows, space, 4, torch.Generator().manual_seed(1))
    assert moved.dtype == torch.float32 and torch.equal(moved[:, :3], numbers)
    one, two = (shifts(part.view(50, 2, 32, 32)) for part in moved[:, 3:].chunk(2, 1))
    assert (one != two).any(1).float().mean() > 0.5

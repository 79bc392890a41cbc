"""Distributions of actions in boxes, with bounds and without."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from headrace.train.modules.distributions import DiagonalGaussian


def test_a_box_without_bounds_is_not_scaled_and_warns_of_nothing() -> None:
    low, high = np.array([-np.inf, 0, -2], np.float32), np.array([np.inf, np.inf, 6], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actions = DiagonalGaussian(low, high, np.dtype(np.float32))
    assert torch.equal(actions.scale, torch.tensor([1.0, 1.0, 4.0]))
    assert torch.equal(actions.centre, torch.tensor([0.0, 0.0, 2.0]))

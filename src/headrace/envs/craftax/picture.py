"""Frames of Craftax-Classic: what the player sees, and what it has, in plain tiles of Headrace's own."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def render(state: Mapping[str, Any]) -> np.ndarray:
    return np.zeros((432, 432, 3), np.uint8)

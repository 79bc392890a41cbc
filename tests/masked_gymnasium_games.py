"""Gymnasium environments for tests that give action masks in their info, and raise where what they forbid is done."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

WAYS = 4


class Doors(gym.Env):
    """Some of four doors are open; the one that is shown is worth 1, any other open one 0.5. Episodes have 20 steps.

    Args:
        images: whether what is seen is an image.
        gives: the steps whose info has a mask: ``"all"``, ``"even"`` ones, or ``"later"`` ones than the reset; without
            one all doors are open.
        kind: the type of the masks: a dtype, or ``"list"``.
    """

    def __init__(self, images: bool = False, gives: str = "all", kind: str = "int8"):
        low, high, shape, dtype = (0, 255, (1, 8, 8), np.uint8) if images else (0.0, 1.0, (WAYS,), np.float32)
        self.observation_space: gym.Space = gym.spaces.Box(low, high, shape, dtype)  # type: ignore[arg-type]
        self.action_space: gym.Space = gym.spaces.Discrete(WAYS, start=1)
        self.images, self.gives, self.kind, self.count = images, gives, kind, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.open[int(action) - 1]:
            raise ValueError(f"door {action} is closed")
        reward, self.count = 1.0 if int(action) - 1 == self.shown else 0.5, self.count + 1
        over, rolled = self.count == 20, bool(self.np_random.integers(2))
        return *self._seen()[:1], reward, over and rolled, over and not rolled, self.info

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        given = {"all": True, "even": self.count % 2 == 0, "later": self.count > 0}[self.gives]
        self.open = self.np_random.random(WAYS) < (0.5 if given else 2.0)
        self.shown = int(self.np_random.integers(WAYS))
        self.open[self.shown] = True
        mask = self.open.tolist() if self.kind == "list" else self.open.astype(self.kind)
        self.info = {"action_mask": mask} if given else {}
        seen = np.zeros(self.observation_space.shape or (), self.observation_space.dtype)
        seen[..., self.shown] = 255 if self.images else 1
        return seen, self.info


class Dials(gym.Env):
    """Two dials, of each of which one place is allowed; the mask is one array for each, as Gymnasium samples them."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), self._told()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if tuple(action) != self.only:
            raise ValueError(f"{action} is not allowed")
        self.count += 1
        return np.zeros(1, np.float32), 1.0, False, self.count == 20, self._told()

    def _told(self) -> dict[str, Any]:
        self.only = int(self.np_random.integers(2)), int(self.np_random.integers(3))
        return {"action_mask": tuple(np.eye(n, dtype=np.int8)[i] for n, i in zip((2, 3), self.only, strict=True))}


class Said(gym.Env):
    """Says masks that it was given: the first at each reset, the second with each step."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, reset: Any = None, step: Any = None, continuous: bool = False):
        self.masks = reset, step
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32) if continuous else gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {"action_mask": self.masks[0]}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {"action_mask": self.masks[1]}

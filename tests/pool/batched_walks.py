"""Walks along a line, which NumPy, JAX and PyTorch step all at once, and one at a time as a Gymnasium class."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import headrace

LENGTH = 6


class Walk(headrace.BatchedEnv):
    """In NumPy. A walker begins at 0, 1 or 2, goes left or right, and earns 1 at the end of the line."""

    observation_space = gym.spaces.Box(0, 20, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    max_episode_steps = 15
    fields = (headrace.Field("is_success", np.dtype(np.bool_)),)

    def __init__(self, num_envs: int, length: int = LENGTH):
        super().__init__(num_envs)
        self.length = length
        self.state["place"] = np.zeros(num_envs, np.int64)

    def reset(self, mask: np.ndarray, seeds: np.ndarray) -> None:
        self.state["place"][mask] = seeds[mask] % np.uint64(3)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = self.state["place"]
        np.maximum(place + 2 * actions - 1, 0, out=place)
        over = place >= self.length
        return over.astype(np.float32), over

    def observe(self) -> np.ndarray:
        return self.state["place"][:, None].astype(np.float32)

    def info(self) -> dict[str, np.ndarray]:
        return {"is_success": self.state["place"] >= self.length}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        frames = np.zeros((len(env_ids), 8, 24, 3), np.uint8)
        frames[np.arange(len(env_ids)), :, self.state["place"][env_ids]] = 255
        return frames


class TorchWalk(Walk):
    """In PyTorch."""

    def __init__(self, num_envs: int):
        import torch

        super().__init__(num_envs)
        self.state["place"] = torch.zeros(num_envs, dtype=torch.int64)

    def reset(self, mask: np.ndarray, seeds: np.ndarray) -> None:
        import torch

        begun = torch.as_tensor((seeds % np.uint64(3)).astype(np.int64))
        self.state["place"] = torch.where(torch.as_tensor(mask), begun, self.state["place"])

    def step(self, actions: np.ndarray) -> Any:
        import torch

        self.state["place"] = (self.state["place"] + 2 * torch.as_tensor(actions) - 1).clamp(min=0)
        over = self.state["place"] >= self.length
        return over.float(), over

    def observe(self) -> Any:
        return self.state["place"][:, None].float()


class JaxWalk(Walk):
    """In JAX."""

    def __init__(self, num_envs: int):
        import jax.numpy as jnp

        super().__init__(num_envs)
        self.state["place"] = jnp.zeros(num_envs, jnp.int32)

    def reset(self, mask: np.ndarray, seeds: np.ndarray) -> None:
        import jax.numpy as jnp

        begun = (seeds % np.uint64(3)).astype(np.int32)
        self.state["place"] = jnp.where(mask, begun, self.state["place"])

    def step(self, actions: np.ndarray) -> Any:
        import jax.numpy as jnp

        self.state["place"] = jnp.maximum(self.state["place"] + 2 * actions.astype(np.int32) - 1, 0)
        over = self.state["place"] >= self.length
        return over.astype(jnp.float32), over

    def observe(self) -> Any:
        return self.state["place"][:, None].astype(np.float32)


class OneWalk(gym.Env):
    """The same, one at a time; its beginnings are another pool's."""

    observation_space, action_space = Walk.observation_space, Walk.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = (options or {}).get("place", 0)
        return np.array([self.place], np.float32), {}

    def step(self, action: Any) -> Any:
        self.place = max(0, self.place + (1 if action else -1))
        over = self.place >= LENGTH
        return np.array([self.place], np.float32), float(over), over, False, {}

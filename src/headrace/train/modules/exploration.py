"""How algorithms that learn action values explore: ε-greedy choices, and distributions over bounded actions.

Each class has those methods of `headrace.train.modules.distributions.Distribution` that acting needs: no algorithm that
uses it needs the entropy or the log-probability of a stored action. ``explore`` of the classes for bounded actions sets
whether actions are uniform, as before the first update.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.modules.action_masks import NEVER
from headrace.train.modules.distributions import BoxActions, Categorical


@dataclass
class EpsilonGreedy(Categorical):
    """The action with the greatest value, or with probability ``epsilon`` a random one; params are action values.

    Attributes:
        epsilon: a number, or a tensor that changes during a run: 0-d, or one for each row.
        masked: whether the values of forbidden actions are lowered by `NEVER`, so that random ones leave them out.
    """

    epsilon: float | Tensor = 0.0
    masked: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise_size = 2

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions int64[B] for noise [B, 2], whose columns decide whether to explore, and with which action."""
        explore, which = noise.unbind(-1)
        # rounding may turn the largest noise into an action beyond the last
        if self.masked:
            allowed = params > NEVER / 2
            count = allowed.sum(1)
            rank = torch.minimum((which * count).to(torch.int64), count - 1)
            other = (allowed.cumsum(1) <= rank.unsqueeze(1)).sum(1)
        else:
            other = (which * self.size).to(torch.int64).clamp_(max=self.size - 1)
        return torch.where(explore < self.epsilon, other, self.mode(params))


class BoundedActions(BoxActions):
    """Actions of a bounded `Box`, for off-policy algorithms, whose actors stay within the bounds.

    Attributes:
        widely: whether actions are uniform over the whole range, whatever the params.

    Raises:
        OptionError: the actions are not of a `Box` with bounds.
    """

    def __init__(self, space: gym.Space, device: torch.device | str = "cpu"):
        if not isinstance(space, gym.spaces.Box) or not space.is_bounded():
            raise OptionError(f"DDPG, TD3 and SAC need actions of a Box with bounds, not {space}")
        super().__init__(space.low, space.high, np.dtype(space.dtype), device)
        self.widely = False
        self._widely = torch.tensor(False, device=device)  # which CUDA graphs read

    def explore(self, widely: bool) -> None:
        self.widely = widely
        self._widely.fill_(widely)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions float32[B, *action_shape] for params and noise [B, A]; uniform ones while `widely`."""
        if self._widely.is_cuda:
            actions = torch.where(self._widely, _uniform(noise), self.chosen(params, noise))
        else:
            actions = _uniform(noise) if self.widely else self.chosen(params, noise)
        return actions.view(-1, *self.action_shape)

    def chosen(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns the actions that the params describe, float32[B, A] in [-1, 1], for noise [B, A]."""
        raise NotImplementedError


def _uniform(noise: Tensor) -> Tensor:
    """Returns numbers uniform in [-1, 1], for standard normal noise of any shape."""
    return torch.erf(noise * math.sqrt(0.5))


class Deterministic(BoundedActions):
    """An actor's deterministic output plus Gaussian exploration noise; params are actions within [-1, 1].

    Args:
        exploration: standard deviation of the noise, in units of half the action range.
    """

    def __init__(self, space: gym.Space, exploration: float, device: torch.device | str = "cpu"):
        super().__init__(space, device)
        self.size = self.noise_size
        self.exploration = exploration

    def chosen(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns params plus scaled noise, clipped to [-1, 1]."""
        return torch.add(params, noise, alpha=self.exploration).clamp_(-1.0, 1.0)

    def mode(self, params: Tensor) -> Tensor:
        """Returns params [B, A] as actions [B, *action_shape]."""
        return params.view(-1, *self.action_shape)


class SquashedGaussian(BoundedActions):
    """The tanh of independent normal variables; params are their means, followed by their log standard deviations.

    The log standard deviations are clamped to `LOG_STD`, as in the authors' code.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), appendix C.
    """

    LOG_STD = (-20.0, 2.0)

    def __init__(self, space: gym.Space, device: torch.device | str = "cpu"):
        super().__init__(space, device)
        self.size = self.outputs = 2 * self.noise_size

    def chosen(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns the tanh of samples."""
        mean, log_std = params.chunk(2, -1)
        return torch.addcmul(mean, log_std.clamp(*self.LOG_STD).exp_(), noise).tanh_()

    def mode(self, params: Tensor) -> Tensor:
        """Returns the tanh of the means, [B, *action_shape]."""
        return params[:, : self.noise_size].tanh().view(-1, *self.action_shape)

    def rsample(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns actions [B, A] and their log-probabilities [B], differentiable.

        With ``u`` before the tanh, ``log(1 - tanh²u) = 2 (log 2 - u - softplus(-2u))``, which is finite for all ``u``.
        """
        mean, log_std = params.chunk(2, -1)
        log_std = log_std.clamp(*self.LOG_STD)
        u = torch.addcmul(mean, log_std.exp(), noise)
        squashing = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
        each = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi) - squashing
        return torch.tanh(u), each.sum(1)

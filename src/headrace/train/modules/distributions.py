"""Action distributions of algorithms that learn from rollouts: functions of a parameter matrix.

`torch.distributions` makes and validates an object for every minibatch. A loss needs only the log-probability and the
entropy of each sample, which are written out here.

Every distribution maps ``params`` float32[B, size] to actions. Noise is drawn in advance for a whole rollout, so that
sampling is one or two operations. `headrace.train.modules.exploration` has the distributions of algorithms with a
replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.torch.tensors import running_sum


class Distribution(Protocol):
    """The interface of an action distribution for on-policy algorithms.

    Attributes:
        size: columns of the parameter matrix.
        outputs: number of these columns that the network computes from an observation.
        noise_size: columns of noise that one sample consumes.
        action_shape: shape of one stored action.
        action_dtype: dtype of stored actions.
    """

    size: int
    outputs: int
    noise_size: int
    action_shape: tuple[int, ...]
    action_dtype: torch.dtype

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise float32[…, noise_size] for `sample`, in place, and returns it."""
        ...

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions [B, *action_shape], drawn for params float32[B, size] with noise float32[B, noise_size]."""
        ...

    def mode(self, params: Tensor) -> Tensor:
        """Returns the most likely actions [B, *action_shape] for params float32[B, size]."""
        ...

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns stored actions [B, *action_shape] in the environment's units and dtype."""
        ...

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities float32[B] and entropies float32[B].

        Args:
            params: parameters of the distributions, float32[B, size].
            actions: stored actions, [B, *action_shape].
        """
        ...


@dataclass
class Categorical:
    """One choice among ``size``; params are logits, sampled by inverting the cumulative distribution function.

    Softmax over a few columns of many rows is several times slower than over a few rows of many columns, so the
    arithmetic uses [size, B].
    """

    size: int
    start: int = 0

    def __post_init__(self) -> None:
        self.outputs, self.noise_size = self.size, 1
        self.action_shape: tuple[int, ...] = ()
        self.action_dtype = torch.int64

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise, of any shape, with numbers uniform in [0, 1), in place, and returns it."""
        return noise.uniform_(generator=generator)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions int64[B] for noise [B, 1], by inverting the cumulative distribution."""
        below = running_sum(torch.softmax(params.t().contiguous(), 0), 0)[:-1]
        return (below <= noise.reshape(-1)).sum(0)

    def mode(self, params: Tensor) -> Tensor:
        """Returns the most likely actions int64[B]."""
        return torch.max(params, -1)[1]  # argmax takes ten times as long over columns

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns actions counted from the space's ``start``."""
        return actions + self.start if self.start else actions

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities [B] and entropies [B] for actions int64[B]."""
        log_p = torch.log_softmax(params.t().contiguous(), 0)
        return log_p.gather(0, actions.unsqueeze(0)).squeeze(0), (log_p.exp() * log_p).sum(0).neg_()


class MultiCategorical:
    """Several independent choices; params are their concatenated logits."""

    def __init__(self, sizes: tuple[int, ...], starts: tuple[int, ...], device: torch.device | str = "cpu"):
        self.sizes = sizes
        self.parts = [Categorical(n) for n in sizes]
        self.size = self.outputs = sum(sizes)
        self.noise_size = len(sizes)
        self.action_shape = (len(sizes),)
        self.action_dtype = torch.int64
        self.starts = torch.tensor(starts, device=device) if any(starts) else None

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise, of any shape, with numbers uniform in [0, 1), in place, and returns it."""
        return noise.uniform_(generator=generator)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions int64[B, choices] for noise [B, choices]."""
        columns = zip(self.parts, params.split(self.sizes, -1), noise.unbind(-1), strict=True)
        return torch.stack([part.sample(logits, u) for part, logits, u in columns], -1)

    def mode(self, params: Tensor) -> Tensor:
        """Returns the most likely actions int64[B, choices]."""
        columns = zip(self.parts, params.split(self.sizes, -1), strict=True)
        return torch.stack([part.mode(logits) for part, logits in columns], -1)

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns actions counted from each choice's ``start``."""
        return actions if self.starts is None else actions + self.starts

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the sums over choices of log-probabilities [B] and entropies [B]."""
        columns = zip(self.parts, params.split(self.sizes, -1), actions.unbind(-1), strict=True)
        log_probs, entropies = zip(*(part.evaluate(p, a) for part, p, a in columns), strict=True)
        return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)


class BoxActions:
    """Actions of a `Box`, stored in units in which its range is [-1, 1]; `to_env` clips and scales them.

    Dimensions without bounds are not scaled.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, dtype: np.dtype, device: torch.device | str = "cpu"):
        self.action_shape = low.shape
        self.action_dtype = torch.float32
        self.outputs = self.noise_size = int(np.prod(low.shape))
        bounded = np.isfinite(low) & np.isfinite(high)
        least, most = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)  # as inf - inf causes a warning
        numbers = (
            np.where(bounded, 1.0, np.inf),
            (most - least) / 2,
            (most + least) / 2,
            low,
            high,
        )
        self.limit, self.scale, self.centre, self.low, self.high = (
            torch.as_tensor(np.asarray(x, np.float32), device=device) for x in numbers
        )
        self.env_dtype = torch.float64 if dtype == np.float64 else torch.float32

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise, of any shape, with standard normal numbers, in place, and returns it."""
        return noise.normal_(generator=generator)

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns actions clipped to the range and scaled to the space's bounds, in `env_dtype`."""
        scaled = torch.addcmul(self.centre, actions.clamp(-self.limit, self.limit), self.scale)
        # rounding may exceed a bound by one unit in the last place
        return scaled.clamp_(self.low, self.high).to(self.env_dtype)


class DiagonalGaussian(BoxActions):
    """Independent normal distributions; params are the means, followed by the log standard deviations.

    Actions are stored unbounded; `to_env` clips them.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, dtype: np.dtype, device: torch.device | str = "cpu"):
        super().__init__(low, high, dtype, device)
        self.size = 2 * self.noise_size

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions float32[B, *action_shape] for noise [B, A]."""
        mean, log_std = params.chunk(2, -1)
        return torch.addcmul(mean, log_std.exp(), noise).view(-1, *self.action_shape)

    def mode(self, params: Tensor) -> Tensor:
        """Returns the means, [B, *action_shape]."""
        return params[:, : self.noise_size].reshape(-1, *self.action_shape)

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities [B] and entropies [B] for actions [B, *action_shape]."""
        mean, log_std = params.chunk(2, -1)
        inverse_std = torch.exp(-log_std)
        z = (actions.reshape(-1, self.noise_size) - mean) * inverse_std
        log_std_sum = log_std.sum(-1)
        log_prob = (z * z).sum(-1).mul_(-0.5) - log_std_sum - 0.5 * math.log(2 * math.pi) * self.noise_size
        entropy = log_std_sum + 0.5 * (1 + math.log(2 * math.pi)) * self.noise_size
        return log_prob, entropy


def distribution_for(space: gym.Space, device: torch.device | str = "cpu") -> Distribution:
    """Returns the distribution for an action space, `Discrete`, `MultiDiscrete` or `Box`, with tensors on a device.

    Raises:
        OptionError: the space is of another kind.
    """
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    if isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return MultiCategorical(tuple(map(int, space.nvec)), tuple(map(int, space.start)), device)
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return DiagonalGaussian(space.low, space.high, np.dtype(space.dtype), device)
    raise OptionError(
        f"no policy can choose actions in {space}: they are Discrete, MultiDiscrete of one row, or a Box of floats; "
        "wrap the environment in a gymnasium.ActionWrapper that has such actions"
    )

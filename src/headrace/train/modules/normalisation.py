"""Running statistics of observations, rewards and values.

All are updated once per iteration, after its rollout was collected, and never during it: the update then uses exactly
the normalised observations with which the policy acted, and so does an agent that is evaluated or resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

SMALLEST = 1e-4
"""the smallest standard deviation to divide by"""


class RunningStatistics:
    """Mean and variance of a stream of vectors, merged batch by batch (Chan et al. 1979), in float64.

    Attributes:
        gather: returns the tensors of all processes, [processes, …], given this one's; None for a single process. Every
            process merges the batches of all in the same order, so that all have the same statistics.
    """

    def __init__(self, shape: tuple[int, ...], device: torch.device | str = "cpu"):
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self.variance = torch.ones(shape, dtype=torch.float64, device=device)
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.gather: Callable[[Tensor], Tensor] | None = None

    def update(self, batch: Tensor, weights: Tensor | None = None) -> None:
        """Merges a batch [B, *shape]; rows whose weight, of weights [B] of 0 and 1, is 0 do not count."""
        batch = batch.to(torch.float64)
        if weights is None and len(batch):
            variance, mean = torch.var_mean(batch, 0, correction=0)
            count = self.count.new_full((), len(batch))
        else:  # var_mean of no rows is NaN
            weights = batch.new_zeros(len(batch)) if weights is None else weights.to(torch.float64)
            weights = weights.view(-1, *(1,) * (batch.dim() - 1))
            count = weights.sum()
            mean = (batch * weights).sum(0) / count.clamp(min=1)
            variance = ((batch - mean).square() * weights).sum(0) / count.clamp(min=1)
        if self.gather is None:
            self._merge(count, mean, variance)
            return
        for one in self.gather(torch.cat([count.view(1), mean.flatten(), variance.flatten()])):
            mean, variance = one[1:].view(2, *self.mean.shape)
            self._merge(one[0], mean, variance)

    def _merge(self, count: Tensor, mean: Tensor, variance: Tensor) -> None:
        share = count / (self.count + count).clamp(min=1)
        delta = mean - self.mean
        self.mean += delta * share
        self.variance.mul_(1 - share).add_(variance * share + delta.square() * (share * (1 - share)))
        self.count += count

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint: mean, variance and count."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


class Standardiser(nn.Module):
    """Running statistics of a stream of vectors, or of numbers, as factors to standardise with.

    Args:
        shape: shape of one vector; ``()`` for numbers.
        floor: the smallest standard deviation to divide by.
        dtype: the dtype in which the mean is subtracted.

    Attributes:
        mean, scale: the mean, and 1 / the standard deviation, float32, of this shape: 0 and 1 before the first batch.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        device: torch.device | str = "cpu",
        floor: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__()
        self.statistics = RunningStatistics(shape, device)
        self.register_buffer("mean", torch.zeros(shape, dtype=dtype, device=device))
        self.register_buffer("scale", torch.ones(shape, device=device))
        self._least = max(floor, SMALLEST) ** 2

    def update(self, batch: Tensor, weights: Tensor | None = None) -> None:
        """Merges a batch [B, *shape]; see `RunningStatistics.update`."""
        self.statistics.update(batch, weights)
        self._refresh()

    def _refresh(self) -> None:
        self.mean.copy_(self.statistics.mean)
        self.scale.copy_(self.statistics.variance.clamp(min=self._least).rsqrt())

    def pack(self) -> Tensor:
        """Returns mean, variance and count as one vector, float64[2 · size + 1]."""
        known = self.statistics
        return torch.cat((known.mean.view(-1), known.variance.view(-1), known.count.view(1)))

    def unpack(self, packed: Tensor) -> None:
        """Loads a vector that `pack` returned, from any device."""
        size = self.mean.numel()
        mean, variance, count = packed.split((size, size, 1))
        shape = self.mean.shape
        self.load({"mean": mean.view(shape), "variance": variance.view(shape), "count": count.view(())})

    def tensors(self) -> dict[str, Tensor]:
        """Returns all tensors, for copies in place."""
        return {**self.statistics.state(), "shift": self.mean, "scale": self.scale}

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint: mean, variance and count."""
        return self.statistics.state()

    def load(self, state: dict[str, Tensor]) -> None:
        self.statistics.load(state)
        if self.statistics.count > 0:
            self._refresh()


class ObservationNormaliser(Standardiser):
    """Scales observations to mean 0, standard deviation 1, clipped to ± 10; columns after the first ``size`` stay.

    Args:
        floor: the smallest standard deviation of a column, so that a column that is nearly always 0 is not scaled up.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str = "cpu",
        floor: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__((size,), device, floor, dtype)
        self.size = size

    def update(self, batch: Tensor, weights: Tensor | None = None) -> None:
        super().update(batch[:, : self.size], weights)

    def forward(self, observations: Tensor, out: Tensor | None = None) -> Tensor:
        """Writes normalised observations [B, D] to ``out``, float32, by default new memory, and returns it."""
        if observations.shape[1] > self.size:
            numbers, rest = observations.tensor_split((self.size,), 1)
            whole = torch.cat((self.forward(numbers), rest.to(torch.float32)), 1)
            return whole if out is None else out.copy_(whole)
        mean, scale = self.mean, self.scale
        if observations.shape[1] < self.size:  # without what only a critic sees
            mean, scale = mean[: observations.shape[1]], scale[: observations.shape[1]]
        centred = torch.sub(observations, mean, out=out).to(torch.float32)
        return centred.mul_(scale).clamp_(-10.0, 10.0)


class ValueNormaliser(Standardiser):
    """Standardises a critic's targets by statistics of all returns so far, whatever the scale of the rewards.

    The critic's outputs have mean 0 and standard deviation 1; `restored` converts them into units of rewards.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        super().__init__((), device)

    def normalised(self, returns: Tensor) -> Tensor:
        """Returns the critic's targets for returns of any shape."""
        return (returns - self.mean) * self.scale

    def restored(self, values: Tensor) -> Tensor:
        """Returns the critic's outputs, of any shape, in units of rewards."""
        return values / self.scale + self.mean


class RewardScaler:
    """Divides rewards by the standard deviation of the running discounted return (Engstrom et al. 2020)."""

    def __init__(self, num_envs: int, gamma: float, device: torch.device | str = "cpu"):
        self.gamma = gamma
        self.statistics = RunningStatistics((), device)
        self.running = torch.zeros(num_envs, device=device)

    def __call__(self, rewards: Tensor, done: Tensor, present: Tensor | None = None) -> Tensor:
        """Updates the statistics and returns the scaled rewards, clipped to ± 10."""
        self.update(rewards, done, present)
        return self.scaled(rewards)

    def update(self, rewards: Tensor, done: Tensor, present: Tensor | None = None) -> None:
        """Merges the returns of a rollout: rewards float32[T, N], ends bool[T, N]; only where ``present``, if given."""
        returns = torch.empty_like(rewards)
        keep = (~done).float().mul_(self.gamma)
        for t in range(len(rewards)):
            torch.add(self.running, rewards[t], out=returns[t])
            torch.mul(returns[t], keep[t], out=self.running)
        self._merge(returns.flatten(), None if present is None else present.flatten())

    def _merge(self, returns: Tensor, present: Tensor | None) -> None:
        self.statistics.update(returns, present)

    def scaled(self, rewards: Tensor, steps: int = 1) -> Tensor:
        """Returns rewards of any shape, each the sum of those of ``steps`` steps, scaled by the present statistics.

        They are clipped to ± 10 · ``steps``.
        """
        return (rewards * self._scale).clamp_(-10.0 * steps, 10.0 * steps)

    def restored(self, values: Tensor) -> Tensor:
        """Returns values that were learnt from scaled rewards, of any shape, in the environments' units."""
        return values / self._scale

    @property
    def _scale(self) -> Tensor:
        return (self.statistics.variance + 1e-8).rsqrt().float()

    def known(self) -> dict[str, Tensor]:
        """Returns the tensors that determine the scale: mean, variance and count."""
        return self.statistics.state()

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint: those of `known`, and the running returns float32[num_envs]."""
        return {**self.known(), "running": self.running}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copies the values of `state`, or of `known`, into the tensors."""
        for name, tensor in self.state().items():
            if name in state:
                tensor.copy_(state[name])

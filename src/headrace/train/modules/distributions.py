"""Action distributions as plain functions of a parameter matrix, with analytical gradients.

`torch.distributions` builds and validates an object for every minibatch, and autograd then visits a dozen small nodes.
A PPO loss needs only log-probability, entropy and their gradients for each sample, which are written out here;
autograd, or a network's own backward pass, handles the network only.

Every distribution maps ``params`` float32[B, size] to actions; noise is drawn beforehand for a whole rollout, so that
sampling is one or two operations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError


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
        """Fill noise float32[…, noise_size] for `sample`, in place, and return it."""
        ...

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions [B, *action_shape] drawn with noise [B, noise_size]."""
        ...

    def mode(self, params: Tensor) -> Tensor:
        """Returns the most likely actions [B, *action_shape]."""
        ...

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns stored actions in the environment's units and dtype."""
        ...

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Returns log-probability [B], entropy [B], and what `gradient` needs."""
        ...

    def gradient(self, saved: Any, d_log_prob: Tensor, d_entropy: float | Tensor) -> Tensor:
        """Returns the gradient [B, size] for params, given d loss/d log_prob [B] and d loss/d entropy, one or [B]."""
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
        """Fill noise with numbers uniform in [0, 1), in place, and return it."""
        return noise.uniform_(generator=generator)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions int64[B] for noise [B, 1], by inverting the cumulative distribution."""
        below = torch.softmax(params.t().contiguous(), 0).cumsum_(0)[:-1]
        return (below <= noise.reshape(-1)).sum(0)

    def mode(self, params: Tensor) -> Tensor:
        """Returns the most likely actions int64[B]."""
        return torch.max(params, -1)[1]  # argmax takes ten times as long over columns

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns actions counted from the space's ``start``."""
        return actions + self.start if self.start else actions

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Returns log-probabilities [B], entropies [B], and what `gradient` needs, for actions int64[B]."""
        log_p = torch.log_softmax(params.t().contiguous(), 0)
        p = log_p.exp()
        entropy = (p * log_p).sum(0).neg_()
        log_prob = log_p.gather(0, actions.unsqueeze(0)).squeeze(0)
        return log_prob, entropy, (log_p, p, entropy, actions)

    def gradient(self, saved: Any, d_log_prob: Tensor, d_entropy: float | Tensor) -> Tensor:
        """Returns the gradient [B, size] for the logits; see `Distribution.gradient`."""
        # d log p(a)/d logits = onehot(a) - p;   d H/d logits = -p (log p + H)
        log_p, p, entropy, actions = saved
        if isinstance(d_entropy, float) and d_entropy == 0.0:
            slope = -d_log_prob * p
        else:
            slope = torch.add(log_p, entropy).mul_(-d_entropy).sub_(d_log_prob).mul_(p)
        return slope.scatter_add_(0, actions.unsqueeze(0), d_log_prob.unsqueeze(0)).t()


@dataclass
class EpsilonGreedy:
    """The action of the greatest value, or with probability ``epsilon`` a random one; params are action values.

    Attributes:
        epsilon: a number, or a tensor that changes during a run: 0-d, or one for each row.
    """

    size: int
    start: int = 0
    epsilon: float | Tensor = 0.0

    def __post_init__(self) -> None:
        self.outputs, self.noise_size = self.size, 2
        self.action_shape: tuple[int, ...] = ()
        self.action_dtype = torch.int64

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fill noise with numbers uniform in [0, 1), in place, and return it."""
        return noise.uniform_(generator=generator)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions int64[B] for noise [B, 2]: the first column decides whether, the second how to explore."""
        explore, which = noise.unbind(-1)
        # rounding may turn the largest noise into an action beyond the last
        other = (which * self.size).to(torch.int64).clamp_(max=self.size - 1)
        return torch.where(explore < self.epsilon, other, self.mode(params))

    def random(self, rows: int, generator: torch.Generator) -> Tensor:
        """Returns actions int64[rows], uniformly distributed."""
        return torch.randint(self.size, (rows,), generator=generator, device=generator.device)

    def mode(self, params: Tensor) -> Tensor:
        """Returns the actions int64[B] of the greatest value."""
        return torch.max(params, -1)[1]

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns actions counted from the space's ``start``."""
        return actions + self.start if self.start else actions


class MultiCategorical:
    """Independent choices; params are their concatenated logits."""

    def __init__(self, sizes: tuple[int, ...], starts: tuple[int, ...], device: torch.device | str = "cpu"):
        self.sizes = sizes
        self.parts = [Categorical(n) for n in sizes]
        self.size = self.outputs = sum(sizes)
        self.noise_size = len(sizes)
        self.action_shape = (len(sizes),)
        self.action_dtype = torch.int64
        self.starts = torch.tensor(starts, device=device) if any(starts) else None

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fill noise with numbers uniform in [0, 1), in place, and return it."""
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

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Returns the sums over choices of log-probabilities [B] and entropies [B], and what `gradient` needs."""
        columns = zip(self.parts, params.split(self.sizes, -1), actions.unbind(-1), strict=True)
        log_probs, entropies, saved = zip(*(part.evaluate(p, a) for part, p, a in columns), strict=True)
        return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0), saved

    def gradient(self, saved: Any, d_log_prob: Tensor, d_entropy: float | Tensor) -> Tensor:
        """Returns the gradient [B, size] for the logits; see `Distribution.gradient`."""
        pieces = [part.gradient(s, d_log_prob, d_entropy) for part, s in zip(self.parts, saved, strict=True)]
        return torch.cat(pieces, -1)


class BoxActions:
    """Actions of a `Box`, stored in units in which its range is [-1, 1]; `to_env` clips and scales them.

    Dimensions without bounds are not scaled.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, dtype: np.dtype, device: torch.device | str = "cpu"):
        self.action_shape = low.shape
        self.action_dtype = torch.float32
        self.outputs = self.noise_size = int(np.prod(low.shape))
        bounded = np.isfinite(low) & np.isfinite(high)
        least, most = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)  # inf - inf is a warning
        numbers = (
            np.where(bounded, 1.0, np.inf),
            (most - least) / 2,
            (most + least) / 2,
            low,
            high,
        )
        self.limit, self.scale, self.centre, self.low, self.high = (
            torch.from_numpy(x.astype(np.float32)).to(device) for x in numbers
        )
        self.env_dtype = torch.float64 if dtype == np.float64 else torch.float32

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fill noise with standard normal numbers, in place, and return it."""
        return noise.normal_(generator=generator)

    def random(self, rows: int, generator: torch.Generator) -> Tensor:
        """Returns actions float32[rows, *action_shape], uniformly distributed over the range."""
        return torch.empty(rows, *self.action_shape, device=self.scale.device).uniform_(-1, 1, generator=generator)

    def to_env(self, actions: Tensor) -> Tensor:
        """Returns actions clipped to the range and scaled to the space's bounds, in `env_dtype`."""
        scaled = torch.addcmul(self.centre, actions.clamp(-self.limit, self.limit), self.scale)
        # rounding may exceed a bound by one unit in the last place
        return scaled.clamp_(self.low, self.high).to(self.env_dtype)


class BoundedActions(BoxActions):
    """Actions of a bounded `Box`, for off-policy algorithms, whose actors stay within the bounds.

    Raises:
        OptionError: the actions are not of a `Box` with bounds.
    """

    def __init__(self, space: gym.Space, device: torch.device | str = "cpu"):
        if not isinstance(space, gym.spaces.Box) or not space.is_bounded():
            raise OptionError(f"DDPG, TD3 and SAC need actions of a Box with bounds, not {space}")
        super().__init__(space.low, space.high, np.dtype(space.dtype), device)

    def explore(self, widely: bool) -> None:
        """Explore over the whole range if ``widely``, else as usual; does nothing for stochastic policies."""


class Deterministic(BoundedActions):
    """An actor's deterministic output plus Gaussian exploration noise; params are actions within [-1, 1].

    Args:
        exploration: standard deviation of the noise, in units of half the action range.
    """

    def __init__(self, space: gym.Space, exploration: float, device: torch.device | str = "cpu"):
        super().__init__(space, device)
        self.size = self.noise_size
        self.exploration = exploration
        self.spread = torch.tensor(float(exploration), device=device)  # present standard deviation of the noise

    def explore(self, widely: bool) -> None:
        self.spread.fill_(1.0 if widely else self.exploration)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions float32[B, *action_shape] for noise [B, A]: params plus scaled noise, clipped to [-1, 1]."""
        noisy = torch.addcmul(params, noise, self.spread).clamp_(-1.0, 1.0)
        return noisy.view(-1, *self.action_shape)

    def mode(self, params: Tensor) -> Tensor:
        """Returns params [B, A] as actions [B, *action_shape]."""
        return params.view(-1, *self.action_shape)


class SquashedGaussian(BoundedActions):
    """The tanh of independent normals; params are their means, then their log standard deviations.

    The latter are clamped to `LOG_STD`, as in the authors' code.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), appendix C.
    """

    LOG_STD = (-20.0, 2.0)

    def __init__(self, space: gym.Space, device: torch.device | str = "cpu"):
        super().__init__(space, device)
        self.size = self.outputs = 2 * self.noise_size

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Returns actions float32[B, *action_shape] in (-1, 1) for noise [B, A]."""
        mean, log_std = params.chunk(2, -1)
        return torch.addcmul(mean, log_std.clamp(*self.LOG_STD).exp_(), noise).tanh_().view(-1, *self.action_shape)

    def mode(self, params: Tensor) -> Tensor:
        """Returns the tanh of the means, [B, *action_shape]."""
        return params[:, : self.noise_size].tanh().view(-1, *self.action_shape)

    def rsample(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] and their log-probability [B], as `sample_with_log_prob`; autograd differentiates both."""
        mean, log_std = params.chunk(2, -1)
        log_std = log_std.clamp(*self.LOG_STD)
        u = mean + log_std.exp() * noise
        normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        squashing = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
        return torch.tanh(u), (normal - squashing).sum(1)

    def sample_with_log_prob(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Returns actions [B, A], their log-probability [B], and what `gradient` needs.

        With ``u`` before the tanh, ``log(1 - tanh²u) = 2 (log 2 - u - softplus(-2u))``, which is finite for all ``u``.
        """
        mean, log_std = params.chunk(2, -1)
        log_std = log_std.clamp(*self.LOG_STD)
        spread = log_std.exp().mul_(noise)
        u = torch.add(mean, spread)
        each = torch.nn.functional.softplus(u, beta=-2.0).mul_(-2.0).add_(u).mul_(2.0)  # 2u + 2 softplus(-2u)
        each.sub_(log_std).addcmul_(noise, noise, value=-0.5)
        log_prob = each.sum(1).sub_((0.5 * math.log(2 * math.pi) + 2 * math.log(2)) * self.noise_size)
        actions = u.tanh_()
        return actions, log_prob, (params, spread, actions)

    def gradient(self, saved: Any, d_actions: Tensor, d_log_prob: Tensor) -> Tensor:
        """Returns the gradient [B, 2A] for params, from d loss/d actions [B, A] and d loss/d log_prob 0-d or [B, 1]."""
        # da/du = 1 - a²;   d log p/du = 2a;   d log p/d log_std = spread · 2a - 1
        params, spread, actions = saved
        d_u = torch.ops.aten.tanh_backward.default(d_actions, actions).add_(actions * d_log_prob, alpha=2.0)
        d_log_std = torch.ops.aten.hardtanh_backward.default(
            torch.mul(d_u, spread).sub_(d_log_prob), params[:, self.noise_size :], *self.LOG_STD
        )
        return torch.cat((d_u, d_log_std), 1)


class WideGaussian(SquashedGaussian):
    """A `SquashedGaussian` that draws actions uniformly while it is to explore widely, whatever the params are."""

    def __init__(self, space: gym.Space, device: torch.device | str = "cpu"):
        super().__init__(space, device)
        self.widely = torch.tensor(False, device=device)

    def explore(self, widely: bool) -> None:
        self.widely.fill_(widely)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """As `SquashedGaussian.sample`; of standard normal noise ``erf(noise / √2)`` is uniform in (-1, 1)."""
        uniform = torch.erf(noise * math.sqrt(0.5)).view(-1, *self.action_shape)
        return torch.where(self.widely, uniform, super().sample(params, noise))


class DiagonalGaussian(BoxActions):
    """Independent normals; params are the means, then the log standard deviations.

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

    def evaluate(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Returns log-probabilities [B], entropies [B], and what `gradient` needs, for actions [B, *action_shape]."""
        mean, log_std = params.chunk(2, -1)
        inverse_std = torch.exp(-log_std)
        z = (actions.flatten(1) - mean) * inverse_std
        log_std_sum = log_std.sum(-1)
        log_prob = (z * z).sum(-1).mul_(-0.5) - log_std_sum - 0.5 * math.log(2 * math.pi) * self.noise_size
        entropy = log_std_sum + 0.5 * (1 + math.log(2 * math.pi)) * self.noise_size
        return log_prob, entropy, (z, inverse_std)

    def gradient(self, saved: Any, d_log_prob: Tensor, d_entropy: float | Tensor) -> Tensor:
        """Returns the gradient [B, 2A] for means and log standard deviations; see `Distribution.gradient`."""
        # d log p/d mean = z/std;   d log p/d log_std = z² - 1;   d H/d log_std = 1
        z, inverse_std = saved
        d = d_log_prob.unsqueeze(1)
        d_mean = z * inverse_std * d
        each = d_entropy.unsqueeze(1) if isinstance(d_entropy, Tensor) and d_entropy.dim() else d_entropy
        d_log_std = (z * z).sub_(1.0).mul_(d).add_(each)
        return torch.cat((d_mean, d_log_std), -1)


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
    raise OptionError(f"PPO has no policy for the action space {space}")

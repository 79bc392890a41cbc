"""FlashSAC: soft actor-critic for many environments and few, large updates.

    headrace train HalfCheetah-v5 --algo examples/algorithms/flash_sac.py:FlashSAC
    headrace train HalfCheetah-v5 --algo examples/algorithms/flash_sac.py:FlashSAC --help

Many environments fill a replay faster than a learner can use it. There are few updates, each from a large batch, of
deep and wide networks. These stay trainable because weights, features and gradients are bounded: after each update
every unit's weights are normalised to length 1, the features of each row have a root mean square of 1, and critics
return distributions. Targets follow slowly. For exploration, noise is kept for a number of steps drawn from a zeta
distribution.

    block   = x + relu(norm(narrow(relu(norm(widen(x))))))     four times as wide inside; norms of a batch
    z       = values from -value_bound to value_bound
    p, p'   = chances of z, of [s, s'] and [a, a'] in one batch; p' of the target with the lower mean
    r'      = r / max(σ(G), max |G| / value_bound)              of running discounted returns G
    m       = projection of r' + γ · d · (z - α · log π(a'|s')) with chances p' onto z
    critics : -Σ mean(Σ m · log p)
    actor, temperature: as of SAC, with Q = Σ p · z

``hidden`` and ``critic_hidden`` have one width per block, all equal. Target networks move when the actor is updated, in
every second update, so a ``target_rate`` of 0.02 is the authors' 0.01 per update. Unlike theirs, the learning rate is
constant.

Sources: Kim et al. 2026 (arXiv:2604.04539); Haarnoja et al. 2018 (arXiv:1812.05905) for the losses; Bellemare et al.
2017 (arXiv:1707.06887) for distributions of values; Dabney et al. 2021 (arXiv:2006.01782) for the zeta distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from headrace.train.settings.algorithms import CrossQConfig
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.algorithms.crossq.crossq import CrossQ
from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SoftActorCritic
from headrace.train.modules.batch_renorm import BatchRenorm, Renorm
from headrace.train.modules.exploration import SquashedGaussian
from headrace.train.modules.network import input_size
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.algorithm import DEFAULT_PRESET
from headrace.train.settings.fields import NEVER, setting
from headrace.train.storage.transitions import Transitions

UNREACHED = 2**62  # batches
DEVIATION = 0.15
"""standard deviation of a normal distribution with the target entropy, in units of half the action range"""
WIDER = 4
"""the factor by which a block widens its input"""
LEAST, SMALLEST = 1e-8, 1e-4  # lengths of weights, and returns, that are divided by
LOG_STD = (-10.0, 2.0)
"""range of the log standard deviations of a `ResidualActor`"""
EXPONENT = 2.0
"""of the zeta distribution"""

# The settings of the paper's experiments on GPUs: 1,024 environments, and an update for each step of all of them.
PUBLISHED: dict[str, Any] = {
    "total_steps": 50_000_000,
    "num_envs": 1024,
    "num_steps": 1,
    "hidden": (128, 128),
    "critic_hidden": (256, 256),
    "activation": "relu",
    "minibatch_size": 2048,
    "learning_rate": 3e-4,
    "critic_learning_rate": 3e-4,
    "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,
    "adam_beta": 0.9,
    "policy_delay": 2,
    "target_rate": 0.02,
    "learning_starts": 10_000,
    "replay_ratio": 1 / 1024,
    "actor_device": "",
}
# For CPUs: smaller networks and batches, and a larger learning rate, as updates are few.
DEFAULT: dict[str, Any] = PUBLISHED | {
    "total_steps": 1_000_000,
    "num_envs": 16,
    "num_steps": 16,
    "critic_hidden": (128, 128),
    "minibatch_size": 512,
    "learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "replay_ratio": 1 / 8,
}
PRESETS = {DEFAULT_PRESET: {"": DEFAULT}, "published": {"": PUBLISHED}}


@dataclass(frozen=True)
class FlashSACConfig(CrossQConfig):
    """The settings of CrossQ, and those of distributions, targets and noise."""

    network_kinds = ("mlp",)
    presets = PRESETS

    initial_temperature: float = setting(
        0.01,
        "Weight of the entropy at the start, relative to scaled rewards; then it is learnt with learning_rate.",
        above=0,
    )
    atoms: int = setting(101, "Number of values in a critic's distribution.", low=2, speed=True)
    value_bound: float = setting(
        5.0, "Largest of these values; rewards are scaled so that discounted returns are within it.", above=0
    )
    target_rate: float = setting(
        0.02,
        "Step of the target networks towards the critics at each update of the actor; 1 copies them.",
        low=0,
        high=1,
    )
    renorm_after: int = setting(0, "Not used: batches are never renormalised.", needs=(NEVER,))
    target_entropy: float | None = setting(
        None,
        "Entropy, in nats, that the temperature is adjusted to; None for that of Gaussians whose standard deviation is "
        "0.15 of half the action range.",
    )
    noise_repeats: int = setting(
        16,
        "Largest number of steps for which an action's noise is kept; n steps with a probability proportional to 1/n².",
        low=1,
    )


class FlashSAC(CrossQ):
    """A stochastic policy π, critics that return distributions of Q, their targets, and the temperature α.

    Values, rewards and α are in units in which returns are within ``value_bound``, see `ReturnScaler`.

    Attributes:
        network: a `SoftActorCritic` of residual networks.
        target_entropy: the entropy that the temperature keeps the actor at, in nats.

    Raises:
        OptionError: the actions are not continuous and bounded, or blocks are not of one width.
    """

    settings = FlashSACConfig
    config: FlashSACConfig  # pyright: ignore[reportIncompatibleVariableOverride]  # the attribute is never assigned
    target_parts = ("critic",)

    def make(self) -> tuple[Any, nn.Module]:
        config, inputs = self.config, input_size(self.agent_group.observation)
        self.actor_every, self.betas = config.policy_delay, (config.adam_beta, 0.999)
        self._repeated = RepeatedNoise(config.noise_repeats)
        distribution = SquashedGaussian(self.agent_group.action, self.device)
        actions = distribution.noise_size
        normal = actions / 2 * math.log(2 * math.pi * math.e * DEVIATION**2)
        self.target_entropy = normal if config.target_entropy is None else config.target_entropy
        how = config.activation, Renorm(config.batch_momentum, warm_up=UNREACHED, epsilon=1e-5)
        actor = ResidualActor(inputs, 2 * actions, *_blocks("hidden", config.hidden), *how)
        shape = _blocks("critic_hidden", config.critic_hidden or config.hidden)
        critics = [ResidualNetwork(inputs + actions, config.atoms, *shape, *how) for _ in range(2)]
        critic = CategoricalCritics(critics, config.atoms, config.value_bound)
        network = SoftActorCritic(actor, critic, config.initial_temperature)
        normalise_units(network)
        return distribution, network

    def _make_reward_scaler(self, columns: int) -> RewardScaler:
        return ReturnScaler(columns, self.config.gamma, self.config.value_bound, self.device)

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        if self.distribution.widely:
            return super().draw(noise, generator)
        return self._repeated.draw(noise, generator)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``-Σ mean(Σ_z m(z) log p(z|s, a))`` over the critics.

        Here m is the projected distribution of ``r + discount · (z - α log π)``, where z is distributed as for the
        target with the lower mean for (s', a'). (s, a) and (s', a') are in one batch, for critics and targets alike.
        """
        critic: CategoricalCritics = self.network.critic  # type: ignore[assignment]
        rows = len(batch.rewards)
        with torch.no_grad():
            next_actions, next_log_prob = self.sample(self.network.actor(batch.next_observations))
            both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
            next_logits = self.targets.critic.of_batch(*both)[:, rows:]
            alpha = self.network.temperature.log.exp()
            shift = batch.rewards - batch.discounts * alpha * next_log_prob
            target = critic.projected(critic.lower(next_logits), shift, batch.discounts)
        logits = critic.of_batch(*both)[:, :rows]
        loss = -batch.mean((target * logits.log_softmax(2)).sum(2)).sum()
        return Losses({"critic": loss}, (loss, self.in_rewards(critic.expected(logits.detach()).mean())))

    def actor_params(self, batch: Transitions) -> Tensor:
        """Returns the outputs for the actor's loss, of a batch of states and following states."""
        both = torch.cat((batch.inputs, batch.next_observations))
        return self.network.actor.of_batch(both)[: len(batch.rewards)]

    def gradient_step(self, batch: Transitions, rates: UpdateRates, *, critics: bool) -> Tensor:
        """Makes a step as `OffPolicy.gradient_step`, and normalises the parameters that it changed."""
        measured = super().gradient_step(batch, rates, critics=critics)
        normalise_units(self.network.critic if critics else self.network.actor)
        return measured

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        return super().state() | checkpoints.prefixed(self.prefix("noise"), self._repeated.state())

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        super().load_state(saved)
        self._repeated.load(checkpoints.group(self.prefix("noise"), saved))


def _blocks(name: str, widths: tuple[int, ...]) -> tuple[int, int]:
    """Returns the width and the number of blocks; raises `OptionError` unless all have one width."""
    if len(set(widths)) != 1:
        raise OptionError(f"{name}={widths}: flashsac's blocks are all of one width, as in 128 128")
    return widths[0], len(widths)


class ResidualBlock(nn.Module):
    """A module that computes ``x + act(norm(narrow(act(norm(widen(x))))))`` of x [B, D]."""

    def __init__(self, width: int, activation: str, how: Renorm):
        super().__init__()
        self._activation = torch.relu if activation == "relu" else torch.tanh
        self.widen, self.narrow = _unit(width, WIDER * width), _unit(WIDER * width, width)
        self.inner, self.outer = BatchRenorm(WIDER * width, how), BatchRenorm(width, how)

    def forward(self, x: Tensor) -> Tensor:
        """Returns [B, D], by running statistics."""
        inside = self._activation(self.inner(self.widen(x)))
        return x + self._activation(self.outer(self.narrow(inside)))

    def of_batch(self, x: Tensor) -> Tensor:
        """Returns [B, D], by this batch's statistics, which update the running ones."""
        inside = self._activation(self.inner.of_batch(self.widen(x)))
        return x + self._activation(self.outer.of_batch(self.narrow(inside)))


class ResidualNetwork(nn.Module):
    """A normalisation of inputs, `ResidualBlock`s, and a linear layer.

    Args:
        inputs, outputs: columns.
        width: columns of the blocks.
        blocks: number of blocks.
        activation: ``"relu"`` or ``"tanh"``.
        how: settings of the normalisation.
    """

    def __init__(self, inputs: int, outputs: int, width: int, blocks: int, activation: str, how: Renorm):
        super().__init__()
        self.norm, self.first = BatchRenorm(inputs, how), _unit(inputs, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, activation, how) for _ in range(blocks))
        self.size = nn.RMSNorm(width, eps=1e-6)
        self.last = nn.Linear(width, outputs)
        nn.init.orthogonal_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by running statistics."""
        x = self.first(self.norm(x))
        for block in self.blocks:
            x = block(x)
        return self.last(self.size(x))

    def of_batch(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by this batch's statistics, which update the running ones."""
        x = self.first(self.norm.of_batch(x))
        for block in self.blocks:
            x = block.of_batch(x)  # type: ignore[operator]
        return self.last(self.size(x))


class ResidualActor(ResidualNetwork):
    """A `ResidualNetwork` that returns parameters of a `SquashedGaussian`, log standard deviations within `LOG_STD`."""

    def forward(self, x: Tensor) -> Tensor:
        return _bounded(super().forward(x))

    def of_batch(self, x: Tensor) -> Tensor:
        return _bounded(super().of_batch(x))


def _unit(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.orthogonal_(layer.weight)
    return layer


def _bounded(params: Tensor) -> Tensor:
    mean, raw = params.chunk(2, -1)
    low, high = LOG_STD
    return torch.cat((mean, low + (high - low) / 2 * (1 + raw.tanh())), -1)


@torch.no_grad()
def normalise_units(module: nn.Module) -> None:
    """Scales parameters of a module's `ResidualNetwork`\\ s to fixed lengths, in place, but for the last biases."""
    for each in module.modules():
        if isinstance(each, nn.Linear):
            each.weight.div_(each.weight.norm(dim=1, keepdim=True).clamp(min=LEAST))
        elif isinstance(each, BatchRenorm):
            length = torch.hypot(each.weight.norm(), each.bias.norm()).clamp(min=LEAST)
            scale = math.sqrt(each.weight.numel()) / length
            each.weight.mul_(scale)
            each.bias.mul_(scale)
        elif isinstance(each, nn.RMSNorm):
            each.weight.mul_(math.sqrt(each.weight.numel()) / each.weight.norm().clamp(min=LEAST))


class CategoricalCritics(nn.Module):
    """Critics of inputs and actions, each of which returns logits of ``atoms`` values from -``bound`` to ``bound``.

    Args:
        critics: networks [B, D + A] → [B, atoms] with ``of_batch``.
    """

    def __init__(self, critics: Iterable[nn.Module], atoms: int = 101, bound: float = 5.0):
        super().__init__()
        self.critics = nn.ModuleList(critics)
        self.register_buffer("values", torch.linspace(-bound, bound, atoms), persistent=False)
        self.values: Tensor

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B], by running statistics."""
        x = torch.cat((inputs, actions), 1)
        return self.expected(torch.stack([critic(x) for critic in self.critics]))

    def of_batch(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to logits [2, B, atoms], by the statistics of this batch."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic.of_batch(x) for critic in self.critics])  # type: ignore[operator]

    def expected(self, logits: Tensor) -> Tensor:
        """Returns the means of distributions, [..., atoms] to [...]."""
        return logits.softmax(-1) @ self.values

    def lower(self, logits: Tensor) -> Tensor:
        """Returns the probabilities [B, atoms] of the critic with the lower mean, from logits [K, B, atoms]."""
        number = self.expected(logits).argmin(0)
        return logits[number, torch.arange(logits.shape[1], device=logits.device)].softmax(1)

    def projected(self, chances: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        """Returns the distribution of ``shift + factor · value``, projected onto the atoms.

        Args:
            chances: probability of each value, float32[B, atoms].
            shift, factor: float32[B]. Values beyond the bound are clipped to it.

        Returns:
            Probabilities, float32[B, atoms]; each is divided between the two nearest atoms.
        """
        low, step = self.values[0], self.values[1] - self.values[0]
        moved = shift.unsqueeze(1) + factor.unsqueeze(1) * self.values
        places = ((moved - low) / step).clamp(0, len(self.values) - 1)
        below = places.floor()
        upper = places - below
        index = below.long()
        found = torch.zeros_like(chances).scatter_add_(1, index, chances * (1 - upper))
        return found.scatter_add_(1, (index + 1).clamp(max=len(self.values) - 1), chances * upper)


class ReturnScaler(RewardScaler):
    """Divides rewards by the larger of σ(G) and max |G| / ``bound``, of running discounted returns G; no clipping.

    Scaled returns are then within ± ``bound``, as critics with a fixed range need it.

    Attributes:
        largest: max |G| so far, float32[].
    """

    def __init__(self, num_envs: int, gamma: float, bound: float, device: torch.device | str = "cpu"):
        super().__init__(num_envs, gamma, device)
        self.bound, self.largest = bound, torch.zeros((), device=device)

    def _merge(self, returns: Tensor, present: Tensor | None) -> None:
        super()._merge(returns, present)
        sizes = returns.abs() if present is None else returns.abs() * present
        most, gather = sizes.amax(), self.statistics.gather
        torch.maximum(self.largest, most if gather is None else gather(most.view(1)).amax(), out=self.largest)

    def scaled(self, rewards: Tensor, steps: int = 1) -> Tensor:
        return rewards * self._scale

    @property
    def _scale(self) -> Tensor:
        return torch.minimum(super()._scale, self.bound / self.largest.clamp(min=SMALLEST))

    def known(self) -> dict[str, Tensor]:
        return super().known() | {"largest": self.largest}


class RepeatedNoise:
    """A source of standard normal noise that stays the same for several consecutive steps, in all environments.

    It is kept for n steps with a probability proportional to n⁻²: mostly for one, sometimes for many.

    Args:
        longest: the largest number of steps; 1 for new noise in each.
    """

    def __init__(self, longest: int):
        weights = torch.arange(1, longest + 1, dtype=torch.float64) ** -EXPONENT
        self._cumulative = (weights / weights.sum()).cumsum(0)[:-1].float()
        self._left: Tensor | None = None  # how many steps the kept noise lasts, int64[1]
        self._kept: Tensor | None = None

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise in place, and returns it; it begins with that of the last call, if it lasts for more steps.

        Args:
            noise: float32[T, B, A] for the steps of a rollout, or float32[B, A] for one step; noise that is kept has as
                many rows.
        """
        rollout = noise if noise.dim() == 3 else noise.unsqueeze(0)
        fresh, steps = torch.empty_like(rollout).normal_(generator=generator), len(rollout)
        if self._kept is None or self._left is None or self._kept.shape != rollout.shape[1:]:
            self._kept, self._left = fresh[0], torch.zeros(1, dtype=torch.int64)
        kept, left = self._kept.to(noise.device), self._left.to(noise.device)  # which may be from a checkpoint
        ends = torch.cat((left, self._lengths(steps, generator))).cumsum(0)
        number = torch.searchsorted(ends, torch.arange(steps, device=noise.device), right=True)
        each, last = torch.cat((kept.unsqueeze(0), fresh)), number[-1:]
        rollout.copy_(each[number])
        self._kept, self._left = each[last].squeeze(0), ends[last] - steps
        return noise

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint; none before the first call of `draw`."""
        return {} if self._kept is None or self._left is None else {"kept": self._kept, "left": self._left}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the tensors that `state` returned."""
        self._kept, self._left = state.get("kept"), state.get("left")

    def _lengths(self, count: int, generator: torch.Generator) -> Tensor:
        chance = torch.rand(count, generator=generator, device=generator.device)
        return 1 + torch.bucketize(chance, self._cumulative.to(chance.device), right=True)


if __name__ == "__main__":
    print(__doc__)

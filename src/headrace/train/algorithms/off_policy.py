"""A policy that learns from a replay, whatever the algorithm: when updates are due, and what a checkpoint keeps.

An algorithm is a subclass with networks and two halves of an update, critics and actor, each usable alone: a
learner may run them on two devices. What acts is one flat vector, `OffPolicy.acting`, which others get copies of.

Nothing in an update waits for the device. With the `Trainer`, transitions go into a ring on it
(`headrace.train.storage.device_replay`), minibatches are drawn there, and on CUDA one update is one graph (`Updater`).
"""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.algorithms.fused.protocol import FusedUpdate, Parts
from headrace.train.algorithms.optimiser import FlatAdam, flatten
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.updater import Updater
from headrace.train.config.registry import Capabilities
from headrace.train.config.replay import ReplayConfig
from headrace.train.modules.network import input_size
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.device_replay import Recorded, Replay, Transitions
from headrace.train.storage.hindsight import HindsightReplay, goals_for


class Losses(NamedTuple):
    """What one half of an update descends.

    Attributes:
        parts: the child of the network that a loss is of → the loss, a 0-d tensor.
        statistics: what there is to report, 0-d tensors.
    """

    parts: dict[str, Tensor]
    statistics: tuple[Tensor, ...]


class OffPolicy(Policy):
    """A network, slowly following copies of parts of it, and what they learn from.

    The parts of the network that learn are its children, each with an optimiser of its own. A frozen policy has
    the network alone: no optimisers, no targets, no replay.

    Attributes:
        clips_gradients: whether gradients are clipped to ``max_grad_norm``; their norms are then statistics, too.
        critic_statistics, actor_statistics: names of what `improve_critics` and `improve_actor` answer.
        acting_part: the child of the network that chooses actions.
        target_parts: the children that targets follow.
        parts: all parameters of each child, float32[P], which they are views of; for a frozen policy, only of the
            acting one.
        acting: those of the acting part.
        targets: the followers, by the name of their part.
        actor_every: updates of the critics for each of the actor and the targets.
        betas: decays of Adam's means of gradients and of their squares.
        generator: where the noise in updates comes from.
        errors: how far off the last batch's values were, float32[B], where an algorithm says so (DQN): priorities.
        replay: the `Trainer`'s ring; None before its first rollout.
    """

    clips_gradients: ClassVar[bool] = False
    critic_statistics: tuple[str, ...] = ()
    actor_statistics: tuple[str, ...] = ()
    acting_part: str = "actor"
    target_parts: tuple[str, ...] = ("actor", "critic")
    actor_every: int = 1
    betas: tuple[float, float] = (0.9, 0.999)

    settings = ReplayConfig
    capabilities = Capabilities(replay=True, networks=("mlp", "own"), workers=True)
    network: Any
    parts: dict[str, Tensor]
    errors: Tensor

    def _build(self) -> None:
        config, device = self.config, self.device
        self.distribution, network = self._make()
        self.network = network.to(device)
        self._optimisers: dict[str, FlatAdam] = {}
        self.targets: Any = nn.ModuleDict()
        self._targets: dict[str, Tensor] = {}
        self.replay: Replay | None = None
        self._collected = 0  # steps of agents since the replay was empty, also of those that had left: nothing waits
        if config.frozen:
            self.parts = {self.acting_part: flatten(getattr(self.network, self.acting_part))[0]}
            self.acting = self.parts[self.acting_part]
            return
        for name, part in self.network.named_children():
            self._optimisers[name] = FlatAdam(part, epsilon=config.adam_epsilon, betas=self.betas)
        self._leaves = {
            name: [leaf for leaf in part.parameters() if leaf.requires_grad]
            for name, part in self.network.named_children()
        }
        self.parts = {name: optimiser.parameters for name, optimiser in self._optimisers.items()}
        self.acting = self.parts[self.acting_part]
        for name in self.target_parts:
            self.targets[name] = copy.deepcopy(getattr(self.network, name)).requires_grad_(False)
            self._targets[name], _ = flatten(self.targets[name])
        self.generator = torch.Generator("cpu" if config.host_random else device)
        self.generator.manual_seed(config.seed + zlib.crc32(self.name.encode()))
        self._counted = 0
        own = ":" in config.network
        parts = Parts(config, self.network, self.targets, self._optimisers, self.distribution, self._draw_noise)
        self._fused = None if own else self.fuse(parts)
        self.explore(0)
        self._actor_measured = torch.zeros(len(self.actor_statistics), device=device)
        # what the Trainer's updates are made of, where a CUDA graph finds it
        self._rows = torch.zeros(config.minibatch_size, dtype=torch.int64, device=device)
        self._measured = torch.zeros(len(self.statistics), device=device)
        self._update = Updater(self, self._batch, config.graphs and not config.host_random and not config.hindsight)

    def _make(self) -> tuple[Any, nn.Module]:
        """The distribution and the network."""
        raise NotImplementedError

    def fuse(self, parts: Parts) -> FusedUpdate | None:
        """A hand-written update for Headrace's own networks; None where the losses are what runs."""
        return None

    def explore(self, step: int) -> None:
        """Explore as is due at agent step `step`: widely until the first update, while the actor knows nothing."""
        self.distribution.explore(widely=step < self.config.learning_starts)

    def prepare(self, observed: Callable[[int], Tensor]) -> None:
        """Learn, before the first update, what updates take for granted.

        Args:
            observed: returns that many of the inputs in the replay, drawn at random.
        """

    def worth(self, inputs: Tensor, params: Tensor, values: Tensor) -> Tensor:
        """As `Policy.worth`: what the least confident critic says of the likeliest actions, where there are critics."""
        critic = getattr(self.network, "critic", None)
        return values if critic is None else critic(inputs, self.distribution.mode(params).flatten(1)).amin(0)

    @property
    def updates(self) -> int:
        """As `Policy.updates`, of the part that learns in every update."""
        return max((int(each.steps) for each in self._optimisers.values()), default=0)

    def optimiser_of(self, part: str) -> FlatAdam:
        """What learns a part."""
        return self._optimisers[part]

    # -- updates ---------------------------------------------------------------------------------

    def improve(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """One gradient step of the critics, one of the actor, and one of the targets after them.

        Returns:
            `statistics`, float32; where the actor was not to learn, its last ones.
        """
        return self.improve_with(batch, rates, self.actor_is_due())

    def actor_is_due(self) -> bool:
        """Count one more update; whether the actor learns in it, too."""
        self._counted += 1
        return self._counted % self.actor_every == 0

    @torch.inference_mode()
    def improve_with(self, batch: Transitions, rates: UpdateRates, actor: bool) -> Tensor:
        """As `improve`, told whether the actor is to learn; of fixed shapes, so that it can be a CUDA graph."""
        if actor and self._fused is not None:
            measured = self._fused.improve_both(batch, rates)
            self._actor_measured.copy_(measured[len(self.critic_statistics) :])
            self.move_targets()
            return measured
        critics = self.improve_critics(batch, rates)
        if actor:
            self._actor_measured.copy_(self.improve_actor(batch, rates))
            self.move_targets()
        return torch.cat((critics, self._actor_measured))

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """One gradient step of the critics; answers `critic_statistics`, float32."""
        if self._fused is not None:
            return self._fused.improve_critics(batch, rates)
        return self._descend(self.critic_losses, batch, rates)

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """One gradient step of the actor; answers `actor_statistics`, float32."""
        if self._fused is not None:
            return self._fused.improve_actor(batch, rates)
        return self._descend(self.actor_losses, batch, rates)

    def critic_losses(self, batch: Transitions) -> Losses:
        """What the critics descend, in plain autograd."""
        raise NotImplementedError

    def actor_losses(self, batch: Transitions) -> Losses:
        """What the actor, and whatever learns with it, descends, in plain autograd."""
        raise NotImplementedError

    def _descend(self, losses: Callable[[Transitions], Losses], batch: Transitions, rates: UpdateRates) -> Tensor:
        """One gradient step of each part that has a loss; answers the statistics, float32."""
        with torch.inference_mode(False), torch.enable_grad():
            # autograd keeps no tensors that were made in inference mode
            inference = {n: x.clone() for n, x in batch._asdict().items() if x is not None and x.is_inference()}
            batch = batch._replace(**inference)
            found = losses(batch)
            for name, loss in found.parts.items():
                self._optimisers[name].gradient.zero_()
                torch.autograd.backward(loss, inputs=self._leaves[name])
        statistics = [number.detach() for number in found.statistics]
        for name in found.parts:
            rate = rates.critic_learning_rate if name == "critic" else rates.learning_rate
            if self.clips_gradients:
                statistics.append(self._optimisers[name].step(rate, rates.max_grad_norm))
            else:
                self._optimisers[name].step_unclipped(rate)
        return torch.stack(statistics)

    @torch.inference_mode()
    def move_targets(self, *names: str) -> None:
        """Move the targets of these parts, of all if none is named: ``target += target_rate · (part - target)``."""
        for name in names or self.target_parts:
            self._targets[name].lerp_(self.parts[name], self.config.target_rate)

    def noise(self, rows: int) -> Tensor:
        """Returns standard normal noise for `rows` actions, float32[rows, A]."""
        noise = torch.empty(rows, self.distribution.noise_size, device=self.generator.device)
        noise.normal_(generator=self.generator)
        return noise if noise.device == self.device else noise.to(self.device)

    def _draw_noise(self, rows: int) -> Tensor:
        return self.noise(rows)

    def learn_with_others(self, reduce: Callable[[Tensor, float | Tensor], object]) -> None:
        for optimiser in self._optimisers.values():
            optimiser.reduce = reduce
        if self._optimisers:
            self._update = Updater(self, self._batch, False)

    # -- one iteration of the Trainer ------------------------------------------------------------

    def learn(self, samples: Recorded | None, step: int, generator: torch.Generator) -> None:
        """Put a rollout into the replay, and do the updates that are then due, ``step`` agent steps into the run."""
        if samples is None:
            return
        replay = self.record(samples)
        due = self._due()
        self.explore(self._collected)
        if due == 0:
            return
        rates = UpdateRates.of(self.config, step)
        self._measured.zero_()
        for rows in replay.draw((due, self.config.minibatch_size), generator).unbind(0):
            self._rows.copy_(rows)
            self._measured += self._update(rates)
        self.losses = self._measured / due

    @torch.inference_mode()
    def record(self, samples: Recorded) -> Replay:
        """Put a rollout into the replay, and answer that."""
        replay = self._ring()
        replay.write(*samples)
        return replay

    def _due(self) -> int:
        """Updates after one more rollout, so that on average they are ``replay_ratio`` a step."""
        config, before = self.config, self._collected
        if config.replay_ratio is None:
            raise OptionError("replay_ratio=None lets workers run free; with samplers=0 it must be a number")
        self._collected += config.num_steps * self._columns
        if self._collected < config.learning_starts:
            return 0
        return int(config.replay_ratio * self._collected) - int(config.replay_ratio * before)

    def _batch(self) -> Transitions:
        """The transitions numbered ``_rows``."""
        assert self.replay is not None
        return self.normalised(self.replay.read(self._rows))

    def normalised(self, some: Transitions) -> Transitions:
        """Transitions as the network is to see them, by the statistics, and the discount, of today."""
        normaliser, scaler = self.encoder.normaliser, self.reward_scaler
        if normaliser is not None:
            inputs, following = (normaliser(x, torch.empty_like(x)) for x in (some.inputs, some.following))
            some = some._replace(inputs=inputs, following=following)
        some = some._replace(discounts=some.discounts * self.config.gamma)
        return some if scaler is None else some._replace(rewards=scaler.scaled(some.rewards))

    @property
    def _columns(self) -> int:
        return self.config.num_envs * self.agent_group.width

    def _ring(self) -> Replay:
        if self.replay is None:
            config, columns = self.config, self._columns
            if config.replay_size < columns * config.num_steps:
                rows = f"{config.num_steps} steps of {columns} agents"
                raise OptionError(f"replay_size={config.replay_size} must hold a rollout at least, {rows}")
            with torch.inference_mode(False):  # a checkpoint is loaded into it from outside
                inputs, actions = input_size(self.agent_group.observation), math.prod(self.distribution.action_shape)
                self.replay = self._new_replay(inputs, actions)
        return self.replay

    def _new_replay(self, inputs: int, actions: int) -> Replay:
        config = self.config
        if not config.hindsight:
            return Replay(config.replay_size, inputs, actions, self.device)
        sizes = config.replay_size, inputs, actions, self._columns
        return HindsightReplay(*sizes, goals_for(config), config.hindsight, self.generator, self.device)

    # -- checkpoints -----------------------------------------------------------------------------

    @torch.no_grad()
    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's networks, in place; the targets are then the same."""
        super().load_model(model)
        for name, target in self._targets.items():
            target.copy_(self.parts[name])

    def optimisers(self) -> dict[str, Tensor]:
        """All optimisers, and the targets, which are as much a trace of the way here."""
        moments: dict[str, Tensor] = {}
        for name, optimiser in self._optimisers.items():
            target = {"target": self._targets[name]} if name in self._targets else {}
            moments |= checkpoints.prefixed(name, optimiser.state() | target)
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `optimisers` returned."""
        moments = checkpoints.group(self.name, saved) if self.name else saved
        for name, optimiser in self._optimisers.items():
            mine = checkpoints.group(name, moments)
            optimiser.load(mine)
            if name in self._targets:
                self._targets[name].copy_(mine["target"])
            self._counted = int(optimiser.steps) if name == "critic" else self._counted

    def state(self) -> dict[str, Tensor]:
        """What else of it decides how a run goes on: the replay, too, unless ``save_replay`` leaves it out."""
        state = super().state()
        if not self.config.frozen:
            learning = {"generator": self.generator.get_state(), "actor": self._actor_measured}
            state |= checkpoints.prefixed(self.prefix("learning"), learning)
        if self.replay is not None and self.config.save_replay:
            kept: dict[str, Any] = self.replay.state() | {"collected": torch.tensor(self._collected)}
            state |= checkpoints.prefixed(self.prefix("replay"), kept)
        return state

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; without a replay, fill an empty one before learning goes on."""
        super().load_state(saved)
        if self.config.frozen:
            return
        learning = checkpoints.group(self.prefix("learning"), saved)
        self.generator.set_state(learning["generator"])
        self._actor_measured.copy_(learning["actor"])
        kept = checkpoints.group(self.prefix("replay"), saved)
        if kept:
            self._ring().load(kept)
            self._collected = int(kept["collected"])
            self.explore(self._collected)
        else:
            which = f"policy {self.name!r}" if self.name else "the policy"
            self.caveat = f"{which} begins with an empty replay, as save_replay=False left it out of the checkpoint"

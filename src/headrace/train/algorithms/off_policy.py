"""The base of algorithms with a replay: targets, updates of critics and actor, when they are due, and checkpoints.

An algorithm is a subclass with networks and two losses, of its critics and of its actor. The two updates can run alone,
so that two processes can make them on two devices. The actor's parameters are one flat vector,
`OffPolicy.actor_parameters`, of which other processes get copies.

No update waits for the device. In a run without workers, transitions of vectors are stored in a ring on the device
(`headrace.train.storage.device_replay`), minibatches are drawn there, and on CUDA one update is one graph (`Updater`).
Where the replay is one of steps, `headrace.train.algorithms.step_learner` draws from it.
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
from headrace.train.config.replay import ReplayConfig
from headrace.train.logging.memory_use import replay_named
from headrace.train.modules.network import input_size
from headrace.train.processes.collectives import Collectives
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.device_replay import Replay
from headrace.train.storage.transitions import Recorded, Transitions


class Losses(NamedTuple):
    """The losses of an update, of critics or of the actor.

    Attributes:
        parts: name of a child of the network → its loss, a 0-d tensor.
        statistics: values to report, 0-d tensors.
    """

    parts: dict[str, Tensor]
    statistics: tuple[Tensor, ...]


class OffPolicy(Policy):
    """A network, target copies of parts of it, and their updates from a replay.

    The parts of the network are its children, each with an optimiser of its own. A frozen policy has the network
    alone, without optimisers, targets and replay.

    Attributes:
        clips_gradients: whether gradients are clipped to ``max_grad_norm``; their norms are then statistics as well.
        critic_statistics, actor_statistics: names of the elements that `improve_critics` and `improve_actor` return.
        actor_part: name of the child of the network that chooses actions.
        target_parts: names of the children that have targets.
        parts: name of a child → its parameters, float32[P], as one vector of which they are views; of a frozen policy
            only the actor.
        actor_parameters: the parameters of the actor, float32[P].
        targets: the target networks, by the names of their parts.
        actor_every: updates of the critics for each update of the actor and the targets.
        betas: Adam's decay rates of the means of gradients and of their squares.
        generator: the source of the noise in updates.
        errors: absolute errors of the last batch's values, float32[B], for priorities; only of DQN.
        replay: the ring of a run without workers; None before its first rollout.
    """

    clips_gradients: ClassVar[bool] = False
    critic_statistics: tuple[str, ...] = ()
    actor_statistics: tuple[str, ...] = ()
    actor_part: str = "actor"
    target_parts: tuple[str, ...] = ("actor", "critic")
    actor_every: int = 1
    betas: tuple[float, float] = (0.9, 0.999)

    settings = ReplayConfig
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
        # agent steps since the replay was empty; agents that had left count, as counting others waits
        self._collected = 0
        self._uniform_steps = config.learning_starts  # as many of them have random actions
        if config.frozen:
            self.parts = {self.actor_part: flatten(getattr(self.network, self.actor_part))[0]}
            self.actor_parameters = self.parts[self.actor_part]
            return
        for name, part in self.network.named_children():
            self._optimisers[name] = FlatAdam(part, epsilon=config.adam_epsilon, betas=self.betas)
        self._leaves = {
            name: [leaf for leaf in part.parameters() if leaf.requires_grad]
            for name, part in self.network.named_children()
        }
        self.parts = {name: optimiser.parameters for name, optimiser in self._optimisers.items()}
        self.actor_parameters = self.parts[self.actor_part]
        for name in self.target_parts:
            self.targets[name] = copy.deepcopy(getattr(self.network, name)).requires_grad_(False)
            self._targets[name], _ = flatten(self.targets[name])
        self.generator = torch.Generator("cpu" if config.host_random else device)
        self.generator.manual_seed(config.seed + zlib.crc32(self.name.encode()))
        self._counted = 0
        own = ":" in config.network
        parts = Parts(config, self.network, self.targets, self._optimisers, self.distribution, self._draw_noise)
        self._fused = None if own else self.fuse(parts)
        self.explore(0, 0)
        self._actor_measured = torch.zeros(len(self.actor_statistics), device=device)
        # rows of a minibatch and sums of statistics, in memory that CUDA graphs of updates use
        self._rows = torch.zeros(config.minibatch_size, dtype=torch.int64, device=device)
        self._measured = torch.zeros(len(self.statistics), device=device)
        self._update = Updater(self, self._batch, self.graphs)

    def _make(self) -> tuple[Any, nn.Module]:
        """Returns the distribution and the network."""
        raise NotImplementedError

    def fuse(self, parts: Parts) -> FusedUpdate | None:
        """Returns a hand-written update for Headrace's own networks; None to use autograd on the losses."""
        return None

    def explore(self, step: int, collected: int) -> None:
        """Sets the exploration of the next steps; until the first update, actions are uniform.

        Args:
            step: agent steps of the run.
            collected: those of this process since its replay was empty.
        """
        self.distribution.explore(widely=collected < self._uniform_steps)

    def prepare(self, observed: Callable[[int], Tensor]) -> None:
        """Called before the first update, for instance to compute statistics of observations.

        Args:
            observed: returns a number of inputs, drawn uniformly from the replay.
        """

    def worth(self, inputs: Tensor, params: Tensor, values: Tensor) -> Tensor:
        """As `Policy.worth`: with critics, the smallest of their values of the most likely actions."""
        critic, distribution = getattr(self.network, "critic", None), self.distribution
        if critic is None:
            return values
        actions = distribution.mode(params).reshape(-1, distribution.noise_size)
        return self.in_rewards(critic(inputs, actions).amin(0))

    @property
    def updates(self) -> int:
        """As `Policy.updates`, of the part with the most updates."""
        return max((int(each.steps) for each in self._optimisers.values()), default=0)

    @property
    def graphs(self) -> bool:
        """Whether updates are CUDA graphs on a device that has them."""
        return self.config.graphs and not self.config.host_random

    def optimiser_of(self, part: str) -> FlatAdam:
        """Returns the optimiser of a part of the network."""
        return self._optimisers[part]

    # -- updates ---------------------------------------------------------------------------------

    def improve(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one update: a gradient step of the critics, one of the actor if it is due, and then one of the targets.

        Returns:
            `statistics`, float32; those of the actor's last update where it was not due.
        """
        return self.improve_with(batch, rates, self.actor_is_due())

    def actor_is_due(self) -> bool:
        """Counts one more update, and returns whether the actor learns in it."""
        self._counted += 1
        return self._counted % self.actor_every == 0

    @torch.inference_mode()
    def improve_with(self, batch: Transitions, rates: UpdateRates, actor: bool) -> Tensor:
        """As `improve`, where ``actor`` says whether the actor learns; all shapes are fixed, as for a CUDA graph."""
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

    def improve_critics_apart(self, batch: Transitions, rates: UpdateRates, actor: bool) -> Tensor:
        """As `improve_with`, where another process updates the actor; returns `critic_statistics`."""
        critics = self.improve_critics(batch, rates)
        if actor:
            self.move_targets()
        return critics

    def improve_actor_apart(self, batch: Transitions, rates: UpdateRates, actor: bool = True) -> Tensor:
        """As `improve_with`, where another process updates the critics; returns `actor_statistics`."""
        return self.improve_actor(batch, rates)

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the critics; returns `critic_statistics`, float32."""
        if self._fused is not None:
            return self._fused.improve_critics(batch, rates)
        return self._descend(self.critic_losses, batch, rates)

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the actor; returns `actor_statistics`, float32."""
        if self._fused is not None:
            return self._fused.improve_actor(batch, rates)
        return self._descend(self.actor_losses, batch, rates)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns the critics' losses, for autograd."""
        raise NotImplementedError

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns the losses of the actor and of what learns with it, such as a temperature, for autograd."""
        raise NotImplementedError

    def _descend(self, losses: Callable[[Transitions], Losses], batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of each part that has a loss; returns the statistics, float32."""
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
        """Moves the targets of these parts, of all if none is named: ``target += target_rate · (part - target)``."""
        for name in names or self.target_parts:
            self._targets[name].lerp_(self.parts[name], self.config.target_rate)

    def noise(self, rows: int) -> Tensor:
        """Returns standard normal noise for `rows` actions, float32[rows, A]."""
        noise = torch.empty(rows, self.distribution.noise_size, device=self.generator.device)
        noise.normal_(generator=self.generator)
        return noise if noise.device == self.device else noise.to(self.device)

    def _draw_noise(self, rows: int) -> Tensor:
        return self.noise(rows)

    def join_group(self, process_group: Collectives) -> None:
        super().join_group(process_group)
        for optimiser in self._optimisers.values():
            optimiser.reduce = process_group.average

    # -- one iteration of the Trainer ------------------------------------------------------------

    def learn(self, samples: Recorded | None, step: int, generator: torch.Generator) -> None:
        """Stores a rollout in the replay, and makes the updates that are then due; see `Policy.learn`."""
        if samples is None:
            return
        replay = self.record(samples)
        due = self._due()
        self.explore(step, self._collected)
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
        """Stores a rollout in the replay, and returns the replay."""
        replay = self._ring()
        replay.write(*samples)
        return replay

    def _due(self) -> int:
        """Returns the number of updates due after one more rollout, on average ``replay_ratio`` for each agent step."""
        config, before = self.config, self._collected
        if config.replay_ratio is None:
            raise OptionError("replay_ratio=None lets workers run free; with samplers=0 it must be a number")
        self._collected += config.num_steps * self._columns
        if self._collected < config.learning_starts:
            return 0
        return int(config.replay_ratio * self._collected) - int(config.replay_ratio * before)

    def _batch(self) -> Transitions:
        """Returns the transitions numbered ``_rows``."""
        assert self.replay is not None
        some = self.replay.read(self._rows)
        return self.normalised(some._replace(discounts=some.discounts * self.config.gamma))

    def normalised(self, some: Transitions, steps: int = 1) -> Transitions:
        """Returns transitions of up to ``steps`` steps, normalised by the present statistics.

        Observations of a `Discrete`, int64[B], and images for a perceptron become vectors first.
        """
        normaliser, scaler = self.encoder.normaliser, self.reward_scaler
        if not self.encoder.image and some.inputs.shape[1:] != self.encoder.shape:
            out = torch.empty(2, len(some.inputs), *self.encoder.shape, device=self.device)
            inputs, next_observations = map(self.encoder.plain, (some.inputs, some.next_observations), out)
            some = some._replace(inputs=inputs, next_observations=next_observations)
        if normaliser is not None:
            inputs, next_observations = (
                normaliser(x, torch.empty_like(x, dtype=torch.float32)) for x in (some.inputs, some.next_observations)
            )
            some = some._replace(inputs=inputs, next_observations=next_observations)
        return some if scaler is None else some._replace(rewards=scaler.scaled(some.rewards, steps))

    @property
    def _columns(self) -> int:
        return self.config.num_envs * self.agent_group.width

    def _ring(self) -> Replay:
        if self.replay is None:
            config, columns = self.config, self._columns
            if config.replay_size < columns * config.num_steps:
                rows = f"{config.num_steps} steps of {columns} agents"
                raise OptionError(f"replay_size={config.replay_size} must hold a rollout at least, {rows}")
            with torch.inference_mode(False):  # a checkpoint is loaded into it outside inference mode
                inputs, actions = input_size(self.agent_group.observation), math.prod(self.distribution.action_shape)
                sizes, masks, dtype = (config.replay_size, inputs, actions), sum(self.heads), self.encoder.raw_dtype
                needed = dtype.itemsize * config.replay_size * (2 * inputs + actions + 2 + masks)
                with replay_named(config.replay_size, needed, self.device):
                    self.replay = Replay(*sizes, self.device, masks, dtype)
        return self.replay

    # -- checkpoints -----------------------------------------------------------------------------

    @torch.no_grad()
    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """As `Policy.load_model`; the targets become copies of the networks."""
        super().load_model(model)
        for name, target in self._targets.items():
            target.copy_(self.parts[name])

    def optimisers(self) -> dict[str, Tensor]:
        """Returns the states of all optimisers, and the targets."""
        moments: dict[str, Tensor] = {}
        for name, optimiser in self._optimisers.items():
            target = {"target": self._targets[name]} if name in self._targets else {}
            moments |= checkpoints.prefixed(name, optimiser.state() | target)
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        """Restores what `optimisers` returned."""
        moments = checkpoints.group(self.name, saved) if self.name else saved
        for name, optimiser in self._optimisers.items():
            mine = checkpoints.group(name, moments)
            optimiser.load(mine)
            if name in self._targets:
                self._targets[name].copy_(mine["target"])
            self._counted = int(optimiser.steps) if name == "critic" else self._counted

    def state(self) -> dict[str, Tensor]:
        """As `Policy.state`, with the replay unless ``save_replay`` is False."""
        state = super().state()
        if not self.config.frozen:
            learning = {"generator": self.generator.get_state(), "actor": self._actor_measured}
            state |= checkpoints.prefixed(self.prefix("learning"), learning)
        if self.replay is not None and self.config.save_replay:
            kept: dict[str, Any] = self.replay.state() | {"collected": torch.tensor(self._collected)}
            state |= checkpoints.prefixed(self.prefix("replay"), kept)
        return state

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned; without a replay in it, learning continues once an empty one has filled."""
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
        else:
            self._uniform_steps = 0 if self.updates else self.config.learning_starts  # a policy that has learnt acts
            which = f"policy {self.name!r}" if self.name else "the policy"
            self.caveat = f"{which} begins with an empty replay, as save_replay=False left it out of the checkpoint"
        self.explore(self._collected, self._collected)

"""The base of algorithms with a replay: networks, the losses of critics and actor, and target networks.

An algorithm is a subclass with networks and two losses. The updates of critics and actor can run alone, so that two
processes can make them on two devices. The actor's parameters are one flat vector, `OffPolicy.actor_parameters`, of
which other processes get copies.

No update waits for the device. `headrace.train.algorithms.updater` draws batches, and makes one update after the other.
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
from headrace.train.algorithms.optimiser import FlatAdam, flat_size, flatten
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.logging.memory_use import replay_named
from headrace.train.modules.cnn import SEEN
from headrace.train.modules.compiled import polyak_update
from headrace.train.modules.network import input_size
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.networks import Pixels
from headrace.train.settings.replays import REPLAYS
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.storage.transitions import Transitions


class Losses(NamedTuple):
    """The losses of an update, of critics or of the actor.

    Attributes:
        parts: name of a child of the network → its loss, a 0-d tensor.
        statistics: values to report, 0-d tensors.
    """

    parts: dict[str, Tensor]
    statistics: tuple[Tensor, ...]


class OffPolicy(Policy):
    """A network, target copies of parts of it, and their updates from batches of transitions.

    The parts of the network are its children, each with an optimiser of its own, but for a ``trunk``: its features are
    what the losses see in place of inputs, and that of the critics teaches it, as a part of them. A frozen policy has
    the network alone, without optimisers and targets.

    Attributes:
        clips_gradients: whether gradients are clipped to ``max_grad_norm``; their norms are then statistics as well.
        critic_statistics, actor_statistics: names of what `improve` returns of either step.
        actor_part: name of the child of the network that chooses actions.
        target_parts: names of the children that have targets.
        parts: name of a child → its parameters, float32[P], as one vector of which they are views; those of the critics
            begin with the trunk's. Of a frozen policy only the actor, with the trunk.
        actor_parameters: the parameters of the actor and the trunk, float32[P].
        adam: name of a child → its optimiser.
        targets: the target networks, by the names of their parts.
        actor_every: updates of the critics for each update of the actor and the targets.
        betas: Adam's decay rates of the means of gradients and of their squares.
        generator: the source of the noise in updates.
        graphs: whether updates are CUDA graphs on a device that has them.
        errors: absolute errors of the last batch's values, float32[B], for priorities; only of DQN.
    """

    clips_gradients: ClassVar[bool] = False
    critic_statistics: tuple[str, ...] = ()
    actor_statistics: tuple[str, ...] = ()
    actor_part: str = "actor"
    target_parts: tuple[str, ...] = ("actor", "critic")
    actor_every: int = 1
    betas: tuple[float, float] = (0.9, 0.999)

    settings = REPLAYS
    network: Any
    parts: dict[str, Tensor]
    errors: Tensor

    def _build(self) -> None:
        config, device = self.config, self.device
        self.distribution, network = self.make()
        self.network = network.to(device)
        self.adam: dict[str, FlatAdam] = {}
        self.targets: Any = nn.ModuleDict()
        self._targets: dict[str, Tensor] = {}
        self._followed: dict[str, Tensor] = {}  # name of a target → the parameters that it follows, without a trunk's
        self.graphs: bool = config.graphs and not config.host_random
        children = dict(self.network.named_children())
        trunk, actor = children.pop("trunk", None), children.pop(self.actor_part)
        acting = nn.ModuleList([actor] if trunk is None else [actor, trunk])
        if config.frozen:
            self.actor_parameters, _ = flatten(acting)
            self.parts = {self.actor_part: self.actor_parameters}
            return
        if trunk is not None:
            children = {"critic": nn.ModuleList([trunk, children.pop("critic")])} | children
        learning = {self.actor_part: actor} | children  # in the order of their parameters: what acts is the first
        self._leaves = {
            name: [leaf for leaf in part.parameters() if leaf.requires_grad] for name, part in learning.items()
        }
        sizes = [flat_size(part) for part in learning.values()]
        memory = torch.zeros(sum(sizes), device=device)
        for (name, part), own in zip(learning.items(), memory.split(sizes), strict=True):
            self.adam[name] = FlatAdam(part, epsilon=config.adam_epsilon, betas=self.betas, memory=own)
        self.actor_parameters = memory[: flat_size(acting)]
        self.parts = {name: optimiser.parameters for name, optimiser in self.adam.items()}
        for name in self.target_parts:
            self.targets[name] = copy.deepcopy(getattr(self.network, name)).requires_grad_(False)
            self._targets[name], _ = flatten(self.targets[name])
            self._followed[name] = self.parts[name][-len(self._targets[name]) :]
        self.generator = torch.Generator("cpu" if config.host_random else device)
        self.generator.manual_seed(config.seed + zlib.crc32(self.name.encode()))
        self.explore(0, self.begins_uniformly(0))

    def make(self) -> tuple[Any, nn.Module]:
        """Returns the distribution and the network."""
        raise NotImplementedError

    def explore(self, step: int, uniform: bool) -> None:
        """Sets the exploration of the next steps.

        Args:
            step: agent steps of the run.
            uniform: whether actions are uniform, as until the first update.
        """
        self.distribution.explore(widely=uniform)

    def begins_uniformly(self, collected: float) -> bool:
        """Returns whether actions are uniform after so many agent steps: before learning, unless one was loaded."""
        return self.config.load is None and collected < self.config.learning_starts

    @torch.inference_mode()
    def prepare(self, observed: Callable[[int], Tensor]) -> None:
        """Called before the first update: sets the standardisation of pixels, if the settings ask for it.

        Of several processes, all take the first one's.

        Args:
            observed: returns a number of inputs, drawn uniformly from the replay.
        """
        pixels = self.config.get(Pixels)
        if pixels is None or not pixels.standardise_pixels:
            return
        images = observed(SEEN)
        for cnn in self.cnns():
            cnn.fit(images)
        if self.process_group is not None:
            for parameters in (*self.parts.values(), *self._targets.values()):
                self.process_group.broadcast(parameters)

    def cnns(self) -> list[Any]:
        """Returns the CNNs that see inputs, of the network and its targets; only called where there are some."""
        cnn, *_ = self.network.trunk
        return [cnn]

    def worth(self, inputs: Tensor, params: Tensor, values: Tensor) -> Tensor:
        """As `Policy.worth`: with critics, the smallest of their values of the most likely actions."""
        critic, distribution = getattr(self.network, "critic", None), self.distribution
        if critic is None:
            return values
        actions = distribution.mode(params).reshape(-1, distribution.noise_size)
        return self.in_rewards(critic(self.features(inputs), actions).amin(0))

    def features(self, inputs: Tensor) -> Tensor:
        """Returns what actor and critics see of inputs [B, …]: the trunk's features [B, D], or inputs without one."""
        trunk = getattr(self.network, "trunk", None)
        return inputs if trunk is None else trunk(inputs)

    @property
    def updates(self) -> int:
        return max((int(each.steps) for each in self.adam.values()), default=0)

    # -- updates ---------------------------------------------------------------------------------

    @torch.inference_mode()
    def improve(self, batch: Transitions, rates: UpdateRates, actor: bool = True, critics: bool = True) -> Tensor:
        """Makes a gradient step of the critics, and one of the actor, after which the targets of both move.

        All shapes are fixed, as for a CUDA graph.

        Args:
            actor, critics: which steps; targets move after both.

        Returns:
            `critic_statistics` and `actor_statistics` of the steps made, float32.
        """
        learns = actor and bool(self.actor_statistics)
        if self.compiled is not None:
            measured = self.update_at_once(batch, rates, critics=critics, actor=learns)
        else:
            steps, batch = (True,) * critics + (False,) * learns, self._seen(batch, critics)
            measured = torch.cat([self.gradient_step(batch, rates, critics=each) for each in steps])
        if critics and actor:
            self.move_targets()
        return measured

    def update_at_once(self, batch: Transitions, rates: UpdateRates, *, critics: bool, actor: bool) -> Tensor:
        """Makes gradient steps in one call of compiled code; called where there is a form (`compiled`).

        Args:
            critics, actor: which steps.

        Returns:
            The statistics of these steps, float32.
        """
        raise NotImplementedError

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns the critics' losses, for autograd, of transitions whose observations are `features`."""
        raise NotImplementedError

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns the losses of the actor and of what learns with it, such as a temperature, for autograd.

        Observations are `features`, but for those that follow, which may be inputs if there is a trunk.
        """
        raise NotImplementedError

    def _seen(self, batch: Transitions, critics: bool) -> Transitions:
        """Returns transitions whose observations are `features`, through which the critics' loss teaches the trunk.

        They are evaluated once: the actor's step sees those from before that of the critics, as DrQ-v2's does.

        Args:
            critics: whether the critics learn; otherwise the observations that follow stay inputs.
        """
        with torch.inference_mode(False):
            # autograd keeps no tensors that were made in inference mode
            inference = {n: x.clone() for n, x in batch._asdict().items() if x is not None and x.is_inference()}
            batch = batch._replace(**inference)
            if critics:
                with torch.no_grad():
                    batch = batch._replace(next_observations=self.features(batch.next_observations))
            with torch.set_grad_enabled(critics):  # the last, as compiled code keeps what its backward pass needs
                return batch._replace(inputs=self.features(batch.inputs))

    def gradient_step(self, batch: Transitions, rates: UpdateRates, *, critics: bool) -> Tensor:
        """Makes one gradient step of each part that has a loss; returns the statistics, float32.

        Args:
            batch: transitions whose observations are `features`.
            critics: whether the losses are those of the critics, which teach the trunk, rather than those of the actor.
        """
        with torch.inference_mode(False), torch.enable_grad():
            batch = batch if critics else batch._replace(inputs=batch.inputs.detach())
            found = self.critic_losses(batch) if critics else self.actor_losses(batch)
            for name, loss in found.parts.items():
                self.adam[name].gradient.zero_()
                torch.autograd.backward(loss, inputs=self._leaves[name])
        statistics = [number.detach() for number in found.statistics]
        for name in found.parts:
            rate = rates.critic_learning_rate if name == "critic" else rates.learning_rate
            if self.clips_gradients:
                statistics.append(self.adam[name].step(rate, rates.max_grad_norm))
            else:
                self.adam[name].step_unclipped(rate)
        return torch.stack(statistics)

    @torch.inference_mode()
    def move_targets(self) -> None:
        """Moves the targets: ``target += target_rate · (part - target)``."""
        for name, target in self._targets.items():
            move = Tensor.lerp_ if self.form is None else polyak_update
            move(target, self._followed[name], self.config.target_rate)

    def noise(self, rows: int) -> Tensor:
        """Returns standard normal noise for `rows` actions, float32[rows, A]."""
        noise = torch.empty(rows, self.distribution.noise_size, device=self.generator.device)
        noise.normal_(generator=self.generator)
        return noise if noise.device == self.device else noise.to(self.device)

    def join_group(self, process_group: ProcessGroup) -> None:
        super().join_group(process_group)
        for optimiser in self.adam.values():
            optimiser.reduce = process_group.average

    def _ring(self) -> TransitionReplay:
        """Returns an empty ring for the transitions of this policy's agents."""
        config, columns = self.config, self.config.num_envs * self.agent_group.width
        if config.replay_size < columns * config.num_steps:
            rows = f"{config.num_steps} steps of {columns} agents"
            raise OptionError(f"replay_size={config.replay_size} must hold a rollout at least, {rows}")
        inputs, actions = input_size(self.agent_group.observation), math.prod(self.distribution.action_shape)
        sizes, masks, dtype = (config.replay_size, inputs, actions), sum(self.heads), self.encoder.raw_dtype
        needed = dtype.itemsize * config.replay_size * (2 * inputs + actions + 2 + masks)
        # a checkpoint is loaded into it outside inference mode
        with torch.inference_mode(False), replay_named(config.replay_size, needed, self.device):
            return TransitionReplay(*sizes, self.device, masks, dtype, config.gamma, self.graphs)

    # -- checkpoints -----------------------------------------------------------------------------

    @torch.no_grad()
    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """As `Policy.load_model`; the targets become copies of the networks."""
        super().load_model(model)
        for name, target in self._targets.items():
            target.copy_(self._followed[name])

    def optimisers(self) -> dict[str, Tensor]:
        moments: dict[str, Tensor] = {}
        for name, optimiser in self.adam.items():
            target = {"target": self._targets[name]} if name in self._targets else {}
            moments |= checkpoints.prefixed(name, optimiser.state() | target)
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        moments = checkpoints.group(self.name, saved) if self.name else saved
        for name, optimiser in self.adam.items():
            mine = checkpoints.group(name, moments)
            optimiser.load(mine)
            if name in self._targets:
                self._targets[name].copy_(mine["target"])

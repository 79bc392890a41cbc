"""The base of algorithms that learn from rollouts: epochs, minibatches, gradients, CUDA graphs.

An algorithm is a subclass with a `loss`. No update waits for the device: statistics stay tensors until they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from headrace.train.algorithms.curiosity import Curiosity
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.rates import Rates
from headrace.train.algorithms.update_threads import threads_for, torch_threads
from headrace.train.modules.action_masks import masked
from headrace.train.modules.cnn import SEEN, ImageActorCritic
from headrace.train.modules.compiled_networks import CompiledNetwork
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.graphs import Graph
from headrace.train.modules.mirroring import Mirroring
from headrace.train.modules.network import make_network
from headrace.train.modules.normalisation import ValueNormaliser
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.networks import Pixels
from headrace.train.storage.samples import Samples, draw_order, minibatches, with_mirrored, without_inference
from headrace.train.storage.transitions import to_device

WARMING = 200
"""gradient steps over which the learning rate of a loaded network rises"""


class OnPolicy(Policy):
    """One network for actions and values, and its optimiser.

    Attributes:
        optimiser: the optimiser of all the network's parameters.
        stops_early: whether `is_over` is called after each epoch.
        curiosity: the source of the exploration bonus; None without one.
    """

    statistics = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "gradient_norm")
    stops_early: bool = False
    curiosity: Curiosity | None = None
    _updates = 0
    _graph: Graph | None = None

    @property
    def normalises_advantages(self) -> bool:
        """Whether the advantages of each minibatch get mean 0 and standard deviation 1."""
        return self.config.normalise_advantages

    def _build(self) -> None:
        self.distribution = distribution_for(self.agent_group.action, self.device)
        how = self.config.pick("network", "hidden", "activation", "shared", "log_std_init", "trunk", "bf16")
        group = self.agent_group
        self.network = make_network(group.observation, self.distribution, critic=group.critic, **how).to(self.device)
        self.optimiser = FlatAdam(self.network, epsilon=self.config.adam_epsilon)
        if CompiledNetwork.why_not(self.network, self.distribution) is None:
            self.network.compiled = CompiledNetwork(self.network, (self.optimiser.parameters, self.optimiser.steps))
        self.actor_parameters = self.optimiser.parameters
        if self.config.normalise_values:
            self.value_normaliser = ValueNormaliser(self.device)
        if self.config.curiosity and not self.config.frozen:
            self.curiosity = Curiosity(self.config, self.agent_group, self.device)

    def rates(self, step: int) -> Rates:
        """As `Policy.rates`; the learning rate of a network that was loaded rises to it, unless it has a schedule.

        Adam's first steps are as large as the learning rate, however small the gradient: they are too large for a
        policy that has learnt, whose actions have small deviations.
        """
        rates, config = super().rates(step), self.config
        if config.load is None or "learning_rate" in config.schedules or self._updates >= WARMING:
            return rates
        return rates._replace(learning_rate=rates.learning_rate * ((self._updates + 1) / WARMING))

    def draw_orders(self, samples: Samples, generator: torch.Generator) -> list[Tensor | None]:
        """Returns the order of the rows in each epoch.

        Args:
            samples: the samples of the rollout.
            generator: the source of the permutations.

        Returns:
            For each epoch int64[minibatches, size], or None for one minibatch of all rows; one epoch of it where the
            algorithm has no setting ``minibatch_size``.
        """
        size = vars(self.config).get("minibatch_size")
        return [None] if size is None else [draw_order(samples, size, generator) for _ in range(self.config.epochs)]

    def learn(self, samples: Samples, step: int, generator: torch.Generator) -> None:
        """Makes all updates from one rollout.

        There are no updates for a frozen policy, nor where all its agents had left the game.

        Args:
            samples: the samples of the rollout.
            step: agent steps of the run.
            generator: the source of the minibatches.
        """
        config = self.config
        if config.frozen or (samples.rows is not None and not len(samples.rows)):
            return
        self._fit_pixels(samples)
        rates, orders, taken = self.rates(step), self.draw_orders(samples, generator), samples
        if self.mirroring is not None:
            samples, orders = self._mirrored(samples, self.mirroring, orders)
        graphs = config.graphs and Graph.possible(self.device)
        if graphs and not self.stops_early and samples.rows is None:
            self._graph = self._graph or Graph(self._update_at, self.device)
            made = self._updates + sum(1 if order is None else len(order) for order in orders)
            losses = self._graph(samples, to_device(torch.tensor(rates), self.device), orders)
            self._updates = made
        else:
            with torch_threads(self.update_threads):
                losses = self.update(samples, rates, orders)
        if losses is not None:
            self.losses = losses
            self.adapt(losses)
        if self.curiosity is not None and not self.interrupted():
            seen = taken.inputs if taken.rows is None else taken.inputs[taken.rows]
            self.curiosity.learn(seen, rates.learning_rate, generator)

    def _mirrored(
        self, samples: Samples, mirroring: Mirroring, orders: list[Tensor | None]
    ) -> tuple[Samples, list[Tensor | None]]:
        """Returns samples followed by their mirrored ones, and minibatches each of which has both."""
        count = len(samples.returns)
        both = [None if order is None else torch.cat((order, order + count), 1) for order in orders]
        return with_mirrored(samples, mirroring), both

    def adapt(self, measured: Tensor) -> None:
        """Changes what depends on the `statistics` of a rollout's last epoch, float32[S]."""

    def _fit_pixels(self, samples: Samples) -> None:
        """Sets the standardisation of pixels from the first rollout, if the settings ask for it.

        The actions of that rollout are still learnt from: a policy's first outputs are nearly 0 for all pixels. Of
        several processes, all take the first one's.
        """
        pixels = self.config.get(Pixels)
        if pixels is None or not pixels.standardise_pixels or self._updates:
            return
        if not isinstance(self.network, ImageActorCritic):  # a recurrent network's inputs are numbers
            return
        seen = samples.inputs if samples.rows is None else samples.inputs[samples.rows]
        self.network.trunk.fit(seen[:: -(-len(seen) // SEEN)])
        if self.process_group is not None:
            self.process_group.broadcast(self.optimiser.parameters)

    def _update_at(self, samples: Samples, rates: Tensor, orders: list[Tensor | None]) -> Tensor | None:
        return self.update(samples, Rates(*rates.unbind()), orders)

    @property
    def update_threads(self) -> int:
        """Torch's threads in updates: as many as minibatches keep busy, unless given or others' cores."""
        config, before = self.config, torch.get_num_threads()
        if config.torch_threads or config.samplers > 0 or self.process_group is not None or self.device.type != "cpu":
            return before
        rows = config.num_envs * self.agent_group.width * config.num_steps
        rows = min(rows, vars(config).get("minibatch_size", rows))
        return threads_for(rows, len(self.optimiser.parameters))

    def last_losses(self) -> dict[str, float]:
        """Returns `Policy.last_losses`, and the statistics of the exploration bonus if there is one."""
        known, curiosity = super().last_losses(), self.curiosity
        if curiosity is None or not known:
            return known
        return known | dict(zip(curiosity.statistics, curiosity.measured.tolist(), strict=True))

    @property
    def updates(self) -> int:
        return self._updates

    def join_group(self, process_group: ProcessGroup) -> None:
        super().join_group(process_group)
        self.optimiser.reduce = process_group.average
        if self.curiosity is not None:
            self.curiosity.join_group(process_group)

    def update(self, samples: Samples, rates: Rates, orders: Iterable[Tensor | None]) -> Tensor | None:
        """Makes one epoch over a rollout for each of ``orders``; begins none once the run is `interrupted`.

        Args:
            samples: the samples of the rollout.
            rates: the scheduled settings.
            orders: as `draw_orders` returns them.

        Returns:
            `statistics` averaged over the last epoch, as one tensor on the network's device; None if the run was
            interrupted before the epoch in which they are measured.
        """
        measured: list[Tensor] = []
        orders = list(orders)
        for number, order in enumerate(orders, 1):
            if self.interrupted():
                break
            measure = self.stops_early or number == len(orders)
            measured.clear()
            if self.compiled is not None:
                whole = self.update_at_once(samples, rates, order)
                self._updates += 1 if order is None else len(order)
                measured += [whole] if measure else []
                continue
            for batch in minibatches(samples, order, self.normalises_advantages, self.process_group):
                statistics = self.backward(batch, rates, measure)
                norm = self.optimiser.step(rates.learning_rate, rates.max_grad_norm)
                self._updates += 1
                if statistics is not None:
                    measured.append(torch.cat((statistics, norm.view(1))))
            if self.stops_early and self.is_over(measured[-1]):
                break
        return torch.stack(measured).mean(0) if measured else None

    def update_at_once(self, samples: Samples, rates: Rates, order: Tensor | None) -> Tensor:
        """Makes all updates of an epoch in one call of compiled code; called where there is a form (`compiled`).

        Args:
            samples, rates: as for `update`.
            order: rows of the minibatches, int64[minibatches, size]; None for one of all rows.

        Returns:
            `statistics` averaged over the epoch, float32[S].
        """
        raise NotImplementedError

    def is_over(self, measured: Tensor) -> bool:
        """Returns whether to begin no further epoch, given the `statistics` of the last minibatch, float32[S]."""
        raise NotImplementedError

    # -- gradients -------------------------------------------------------------------------------

    def loss(self, batch: Samples, rates: Rates) -> tuple[Tensor, Tensor]:
        """Returns the loss of a minibatch, differentiable by autograd.

        Args:
            batch: the samples of the minibatch.
            rates: the scheduled settings.

        Returns:
            The loss, a 0-d tensor, and all `statistics` but the last, the gradient's norm, as one tensor.
        """
        raise NotImplementedError

    def evaluate(self, batch: Samples) -> tuple[Tensor, Tensor, Tensor]:
        """Returns log-probabilities of a minibatch's actions, entropies, and values, float32[B] each."""
        if batch.memory is None:
            params, values = self.forward(batch.inputs)
        else:
            params, values = self.forward.unroll(batch.inputs, batch.memory, batch.starts)
        if batch.forbidden is not None:
            params = masked(params, batch.forbidden)
        return *self.distribution.evaluate(params, batch.actions), values

    def backward(self, batch: Samples, rates: Rates, measure: bool) -> Tensor | None:
        """Writes the gradient of one minibatch into the optimiser's buffer.

        Args:
            batch, rates: as for `loss`.
            measure: whether to return statistics.

        Returns:
            The statistics that `loss` returns, if ``measure``; otherwise None.
        """
        self.optimiser.rows = len(batch.returns) if batch.weights is None else batch.weights.sum()
        self.optimiser.gradient.zero_()
        loss, statistics = self.loss(without_inference(batch), rates)
        loss.backward()
        return statistics.detach() if measure else None

    # -- checkpoints -----------------------------------------------------------------------------

    def optimisers(self) -> dict[str, Tensor]:
        moments = self.optimiser.state()
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        self.optimiser.load(checkpoints.group(self.name, saved) if self.name else dict(saved))
        self._updates = int(self.optimiser.steps)

    def state(self) -> dict[str, Tensor]:
        state = super().state()
        if self.curiosity is None:
            return state
        return state | checkpoints.prefixed(self.prefix("curiosity"), self.curiosity.state())

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        super().load_state(saved)
        if self.curiosity is not None:
            self.curiosity.load(checkpoints.group(self.prefix("curiosity"), saved))

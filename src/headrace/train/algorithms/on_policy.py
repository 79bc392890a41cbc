"""A policy that learns from rollouts, whatever its loss: epochs, minibatches, gradients, CUDA graphs.

An algorithm is a subclass that says the gradient of its loss with respect to the network's outputs. Nothing here
waits for the device: all statistics stay tensors until the caller wants to print them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from headrace.train.algorithms.graphs import Graph
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.action_masks import masked
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.mlp import MLP
from headrace.train.modules.network import make_network
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.samples import Samples, draw_order, minibatches, pick

CHUNK = 8192  # rows for each of torch's threads, whose activations stay near it on their way forward and back


class OnPolicy(Policy):
    """One network for actions and values, and its optimiser.

    Attributes:
        optimiser: of all the network's parameters.
        stops_early: whether `is_over` is asked after each epoch.
    """

    statistics = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")
    stops_early: bool = False

    def _build(self) -> None:
        self.distribution = distribution_for(self.agent_group.action, self.device)
        self.network = make_network(self.config, self.agent_group.observation, self.distribution).to(self.device)
        self.optimiser = FlatAdam(self.network, epsilon=self.config.adam_epsilon)
        self.acting = self.optimiser.parameters
        self._graph: _UpdateGraph | None = None

    def draw_orders(self, samples: Samples, generator: torch.Generator) -> list[Tensor | None]:
        """The order of the rows in each epoch, as `headrace.train.storage.samples.minibatches` takes it."""
        config = self.config
        return [draw_order(samples, config.minibatch_size, generator) for _ in range(config.epochs)]

    def learn(self, samples: Samples, step: int, generator: torch.Generator) -> None:
        """All updates from one rollout, ``step`` agent steps into the run.

        There are none for a frozen policy, nor where all its agents were out of the game.
        """
        config = self.config
        if config.frozen or (samples.rows is not None and not len(samples.rows)):
            return
        rates, orders = Rates.of(config, step), self.draw_orders(samples, generator)
        alone = self.optimiser.reduce is None
        if self.device.type == "cuda" and config.graphs and alone and not self.stops_early and samples.rows is None:
            if self._graph is None:
                self._graph = _UpdateGraph(self)
            self.losses = self._graph(samples, rates, orders)
        else:
            losses = self.update(samples, rates, orders)
            self.losses = self.losses if losses is None else losses

    def learn_with_others(self, reduce: Callable[[Tensor, float | Tensor], object]) -> None:
        self.optimiser.reduce = reduce

    def update(self, samples: Samples, rates: Rates, orders: Iterable[Tensor | None]) -> Tensor | None:
        """One epoch over a rollout for each of ``orders``; none once the run is `interrupted`.

        Returns:
            `statistics` averaged over the last epoch that ran, as one tensor on the network's device; None if they were
            not measured, as it should not have been the last.
        """
        measured: list[Tensor] = []
        orders = list(orders)
        for number, order in enumerate(orders, 1):
            if self.interrupted():
                break
            measure = self.stops_early or number == len(orders)
            measured.clear()
            for batch in minibatches(samples, order, self.config.normalise_advantages):
                statistics = self.backward(batch, rates, measure)
                norm = self.optimiser.step(rates.learning_rate, rates.max_grad_norm)
                if statistics is not None:
                    measured.append(torch.cat((statistics, norm.view(1))))
            if self.stops_early and self.is_over(measured[-1]):
                break
        return torch.stack(measured).mean(0) if measured else None

    def is_over(self, measured: Tensor) -> bool:
        """Whether no further epoch is to begin, given the `statistics` of the last minibatch."""
        raise NotImplementedError

    # -- gradients -------------------------------------------------------------------------------

    def backward(self, batch: Samples, rates: Rates, measure: bool) -> Tensor | None:
        """Fill the gradient buffer for one minibatch; returns `loss_gradient`'s statistics."""
        network, optimiser = self.forward, self.optimiser
        optimiser.rows = len(batch.returns) if batch.weights is None else batch.weights.sum()
        share = 1 / len(batch.returns) if batch.weights is None else batch.weights / batch.weights.sum().clamp(min=1)
        if isinstance(network, MLP):
            return self._backward_in_chunks(network, batch, rates, share, measure)
        optimiser.gradient.zero_()
        if batch.memory is None:
            params, values = network(batch.inputs)
        else:
            assert batch.starts is not None
            params, values = network.unroll(batch.inputs, batch.memory, batch.starts)
        with torch.no_grad():
            d_params, d_values, statistics = self.loss_gradient(params, values, batch, rates, share, measure)
        torch.autograd.backward((params, values), (d_params, d_values))
        return statistics

    @torch.inference_mode()
    def _backward_in_chunks(
        self, network: MLP, batch: Samples, rates: Rates, share: float | Tensor, measure: bool
    ) -> Tensor | None:
        count, statistics = len(batch.returns), None
        size = CHUNK * torch.get_num_threads() if batch.returns.device.type == "cpu" else count
        for start in range(0, count, size):
            rows = slice(start, start + size)
            part = batch if size >= count else pick(batch, rows)
            mine = share[rows] if isinstance(share, Tensor) else share
            params, values, saved = network.forward_saving(part.inputs)
            d_params, d_values, measured = self.loss_gradient(params, values, part, rates, mine, measure)
            network.backward_into_gradients(saved, d_params, d_values, add=start > 0)
            if measured is not None:
                statistics = measured if statistics is None else statistics + measured
        return statistics

    def loss_gradient(
        self, params: Tensor, values: Tensor, batch: Samples, rates: Rates, share: float | Tensor, measure: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Gradient of the loss with respect to the network's outputs.

        Args:
            share: what each row counts in the mean: a number, or float32[B].

        Returns:
            d loss/d params [B, size], d loss/d values [B], and if ``measure``
            [policy_loss, value_loss, entropy, approx_kl, clip_fraction], this batch's share of each, as one tensor.
        """
        if batch.forbidden is not None:
            params = masked(params, batch.forbidden)
        log_prob, entropy, saved = self.distribution.evaluate(params, batch.actions)
        slope, policy_statistics = self.surrogate(log_prob, batch, rates)
        d_params = self.distribution.gradient(saved, slope * -share, -rates.entropy_coef * share)
        d_values, value_loss = self.value_slope(values, batch)
        d_values = d_values * (rates.value_coef * share)
        if not measure:
            return d_params, d_values, None
        policy_loss, *moved = policy_statistics()
        statistics = (torch.stack((policy_loss, value_loss(), entropy, *moved)) * share).sum(1)
        return d_params, d_values, statistics if moved else F.pad(statistics, (0, 2))

    def surrogate(
        self, log_prob: Tensor, batch: Samples, rates: Rates
    ) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
        """The slope of what the policy is to increase with respect to the log-probability, float32[B].

        And a function that answers its negative, float32[B], then what else there is of `statistics`.
        """
        raise NotImplementedError

    def value_slope(self, values: Tensor, batch: Samples) -> tuple[Tensor, Callable[[], Tensor]]:
        """The slope of the value loss ``(v - R)²/2`` for the values, and a function that answers the loss."""
        error = values - batch.returns
        return error, lambda: error.square() / 2

    # -- checkpoints -----------------------------------------------------------------------------

    def optimisers(self) -> dict[str, Tensor]:
        moments = self.optimiser.state()
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        self.optimiser.load(checkpoints.group(self.name, saved) if self.name else dict(saved))


class _UpdateGraph:
    """A policy's updates from one rollout as a CUDA graph; what changes is copied to where the graph reads it."""

    def __init__(self, policy: OnPolicy):
        self._policy = policy
        self._graph = Graph(self._update, policy.device)
        self._samples: Samples | None = None
        self._rates: Tensor | None = None
        self._orders: list[Tensor | None] = []

    def __call__(self, samples: Samples, rates: Rates, orders: list[Tensor | None]) -> Tensor:
        if self._rates is None:
            self._rates = torch.zeros(len(rates), device=self._policy.device)
            self._orders = [None if order is None else torch.empty_like(order) for order in orders]
        self._rates.copy_(torch.tensor(rates), non_blocking=True)
        for kept, order in zip(self._orders, orders, strict=True):
            if kept is not None and order is not None:
                kept.copy_(order)
        if self._samples is None or not self._graph.captured:
            self._samples = samples
        for field in dataclasses.fields(samples):
            kept, given = getattr(self._samples, field.name), getattr(samples, field.name)
            # where the rollout is a graph too, they are the same memory
            if isinstance(kept, Tensor) and kept.data_ptr() != given.data_ptr():
                kept.copy_(given)
        return self._graph()

    def _update(self) -> Tensor:
        assert self._samples is not None and self._rates is not None
        losses = self._policy.update(self._samples, Rates(*self._rates.unbind()), self._orders)
        assert losses is not None
        return losses

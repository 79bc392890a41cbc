"""A policy: its agent group, its network, and what learns it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.errors import StateError
from headrace.train.algorithms.graphs import Graph
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.ppo import STATISTICS, Rates, Samples, draw_order, update
from headrace.train.config.settings import Config
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.progress import PolicyProgress
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.network import make_network
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.modules.observation_encoder import InputEncoder
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.runs import checkpoint as checkpoints


class Policy:
    """One network, the agents that it plays, and its optimiser: here PPO's and A2C's.

    Attributes:
        name: as in ``config.policies``; empty where the environment has one agent.
        config: the run's settings, with those of this policy.
        has_replay: whether it learns from a replay, and not from rollouts alone.
        encoder: turns its observations into the network's inputs; knows their statistics.
        reward_scaler: what scales its rewards; None where nothing does.
        network, forward: the module, and what is called (compiled, if so asked).
        acting: the parameters of all that chooses actions, float32[P], which they are views of.
        memory_size: columns of a recurrent network's memory; 0 for others.
        tracker: episodes as this policy's agents fared in them.
        losses: the last update's statistics; None before.
        interrupted: asked before each epoch of PPO; none is begun any more once it says so.
        caveat: in words, what a checkpoint did not hold and therefore begins anew; None for nothing.
    """

    statistics: tuple[str, ...] = STATISTICS
    has_replay: ClassVar[bool] = False
    acting: Tensor

    def __init__(self, name: str, config: Config, agent_group: AgentGroup, device: torch.device):
        self.name, self.config, self.agent_group, self.device = name, config, agent_group, device
        self.encoder = InputEncoder(config, agent_group.observation, device)
        columns = config.num_envs * agent_group.width
        self.reward_scaler = RewardScaler(columns, config.gamma, device) if config.normalise_rewards else None
        self._build()
        self.memory_size: int = getattr(self.network, "memory_size", 0)
        self.forward: Any = torch.compile(self.network) if config.compile else self.network
        self.step: Any = getattr(self.network, "step", None)
        self.tracker = EpisodeTracker(config.num_envs, config.stop_episodes, device, tuple(agent_group.types))
        self.losses: Tensor | None = None
        self.interrupted: Callable[[], bool] = lambda: False
        self.caveat: str | None = None

    def _build(self) -> None:
        """Make the network, how actions follow from it, and what learns it."""
        self.distribution: Any = distribution_for(self.agent_group.action, self.device)
        self.network = make_network(self.config, self.agent_group.observation, self.distribution).to(self.device)
        self.optimiser = FlatAdam(self.network, epsilon=self.config.adam_epsilon)
        self.acting = self.optimiser.parameters
        self._graph: _UpdateGraph | None = None

    def learn(self, samples: Any, step: int, generator: torch.Generator) -> None:
        """All updates from one rollout, ``step`` agent steps into the run.

        There are none for a frozen policy, nor where all its agents were out of the game.
        """
        config = self.config
        if config.frozen or (samples.rows is not None and not len(samples.rows)):
            return
        rates = Rates.of(config, step)
        orders = [draw_order(samples, config, generator) for _ in range(1 if config.algo == "a2c" else config.epochs)]
        alone = self.optimiser.reduce is None
        if self.device.type == "cuda" and config.graphs and alone and config.target_kl is None and samples.rows is None:
            if self._graph is None:
                self._graph = _UpdateGraph(self)
            self.losses = self._graph(samples, rates, orders)
        else:
            losses = self.update(samples, rates, orders)
            self.losses = self.losses if losses is None else losses

    def update(self, samples: Samples, rates: Rates, orders: list[Tensor | None]) -> Tensor | None:
        """The updates themselves; answers `statistics`, as `headrace.train.algorithms.ppo.update`."""
        return update(
            self.forward, self.optimiser, self.distribution, self.config, samples, rates, orders, self.interrupted
        )

    def learn_with_others(self, reduce: Callable[[Tensor, float | Tensor], object]) -> None:
        """Average gradients with those of other processes from now on, as `FlatAdam.reduce`; no graph can do that."""
        self.optimiser.reduce = reduce

    def last_losses(self) -> dict[str, float]:
        """The last update's statistics by name; empty before it, and for a frozen policy."""
        return {} if self.losses is None else dict(zip(self.statistics, self.losses.tolist(), strict=True))

    def progress(self) -> PolicyProgress:
        """How the policy fares now."""
        tracker = self.tracker
        types = tracker.by_type()
        return PolicyProgress(self.name, tracker.mean_return(), tracker.mean_length(), types, self.last_losses())

    def prefix(self, what: str) -> str:
        """The name of a group of tensors in a checkpoint."""
        return f"{what}.{self.name}" if self.name else what

    @property
    def _normaliser(self) -> str:
        return self.prefix("normaliser")

    def model(self) -> dict[str, Tensor]:
        """All that playing needs, as a checkpoint has it: the network, and statistics of observations."""
        model = checkpoints.prefixed(self.prefix("network"), self.network.state_dict())
        normaliser = self.encoder.normaliser
        return model if normaliser is None else model | checkpoints.prefixed(self._normaliser, normaliser.state())

    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Restore what `model` returned, in place.

        Raises:
            StateError: they do not fit.
        """
        try:
            self.network.load_state_dict(checkpoints.group(self.prefix("network"), model))
            if self.encoder.normaliser is not None:
                self.encoder.normaliser.load(checkpoints.group(self._normaliser, model))
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error

    def optimisers(self) -> dict[str, Tensor]:
        """The optimiser's part of a checkpoint."""
        moments = self.optimiser.state()
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `optimisers` returned."""
        self.optimiser.load(checkpoints.group(self.name, saved) if self.name else dict(saved))

    def state(self) -> dict[str, Tensor]:
        """What else of it decides how a run goes on, and what of it is reported until its next update."""
        state = checkpoints.prefixed(self.prefix("episodes"), self.tracker.state())
        if self.reward_scaler is not None:
            state |= checkpoints.prefixed(self.prefix("rewards"), self.reward_scaler.state())
        return state if self.losses is None else state | {self.prefix("losses"): self.losses}

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.tracker.load(checkpoints.group(self.prefix("episodes"), saved))
        if self.reward_scaler is not None:
            self.reward_scaler.load(checkpoints.group(self.prefix("rewards"), saved))
        losses = saved.get(self.prefix("losses"))
        self.losses = None if losses is None else losses.to(self.device)


class _UpdateGraph:
    """A policy's updates from one rollout as a CUDA graph; what changes is copied to where the graph reads it."""

    def __init__(self, policy: Policy):
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

"""The base of all algorithms' policies: agents, network, statistics, and the policy's part of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.errors import StateError
from headrace.train.algorithms.compiled_updates import CompiledForm, compiled_parts, updated_by, why_torch
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.mirroring import Mirroring
from headrace.train.modules.normalisation import RewardScaler, Standardiser, ValueNormaliser
from headrace.train.modules.observation_encoder import InputEncoder
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.modules.policy_module import PolicyModule
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.algorithm import Algorithm
from headrace.train.settings.common import COMMON
from headrace.train.settings.config import Config


class Policy:
    """One network, the agents that it plays, and the updates that train it; each algorithm is a subclass.

    Attributes:
        name: its name in ``config.policies``; empty where the environment has one agent.
        config: the run's settings, in which the policy's own settings replace those of the run.
        settings: the records of the algorithm's settings, and what it can do.
        compiled_form: the class of the compiled form of its updates; None for an algorithm without one.
        form: the same; None for a subclass that does not name ``compiled_form`` again, as its losses may be others.
        compiled: what makes the updates in compiled code; None where torch does, and for a frozen policy.
        updated_by: what makes the updates, see `headrace.train.algorithms.compiled_updates.updated_by`; empty for a
            frozen policy.
        keeps_params: whether rollouts keep the parameters of action distributions, as importance ratios need them.
        statistics: the names of the elements of `losses`.
        heads: the number of actions of each choice, if the policy keeps to action masks; otherwise empty.
        distribution: the action distribution.
        encoder: turns observations into the network's inputs, and holds their statistics.
        reward_scaler: scales rewards; None without scaling.
        value_normaliser: normalises the critic's values; None without normalisation.
        network, forward: the module, and the function to call, which is compiled if the settings require it.
        actor_parameters: the parameters that choose actions, float32[P], as one vector of which they are views.
        module: what acts, plays and is exported: encoder, network and distribution.
        losses: the last update's statistics; None before the first.
        mirroring: what the task's mirror shows, of which the policy learns, too; None if it does not.
        process_group: the processes that train this policy together with this one; None if it trains alone.
        interrupted: called before each epoch over a rollout; once it returns True, no epoch is begun.
        caveat: a message about state that a loaded checkpoint lacked, and that was reset; None if there was none.
    """

    settings: ClassVar[Algorithm] = COMMON
    config: Config
    compiled_form: ClassVar[type[CompiledForm] | None] = None
    compiled: Any = None
    updated_by: str = ""
    keeps_params: ClassVar[bool] = False
    statistics: tuple[str, ...]
    value_normaliser: ValueNormaliser | None = None
    mirroring: Mirroring | None = None
    distribution: Any
    network: Any
    actor_parameters: Tensor

    def __init__(self, name: str, config: Config, agent_group: AgentGroup, device: torch.device):
        self.name, self.config, self.agent_group, self.device = name, config, agent_group, device
        self.heads = agent_group.heads if config.action_masks else ()
        self.encoder = InputEncoder(
            agent_group.observation,
            device,
            config.network,
            config.normalise_observations,
            config.deviation_floor,
            agent_group.critic,
        )
        columns = config.num_envs * agent_group.width
        self.reward_scaler = self._make_reward_scaler(columns)
        self.form: type[CompiledForm] | None = vars(type(self)).get("compiled_form")  # not inherited
        self.process_group: ProcessGroup | None = None
        self._build()
        self._choose_updates()
        self.forward: Any = torch.compile(self.network) if config.compile else self.network
        self.module = PolicyModule(self.encoder, self.network, self.forward, self.distribution, self.heads, self.worth)
        self.losses: Tensor | None = None
        self.interrupted: Callable[[], bool] = lambda: False
        self.caveat: str | None = None

    def _make_reward_scaler(self, columns: int) -> RewardScaler | None:
        """Returns what scales the rewards of so many columns; None for no scaling."""
        config = self.config
        return RewardScaler(columns, config.gamma, self.device) if config.normalise_rewards else None

    def _build(self) -> None:
        """Makes ``distribution``, ``network``, ``actor_parameters`` and the optimisers."""
        raise NotImplementedError

    def _choose_updates(self) -> None:
        """Decides what makes the updates, and what evaluates the networks."""
        reason = "" if self.config.frozen else why_torch(self)
        self.compiled = self.form(self) if reason is None and self.form is not None else None
        parts = compiled_parts(self) if reason is not None else 0
        self.updated_by = "" if self.config.frozen else updated_by(self) + " with compiled convolutions" * bool(parts)

    def worth(self, inputs: Tensor, params: Tensor, values: Tensor) -> Tensor:
        """Returns the expected discounted return, float32[B], in units of the environments' rewards.

        Args:
            inputs: the network's inputs, [B, …].
            params, values: its outputs for these inputs.
        """
        return self.in_rewards(values)

    def in_rewards(self, values: Tensor) -> Tensor:
        """Returns the network's values, of any shape, in units of the environments' rewards."""
        for known in (self.value_normaliser, self.reward_scaler):
            values = values if known is None else known.restored(values)
        return values

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills the noise of actions that explore, in place, and returns it.

        Args:
            noise: float32[T, B, noise_size] for the steps of a rollout, or float32[B, noise_size] for the next step.
            generator: the source of the noise.
        """
        return self.distribution.draw(noise, generator)

    def join_group(self, process_group: ProcessGroup) -> None:
        """Averages gradients and statistics with other processes from now on; updates are then no CUDA graphs."""
        self.process_group = process_group
        self._choose_updates()
        for normaliser in (*self.normalisers.values(), self.reward_scaler):
            if normaliser is not None:
                normaliser.statistics.gather = process_group.all_gather

    @property
    def updates(self) -> int:
        """Gradient steps so far, those before a resumption included; reading it waits for the device."""
        raise NotImplementedError

    def last_losses(self) -> dict[str, float]:
        """Returns the last update's statistics by name; empty before the first, and for a frozen policy."""
        return {} if self.losses is None else dict(zip(self.statistics, self.losses.tolist(), strict=True))

    def reported(self, step: int) -> dict[str, float]:
        """Returns `last_losses`, and the learning rate at agent step `step` where it changes during the run."""
        losses = self.last_losses()
        if losses and self.rate_changes:
            losses["learning_rate"] = float(self.rates(step).learning_rate)
        return losses

    @property
    def rate_changes(self) -> bool:
        """Whether the learning rate changes during the run."""
        return self.config.anneal_learning_rate or "learning_rate" in self.config.schedules

    def rates(self, step: int) -> Rates:
        """Returns the rates of updates at agent step `step`."""
        return Rates.of(self.config, step)

    def reschedule(self, schedules: Mapping[str, list[tuple[int, float]]]) -> None:
        """Replaces the schedules of some settings, if the policy's algorithm has them.

        Args:
            schedules: setting → points (agent step, value), as in ``Config.schedules``.
        """
        own = self.settings.only(schedules)
        self.config = self.config.replace(schedules=self.config.schedules | own)

    @property
    def trace_decay(self) -> float:
        """The decay λ of advantages, of a policy that learns from rollouts."""
        return self.config.gae_lambda

    def prefix(self, what: str) -> str:
        """Returns the name of a group of tensors in a checkpoint."""
        return f"{what}.{self.name}" if self.name else what

    @property
    def normalisers(self) -> dict[str, Standardiser]:
        """Statistics that belong to the network, by the names of their groups in a checkpoint."""
        known = {"normaliser": self.encoder.normaliser, "values": self.value_normaliser}
        return {self.prefix(name): each for name, each in known.items() if each is not None}

    def model(self) -> dict[str, Tensor]:
        """Returns the tensors that playing needs: those of the network, of its `normalisers`, and of rewards."""
        model = checkpoints.prefixed(self.prefix("network"), self.network.state_dict())
        for name, normaliser in self.normalisers.items():
            model |= checkpoints.prefixed(name, normaliser.state())
        if self.reward_scaler is not None:
            model |= checkpoints.prefixed(self.prefix("rewards"), self.reward_scaler.known())
        return model

    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Restores the tensors that `model` returned, in place.

        Raises:
            StateError: names or shapes of the tensors do not fit the policy.
        """
        try:
            self.network.load_state_dict(checkpoints.group(self.prefix("network"), model))
            for name, normaliser in self.normalisers.items():
                normaliser.load(checkpoints.group(name, model))
            if self.reward_scaler is not None:  # of which earlier versions wrote nothing
                self.reward_scaler.load(checkpoints.group(self.prefix("rewards"), model))
        except (KeyError, RuntimeError) as error:
            words = _difference(self.model(), model) or str(error).partition("\n")[0]
            raise StateError(f"the checkpoint does not fit this configuration: {words}") from error

    def optimisers(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """Returns the policy's further tensors for a checkpoint: reward statistics, losses."""
        state: dict[str, Tensor] = {}
        if self.reward_scaler is not None:
            state |= checkpoints.prefixed(self.prefix("rewards"), self.reward_scaler.state())
        return state if self.losses is None else state | {self.prefix("losses"): self.losses}

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        if self.reward_scaler is not None:
            self.reward_scaler.load(checkpoints.group(self.prefix("rewards"), saved))
        losses = saved.get(self.prefix("losses"))
        self.losses = None if losses is None else losses.to(self.device)


def _difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str | None:
    """Returns a message about the first tensor that a checkpoint lacks, or has in another shape; None without one."""
    for name, tensor in ours.items():
        if name not in theirs:
            return f"it holds no {name}"
        if theirs[name].shape != tensor.shape:
            return f"{name} has shape {list(theirs[name].shape)} there, and {list(tensor.shape)} here"
    return None

"""Deep deterministic policy gradients: continuous actions, learnt from a replay of everything seen of late.

PPO forgets a rollout once it has learnt from it; where environment steps are dear, a replay makes many updates
of each. The actor climbs the critic's slope with respect to the action; the critic is fitted to one-step
targets from slowly following copies of both (`DDPG.improve` has the formulas).

Nothing in an iteration waits for the device: transitions go into a ring on it (`headrace.train.replay`),
minibatches are drawn there, and on CUDA one update is one graph.

Source: Lillicrap et al. 2016 (arXiv:1509.02971). Unlike there, exploration noise is uncorrelated, the action
enters the critic's first layer, nothing is batch-normalised, no weights decay, and gradients are clipped; Pardo et
al. 2018 (arXiv:1712.00378) for time limits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train import checkpoint as checkpoints
from headrace.train.config import Config
from headrace.train.distributions import Deterministic
from headrace.train.graphs import Graph
from headrace.train.networks import input_size, uses_images
from headrace.train.optimiser import FlatAdam, flatten
from headrace.train.perceptron import Perceptron
from headrace.train.policy import Policy
from headrace.train.ppo import Rates
from headrace.train.replay import Replay, Transitions
from headrace.train.seats import Seat

if TYPE_CHECKING:
    from headrace.train.experience import Experience, Outcome


class ActorCritic(nn.Module):
    """An actor that maps inputs [B, D] to actions within [-1, 1], [B, A], and a critic of both together."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...], activation: str):
        super().__init__()
        self.actor = Perceptron(inputs, actions, hidden, activation, squash=True)
        self.critic = Perceptron(inputs + actions, 1, hidden, activation)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Actions for inputs, and zeros in place of values: collecting needs none."""
        return self.actor(x), x.new_zeros(len(x))


class UpdateRates(NamedTuple):
    """The settings that may change during a run, as `headrace.train.ppo.Rates`."""

    learning_rate: float | Tensor
    critic_learning_rate: float | Tensor
    max_grad_norm: float | Tensor

    @classmethod
    def of(cls, config: Config, step: int) -> UpdateRates:
        """Those of so many agent steps into a run; the critic's learning rate keeps its ratio to the actor's."""
        rates = Rates.of(config, step)
        critic = config.critic_learning_rate / config.learning_rate
        return cls(rates.learning_rate, rates.learning_rate * critic, rates.max_grad_norm)


class DDPG(Policy):
    """A deterministic policy, its critic, and what both learn from.

    Attributes:
        network: an `ActorCritic`; its targets are ``targets``.
        replay: None for a frozen policy, which never learns.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network is to be another than an MLP.
    """

    statistics = ("critic_loss", "actor_loss", "q_mean", "critic_grad_norm", "actor_grad_norm")

    network: ActorCritic

    def _build(self) -> None:
        config, seat, device = self.config, self.seat, self.device
        self._check_network(config, seat)
        self.distribution = Deterministic(seat.action, config.exploration_noise, device)
        inputs, actions = input_size(seat.observation), self.distribution.size
        network = ActorCritic(inputs, actions, config.hidden, config.activation)
        self.network, self.targets = network.to(device), copy.deepcopy(network).to(device)
        self._optimisers = {
            "actor": FlatAdam(self.network.actor, epsilon=config.adam_epsilon),
            "critic": FlatAdam(self.network.critic, epsilon=config.adam_epsilon),
        }
        self._targets = {"actor": flatten(self.targets.actor)[0], "critic": flatten(self.targets.critic)[0]}
        self.columns = config.num_envs * seat.width
        self.replay = None
        if not config.frozen:
            if config.replay_size < self.columns * config.num_steps:
                rows = f"{config.num_steps} steps of {self.columns} agents"
                raise OptionError(f"replay_size={config.replay_size} must hold a rollout at least, {rows}")
            self.replay = Replay(config.replay_size, inputs, actions, device)
        self._collected = 0  # steps of agents since the replay was empty, also of those that had left: nothing waits
        # where a CUDA graph finds what is new in each update
        self._experience: Experience | None = None
        self._rows = torch.zeros(config.minibatch_size, dtype=torch.int64, device=device)
        self._rate_values = torch.zeros(len(UpdateRates._fields), device=device)
        self._rates = UpdateRates(0.0, 0.0, 0.0)
        self._measured = torch.zeros(len(self.statistics), device=device)
        self._update = Graph(self._update_once, device, config.graphs)

    @staticmethod
    def _check_network(config: Config, seat: Seat) -> None:
        if config.network not in ("auto", "mlp"):
            raise OptionError(f"DDPG has mlp networks only, not network={config.network!r}")
        if uses_images(config, seat.observation):
            raise OptionError(
                f"DDPG has no network for images, {seat.observation}; network='mlp' takes them as vectors"
            )

    # -- one iteration ---------------------------------------------------------------------------

    def gather(self, experience: Experience, outcome: Outcome) -> Experience:
        """Put a rollout into the replay."""
        if self.replay is not None:
            present = None if outcome.present is None else outcome.present.flatten()
            self.replay.write(experience.transitions(outcome), present)
        return experience

    def learn(self, samples: Experience, step: int, generator: torch.Generator) -> None:
        """The updates that are due after one more rollout, ``step`` agent steps into the run."""
        due = self._due()
        if due == 0 or self.replay is None:
            return
        self._experience = samples
        self._set_rates(step)
        self._measured.zero_()
        for rows in self.replay.draw((due, self.config.minibatch_size), generator).unbind(0):
            self._rows.copy_(rows)
            self._update()
        self.losses = self._measured / due

    def _due(self) -> int:
        """Updates after one more rollout, so that on average they are ``replay_ratio`` a step."""
        config, before = self.config, self._collected
        self._collected += config.num_steps * self.columns
        if self._collected < config.learning_starts:
            return 0
        return int(config.replay_ratio * self._collected) - int(config.replay_ratio * before)

    def _set_rates(self, step: int) -> None:
        rates = UpdateRates.of(self.config, step)
        if self.device.type == "cuda":
            self._rate_values.copy_(torch.tensor(rates), non_blocking=True)
            rates = UpdateRates(*self._rate_values.unbind())
        self._rates = rates

    @torch.inference_mode()
    def _update_once(self) -> None:
        """One update from the transitions numbered ``_rows``."""
        assert self.replay is not None and self._experience is not None
        batch = self._experience.normalised(self.replay.read(self._rows))
        self._measured += self.improve(batch, self._rates)

    @torch.inference_mode()
    def improve(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """One gradient step of the critic Q, one of the actor μ, and one step of the targets Q', μ' after them.

        The critic descends ``mean((Q(s, a) - y)²)`` with ``y = r + γ · (1 - terminated) · Q'(s', μ'(s'))``, the actor
        ``-mean(Q(s, μ(s)))``, and ``target += target_rate · (network - target)``.

        Returns:
            `statistics`, float32[5].
        """
        actor, critic, share = self.network.actor, self.network.critic, 1 / len(batch.rewards)
        error, critic_saved = self._errors(batch)
        critic.backward_into_gradients(critic_saved, (2 * share) * error.unsqueeze(1))
        critic_norm = self._optimisers["critic"].step(rates.critic_learning_rate, rates.max_grad_norm)

        actor_saved = actor.forward_saving(batch.inputs)
        saved = critic.forward_saving(torch.cat((batch.inputs, actor_saved[-1]), 1))
        d_input = critic.input_gradient(saved, torch.full_like(saved[-1], -share))
        actor.backward_into_gradients(actor_saved, d_input[:, batch.inputs.shape[1] :])
        actor_norm = self._optimisers["actor"].step(rates.learning_rate, rates.max_grad_norm)

        for name, target in self._targets.items():
            target.lerp_(self._optimisers[name].parameters, self.config.target_rate)
        losses = error.square().mean(), -saved[-1].mean(), critic_saved[-1].mean()
        return torch.stack((*losses, critic_norm, actor_norm))

    def _errors(self, batch: Transitions) -> tuple[Tensor, list[Tensor]]:
        """How far the critic is from its targets, float32[B], and its activations."""
        following = torch.cat((batch.following, self.targets.actor(batch.following)), 1)
        after = self.targets.critic(following).squeeze(1)
        target = batch.rewards + self.config.gamma * (1 - batch.terminated) * after
        saved = self.network.critic.forward_saving(torch.cat((batch.inputs, batch.actions), 1))
        return saved[-1].squeeze(1) - target, saved

    def learn_with_others(self, reduce: Callable[[Tensor, float | Tensor], object]) -> None:
        for optimiser in self._optimisers.values():
            optimiser.reduce = reduce
        self._update = Graph(self._update_once, self.device, False)

    # -- checkpoints -----------------------------------------------------------------------------

    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's networks, in place; the targets are then the same."""
        super().load_model(model)
        for name, target in self._targets.items():
            target.copy_(self._optimisers[name].parameters)

    def optimisers(self) -> dict[str, Tensor]:
        """Both optimisers, and the targets, which are as much a trace of the way here."""
        moments: dict[str, Tensor] = {}
        for name, optimiser in self._optimisers.items():
            moments |= checkpoints.prefixed(name, optimiser.state() | {"target": self._targets[name]})
        return checkpoints.prefixed(self.name, moments) if self.name else moments

    def load_optimisers(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `optimisers` returned."""
        moments = checkpoints.group(self.name, saved) if self.name else saved
        for name, optimiser in self._optimisers.items():
            mine = checkpoints.group(name, moments)
            optimiser.load(mine)
            self._targets[name].copy_(mine["target"])

    def state(self) -> dict[str, Tensor]:
        """What else of it decides how a run goes on: the replay, too, unless ``save_replay`` leaves it out."""
        state = super().state()
        if self.replay is not None and self.config.save_replay:
            kept: dict[str, Any] = self.replay.state() | {"collected": torch.tensor(self._collected)}
            state |= checkpoints.prefixed(self.prefix("replay"), kept)
        return state

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; without a replay, fill an empty one before learning goes on."""
        super().load_state(saved)
        kept = checkpoints.group(self.prefix("replay"), saved)
        if self.replay is not None and kept:
            self.replay.load(kept)
            self._collected = int(kept["collected"])
        elif self.replay is not None:
            which = f"policy {self.name!r}" if self.name else "the policy"
            self.caveat = f"{which} begins with an empty replay, as save_replay=False left it out of the checkpoint"

"""The learner of rollouts: recomputes values and importance ratios, applies V-trace, and makes PPO's updates.

A slot is released to its sampler as soon as it has been copied, so that the next rollout is collected during the
updates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.vtrace import vtrace
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import masked
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.rollout_slots import Rollouts, Slot
from headrace.train.storage.samples import Samples
from headrace.train.workers.policy_copy import PolicyCopy

ROWS = 1024  # maximum rows of a forward pass before updates, as activations of images need much memory


class RolloutLearner:
    """A policy that learns from samplers' rollouts and publishes its weights.

    Attributes:
        steps: number of agent steps that have been used, including those before a resumption.
        updates: number of gradient steps, including those before a resumption.
    """

    def __init__(self, config: Config, policy: OnPolicy, rollouts: Rollouts, weights: WeightBuffer) -> None:
        self.config, self.policy, self.rollouts, self.weights = config, policy, rollouts, weights
        self.device, self._encoder, self._policy_copy = policy.device, policy.encoder, PolicyCopy(policy)
        self.steps = self.updates = 0
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self._scalers: list[RewardScaler] = []
        if config.normalise_rewards:
            assert policy.reward_scaler is not None
            self._scalers = [RewardScaler(config.num_envs, config.gamma, self.device) for _ in range(config.samplers)]
            for scaler in self._scalers:
                scaler.statistics = policy.reward_scaler.statistics
        rows = config.num_steps * config.num_envs
        self._inputs = torch.zeros(rows, *policy.encoder.shape, dtype=policy.encoder.dtype, device=self.device)
        self._measured: tuple[Tensor, Tensor] | None = None

    def learn(self) -> bool:
        """Makes all updates from one rollout, and publishes the weights; returns whether there was a rollout."""
        found = self.rollouts.next()
        if found is None:
            return False
        with torch.inference_mode():
            samples = self._samples(*found)
        self.policy.learn(samples, self.steps, self.generator)
        self.steps += len(self._inputs)
        self.publish()
        self.updates = self.policy.updates
        return True

    def publish(self) -> None:
        self._policy_copy.publish(self.weights)

    def settle(self) -> None:
        """Does nothing, as no other process learns."""

    def statistics(self) -> Tensor | None:
        """Returns the statistics of the last update; None if there was none."""
        return self.policy.losses

    def staleness(self) -> dict[str, float]:
        """Returns the age of the last rollout, in versions of the weights and as a KL divergence, by name."""
        if self._measured is None:
            return {}
        versions, divergence = self._measured
        return {"versions": float(versions), "divergence": float(divergence)}

    def state(self) -> dict[str, Tensor]:
        """Returns further tensors of a checkpoint; samplers begin new episodes when the run is resumed."""
        return checkpoints.prefixed("rewards", self._scalers[0].statistics.state()) if self._scalers else {}

    def load_state(self, saved: dict[str, Tensor]) -> None:
        if self._scalers:
            self._scalers[0].load(checkpoints.group("rewards", saved))

    def _samples(self, sampler: int, slot: Slot) -> Samples:
        """Returns a slot's rollout as samples; releases the slot, and updates all statistics."""
        config, rows, ended = self.config, len(self._inputs), int(slot.ended)
        following = self._encode(slot)
        actions, acted, rewards, terminated, truncated, closed, places = (
            torch.from_numpy(array).to(self.device, copy=True)
            for array in (
                slot.actions, slot.log_probs, slot.rewards, slot.terminated, slot.truncated, slot.forbidden,
                slot.places[:ended],
            )
        )  # fmt: skip
        versions, fresh = torch.from_numpy(slot.versions).double(), bool(slot.fresh)
        self.rollouts.release(sampler)

        if self._scalers:
            scaler = self._scalers[sampler]
            if fresh:
                scaler.running.zero_()
            rewards = scaler(rewards, terminated | truncated)
        parts = [self.policy.forward(part) for part in self._inputs.split(ROWS)]
        params, values = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        closed = closed.flatten(0, 1) if self.policy.heads else None
        if closed is not None:
            params = masked(params, closed)
        normaliser = self.policy.value_normaliser
        after = self.policy.forward(following)[1]
        if normaliser is not None:
            values, after = normaliser.restored(values), normaliser.restored(after)
        last, finals = after.split((config.num_envs, ended))
        final_values = torch.zeros(rows, device=self.device).scatter_(0, places, finals)
        actions = actions.flatten(0, 1)
        log_ratios = self.policy.distribution.evaluate(params, actions)[0] - acted.flatten()
        self._measured = self.weights.version - versions.mean(), (log_ratios.exp() - 1 - log_ratios).mean()
        shape = rewards.shape
        targets = vtrace(
            rewards,
            torch.cat((values, last)).view(len(rewards) + 1, -1),
            terminated,
            truncated,
            final_values.view(shape),
            log_ratios.view(shape),
            config.gamma,
            config.gae_lambda,
            config.rho_clip,
            config.trace_clip,
        )
        advantages, returns = targets.advantages.flatten(), targets.values.flatten()
        if normaliser is not None:
            normaliser.update(returns)
            returns, values = normaliser.normalised(returns), normaliser.normalised(values)
        return Samples(self._inputs, actions, acted.flatten(), advantages, returns, values, forbidden=closed)

    def _encode(self, slot: Slot) -> Tensor:
        """Encodes a slot's observations into the inputs, and updates their statistics.

        Returns:
            The inputs of the observations after the last step, followed by those of final observations, [N + ended, …].
        """
        seen, final = torch.from_numpy(slot.observations), torch.from_numpy(slot.final_observations[: int(slot.ended)])
        self._encoder(seen[:-1].flatten(0, 1), self._inputs)
        after = torch.cat((seen[-1], final))
        following = torch.empty(len(after), *self._inputs.shape[1:], dtype=self._inputs.dtype, device=self.device)
        self._encoder(after, following)
        if self._encoder.normaliser is not None:
            raw = seen[:-1].to(self.device, self._encoder.raw_dtype)
            self._encoder.normaliser.update(raw.view(self._inputs.shape))
        return following

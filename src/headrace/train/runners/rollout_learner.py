"""The learner of rollouts: recomputes values and importance ratios, applies V-trace, and makes PPO's updates.

A slot is released to its sampler as soon as it has been copied, so that the next rollout is collected during the
updates.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.registry import build_task
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.vtrace import vtrace
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import masked
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runners.pace import Pace
from headrace.train.runners.parts import Figures, Learner
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.storage.rollout_slots import Rollouts, Slot
from headrace.train.storage.samples import Samples
from headrace.train.workers.policy_copy import PolicyCopy

ROWS = 1024  # maximum rows of a forward pass before updates, as activations of images need much memory


class RolloutLearner(Learner):
    """A policy that learns from samplers' rollouts and publishes its weights.

    Attributes:
        memory: the slots of rollouts.
        steps: number of agent steps that have been used, including those before a resumption.

    Raises:
        OptionError: the policy is recurrent.
    """

    def __init__(self, config: Config, policy: OnPolicy, weights: WeightBuffer):
        if policy.module.memory_size:
            raise OptionError("a recurrent network is for samplers=0: workers do not hand its memory on")
        self.config, self.policy, self.weights = config, policy, weights
        self.device, self._encoder, self._policy_copy = policy.device, policy.encoder, PolicyCopy(policy)
        stored = policy.distribution.action_shape, torch.empty(0, dtype=policy.distribution.action_dtype).numpy().dtype
        sizes = config.samplers, config.rollout_slots, config.num_steps, config.num_envs, sum(policy.heads)
        space = build_task(config.task, **config.env_options).spec.observation
        self.memory = Rollouts(space, *stored, *sizes)
        self.steps = 0
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self._scalers: list[RewardScaler] = []
        if config.normalise_rewards:
            assert policy.reward_scaler is not None
            self._scalers = [RewardScaler(config.num_envs, config.gamma, self.device) for _ in range(config.samplers)]
            for scaler in self._scalers:
                scaler.statistics = policy.reward_scaler.statistics
        self._rows = config.num_steps * config.num_envs
        self._inputs = torch.zeros(self._rows, *policy.encoder.shape, dtype=policy.encoder.dtype, device=self.device)
        self._measured: tuple[Tensor, Tensor] | None = None
        self.pace = Pace(self.update, lambda: self.finished(self.steps), lambda: policy.updates)

    def begin(self, interrupt: object) -> None:
        self.policy.interrupted = lambda: bool(interrupt)  # all updates from a rollout may take too long after Ctrl-C
        self.pace.begin()

    def learn(self, rollouts: list[Any], step: int) -> None:
        self.pace.run()

    def update(self) -> bool:
        """Makes all updates from one rollout, and publishes the weights; returns whether there was a rollout."""
        found = None if self.finished(self.steps) else self.memory.next()
        if found is None:
            return False
        with torch.inference_mode():
            samples = self._samples(*found)
        self.policy.learn(samples, self.steps, self.generator)
        self.steps += self._rows
        self.publish()
        return True

    def finished(self, step: int) -> bool:
        """As `Learner.finished`; all steps of the run have been learnt from, which it counts itself."""
        return self.steps >= self.config.total_steps

    def publish(self) -> None:
        self._policy_copy.publish(self.weights)

    def figures(self) -> Figures:
        """As `Learner.figures`, with the age of the last rollout, in versions of the weights and as a KL divergence."""
        staleness = zip(("versions", "divergence"), map(float, self._measured or ()), strict=False)
        # a rollout may be smaller than a minibatch
        return self.pace.figures(min(self._rows, self.config.minibatch_size), staleness=dict(staleness))

    # -- checkpoints -----------------------------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        return {"updates": self.policy.updates, "learnt": self.steps}

    def state(self) -> dict[str, Tensor]:
        """As `Learner.state`; rollouts that wait for the learner are not saved."""
        state = {"generator": self.generator.get_state()}
        return state | (checkpoints.prefixed("rewards", self._scalers[0].statistics.state()) if self._scalers else {})

    def load(self, point: Checkpoint, step: int) -> None:
        self.steps = point.counters["learnt"]
        self.generator.set_state(point.state["generator"])
        if self._scalers:
            self._scalers[0].load(checkpoints.group("rewards", point.state))
        self.publish()

    def close(self) -> None:
        self.memory.close()

    # -- samples ---------------------------------------------------------------------------------

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
        self.memory.release(sampler)

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

"""What learns from workers' steps: from the replay that samplers fill, or from their rollouts.

With a free replay ratio, samplers of a replay and its learner do not wait for each other. A slot of a rollout is
released to its sampler as soon as it has been copied, so that the next rollout is collected during the updates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.updater import Updater
from headrace.train.algorithms.vtrace import vtrace
from headrace.train.collect.steps import make_replay
from headrace.train.logging.timer import Throughput
from headrace.train.modules.action_masks import masked
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.processes.counters import Counters
from headrace.train.runners.parts import Figures, Learner
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from headrace.train.storage.files import ReplayFiles
from headrace.train.storage.rollout_slots import Rollouts, Slot
from headrace.train.storage.samples import Samples
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.workers.actor_learner import CRITIC, Exchange
from headrace.train.workers.policy_copy import PolicyCopy
from headrace.train.workers.rate_limiter import REST, RateLimiter

SLICE = 0.1  # seconds of updates between which the run looks after its workers
HEAD_START = 100  # maximum number of updates of the critics before the process that learns the actor has started
ROWS = 1024  # maximum rows of a forward pass before updates, as activations of images need much memory


class Pace:
    """Makes updates one after the other, and measures their rate and the time in which none was due.

    Args:
        update: makes an update if one is due; returns whether it did.
        behind: returns whether one may be due later without further steps.
        updates: returns the number of updates so far.
    """

    def __init__(self, update: Callable[[], bool], behind: Callable[[], bool], updates: Callable[[], int]):
        self.update, self._behind, self._updates = update, behind, updates
        self._throughput, self._idle = Throughput(), 0.0

    def begin(self) -> None:
        self._throughput.note(self._updates())

    def run(self, seconds: float = SLICE) -> None:
        clock = time.perf_counter
        until, now = clock() + seconds, 0.0
        while now < until:
            if self.update():
                now = clock()
            else:
                began = clock()
                if not self._behind():
                    break
                time.sleep(REST)
                now = clock()
                self._idle += now - began
        self._throughput.note(self._updates())

    def figures(self, samples: int, **details: Any) -> Figures:
        """Returns the updates, the seconds in them and without any due, and rates of them and of their ``samples``."""
        (rate,) = self._throughput.per_second() or (None,)
        split = {"learning": max(0.0, self._throughput.seconds - self._idle), "idle": self._idle}
        speeds = {"updates": rate, "update_frames": None if rate is None else rate * samples}
        return Figures({"updates": self._updates()}, split, speeds, details)


class ReplayLearner(Learner):
    """A policy that learns from a replay when the replay ratio allows it, and publishes its weights.

    Attributes:
        memory: the replay, a `StepReplay`.
        updater: makes the updates.
        apart: whether another process learns the actor, and this one the critics.
        rate_limiter: decides which updates are due, and which steps are allowed.
        weights: the buffer that samplers and the evaluator read.
        emptied: agent steps and updates of the run when its replay was last empty, from which the limiter counts both.
        exchange: the weights that the processes of an actor and of its critics send each other.
    """

    def __init__(self, config: Config, policy: OffPolicy, counters: Counters, run: RunFolder):
        self.config: Any = config
        self.policy, self._counters = policy, counters
        self.memory, self.emptied = make_replay(config, sum(policy.heads)), (0, 0)
        self._files = ReplayFiles(self.memory, run.replay)
        self.apart: bool = self.config.apart
        self.exchange = Exchange(policy, self.apart)
        self.weights = self.exchange.weights
        self.updater = Updater(policy, self.memory, part="critics" if self.apart else "all")
        self._actor_measured = torch.zeros(len(policy.actor_statistics), dtype=torch.float64)
        self.rate_limiter = RateLimiter(config, counters)
        self.pace = Pace(self.update, self.is_behind, lambda: self.updater.updates)

    def begin(self, interrupt: object) -> None:
        self.updater.set_rates(self._counters.total_steps())
        self.exchange.publish_actor(self.policy)
        if self.apart:
            self.exchange.publish_moments(self.policy, self._actor_measured)
            self.publish()
        self.pace.begin()

    def learn(self, rollouts: list[Any], step: int) -> None:
        self.updater.set_rates(step)
        self.pace.run()

    def update(self) -> bool:
        """Makes one update if one is due; returns whether it did."""
        made, limiter = self.updater.updates, self.rate_limiter
        if made >= limiter.due(self._counters.total_steps()) or not self.memory.held:
            return False
        if self.apart and not self._counters.actor_updates[0] and made > HEAD_START:
            return False  # further updates would fit the critics to the initial actor
        self.updater.update()
        if self.updater.updates % self.config.publish_every == 0:
            self.publish()
        limiter.note(self.updater.updates)
        return True

    def is_behind(self) -> bool:
        steps = self._counters.total_steps()
        if steps < self.config.total_steps:
            return True
        return self.config.replay_ratio is not None and self.updater.updates < self.rate_limiter.due(steps)

    def publish(self) -> None:
        """As `Learner.publish`, of the parts that this process learns; reads those that another process learns."""
        if self.apart:
            self.exchange.critics.publish(self.policy.parts[CRITIC])
            self.exchange.take_actor(self.policy)
        else:
            self.exchange.publish_actor(self.policy)

    def settle(self) -> None:
        if self.apart:
            self.exchange.take_actor(self.policy)
            self.exchange.take_moments(self.policy, self._actor_measured)

    def report(self) -> None:
        losses = self.updater.statistics()
        if losses is None:
            return
        if self.apart:
            self.settle()
            losses[len(self.policy.critic_statistics) :] = self._actor_measured
        self.policy.losses = losses

    def figures(self) -> Figures:
        """As `Learner.figures`, with the mean age of the last batch, in steps of its environments and in versions."""
        replay, staleness = self.updater.replay, {}
        if not isinstance(replay, TransitionReplay) and len(replay.numbers):
            ages = self.memory.staleness(replay.numbers, self.weights.version)
            staleness = {name: float(each.double().mean()) for name, each in ages._asdict().items()}
        return self.pace.figures(self.config.minibatch_size, staleness=staleness)

    # -- checkpoints -----------------------------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        rows = {"replay": self.memory.arrays["written"].tolist()} if self.config.save_replay else {}
        return {"updates": self.updater.updates, "emptied": self.emptied, **rows}

    def state(self) -> dict[str, Tensor]:
        return {"generator": self.updater.generator.get_state()}

    def load(self, point: Checkpoint, step: int) -> None:
        """As `Learner.load`; the replay stays empty if it was not saved or does not fit any more."""
        updates = self.updater.updates = point.counters["updates"]
        self.updater.generator.set_state(point.state["generator"])
        rows = point.counters.get("replay")
        self.policy.caveat = self._files.load_or_say(rows, self.config.learning_starts)
        self.weights.go_on_from(int(self.memory.arrays["version"].max()))
        self.emptied = step, updates
        if self.policy.caveat is None:  # a checkpoint of format 1 lacks the entry; its replay was empty at the start
            self.emptied = tuple(point.counters.get("emptied", (0, 0)))
        self._counters.actor_updates[0] = updates // self.policy.actor_every
        self.rate_limiter = RateLimiter(self.config, self._counters, updates, self.emptied)
        self.publish()

    def write(self, counters: Mapping[str, Any]) -> None:
        if self.config.save_replay:
            self._files.save(counters["replay"])

    def close(self) -> None:
        self.exchange.close()


class RolloutLearner(Learner):
    """A policy that learns from samplers' rollouts, by V-trace's returns, and publishes its weights.

    Attributes:
        memory: the slots of rollouts.
        weights: the buffer that samplers and the evaluator read.
        steps: number of agent steps that have been used, including those before a resumption.

    Raises:
        OptionError: the policy is recurrent.
    """

    def __init__(self, config: Config, policy: OnPolicy):
        if policy.module.memory_size:
            raise OptionError("a recurrent network is for samplers=0: workers do not hand its memory on")
        self.config, self.policy, self.steps = config, policy, 0
        self.device, self._encoder, self._policy_copy = policy.device, policy.encoder, PolicyCopy(policy)
        self.weights = self._policy_copy.buffer()
        stored = policy.distribution.action_shape, torch.empty(0, dtype=policy.distribution.action_dtype).numpy().dtype
        sizes = config.samplers, config.rollout_slots, config.num_steps, config.num_envs, sum(policy.heads)
        self.memory = Rollouts(config.build().spec.observation, *stored, *sizes)
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
        self.pace = Pace(self.update, self.is_behind, lambda: policy.updates)

    def begin(self, interrupt: object) -> None:
        self.policy.interrupted = lambda: bool(interrupt)  # all updates from a rollout may take too long after Ctrl-C
        self.pace.begin()

    def learn(self, rollouts: list[Any], step: int) -> None:
        self.pace.run()

    def update(self) -> bool:
        """Makes all updates from one rollout, and publishes the weights; returns whether there was a rollout."""
        found = self.memory.next() if self.is_behind() else None
        if found is None:
            return False
        with torch.inference_mode():
            samples = self._samples(*found)
        self.policy.learn(samples, self.steps, self.generator)
        self.steps += self._rows
        self.publish()
        return True

    def is_behind(self) -> bool:
        return self.steps < self.config.total_steps

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
        config, policy, normaliser = self.config, self.policy, self.policy.value_normaliser
        following = self._encode(slot)
        names = ("actions", "log_probs", "rewards", "terminated", "truncated", "forbidden", "places")
        actions, acted, rewards, terminated, truncated, forbidden, places = (
            torch.from_numpy(getattr(slot, name)).to(self.device, copy=True) for name in names
        )
        places = places[: int(slot.ended)]
        versions, fresh = torch.from_numpy(slot.versions).double(), bool(slot.fresh)
        self.memory.release(sampler)

        if self._scalers:
            if fresh:
                self._scalers[sampler].running.zero_()
            rewards = self._scalers[sampler](rewards, terminated | truncated)
        parts = [policy.forward(part) for part in self._inputs.split(ROWS)]
        params, values = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        closed = forbidden.flatten(0, 1) if policy.heads else None
        params = params if closed is None else masked(params, closed)
        in_rewards = (lambda values: values) if normaliser is None else normaliser.restored
        last, finals = in_rewards(policy.forward(following)[1]).split((config.num_envs, len(places)))
        final_values = torch.zeros(self._rows, device=self.device).scatter_(0, places, finals)
        actions, acted, shape = actions.flatten(0, 1), acted.flatten(), rewards.shape
        log_ratios = policy.distribution.evaluate(params, actions)[0] - acted
        self._measured = self.weights.version - versions.mean(), (log_ratios.exp() - 1 - log_ratios).mean()
        values = in_rewards(values)
        known = torch.cat((values, last)).view(len(rewards) + 1, -1)
        ends = terminated, truncated, final_values.view(shape)
        decays = config.gamma, config.gae_lambda, config.rho_clip, config.trace_clip
        targets = vtrace(rewards, known, *ends, log_ratios.view(shape), *decays)
        returns = targets.values.flatten()
        if normaliser is not None:
            normaliser.update(returns)
            returns, values = normaliser.normalised(returns), normaliser.normalised(values)
        return Samples(
            inputs=self._inputs,
            actions=actions,
            log_probs=acted,
            advantages=targets.advantages.flatten(),
            returns=returns,
            values=values,
            forbidden=closed,
        )

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

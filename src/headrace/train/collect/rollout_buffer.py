"""The rollout buffer of one policy: its observations and actions in a rollout, and the samples computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.train.algorithms.gae import gae, gae_of_decisions
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.outcome import Outcome
from headrace.train.collect.rollout_masks import RolloutMasks
from headrace.train.modules.action_masks import forbidden
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.rollouts import RandomMoves, decides_only
from headrace.train.storage.samples import Samples
from headrace.train.storage.transitions import Recorded, Transitions

EVERYWHERE = slice(None)


class Row(NamedTuple):
    """Views of one step of the rollout buffer, made once, as making them takes as long as a pass of a small network.

    ``params`` is None where the algorithm does not need the distributions' parameters.
    """

    inputs: Tensor
    noise: Tensor
    params: Tensor | None
    values: Tensor
    actions: Tensor

    def of(self, columns: slice) -> Row:
        params = None if self.params is None else self.params[columns]
        return Row(self.inputs[columns], self.noise[columns], params, self.values[columns], self.actions[columns])


class RecurrentMemory:
    """A recurrent network's memory before each of T steps and after the last, and where episodes start.

    Args:
        size: columns of the network's memory, H.

    Attributes:
        values: the memory, float32[T + 1, columns, H].
        starts: whether an episode starts with a step, bool[T + 1, columns].
    """

    def __init__(self, steps: int, columns: int, size: int, device: torch.device):
        self.values = torch.zeros(steps + 1, columns, size, device=device)
        self.starts = torch.zeros(steps + 1, columns, dtype=torch.bool, device=device)

    def begin(self) -> None:
        self.values[0].copy_(self.values[-1])
        self.starts[0].copy_(self.starts[-1])

    def before(self, t: int, columns: slice) -> Tensor:
        """Returns the memory before step t, float32[columns, H]; 0 at the start of an episode."""
        return self.values[t, columns].masked_fill(self.starts[t, columns].unsqueeze(1), 0.0)

    def note_ends(self, t: int, envs: Tensor | slice, ends: Tensor, width: int) -> None:
        """Marks where an episode ended with step t, as the memory is reset there.

        Args:
            envs: some environments: numbers int64[k], or a slice.
            ends: whether an episode of each ended, bool[k].
            width: columns of an environment.
        """
        self.starts[t + 1].view(-1, width)[envs] = ends.to(self.starts.device).unsqueeze(1)

    def state(self) -> dict[str, Tensor]:
        return {"memory": self.values[-1], "starts": self.starts[-1]}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.values[-1].copy_(state["memory"])
        self.starts[-1].copy_(state["starts"])


class Experience:
    """One policy's part of the rollout buffer: inputs, actions, values [T, columns].

    A column is one agent of one environment.

    Args:
        observations: [T + 1, N, …] (or [T + 1, N, A, …]) as the pool writes them, from the agent group's array.
        static: whether shapes must not depend on the data, as in a CUDA graph.
        masks: action masks of all agents, [T + 1, N, K] or [T + 1, N, A, K]; None if no policy uses masks.

    Attributes:
        memory: a recurrent network's memory before each step; None for other networks.
        masks: action masks, and the actions that they forbade; None without masks.
    """

    def __init__(
        self,
        policy: Policy,
        observations: Tensor,
        device: torch.device,
        static: bool = False,
        masks: Tensor | None = None,
    ):
        config, agent_group, distribution = policy.config, policy.agent_group, policy.distribution
        self.policy, self.config, self.agent_group, self.distribution = policy, config, agent_group, distribution
        self.encoder, self.reward_scaler = policy.encoder, policy.reward_scaler
        self.device, self.static = device, static
        steps, self.columns = config.num_steps, config.num_envs * agent_group.width
        self._observations = observations
        self._source = observations if agent_group.agents is None else None
        if agent_group.agents is not None and agent_group.sees.whole:
            self._source = observations.flatten(1, 2)
        self._in_place = self.encoder.is_identity and self._source is not None and observations.device == device

        def rows(count: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(count, self.columns, *shape, dtype=dtype, device=device)

        if self._in_place:
            assert self._source is not None
            self.inputs = self._source.view(steps + 1, self.columns, *self.encoder.shape)
        else:
            self.inputs = rows(steps + 1, *self.encoder.shape, dtype=self.encoder.dtype)
        self.noise = rows(steps, distribution.noise_size)
        self.params = rows(steps, distribution.size) if policy.keeps_params else None
        self.values = rows(steps + 1)
        self.actions = rows(steps, *distribution.action_shape, dtype=distribution.action_dtype)
        params = [None] * steps if self.params is None else self.params
        self._rows = [*map(Row, self.inputs[:-1], self.noise, params, self.values[:-1], self.actions)]
        size = policy.module.memory_size
        self.memory = RecurrentMemory(steps, self.columns, size, device) if size else None
        self.masks = None
        if policy.heads and masks is not None:
            moves = config.get(RandomMoves)
            random_moves = 0 if moves is None else moves.random_moves
            self.masks = RolloutMasks(masks, policy.heads, agent_group, device, random_moves)
        everywhere = self.memory is not None or getattr(policy, "curiosity", None) is not None
        self._waiting_is_skipped = decides_only(config) and not everywhere

    def draw(self, generator: torch.Generator) -> None:
        """Draws the noise of a whole rollout's actions, so that `act` needs no random numbers."""
        if self.masks is not None and self.masks.random_moves:
            self.masks.draw(generator)
        if generator.device.type == self.noise.device.type:
            self.policy.draw(self.noise, generator)
        else:
            self.noise.copy_(self.policy.draw(torch.empty(self.noise.shape), generator))

    def act(self, t: int, envs: slice) -> Tensor:
        """Runs the policy on a slice of environments at step t, and stores the results.

        Returns:
            Actions of their columns, [columns, *action_shape], in the environments' units and dtype.
        """
        columns = self.agent_group.columns(envs)
        row = self._rows[t] if columns is EVERYWHERE else self._rows[t].of(columns)
        seen, inputs = (row.inputs, None) if self._in_place else (self._seen(t, envs), row.inputs)
        memory = None if self.memory is None else self.memory.before(t, columns)
        closed = None if self.masks is None else self.masks.forbid(t, envs)
        if self.masks is not None and self.masks.random_moves:
            closed = self.masks.make(t, envs)
        if closed is not None and self._waiting_is_skipped and not self.static:
            return self._decide(row, seen, closed)
        acted = self.policy.module.act(seen, inputs, row.noise, memory, closed)
        if self.memory is not None and acted.memory is not None:
            self.memory.values[t + 1, columns] = acted.memory
        if row.params is not None:
            row.params.copy_(acted.params)
        row.values.copy_(acted.values)
        row.actions.copy_(acted.actions)
        return self.distribution.to_env(row.actions)

    def _decide(self, row: Row, seen: Tensor, closed: Tensor) -> Tensor:
        """As `act`, but runs the policy where an agent has a choice alone, and stores nothing else of the others."""
        assert self.masks is not None
        row.actions.copy_(self.distribution.mode((~closed).float()))
        chosen = (~self.masks.are_closed(closed)).nonzero().squeeze(1)
        if not len(chosen):  # as in openings that are played at random; networks need not take inputs of no rows
            return self.distribution.to_env(row.actions)
        acted = self.policy.module.act(seen[chosen], None, row.noise[chosen], None, closed[chosen])
        stored = [(row.actions, acted.actions), (row.values, acted.values)]
        if not self._in_place:
            stored.append((row.inputs, acted.inputs))
        if row.params is not None:
            stored.append((row.params, acted.params.to(row.params.dtype)))
        for into, values in stored:
            into.index_copy_(0, chosen, values)
        return self.distribution.to_env(row.actions)

    def learnable(self, outcome: Outcome) -> Samples | Recorded | None:
        """Returns the policy's training data: samples, or transitions for a replay; None for a frozen policy."""
        if self.config.frozen:
            return None
        if not self.policy.settings.replays:
            return self.samples(outcome)
        present = None if outcome.present is None else outcome.present.flatten()
        return Recorded(self.transitions(outcome), present)

    def samples(self, outcome: Outcome) -> Samples:
        """Returns the rollout's samples after all steps, and updates statistics of observations, rewards and values."""
        config = self.config
        inputs, kept = self._encode_last(), self.memory
        memory = None if kept is None else kept.before(config.num_steps, EVERYWHERE)
        masks = None if self.masks is None else self.masks.at(config.num_steps, EVERYWHERE)
        self.values[-1] = self._value(inputs, memory, masks)
        values = self._in_rewards(self.values)
        over = outcome.terminated | outcome.truncated
        rewards = outcome.rewards
        if self.reward_scaler is not None:
            rewards = self.reward_scaler(rewards, over, outcome.present)
        if (curiosity := getattr(self.policy, "curiosity", None)) is not None:
            rewards = rewards + curiosity.bonus(self.inputs, over, outcome.present)
        ends = outcome.terminated, outcome.truncated, self._final_values(outcome, values)
        given, present = (rewards, values, *ends, config.gamma, self.policy.trace_decay), outcome.present
        if self.masks is None or not decides_only(config):
            advantages = gae(*given).flatten()
        else:
            advantages, learnable = gae_of_decisions(*given, *self.masks.waits(outcome.final_observations))
            advantages, present = advantages.flatten(), learnable if present is None else learnable & present
        actions, log_probs = self.actions.flatten(0, 1), None
        if self.params is not None:
            log_probs = self.distribution.evaluate(self.params.flatten(0, 1), actions)[0]
        returns = advantages + values[:-1].flatten()
        rows, weights = self._counted(present)
        self._update_normaliser(rows, weights)
        if (normaliser := self.policy.value_normaliser) is not None:
            normaliser.update(returns if rows is None else returns[rows], weights)
            returns, values = normaliser.normalised(returns), normaliser.normalised(values)
        return Samples(
            inputs=self.inputs[:-1].flatten(0, 1),
            actions=actions,
            log_probs=log_probs,
            advantages=advantages,
            returns=returns,
            values=values[:-1].flatten(),
            rows=rows,
            weights=weights,
            memory=None if kept is None else kept.before(0, EVERYWHERE),
            starts=None if kept is None else kept.starts[:-1].flatten(),
            forbidden=None if self.masks is None else self.masks.forbidden.flatten(0, 1),
        )

    def transitions(self, outcome: Outcome) -> Transitions:
        """Returns all steps as transitions for a replay, [T · columns], and updates statistics as `samples` does.

        Observations and rewards are not normalised: the policy does that with the statistics known at each update.
        ``discounts`` are 1, or 0 after a termination; the policy multiplies them by γ.
        """
        if self.encoder.normaliser is None:
            self._encode_last()
            seen = self.inputs
        else:
            seen = self._raw(self.config.num_steps + 1)
        next_observations, finals = seen.roll(-1, 0), outcome.final_observations
        if finals is not None:
            last = torch.empty(len(finals.t), *self.encoder.shape, dtype=seen.dtype, device=self.device)
            next_observations[finals.t, finals.columns] = self.encoder.plain(finals.observations, last)
        self.update_statistics(outcome)
        return Transitions(
            seen[:-1].flatten(0, 1),
            self.actions.reshape(len(self.actions) * self.columns, -1),
            outcome.rewards.flatten(),
            (~outcome.terminated).flatten().float(),
            next_observations[:-1].flatten(0, 1),
            masks=None if self.masks is None else self.masks.after(finals),
        )

    def update_statistics(self, outcome: Outcome) -> None:
        """Updates the statistics of observations and rewards with a rollout that is written into a replay."""
        if self.reward_scaler is not None:
            self.reward_scaler.update(outcome.rewards, outcome.terminated | outcome.truncated, outcome.present)
        self._update_normaliser(*self._counted(outcome.present))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        state = {} if self.memory is None else checkpoints.prefixed(self.policy.prefix("memory"), self.memory.state())
        if self.masks is not None and self.masks.random_moves:
            state[self.policy.prefix("random_left")] = self.masks.random_left
        return state

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        if self.memory is not None:
            self.memory.load(checkpoints.group(self.policy.prefix("memory"), saved))
        if self.masks is not None and self.masks.random_moves:
            self.masks.random_left.copy_(saved[self.policy.prefix("random_left")])

    def begin_anew(self) -> None:
        """Resets the state of unfinished episodes, after new ones have begun in all environments."""
        if self.reward_scaler is not None:
            self.reward_scaler.running.zero_()
        if self.memory is not None:
            self.memory.starts[-1].fill_(True)

    # -- helpers ---------------------------------------------------------------------------------

    def _counted(self, present: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Returns which rows count: indices, int64[K], or weights, float32[M], for fixed shapes or a recurrent network.

        Both are None if all rows count.
        """
        if present is None or (not self.static and bool(present.all())):
            return None, None
        if self.static or self.memory is not None:
            return None, present.flatten().float()
        return present.flatten().nonzero().squeeze(1), None

    def _update_normaliser(self, rows: Tensor | None, weights: Tensor | None) -> None:
        if self.encoder.normaliser is None or self.config.frozen:
            return
        raw = self._raw(self.config.num_steps).flatten(0, 1)
        self.encoder.normaliser.update(raw if rows is None else raw[rows], weights)

    def _raw(self, steps: int) -> Tensor:
        """Returns the first `steps` steps' observations before they are normalised, [steps, columns, D]."""
        raw = torch.stack([self._seen(t, EVERYWHERE) for t in range(steps)])
        return raw.to(self.device, self.encoder.raw_dtype).view(steps, self.columns, *self.encoder.shape)

    def _value(self, inputs: Tensor, memory: Tensor | None, masks: Tensor | None) -> Tensor:
        closed = None if masks is None else forbidden(masks, self.policy.heads)
        return self.policy.module.outputs(inputs, memory, closed)[1]

    def _in_rewards(self, values: Tensor) -> Tensor:
        normaliser = self.policy.value_normaliser
        return values if normaliser is None else normaliser.restored(values)

    def _encode_last(self) -> Tensor:
        """Returns the inputs of the observations after the last step, [columns, …]."""
        return self.inputs[-1] if self._in_place else self.encoder(self._seen(-1, EVERYWHERE), self.inputs[-1])

    def _seen(self, t: int, envs: slice) -> Tensor:
        if self._source is not None:
            return self._source[t, self.agent_group.columns(envs)]
        return self.agent_group.seen(self._observations[t, envs])

    def _final_values(self, outcome: Outcome, values: Tensor) -> Tensor:
        """Returns the values to bootstrap from after each step, float32[T, columns], in units of rewards.

        They are values of final observations where episodes were truncated, and of the next observations elsewhere.
        Where an agent was truncated but its episode was not, the next observation is its final one.

        Args:
            values: values of the observations before each step and after the last, in units of rewards.
        """
        result = values.roll(-1, 0)
        finals = outcome.final_observations
        if finals is not None:
            memory = None
            if self.memory is not None:
                kept = self.memory.values
                memory = kept[(finals.t + 1).clamp(max=len(kept) - 1), finals.columns]
            masks = None if self.masks is None else finals.masks
            last = self._value(self.encoder(finals.observations.to(self.device)), memory, masks)
            result[finals.t, finals.columns] = self._in_rewards(last)
        return result[:-1]

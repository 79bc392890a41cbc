"""The rollout buffer of one policy: its observations and actions in a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.collect.recurrent_memory import RecurrentMemory
from headrace.train.collect.rollout_masks import RolloutMasks
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.rollouts import RandomMoves, decides_only

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
        seen, inputs = (row.inputs, None) if self._in_place else (self.seen(t, envs), row.inputs)
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

    # -- observations ----------------------------------------------------------------------------

    def last_inputs(self) -> Tensor:
        """Returns the inputs of the observations after the last step, [columns, …]."""
        return self.inputs[-1] if self._in_place else self.encoder(self.seen(-1, EVERYWHERE), self.inputs[-1])

    def seen(self, t: int, envs: slice) -> Tensor:
        """Returns the observations of step t of some environments as the policy's agents see them, [columns, …]."""
        if self._source is not None:
            return self._source[t, self.agent_group.columns(envs)]
        return self.agent_group.seen(self._observations[t, envs])

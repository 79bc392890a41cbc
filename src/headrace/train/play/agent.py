"""A trained policy loaded from a run folder, for evaluation, videos and `headrace play`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.errors import OptionError, StateError
from headrace.pool.actions import ACTION, action_fields
from headrace.pool.spec import TaskSpec
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.acting import Acted, act, buffer
from headrace.train.collect.setup import make_policy
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import MASK, forbidden, masked_heads
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.play.insight import Insight, insight
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder


class Agent:
    """The policies of a checkpoint, on the CPU, which choose the actions of all agents of an environment.

    Args:
        config: the run's configuration.
        spec: the task.
        point: the checkpoint.
    """

    def __init__(self, config: Config, spec: TaskSpec, point: Checkpoint):
        self.config, self.spec = config, spec
        self._players = [
            _Player(config.of_policy(name), name, spec, agent_group, point)
            for name, agent_group in policy_mapping(spec, config.policies).items()
        ]
        self._generator = torch.Generator().manual_seed(config.seed)

    @property
    def policies(self) -> list[Policy]:
        """The acting policies, in the order of the task's agents."""
        return [player.policy for player in self._players]

    @torch.inference_mode()
    def act(self, observations: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Returns actions for a pool's observations: the most likely ones, or a sample.

        Recurrent policies keep a memory for each row until `forget` is called.

        Args:
            observations: a batch as a pool returns it.
            deterministic: whether to take the most likely actions.
            action_mask: the ``info["action_mask"]`` of the same result, [B, K] or [B, agents, K]; None without masks.

        Raises:
            OptionError: the agent was trained with action masks, and none is given.
        """
        generator = None if deterministic else self._generator
        if not self.spec.agents:
            return self._players[0].act(np.asarray(observations), generator, action_mask)
        fields = action_fields(self.spec.action).items()
        rows = len(next(iter(observations.values())) if isinstance(observations, dict) else observations)
        actions = {name: np.zeros((rows, *shape), dtype) for name, (dtype, shape) in fields}
        for player in self._players:
            group = player.agent_group
            seen: Any = observations if group.sees.key is None else observations[group.sees.key]
            mask = None if action_mask is None else action_mask[:, group.agents].reshape(rows * group.width, -1)
            group.put(player.act(group.seen(seen), generator, mask), actions)
        return actions if isinstance(self.spec.action, gym.spaces.Dict) else actions[ACTION]

    def load(self, model: Mapping[str, torch.Tensor]) -> None:
        """Go on with other networks of the same run, such as newer ones; raises `StateError` where they do not fit."""
        for player in self._players:
            player.policy.load_model(model)

    @torch.inference_mode()
    def insight(self, row: int = 0) -> Insight:
        """Returns what the first policy's first agent made of its last observation.

        Args:
            row: the environment.
        """
        return self._players[0].insight(row)

    @torch.inference_mode()
    def forget(self, ends: np.ndarray) -> None:
        """Reset the memory of recurrent policies where an episode has ended, bool[B]."""
        for player in self._players:
            if player.memory is not None:
                player.memory[torch.from_numpy(ends.repeat(player.agent_group.width))] = 0.0

    def score(self, rewards: np.ndarray) -> np.ndarray:
        """Returns the mean reward of the first policy's agents, [B], from rewards [B] or [B, agents]."""
        agents = self._players[0].agent_group.agents
        return rewards if agents is None else rewards[:, agents].mean(-1)


class _Player:
    """One policy of a checkpoint."""

    def __init__(self, config: Config, name: str, spec: TaskSpec, agent_group: AgentGroup, point: Checkpoint):
        # frozen: no optimiser is needed
        config = dataclasses.replace(config, compile=False, frozen=True)
        policy = make_policy(name, config, agent_group, torch.device("cpu"))
        policy.load_model(point.model)
        self.agent_group, self.policy, self.distribution = agent_group, policy, policy.distribution
        self._heads = masked_heads(config, spec, agent_group)
        self.memory: torch.Tensor | None = None  # of a recurrent network, [B, H]
        self._inputs: torch.Tensor | None = None
        self._acted: Acted | None = None

    def act(self, observations: np.ndarray, generator: torch.Generator | None, mask: np.ndarray | None) -> np.ndarray:
        seen = torch.from_numpy(np.ascontiguousarray(observations))
        if self.policy.memory_size and (self.memory is None or len(self.memory) != len(seen)):
            self.memory = torch.zeros(len(seen), self.policy.memory_size)
        closed = noise = None
        if self._heads:
            if mask is None:
                raise OptionError(f"this agent learnt with action masks: give it info[{MASK!r}], too")
            closed = forbidden(torch.from_numpy(np.ascontiguousarray(mask)), self._heads)
        if generator is not None:
            noise = self.distribution.draw(torch.empty(len(seen), self.distribution.noise_size), generator)
        inputs = buffer(self.policy, len(seen))
        acted = self._acted = act(self.policy, seen, inputs, noise, self.memory, closed)
        self._inputs = seen if inputs is None else inputs
        self.memory = acted.memory
        return self.distribution.to_env(acted.actions).numpy()

    def insight(self, row: int) -> Insight:
        if self._acted is None or self._inputs is None:
            raise StateError("the agent has not acted yet")
        column = slice(row * self.agent_group.width, row * self.agent_group.width + 1)
        return insight(self.policy, self._inputs[column], self._acted, column)


def load_checkpoint(run: RunFolder, which: str = checkpoints.BEST) -> Checkpoint:
    """Returns the ``"best"`` or ``"newest"`` checkpoint of a run.

    Raises:
        OptionError: the run has none yet, or ``which`` is neither.
        StateError: it is damaged.
    """
    if which not in (checkpoints.BEST, "newest"):
        raise OptionError(f"which={which!r} must be 'best' or 'newest'")
    find = checkpoints.best if which == checkpoints.BEST else checkpoints.newest
    path = find(run.checkpoints)
    if path is None:
        raise OptionError(f"{run.path} has no checkpoint yet")
    return checkpoints.load(path)

"""A trained agent, loaded from a run folder, for `headrace.load`, evaluation, videos and `headrace play`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.errors import OptionError, StateError
from headrace.pool.actions import ACTION, action_fields
from headrace.pool.spec import TaskSpec
from headrace.pool.structure import mapped
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.setup import make_policy
from headrace.train.modules.action_masks import MASK, NEVER, forbidden
from headrace.train.modules.distributions import Categorical, MultiCategorical
from headrace.train.modules.exploration import EpsilonGreedy
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.modules.policy_module import Acted, PolicyModule
from headrace.train.play.observation_batches import batched
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config


@dataclass(frozen=True)
class Insight:
    """The outputs of one agent's network for its last observation.

    Attributes:
        value: expected discounted return, in units of the environments' rewards; None if the network has no values.
        probabilities: probabilities of the actions, one list for each discrete choice; None for other actions.
        action_values: value of each action, -inf for forbidden ones, if the algorithm learns action values (DQN, PQN);
            otherwise None.
        actions: the chosen action: the index of each discrete choice, or the numbers that the environment received.
    """

    value: float | None
    probabilities: list[list[float]] | None
    action_values: list[float] | None
    actions: list[float]


def insight(policy: Policy, acted: Acted, rows: slice) -> Insight:
    """Returns the insight of a single row, of length 1."""
    inputs, params, actions = acted.inputs[rows], acted.params[rows], acted.actions[rows]
    distribution = policy.distribution
    if isinstance(distribution, EpsilonGreedy):
        known = policy.in_rewards(params[0])
        values = known.masked_fill(params[0] < NEVER / 2, -math.inf).tolist()
        return Insight(max(values), None, values, actions.float().tolist())
    chosen = actions if isinstance(distribution, Categorical | MultiCategorical) else distribution.to_env(actions)
    done = chosen.flatten().float().tolist()
    if isinstance(policy, OffPolicy):
        critic = getattr(policy.network, "critic", None)
        lowest = None if critic is None else policy.in_rewards(critic(inputs, actions.reshape(1, -1)).amin())
        return Insight(None if lowest is None else float(lowest), None, None, done)
    value, logits = float(policy.worth(inputs, params, acted.values[rows])), ()
    if isinstance(distribution, Categorical | MultiCategorical):
        logits = params[0].split(distribution.sizes if isinstance(distribution, MultiCategorical) else len(params[0]))
    return Insight(value, [torch.softmax(each, 0).tolist() for each in logits] or None, None, done)


class Agent:
    """The policies of a checkpoint, on the CPU, which choose the actions of all agents of environments.

    Attributes:
        run_dir: the folder of its run; None where it was not loaded by `headrace.load`.

    Example:
        >>> agent = headrace.load("runs/mine")
        >>> action = agent.act(obs)
    """

    def __init__(self, config: Config, spec: TaskSpec, point: Checkpoint, run_dir: Path | None = None):
        self.config, self.spec, self.run_dir = config, spec, run_dir
        self._played = [
            PlayedPolicy(config.of_policy(name), name, agent_group, point)
            for name, agent_group in policy_mapping(spec, config.policies).items()
        ]
        self._generator = torch.Generator().manual_seed(config.seed)
        self._step = point.counters.get("step")

    def __repr__(self) -> str:
        names = ", ".join(played.policy.name for played in self._played if played.policy.name)
        run = None if self.run_dir is None else str(self.run_dir)
        parts = {"algo": self.config.algo, "step": self._step, "policies": names, "run_dir": run}
        told = [f"{name}={value!r}" for name, value in parts.items() if value not in (None, "")]
        return f"Agent({', '.join((repr(self.config.task), *told))})"

    @property
    def policies(self) -> list[Policy]:
        return [played.policy for played in self._played]

    @property
    def policy(self) -> PolicyModule:
        """The policy as a `torch.nn.Module`; the first of several policies, see `policy_named`."""
        return self._played[0].policy.module

    def policy_named(self, name: str) -> PolicyModule:
        """Returns a policy by its name as a `torch.nn.Module`; raises `OptionError` if there is none of this name."""
        return self.played_policy(name).policy.module

    def played_policy(self, name: str) -> PlayedPolicy:
        """Returns one of several policies with its agents; raises `OptionError` if there is none of this name."""
        for played in self._played:
            if played.policy.name == name:
                return played
        names = ", ".join(played.policy.name for played in self._played)
        raise OptionError(f"the run has no policy {name!r}; it has {names}" if names else "the run has one policy")

    @torch.inference_mode()
    def act(self, observations: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Returns actions for observations of one environment or of several: the most likely ones, or samples.

        Recurrent policies keep a memory for each row until `reset` is called; the rows must be the same in every call.

        Args:
            observations: observations of one environment, as its ``reset`` and ``step`` return them; or a batch, as a
                pool returns it, with one more dimension in front. They include all agents of a multi-agent task.
            deterministic: whether to take the most likely actions, instead of sampling.
            action_mask: the ``info["action_mask"]`` of the same result, [B, K] or [B, agents, K], without B for one
                environment, or a tuple with one for each part of a `MultiDiscrete`; None without masks.

        Returns:
            Actions in the environment's dtypes and layout, for one environment or [B, …], as ``observations``.

        Raises:
            OptionError: observations or masks have a wrong shape or dtype; a recurrent policy gets another number of
                rows than in the call before; or the agent was trained with action masks and none is given.
            NotFiniteError: an observation holds NaN or infinity.
        """
        generator = None if deterministic else self._generator
        seen, single = batched(observations, self.spec.observation)
        if isinstance(action_mask, tuple):
            action_mask = np.concatenate(action_mask, -1)
        mask = None if action_mask is None else np.asarray(action_mask)[None if single else ...]
        actions = self._act(seen, generator, mask)
        return mapped(lambda array: array[0], actions) if single else actions

    def _act(self, observations: Any, generator: torch.Generator | None, mask: np.ndarray | None) -> Any:
        """Returns the actions for a batch, as `act`; the most likely ones without a generator."""
        fields = action_fields(self.spec.action)
        if not self.spec.agents:
            return self._played[0].act(observations, generator, mask).astype(fields[ACTION][0], copy=False)
        rows = len(next(iter(observations.values())) if isinstance(observations, dict) else observations)
        actions = {name: np.zeros((rows, *shape), dtype) for name, (dtype, shape) in fields.items()}
        for played in self._played:
            group = played.agent_group
            seen: Any = observations if group.sees.key is None else observations[group.sees.key]
            own = None if mask is None else mask[:, group.agents].reshape(rows * group.width, -1)
            group.put(played.act(group.seen(seen), generator, own), actions)
        return actions if isinstance(self.spec.action, gym.spaces.Dict) else actions[ACTION]

    def load(self, model: Mapping[str, torch.Tensor]) -> None:
        """Loads other weights of the same run, such as newer ones; raises `StateError` if they do not fit."""
        for played in self._played:
            played.policy.load_model(model)

    @torch.inference_mode()
    def insight(self, row: int = 0) -> Insight:
        """Returns the network's outputs for the last observation of the first policy's first agent."""
        return self._played[0].insight(row)

    def reset(self, ends: Any = None) -> None:
        """Begins new episodes: resets the memory of recurrent policies. Other policies need no reset.

        Args:
            ends: bool[B], the rows whose episodes ended; by default all, and the next call may have other rows.

        Raises:
            OptionError: the last call of `act` had another number of rows.
        """
        for played in self._played:
            played.reset(None if ends is None else np.asarray(ends, bool))

    def score(self, rewards: np.ndarray) -> np.ndarray:
        """Returns the mean reward of the first policy's agents, [B], from rewards [B] or [B, agents]."""
        agents = self._played[0].agent_group.agents
        return rewards if agents is None else rewards[:, agents].mean(-1)


class PlayedPolicy:
    """One policy of a checkpoint, with what it remembers of the episodes that it plays."""

    def __init__(self, config: Config, name: str, agent_group: AgentGroup, point: Checkpoint):
        # a frozen policy needs no optimiser
        config = config.replace(compile=False, frozen=True)
        policy = make_policy(name, config, agent_group, torch.device("cpu"))
        policy.load_model(point.model)
        policy.module.requires_grad_(False).eval()
        self.agent_group, self.policy = agent_group, policy
        self.memory: torch.Tensor | None = None  # of a recurrent network, [B, H]
        self._acted: Acted | None = None

    def act(self, observations: np.ndarray, generator: torch.Generator | None, mask: np.ndarray | None) -> np.ndarray:
        """Returns actions [B, …] of the policy's agents, in the environment's dtype.

        Args:
            observations: observations of the agents, [B, …].
            generator: the source of samples; None for the most likely actions.
            mask: the action masks, [B, K]; None without masks.
        """
        seen, module = torch.from_numpy(np.ascontiguousarray(observations)), self.policy.module
        if module.memory_size:
            self._remember(len(seen))
        closed = noise = None
        if module.heads:
            closed = forbidden(self._masks(mask, len(seen)), module.heads)
        if generator is not None:
            noise = module.distribution.draw(torch.empty(len(seen), module.distribution.noise_size), generator)
        acted = self._acted = module.act(seen, None, noise, self.memory, closed)
        self.memory = acted.memory
        return module.distribution.to_env(acted.actions).numpy()

    def insight(self, row: int) -> Insight:
        """As `Agent.insight`; raises `StateError` before the first action."""
        if self._acted is None:
            raise StateError("the agent has not acted yet")
        column = slice(row * self.agent_group.width, row * self.agent_group.width + 1)
        return insight(self.policy, self._acted, column)

    def _remember(self, rows: int) -> None:
        if self.memory is None:
            self.memory = torch.zeros(rows, self.policy.module.memory_size)
        elif len(self.memory) != rows:
            each = self.agent_group.width
            raise OptionError(
                f"the agent remembers {len(self.memory) // each} environments, but sees {rows // each}: "
                "reset() it before it plays in others"
            )

    def _masks(self, mask: np.ndarray | None, rows: int) -> torch.Tensor:
        if mask is None:
            raise OptionError(f"this agent learnt with action masks: give it info[{MASK!r}], too")
        if mask.ndim != 2 or len(mask) != rows or mask.shape[1] < sum(self.policy.heads):
            wanted = f"a row of {sum(self.policy.heads)} for each of {rows}"
            raise OptionError(f"action_mask has shape {mask.shape}; this policy needs {wanted}")
        return torch.from_numpy(np.ascontiguousarray(mask))

    @torch.inference_mode()
    def reset(self, ends: np.ndarray | None) -> None:
        """Resets the memory of a recurrent policy, as `Agent.reset`."""
        if ends is None:
            self.memory = None
        elif self.memory is not None:
            rows = ends.repeat(self.agent_group.width)
            if rows.shape != self.memory.shape[:1]:
                kept = len(self.memory) // self.agent_group.width
                raise OptionError(f"ends must have {kept} rows, as observations had, not {len(ends)}")
            self.memory[torch.from_numpy(rows)] = 0.0


def load_checkpoint(run: RunFolder, which: str = checkpoints.BEST) -> Checkpoint:
    """Returns the checkpoint at `checkpoint_path`; raises `StateError` if it is damaged, and the errors of that."""
    return checkpoints.load(checkpoint_path(run, which))


def checkpoint_path(run: RunFolder, which: str = checkpoints.BEST) -> Path:
    """Returns the ``"best"`` or ``"newest"`` checkpoint of a run, or the one of a name such as ``"step-000000040960"``.

    Raises:
        OptionError: the run has no checkpoint yet, or none of that name.
    """
    kept = {path.name: path for path in run.checkpoints.glob("step-*")}
    if which not in (checkpoints.BEST, "newest", *kept):
        names = f", or one of {min(kept)} … {max(kept)}" if kept else ""
        raise OptionError(f"which={which!r} must be 'best' or 'newest'{names}")
    path = checkpoints.best(run.checkpoints) if which == checkpoints.BEST else checkpoints.newest(run.checkpoints)
    path = kept.get(which, path)
    if path is None:
        raise OptionError(f"{run.path} has no checkpoint yet")
    return path

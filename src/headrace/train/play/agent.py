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
from headrace.pool.spec import CRITIC, TaskSpec
from headrace.pool.structure import mapped
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.policies import make_policy
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
    value = None if math.isnan(value) else value  # without what only the critic sees
    if isinstance(distribution, Categorical | MultiCategorical):
        logits = params[0].split(distribution.sizes if isinstance(distribution, MultiCategorical) else len(params[0]))
    return Insight(value, [torch.softmax(each, 0).tolist() for each in logits] or None, None, done)


class Agent:
    """The policies of a checkpoint, on the CPU, which choose the actions of all agents of environments.

    Args:
        point: the checkpoint; None for initial weights.

    Attributes:
        policies: the policies, each with the agents that it plays.
        memories: policy name → the memory of a recurrent network, float32[B, H]; other policies have none.
        run_dir: the folder of its run; None where it was not loaded by `headrace.load`.
        step: how many agent steps the checkpoint has learnt from; None for initial weights.
        judged: the mean return by which the checkpoint was judged, of how many episodes, and whether they were those of
            an evaluation, of training or of self-play, as the keys ``return``, ``episodes`` and ``by``; None if it was
            not.

    Example:
        >>> agent = headrace.load("runs/mine")
        >>> action = agent.act(obs)
    """

    def __init__(self, config: Config, spec: TaskSpec, point: Checkpoint | None = None, run_dir: Path | None = None):
        self.config, self.spec, self.run_dir = config, spec, run_dir
        self.policies = [
            frozen_policy(name, config.of_policy(name), agent_group)
            for name, agent_group in policy_mapping(_as_learnt(config, spec), config.policies).items()
        ]
        for policy in self.policies:
            policy.module.requires_grad_(False).eval()
        if point is not None:
            self.load(point.model)
        self.memories: dict[str, torch.Tensor] = {}
        self._acted: Acted | None = None  # by the first policy
        self._generator = torch.Generator().manual_seed(config.seed)
        known = {} if point is None else point.counters
        self.step, self.judged = known.get("step"), known.get("judged")

    def __repr__(self) -> str:
        names = ", ".join(policy.name for policy in self.policies if policy.name)
        run = None if self.run_dir is None else str(self.run_dir)
        parts = {"algo": self.config.algo, "step": self.step, "policies": names, "run_dir": run}
        told = [f"{name}={value!r}" for name, value in parts.items() if value not in (None, "")]
        return f"Agent({', '.join((repr(self.config.task), *told))})"

    @property
    def policy(self) -> PolicyModule:
        """The policy as a `torch.nn.Module`; the first of several policies, see `policy_named`."""
        return self.policies[0].module

    def policy_named(self, name: str) -> PolicyModule:
        """Returns a policy by its name as a `torch.nn.Module`; raises `OptionError` if there is none of this name."""
        for policy in self.policies:
            if policy.name == name:
                return policy.module
        names = ", ".join(policy.name for policy in self.policies)
        raise OptionError(f"the run has no policy {name!r}; it has {names}" if names else "the run has one policy")

    @torch.inference_mode()
    def act(self, observations: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Returns actions for observations of one environment or of several: the most likely ones, or samples.

        Recurrent policies keep a memory for each row until `reset` is called; the rows must be the same in every call.

        Args:
            observations: observations of one environment, as its ``reset`` and ``step`` return them; or a batch, as a
                pool returns it, with one more dimension in front. They include all agents of a multi-agent task. What
                only a critic sees may be left out.
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
        space, group = self.spec.observation, self.policies[0].agent_group
        if group.critic and np.shape(observations)[-1:] != space.shape:
            space = group.acting
        seen, single = batched(observations, space)
        if isinstance(action_mask, tuple):
            action_mask = np.concatenate(action_mask, -1)
        mask = None if action_mask is None else np.asarray(action_mask)[None if single else ...]
        actions = self._act(seen, generator, mask)
        return mapped(lambda array: array[0], actions) if single else actions

    def _act(self, observations: Any, generator: torch.Generator | None, mask: np.ndarray | None) -> Any:
        """Returns the actions for a batch, as `act`; the most likely ones without a generator."""
        fields = action_fields(self.spec.action)
        if not self.spec.agents:
            return self.choose(self.policies[0], observations, generator, mask).astype(fields[ACTION][0], copy=False)
        rows = len(next(iter(observations.values())) if isinstance(observations, dict) else observations)
        actions = {name: np.zeros((rows, *shape), dtype) for name, (dtype, shape) in fields.items()}
        for policy in self.policies:
            group = policy.agent_group
            seen: Any = observations if group.sees.key is None else observations[group.sees.key]
            own = None if mask is None else mask[:, group.agents].reshape(rows * group.width, -1)
            group.put(self.choose(policy, group.seen(seen), generator, own), actions)
        return actions if isinstance(self.spec.action, gym.spaces.Dict) else actions[ACTION]

    def choose(
        self, policy: Policy, observations: np.ndarray, generator: torch.Generator | None, mask: np.ndarray | None
    ) -> np.ndarray:
        """Returns actions [B, …] of one policy's agents, in the environment's dtype.

        Args:
            observations: observations of the agents, [B, …].
            generator: the source of samples; None for the most likely actions.
            mask: the action masks, [B, K]; None without masks.
        """
        seen, module = torch.from_numpy(np.ascontiguousarray(observations)), policy.module
        memory = self._memory_of(policy, len(seen)) if module.memory_size else None
        closed = noise = None
        if module.heads:
            closed = forbidden(_checked_masks(mask, len(seen), sum(module.heads)), module.heads)
        if generator is not None:
            noise = module.distribution.draw(torch.empty(len(seen), module.distribution.noise_size), generator)
        acted = module.act(seen, None, noise, memory, closed)
        if acted.memory is not None:
            self.memories[policy.name] = acted.memory
        if policy is self.policies[0]:
            self._acted = acted
        return module.distribution.to_env(acted.actions).numpy()

    def _memory_of(self, policy: Policy, rows: int) -> torch.Tensor:
        memory, width = self.memories.get(policy.name), policy.agent_group.width
        if memory is None:
            return torch.zeros(rows, policy.module.memory_size)
        if len(memory) != rows:
            raise OptionError(
                f"the agent remembers {len(memory) // width} environments, but sees {rows // width}: "
                "reset() it before it plays in others"
            )
        return memory

    def load(self, model: Mapping[str, torch.Tensor]) -> None:
        """Loads other weights of the same run, such as newer ones; raises `StateError` if they do not fit."""
        for policy in self.policies:
            policy.load_model(model)

    @torch.inference_mode()
    def insight(self, row: int = 0) -> Insight:
        """Returns the network's outputs for the last observation of the first policy's first agent.

        Raises:
            StateError: the agent has not acted yet.
        """
        if self._acted is None:
            raise StateError("the agent has not acted yet")
        policy = self.policies[0]
        column = row * policy.agent_group.width
        return insight(policy, self._acted, slice(column, column + 1))

    @torch.inference_mode()
    def reset(self, ends: Any = None) -> None:
        """Begins new episodes: resets the memory of recurrent policies. Other policies need no reset.

        Args:
            ends: bool[B], the rows whose episodes ended; by default all, and the next call may have other rows.

        Raises:
            OptionError: the last call of `act` had another number of rows.
        """
        if ends is None:
            self.memories.clear()
            return
        ended = np.asarray(ends, bool)
        for policy in self.policies:
            if (memory := self.memories.get(policy.name)) is not None:
                width = policy.agent_group.width
                rows = ended.repeat(width)
                if rows.shape != memory.shape[:1]:
                    kept = len(memory) // width
                    raise OptionError(f"ends must have {kept} rows, as observations had, not {len(ended)}")
                memory[torch.from_numpy(rows)] = 0.0

    def score(self, rewards: np.ndarray) -> np.ndarray:
        """Returns the mean reward of the first policy's agents, [B], from rewards [B] or [B, agents]."""
        agents = self.policies[0].agent_group.agents
        return rewards if agents is None else rewards[:, agents].mean(-1)


def _as_learnt(config: Config, spec: TaskSpec) -> TaskSpec:
    """Returns the spec of the task in training, if only there a critic's part ends observations; else ``spec``."""
    return config.build().spec if config.env_options.get(CRITIC) and not spec.critic else spec


def frozen_policy(name: str, config: Config, agent_group: AgentGroup) -> Policy:
    """Returns a policy that only acts, on the CPU, with initial weights: it has no optimiser and is not compiled."""
    return make_policy(name, config.replace(compile=False, frozen=True), agent_group, torch.device("cpu"))


def _checked_masks(mask: np.ndarray | None, rows: int, actions: int) -> torch.Tensor:
    if mask is None:
        raise OptionError(f"this agent learnt with action masks: give it info[{MASK!r}], too")
    if mask.ndim != 2 or len(mask) != rows or mask.shape[1] < actions:
        wanted = f"a row of {actions} for each of {rows}"
        raise OptionError(f"action_mask has shape {mask.shape}; this policy needs {wanted}")
    return torch.from_numpy(np.ascontiguousarray(mask))


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

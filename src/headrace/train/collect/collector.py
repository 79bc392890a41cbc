"""The base of collectors: the memory of one rollout, T steps of N environments, and the loop that fills it.

`headrace.train.collect.device` collects where the environments are on the learner's device,
`headrace.train.collect.host` everywhere else, and `headrace.train.collect.steps` into a replay of steps. All
write every step where the learner reads it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.pool.batch import FINAL, INFO, OBS, observation_fields
from headrace.pool.spec import TaskSpec
from headrace.pool.torch.tensors import torch_dtype
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.game_values import metric_names, reported
from headrace.train.collect.learnable import learnable
from headrace.train.collect.outcome import FinalObservations, Outcome
from headrace.train.collect.rollout_buffer import EVERYWHERE, Experience
from headrace.train.modules.action_masks import MASK
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.settings.config import Config

ALIVE, TRUNCATIONS = "alive", "truncations"
MASKS = INFO + MASK


class Collector(ABC):
    """The memory of one rollout, and the loop that fills it.

    Args:
        static: whether shapes must not depend on the data, as in a CUDA graph.
        also: names of info fields that are kept of every step, if the task declares them.

    Attributes:
        observations: array name → [T + 1, N, …] as the pool wrote them; the next rollout begins with row T.
        masks: array name → action masks [T + 1, N, …]; empty where no policy uses masks.
        rewards: float32[T, N], or [T, N, agents] for several agents.
        terminated, truncated: bool[T, N].
        present: agents in the game before the next step, bool[N, agents], or bool[N] for one agent.
        lost: steps that were lost with the process of their environment, bool[T, N]; None where there are none such.
        acted: agents in the game before each step of the last rollout, bool[T, N, agents]; None for one agent.
        metrics: names of numbers that environments may report at the end of an episode.
        taken: steps of the last rollout that were taken, bool[T, N]; None if all were. With next-step autoreset, an
            environment begins its next episode in place of a step.
        seconds: time spent in ``env``, in ``inference``, and in ``learning`` (advantages, statistics). Where a whole
            rollout is one CUDA graph, these are the times of an earlier rollout that was run step by step, and only
            their proportions are meaningful.
    """

    def __init__(
        self,
        config: Config,
        spec: TaskSpec,
        policies: Sequence[Policy],
        storage: torch.device,
        device: torch.device,
        static: bool = False,
        also: Sequence[str] = (),
    ):
        self.config, self.spec, self.device, self.storage = config, spec, device, storage
        self.steps, self.num_envs = config.num_steps, config.num_envs
        steps, envs = self.steps, self.num_envs
        self.observations = {
            f.name: self._tensor(steps + 1, envs, *f.shape, dtype=torch_dtype(f.dtype))
            for f in observation_fields(spec.observation)
        }
        self.rewards = self._tensor(steps, envs, *spec.reward_shape)
        self.terminated, self.truncated = (self._tensor(steps, envs, dtype=torch.bool) for _ in range(2))
        infos = {f.name: f for f in spec.info}
        kept = (ALIVE, TRUNCATIONS) if spec.agents else ("reward", "terminated")
        self.metrics = metric_names(config)
        self._reports: list[tuple[int, np.ndarray, np.ndarray]] = []  # a step, environments that ended, what they said
        self._info = {
            name: self._tensor(2, steps, envs, *infos[name].shape, dtype=torch_dtype(infos[name].dtype))
            for name in dict.fromkeys((*kept, *also))
            if name in infos
        }  # [now | final, T, N, …]
        self.present = self._tensor(envs, *spec.reward_shape, dtype=torch.bool).fill_(True)
        self.lost: Tensor | None = None
        self.acted: Tensor | None = None
        self.taken: Tensor | None = None
        self.masks: dict[str, Tensor] = {}
        if any(policy.heads for policy in policies):
            mask = infos[MASK]
            self.masks[MASKS] = self._tensor(steps + 1, envs, *mask.shape, dtype=torch_dtype(mask.dtype))
        self.experiences = [
            Experience(p, self.observations[observation_name(p.agent_group)], device, static, self.masks.get(MASKS))
            for p in policies
        ]
        self.seconds = {"env": 0.0, "inference": 0.0, "learning": 0.0}
        self._clock: Callable[[], float] = time.perf_counter

    def _tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        pinned = self.storage.type == "cpu" and self.device.type == "cuda"
        return torch.zeros(*shape, dtype=dtype, device=self.storage, pin_memory=pinned)

    def _row(self, t: int) -> dict[str, Tensor]:
        """Returns the tensors for step t's results by the names of a batch's arrays, without final observations."""
        row = {name: tensor[t + 1] for name, tensor in (self.observations | self.masks).items()}
        row |= {"reward": self.rewards[t], "terminated": self.terminated[t], "truncated": self.truncated[t]}
        for name, tensor in self._info.items():
            row |= {INFO + name: tensor[0, t], FINAL + INFO + name: tensor[1, t]}
        return row

    @abstractmethod
    def start(self) -> None:
        """Begins new episodes in all environments."""

    @abstractmethod
    def _act(self, t: int) -> Any:
        """Chooses the actions of step t, and returns what `_step` needs of them."""

    @abstractmethod
    def _step(self, t: int, actions: Any) -> None:
        """Steps all environments."""

    def _run(self) -> None:
        """Takes T steps in every environment."""
        now = self._clock()
        for t in range(self.steps):
            actions = self._act(t)
            acted = self._clock()
            self._step(t, actions)
            now = self._note_time(now, acted)

    def _note_time(self, began: float, acted: float) -> float:
        """Adds the time since ``began`` to that of inference, and of environments from ``acted`` on; returns now."""
        now = self._clock()
        self.seconds["inference"] += acted - began
        self.seconds["env"] += now - acted
        return now

    @abstractmethod
    def _final_observations(self, agent_group: AgentGroup) -> FinalObservations | None:
        """Returns the final observations of an agent group's truncated episodes; None if none was truncated."""

    def draw(self, generator: torch.Generator) -> None:
        for experience in self.experiences:
            experience.draw(generator)

    @torch.inference_mode()
    def collect(self) -> list[Any]:
        """Takes T steps in every environment; `draw` must be called before.

        Returns:
            The data that each policy learns from, see `learnable`. They are views of the rollout's memory,
            valid until the next call.
        """
        for tensor in (*self.observations.values(), *self.masks.values()):
            tensor[0].copy_(tensor[-1])
        for experience in self.experiences:
            if experience.memory is not None:
                experience.memory.begin()
        self._run()
        ran = self._clock()
        self.acted, left = self._presence() if self.spec.agents else (None, None)
        cut = None  # agents that a step truncated while the episode continued, bool[T, N, agents]
        if TRUNCATIONS in self._info:
            cut = self._info[TRUNCATIONS][0] & ~(self.terminated | self.truncated).unsqueeze(-1)
        present = self.acted
        if self.lost is not None and self.lost.any():
            here = ~self.lost
            present = here if present is None else present & here.unsqueeze(-1)
        learnt = []
        for e in self.experiences:
            # processes that average their gradients make equal numbers of minibatches
            known = present if e.policy.process_group is None else self.acted
            learnt.append(learnable(e, self._outcome(e.agent_group, known, left, cut)))
        self.seconds["learning"] += self._clock() - ran
        return learnt

    def _note_ends(self, t: int, envs: Any) -> None:
        """Marks ends of episodes where policies need them, in a slice of environments or those of some numbers."""
        for experience in self.experiences:
            random = experience.masks if experience.masks is not None and experience.masks.random_moves else None
            for each in (experience.memory, random):
                if each is not None:
                    over = (self.terminated[t] | self.truncated[t])[envs]
                    each.note_ends(t, envs, over, experience.agent_group.width)

    def _outcome(
        self, agent_group: AgentGroup, present: Tensor | None, left: Tensor | None, cut: Tensor | None
    ) -> Outcome:
        terminated, truncated = agent_group.of_each(self.terminated), agent_group.of_each(self.truncated)
        if left is not None:
            terminated = terminated | agent_group.of_all(left if cut is None else left & ~cut)
        if cut is not None:
            truncated = truncated | agent_group.of_all(cut)
        return Outcome(
            agent_group.of_all(self.rewards).to(self.device),
            terminated.to(self.device),
            truncated.to(self.device),
            None if present is None else agent_group.of_all(present).to(self.device),
            self._final_observations(agent_group),
        )

    def _presence(self) -> tuple[Tensor, Tensor]:
        """Returns which agents were in the game before each step, and which were not after it, bool[T, N, agents]."""
        alive, final = self._info[ALIVE]
        done = (self.terminated | self.truncated).unsqueeze(-1)
        present = torch.cat([self.present.unsqueeze(0), alive[:-1]])
        self.present.copy_(alive[-1])
        # where an episode ended, `alive` is that of the next episode, and `final` that of the last step
        return present, ~torch.where(done, final, alive)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors for a checkpoint: the last observations, and which agents are in the game."""
        state = {
            name.replace(OBS, "observations", 1): tensor[-1]
            for name, tensor in (self.observations | self.masks).items()
        }
        return state | ({"present": self.present} if self.spec.agents else {})

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            if name in saved or name != MASKS:  # runs that did not know the masks go on with all actions allowed once
                tensor.copy_(saved[name])
            else:
                tensor.fill_(1)

    # -- for reporting ---------------------------------------------------------------------------

    def _report(self, t: int, info: Mapping[str, Any], over: np.ndarray, envs: Any = EVERYWHERE) -> None:
        """Notes what environments report of episodes that ended with step t, bool[k], in all or those of numbers."""
        if (found := reported(self.metrics, info, over)) is not None:
            rows = np.flatnonzero(over)
            self._reports.append((t, rows if envs is EVERYWHERE else envs[rows], found))

    def reported(self) -> Tensor | None:
        """Returns each metric's value where episodes ended, and whether it was reported, [2 metrics, T, N].

        Returns None if none was.
        """
        if not self._reports:
            return None
        every = np.zeros((2 * len(self.metrics), self.steps, self.num_envs))
        for t, envs, found in self._reports:
            every[:, t, envs] = found
        self._reports.clear()
        return torch.from_numpy(every)

    def scores(self, agent_group: AgentGroup) -> Tensor:
        """Returns the mean reward of an agent group's agents, float32[T, N]; for one agent, the game's own rewards."""
        if agent_group.agents is not None:
            return self.rewards[:, :, agent_group.agents].mean(-1)
        return self._game("reward", self.rewards)

    def scores_by_type(self, agent_group: AgentGroup) -> list[tuple[Tensor, Tensor]]:
        """Returns the mean reward and the share of active agents for each of an agent group's `AgentGroup.types`.

        Returns:
            A pair for each type: the mean reward of its agents, float32[T, N], and the share of them that were in the
            game, float64[T, N]. Empty for one agent.
        """
        if self.acted is None:
            return []
        return [
            (self.rewards[:, :, agents].mean(-1), self.acted[:, :, agents].mean(-1, dtype=torch.float64))
            for agents in agent_group.types.values()
        ]

    @property
    def ends(self) -> Tensor:
        """Whether the game itself ended or was truncated with each step, bool[T, N]."""
        return self._game("terminated", self.terminated).bool() | self.truncated

    def _game(self, name: str, otherwise: Tensor) -> Tensor:
        """Returns the game's own value [T, N] of a name; ``otherwise`` if the task does not report one.

        The two differ where a task clips rewards, or ends episodes with a lost life.
        """
        if name not in self._info:
            return otherwise
        # where an episode ended, `now` is the info of the next episode, and `final` that of the last step
        now, final = self._info[name]
        return torch.where(self.terminated | self.truncated, final, now)


def observation_name(agent_group: AgentGroup) -> str:
    return OBS if agent_group.sees.key is None else f"{OBS}:{agent_group.sees.key}"


def columns_of(agent_group: AgentGroup, envs: Tensor) -> Tensor:
    """Returns the columns of an agent group, int64[k · width], in environments with the numbers ``envs``, int64[k]."""
    if agent_group.agents is None:
        return envs
    return (envs.unsqueeze(1) * agent_group.width + torch.arange(agent_group.width, device=envs.device)).flatten()

"""Writes steps to a replay of steps: of samplers, and of runs that collect and learn in turn in one process.

Transitions of vectors over one step lie on the policy's device (`headrace.train.storage.transition_replay`) where there
are no samplers. Images, which are stored once for all their stacks, transitions over several steps, priorities and
hindsight have a replay of steps in any case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headrace.pool.batch import OBS
from headrace.pool.registry import build_task
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.collector import MASKS, Collector
from headrace.train.collect.game_values import game_over, game_value, lost_steps
from headrace.train.collect.host import HOST
from headrace.train.collect.learnable import update_statistics
from headrace.train.collect.outcome import FinalObservations, Outcome
from headrace.train.collect.rollout_buffer import EVERYWHERE
from headrace.train.logging.finite import check_observations, check_rewards
from headrace.train.logging.memory_use import replay_named
from headrace.train.modules.action_masks import MASK, check_declared
from headrace.train.modules.cnn import is_image
from headrace.train.modules.observation_encoder import raw_dtype_of
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.config import Config
from headrace.train.settings.replays import priorities
from headrace.train.storage.layout import StepLayout
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter


@dataclasses.dataclass(frozen=True)
class Frames:
    """The form in which observations are stored.

    Attributes:
        options: options of the task whose pool returns the stored observations.
        stack: number of stored observations in one observation of the policy; 1 if they are the same.
    """

    options: dict[str, Any]
    stack: int = 1

    @classmethod
    def of(cls, config: Config) -> Frames:
        """Returns the form for a run: images that a task stacks as a replay does, see `Task.stack`, are stored once."""
        task = config.build()
        if task.stack is None or task.spec.options[task.stack] == 1:
            return cls(dict(config.env_options))
        return cls({**config.env_options, task.stack: 1}, task.spec.options[task.stack])


def replays_steps(config: Config) -> bool:
    if not config.algorithm.replays or config.build().spec.agents:
        return False
    return config.samplers > 0 or bool(needing_steps(config))


def needing_steps(config: Config) -> dict[str, str | None]:
    """Returns what of a run needs a replay of steps, in words → the setting that avoids it; None if none does."""
    needing: dict[str, str | None] = {}
    if is_image(config.build().spec.observation):
        needing["images"] = None
    if config.n_step > 1:
        needing[f"n_step={config.n_step}"] = "n_step=1"
    if priorities(config) is not None:
        needing["prioritised=True"] = "prioritised=False"
    if config.hindsight:
        needing[f"hindsight={config.hindsight}"] = "hindsight=0"
    return needing


def replay_layout(config: Any, masks: int = 0) -> StepLayout:
    """Returns the layout of a run's replay of steps: a segment for each sampler, or one."""
    frames = Frames.of(config)
    spec = build_task(config.task, **frames.options).spec
    envs, segments = config.num_envs, max(1, config.samplers)
    steps = max(config.replay_size // (envs * segments), 2 * (_n_step(config) + frames.stack + 3))
    wide = raw_dtype_of(spec.observation, config.normalise_observations) == torch.float64
    return StepLayout(spec.observation, spec.action, segments, steps, envs, frames.stack, masks, wide)


def _n_step(config: Any) -> int:
    return 1 if config.hindsight else config.n_step


def make_replay(config: Any, masks: int = 0) -> StepReplay:
    """Returns the replay of a run, in memory that other processes can share."""
    form = replay_layout(config, masks)
    spaces, sizes = (form.observation, form.action), (form.segments, form.steps, form.envs)
    with replay_named(config.replay_size, form.nbytes, torch.device("cpu")):
        return StepReplay(*spaces, *sizes, _n_step(config), config.gamma, form.frame_stack, masks, form.wide)


class StepResult(NamedTuple):
    """A step of N environments.

    Attributes:
        rewards: float[N], to learn from.
        terminated, truncated: bool[N].
        taken: bool[N]; False where an environment only began its next episode, or was lost with its process.
        scores, ends: the game's own rewards, float[N], and whether it ended, bool[N]; they differ from the others where
            a task clips rewards, or ends episodes with a lost life.
        info: the info of the step.
    """

    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    taken: np.ndarray
    scores: np.ndarray
    ends: np.ndarray
    info: Mapping[str, Any]


class StepRecorder:
    """Steps the environments of a pool; each step becomes a row of a replay.

    Args:
        pool: a pool with ``autoreset="next_step"``, whose observations are those that are stored.
        stack: number of stored observations in one observation of the policy.
        when: describes, in errors, when a step was taken.
    """

    def __init__(self, pool: Any, policy: Policy, writer: StepWriter, stack: int, when: Callable[[], str]):
        self.pool, self.policy, self.writer, self._stack, self._when = pool, policy, writer, stack, when
        self._resets = np.zeros(pool.num_envs, np.bool_)  # whether an environment's next step only begins an episode

    def begin(self) -> None:
        self.writer.row.observation[...], info = self.pool.reset()
        if self.writer.layout.masks:
            self.writer.row.mask[...] = info[MASK]
        self.writer.begin()
        self._resets[:] = False

    def observations(self) -> Tensor:
        """Returns what the policy sees now, [N, …], in memory that the next call may write to."""
        return torch.from_numpy(self.writer.row.observation) if self._stack == 1 else self.writer.stack()

    def masks(self) -> Tensor | None:
        """Returns the action masks of these observations, uint8[N, K]; None without masks."""
        return torch.from_numpy(self.writer.row.mask) if self.writer.layout.masks else None

    def step(self, actions: Tensor, taken: np.ndarray, version: int = 0) -> StepResult:
        """Steps all environments, and publishes a row.

        Args:
            actions: the policy's actions, [N, *action_shape], on the CPU, which are stored.
            taken: the same actions in the environments' units and dtype, [N, *action_shape].
            version: version of the weights that chose them.

        Raises:
            NotFiniteError: a reward or an observation is not finite; the row is not published.
        """
        row = self.writer.row
        row.action[...] = actions.numpy()
        seen, reward, terminated, truncated, info = self.pool.step(taken)
        if not (isfinite(reward.sum()) and (self.policy.encoder.image or isfinite(seen.sum()))):
            check_rewards(torch.from_numpy(reward)[None], self._when())
            check_observations({"obs": torch.from_numpy(seen)[None]}, self._when())
        row.reward[...] = reward
        following = self.writer.following
        following.observation[...] = seen
        if self.writer.layout.masks:
            following.mask[...] = info[MASK]
        elif MASK in info:
            check_declared(info, self.pool.spec, self.policy.config.action_masks)
        lost = lost_steps(info)
        self.writer.publish(terminated, truncated, version, info["elapsed_step"] > 0, lost)
        spec, over = self.pool.spec, terminated | truncated
        scores, ends = game_value(spec, info, "reward", over, reward), game_over(spec, terminated, truncated, info)
        taken_now = ~self._resets if lost is None else ~(self._resets | lost)
        stepped = StepResult(reward, terminated, truncated, taken_now, scores, ends, info)
        self._resets = over
        return stepped

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        return self.writer.state() | {"resets": torch.from_numpy(self._resets)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restores what `state` returned, in place of `begin`."""
        self.writer.load(state)
        self._resets = state["resets"].numpy().copy()


class StepCollector(Collector):
    """Steps a `Pool` of one agent an environment, and writes its steps to a replay."""

    def __init__(self, config: Config, pool: Any, policy: Policy, device: torch.device, writer: StepWriter):
        super().__init__(config, config.build().spec, [policy], HOST, device)
        self.pool = pool
        self._scores = self._tensor(self.steps, self.num_envs)
        self._ends, self._taken = (self._tensor(self.steps, self.num_envs, dtype=torch.bool) for _ in range(2))
        self.taken = self._taken
        self._recorder = StepRecorder(
            pool, policy, writer, Frames.of(config).stack, lambda: f"after {writer.written:,} of each environment"
        )

    def start(self) -> None:
        self._recorder.begin()

    @torch.inference_mode()
    def collect(self) -> list[Any]:
        """Takes T steps in every environment, and writes them to the replay; `draw` must be called before.

        Returns:
            An empty list, as what is learnt from is in the replay.
        """
        self._run()
        ran = self._clock()
        (experience,) = self.experiences
        ends = self.terminated.to(self.device), self.truncated.to(self.device)
        outcome = Outcome(self.rewards.to(self.device), *ends, self._taken.to(self.device), None)
        update_statistics(experience, outcome)
        self.seconds["learning"] += self._clock() - ran
        return []

    def _run(self) -> None:
        self._look(0)
        super()._run()

    def _act(self, t: int) -> tuple[Tensor, np.ndarray]:
        (experience,) = self.experiences
        taken = experience.act(t, EVERYWHERE).cpu().numpy()
        return experience.actions[t].cpu(), taken

    def _step(self, t: int, actions: tuple[Tensor, np.ndarray]) -> None:
        step = self._recorder.step(*actions)
        rows = self.rewards, self.terminated, self.truncated, self._taken, self._scores, self._ends
        for row, values in zip(rows, step[: len(rows)], strict=True):
            row[t] = torch.from_numpy(values)
        if step.ends.any():
            self._report(t, step.info, step.ends)
        self._look(t + 1)

    def _look(self, t: int) -> None:
        self.observations[OBS][t] = self._recorder.observations()
        if (masks := self._recorder.masks()) is not None:
            self.masks[MASKS][t] = masks

    def _final_observations(self, agent_group: AgentGroup) -> FinalObservations | None:
        return None  # they are in the replay

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        return checkpoints.prefixed("steps", self._recorder.state())

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        self._recorder.load(checkpoints.group("steps", saved))

    # -- for reporting ---------------------------------------------------------------------------

    def scores(self, agent_group: AgentGroup) -> Tensor:
        return self._scores

    @property
    def ends(self) -> Tensor:
        return self._ends

"""A pool in this process as the source of experience: rollouts are collected in turn with updates."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.errors import ActionError, EnvironmentFailure, StateError, TrustError
from headrace.pool.torch.pool import TorchPool
from headrace.pool.wrappers import unwrapped
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.collector import Collector, observation_name
from headrace.train.collect.curriculum import options_at, scheduled_options, stage_at, whole_stage_at, words_of
from headrace.train.collect.device import DeviceCollector
from headrace.train.collect.game_values import metric_names
from headrace.train.collect.policies import make_policies
from headrace.train.collect.pools import make_collector, training_pool
from headrace.train.collect.self_play import SelfPlay
from headrace.train.collect.steps import make_replay, replays_steps
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.finite import check_observations, check_rewards, rounding_of
from headrace.train.logging.timer import Timer
from headrace.train.modules.graphs import Graph
from headrace.train.modules.observation_encoder import raw_dtype_of
from headrace.train.play.evaluate import judged
from headrace.train.play.ladder import Ladder
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runners.parts import Figures, News, Scored, Source, model_of
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import one_line
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

MOST_SAVED = 256 << 20  # bytes of the environments' states in a checkpoint; larger ones are left out
AT_ONCE = 64 << 20  # approximate bytes of the states that are taken from a pool at a time


class PoolSource(Source):
    """A pool, and the collector of rollouts from it.

    Args:
        group: the processes that train together, each with environments of its own.

    Attributes:
        replay: what the collector writes steps to; None where policies learn from rollouts.
        taken: agent steps of the last rollout, of all processes together.
        generator: the source of random numbers of actions and, in learning, of minibatches.
    """

    speeds_name = "steps_per_second"
    collector: Collector
    taken = 0

    def __init__(self, config: Config, run: RunFolder, step: int, device: torch.device, group: ProcessGroup):
        self.config, self.run, self.device, self.group, self.steps = config, run, device, group, step
        self.news = deque[News]()
        self.options, self._scheduled = options_at(config, step), dict[str, float]()
        self.pool: Any = training_pool(self._present)
        self.policies = make_policies(config, self.pool, device)
        self.trackers = [
            EpisodeTracker(
                *(config.num_envs, config.stop_episodes, device, tuple(policy.agent_group.types), metric_names(config))
            )
            for policy in self.policies
        ]
        self.replay = make_replay(config, sum(self.policies[0].heads)) if replays_steps(config) else None
        self._collect_with_pool()
        self.generator = torch.Generator("cpu" if config.host_random else device).manual_seed(config.seed)
        self.self_play = SelfPlay(self.collector.experiences)
        rated = group.size == 1 and Ladder.fits(config, self.policies)
        self.ladder = Ladder(config, self.policies[0], self.pool.spec) if rated else None
        self._timer = Timer(device, "rollout")
        self._began: tuple[float, int] | None = None  # when, and after how many steps, this process began to train

    @property
    def _present(self) -> Config:
        return self.config.replace(env_options=self.options)

    def _collect_with_pool(self) -> None:
        """Makes the collector for the pool; its rollouts are CUDA graphs where they can be."""
        self._scheduled.clear()
        self._follow_schedules()
        self.collector = make_collector(self._present, self.pool, self.policies, self.device, self.replay)
        for experience in self.collector.experiences:
            experience.static = experience.static or self.group.size > 1  # so that all have as many minibatches
        whole = self.config.graphs and isinstance(self.collector, DeviceCollector)
        captured = whole and self.group.may_capture(self.collector.experiences)
        self.rollout = Graph(self._collect_and_track, self.device, captured)

    def _follow_schedules(self) -> None:
        """Changes options of the environments that have a schedule."""
        now = scheduled_options(self.config, self.steps)
        if now != self._scheduled:
            unwrapped(self.pool).set_options(**now)
            self._scheduled = now

    def running(self, interrupt: object) -> AbstractContextManager[None]:
        pool = unwrapped(self.pool)
        return pool.faults_named() if isinstance(pool, TorchPool) else nullcontext()

    # -- one iteration ---------------------------------------------------------------------------

    def collect(self) -> list[Any]:
        """Collects a rollout; raises `NotFiniteError` for rewards, on the CPU, or observations that are not finite."""
        first = self._began is None
        if first:
            self._began = time.perf_counter(), self.steps
        self._timer.start()
        self._follow_schedules()
        self.self_play.draw(self.steps, self.generator)
        self.collector.draw(self.generator)
        try:
            rollouts = self.rollout()
        except ActionError:  # which may be due to an observation that is not finite
            self.check_finite()
            raise
        if first:
            self._note_rounding()
        for tracker in self.trackers:
            tracker.forget_summary()
        if self.collector.storage.type == "cpu":
            check_rewards(self.collector.rewards, self.when())
        taken, config = self.collector.taken, self.config
        whole = config.num_envs * config.num_steps * self.group.size
        self.taken = whole if taken is None else self.group.total(int(taken.sum()))
        self._timer.lap("rollout")
        return rollouts

    def _note_rounding(self) -> None:
        """Warns of observations whose differences are lost, as their mean is not subtracted before they are float32."""
        for policy in self.policies:
            space = policy.agent_group.observation
            if policy.encoder.normaliser is None and raw_dtype_of(space, True) == torch.float64:
                seen = self.collector.observations[observation_name(policy.agent_group)]
                words = rounding_of(seen[:-1].reshape(-1, max(1, math.prod(space.shape or ()))))
                self.news.extend([] if words is None else [News(words)])

    def _collect_and_track(self) -> list[Any]:
        rollouts, ends = self.collector.collect(), self.collector.ends
        reported = self.collector.reported()
        for policy, tracker in zip(self.policies, self.trackers, strict=True):
            agent_group = policy.agent_group
            scores, by_type = self.collector.scores(agent_group), self.collector.scores_by_type(agent_group)
            tracker.update(scores, ends, by_type, self.collector.taken, reported)
        return rollouts

    def advance(self) -> None:
        self.group.merge(self.policies, self.trackers)
        stages = self._stages
        self.steps += self.taken
        if self._stages != stages:
            for tracker in self.trackers:
                tracker.forget_episodes()
        if self.ladder is not None:
            self.ladder.measure(self.steps)
        if options_at(self.config, self.steps) != self.options:
            self._next_stage()

    def _next_stage(self) -> None:
        self.options = options_at(self.config, self.steps)
        self.news.append(News(f"from step {self.steps:,}: {words_of(self.config, self.options)}", None))
        spent = self.collector.seconds
        self.pool.close()
        self.pool = training_pool(self._present)
        self._collect_with_pool()
        self.collector.seconds = spent
        self._begin_anew()

    @property
    def _stages(self) -> tuple[int, int]:
        """The stage that there is, and the one with which all running episodes began."""
        environments = self.config.num_envs * self.group.size
        return stage_at(self.config, self.steps), whole_stage_at(self.config, self.steps, environments)

    def check_finite(self) -> None:
        check_rewards(self.collector.rewards, self.when())
        check_observations(self.collector.observations, self.when())

    def when(self) -> str:
        return f"of the rollout after {self.steps:,} agent steps"

    # -- for reporting ---------------------------------------------------------------------------

    def score(self) -> Scored | None:
        tracker = self.trackers[0]
        mean = tracker.mean_return()
        if mean is None or not tracker.counted:
            return None
        return Scored(
            judged("training" if self.ladder is None else "self-play", mean, tracker.counted),
            partial(model_of, self.policies),
            self.steps,
            self._stages[1],
        )

    def figures(self) -> Figures:
        """As `Source.figures`, of this process since it began to train.

        The time of rollouts, on a GPU the device's, is divided in the proportions of an early one that was run step by
        step. Of the speeds in agent steps, ``stepping`` counts the time in environments alone, ``inference`` also that
        of choosing actions, and ``training`` all the time that passed. Several policies have an entry each, with its
        copy's version in self-play.
        """
        parts = self.collector.seconds
        scale = self._timer.seconds()["rollout"] / (sum(parts.values()) or 1.0)
        split = {name: seconds * scale for name, seconds in parts.items()}
        began, first = self._began or (time.perf_counter(), self.steps)
        passed = {
            "stepping": split["env"],
            "inference": split["env"] + split["inference"],
            "training": time.perf_counter() - began,
        }
        steps = self.steps - first
        speeds = {name: steps / spent if steps and spent > 0 else None for name, spent in passed.items()}
        known = zip(self.policies, self.trackers, strict=True)
        entries = {policy.name: _entry_of(policy, tracker, self.steps) for policy, tracker in known if policy.name}
        for policy in self.policies:
            if policy.config.copies:
                entries[policy.name]["version"] = self.self_play.version(policy.name)
        details: dict[str, Any] = {} if self.ladder is None else self.ladder.figures()
        return Figures({}, split, speeds, details | ({"policies": entries} if entries else {}))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        state = self._environments()
        for experience in self.collector.experiences:
            state |= experience.state()
        for policy, tracker in zip(self.policies, self.trackers, strict=True):
            state |= checkpoints.prefixed(policy.prefix("episodes"), tracker.state())
        if self.ladder is not None:
            state |= self.ladder.state()
        return state | self.collector.state() | self.self_play.state() | {"generator": self.generator.get_state()}

    def _environments(self) -> dict[str, Tensor]:
        """Returns the states of the environments; empty if they cannot be saved, and new episodes begin instead."""
        if self.saves_environments:
            try:
                most = math.inf if self.config.deterministic else MOST_SAVED
                return checkpoints.pack_blobs(_states_of(self.pool), most)
            except StateError as error:
                if self.config.deterministic:
                    raise
                self.saves_environments = False
                self.news.append(News(f"a resumed run will begin new episodes, as {one_line(error)}"))
            except EnvironmentFailure:  # one was lost since the last step, and begins a new episode with the next
                if self.config.deterministic:
                    raise
        return {}

    def load(self, point: Checkpoint, continues: bool) -> None:
        """Restores a checkpoint; environments continue their episodes if their states were saved.

        Raises:
            TrustError: their states are pickles that somebody else may have written.
        """
        saved: Mapping[str, Tensor] = point.state
        if "environments" in saved and unwrapped(self.pool).saves_pickles and not point.trusted:
            raise TrustError(
                f"the checkpoint in {self.run.checkpoints} has no seal of yours from this machine, and holds the "
                "environments of its task as pickles: loading them may do whatever you may do.\n"
                "If you trust who wrote it, say --trust (in Python trust=True)"
            )
        for experience in self.collector.experiences:
            experience.load_state(saved)
        for policy, tracker in zip(self.policies, self.trackers, strict=True):
            tracker.load(checkpoints.group(policy.prefix("episodes"), saved))
        self.self_play.load_state(saved)
        if self.ladder is not None:
            self.ladder.load_state(saved)
        self.generator.set_state(saved["generator"])
        if continues and "environments" in saved:
            self.collector.load_state(saved)
            self.pool.load_state(None, checkpoints.unpack_blobs(saved))
        else:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Begins new episodes in all environments, with other seeds than at the beginning of the run."""
        seed = np.random.SeedSequence((self.config.seed, self.steps)).generate_state(1)[0] >> 1
        self.pool.reset(seed=int(seed))
        self.collector.start()
        for experience in self.collector.experiences:
            experience.begin_anew()
        for tracker in self.trackers:
            tracker.begin_anew()

    def close(self) -> None:
        self.pool.close()


def _entry_of(policy: Policy, tracker: EpisodeTracker, step: int) -> dict[str, Any]:
    entry = {"return": tracker.mean_return(), "length": tracker.mean_length(), "loss": policy.reported(step)}
    if tracker.types:
        entry["types"] = {name: {"return": r, "length": n} for name, (r, n) in tracker.by_type().items()}
    return entry


def _states_of(pool: Any) -> Iterator[bytes]:
    """Yields the environments' states, which are taken from the pool some at a time, as they may be large."""
    begin, few = 0, 1
    while begin < pool.num_envs:
        ids = range(begin, min(begin + few, pool.num_envs))
        blobs = pool.save_state(ids)
        yield from blobs
        begin, few = ids.stop, max(1, AT_ONCE // max(map(len, blobs)))

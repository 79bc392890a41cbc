"""Collects rollouts from a pool on the host, which writes every step directly into the rollout buffer.

The buffer's rows are bound to the pool once, so that a step costs neither a copy nor an allocation. Where a pool's
``batch_size`` is smaller than ``num_envs``, groups of that size take turns: while one group steps, the policies choose
actions for the next. Every environment still contributes exactly T steps, so the result does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.pool.actions import ACTION, action_fields
from headrace.pool.batch import FINAL, INFO, OBS
from headrace.pool.pool import Pool
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.collector import Collector, observation_name
from headrace.train.collect.final_observations import FinalObservationList
from headrace.train.collect.game_values import game_over, lost_steps
from headrace.train.collect.outcome import FinalObservations
from headrace.train.collect.rollout_buffer import EVERYWHERE
from headrace.train.modules.action_masks import check_declared
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.settings.config import Config

HOST = torch.device("cpu")


class HostCollector(Collector):
    """A collector that steps a `Pool` with any executor."""

    def __init__(self, config: Config, pool: Pool, policies: Sequence[Policy], device: torch.device):
        super().__init__(config, pool.spec, policies, HOST, device)
        self.pool = pool
        self._ended = FinalObservationList()
        self._lost = self.lost = torch.zeros(self.steps, self.num_envs, dtype=torch.bool)
        self._actions = {
            name: np.zeros((config.num_envs, *shape), dtype)
            for name, (dtype, shape) in action_fields(pool.spec.action).items()
        }
        self._rows = [{name: tensor.numpy() for name, tensor in self._row(t).items()} for t in range(self.steps)]
        # all steps share one array for final observations, which are copied from it when an episode is truncated
        self._final = {FINAL + name: np.zeros_like(self._rows[0][name]) for name in self.observations | self.masks}
        self._batches = [] if pool.is_async else [pool.make_batch({**row, **self._final}) for row in self._rows]

    def start(self) -> None:
        if not self.pool.is_async:
            self._note_start(EVERYWHERE, *self.pool.reset())
            return
        self.pool.async_reset()
        for _ in range(self.pool.num_envs // self.pool.batch_size):
            obs, _, _, _, info = self.pool.recv()
            self._note_start(info["env_id"], obs, info)

    def _note_start(self, env_ids: Any, obs: Any, info: dict[str, Any]) -> None:
        for name, array in _named(obs).items():
            self.observations[name].numpy()[-1, env_ids] = array
        for name, masks in self.masks.items():
            masks.numpy()[-1, env_ids] = info[name[len(INFO) :]]

    def _run(self) -> None:
        self._ended.clear()
        self._lost.fill_(False)
        if self.pool.is_async:
            self._run_groups()
        else:
            super()._run()

    def _step(self, t: int, actions: Any) -> None:
        *_, info = self.pool.step(actions, out=self._batches[t])
        check_declared(info, self.spec, self.config.action_masks)
        finals = {name[len(FINAL) :]: array for name, array in self._final.items()}
        self._note(t, EVERYWHERE, finals, lost_steps(info))
        if "final_info" in info:
            self._note_reports(t, EVERYWHERE, info)

    def _run_groups(self) -> None:
        size = self.pool.batch_size
        groups = [slice(low, low + size) for low in range(0, self.pool.num_envs, size)]
        now, in_flight = self._clock(), -1
        for t in range(self.steps):
            for group in groups:
                actions = self._act(t, group)
                acted = self._clock()
                if in_flight >= 0:
                    self._receive(in_flight)
                self.pool.send(actions, self.pool.all_env_ids[group])
                in_flight, now = t, self._note_time(now, acted)
        self._receive(in_flight)
        self._note_time(now, now)

    def _act(self, t: int, envs: slice = EVERYWHERE) -> Any:
        if not self.spec.agents:
            return self.experiences[0].act(t, envs).cpu().numpy()
        actions = {name: array[envs] for name, array in self._actions.items()}
        for experience in self.experiences:
            experience.agent_group.put(experience.act(t, envs).cpu().numpy(), actions)
        return actions if isinstance(self.pool.action_space, gym.spaces.Dict) else actions[ACTION]

    def _receive(self, t: int) -> None:
        obs, reward, terminated, truncated, info = self.pool.recv()
        ids, row = info["env_id"], self._rows[t]
        for name, array in _named(obs).items():
            row[name][ids] = array
        row["reward"][ids], row["terminated"][ids], row["truncated"][ids] = reward, terminated, truncated
        for name in self.masks:
            row[name][ids] = info[name[len(INFO) :]]
        for name in self._info:
            row[INFO + name][ids] = info[name]
            if "final_info" in info:
                row[FINAL + INFO + name][ids] = info["final_info"][name]
        finals = _named(info["final_obs"]) if "final_obs" in info else {}
        if "final_info" in info:
            finals |= {name: info["final_info"][name[len(INFO) :]] for name in self.masks}
        self._note(t, ids, finals, lost_steps(info))
        if "final_info" in info:
            self._note_reports(t, ids, info)
        check_declared(info, self.spec, self.config.action_masks)

    def _note(self, t: int, envs: Any, finals: dict[str, np.ndarray], lost: np.ndarray | None) -> None:
        """Keeps the final observations of truncated episodes, and marks ends of episodes for recurrent policies.

        The final observation of an episode that was ``lost``, bool[k], is the last known one.
        """
        truncated = self._rows[t]["truncated"][envs]
        if truncated.any():
            rows = np.flatnonzero(truncated)
            ids = rows if envs is EVERYWHERE else envs[rows].astype(np.int64)
            kept = {name: torch.from_numpy(array[rows]) for name, array in finals.items()}
            if lost is not None:
                where, gone = torch.from_numpy(lost[rows]), ids[lost[rows]]
                self._lost[t, gone] = True
                for name, tensor in kept.items():
                    tensor[where] = (self.observations | self.masks)[name][t, gone]
            self._ended.add(t, torch.from_numpy(ids), kept)
        self._note_ends(t, envs if envs is EVERYWHERE else torch.from_numpy(envs.astype(np.int64)))

    def _note_reports(self, t: int, envs: Any, info: dict[str, Any]) -> None:
        row = self._rows[t]
        terminated, truncated = row["terminated"][envs], row["truncated"][envs]
        self._report(t, info, game_over(self.spec, terminated, truncated, info), envs)

    def _final_observations(self, agent_group: AgentGroup) -> FinalObservations | None:
        found = self._ended.of(agent_group, observation_name(agent_group))
        # the observations stay on the host until they are encoded
        return found and replace(found, t=found.t.to(self.device), columns=found.columns.to(self.device))


def _named(obs: Any) -> dict[str, np.ndarray]:
    """Returns observations by the names of a batch's arrays."""
    return {f"{OBS}:{key}": value for key, value in obs.items()} if isinstance(obs, dict) else {OBS: obs}

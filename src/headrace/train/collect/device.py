"""Collects rollouts where environments and policies are on one device, without copies to the host.

Environments write observations, rewards and ends of episodes into the rollout buffer, and policies write actions into
the memory that environments read. With ``static`` no shape depends on the data and nothing waits for the device, so
that a whole rollout can be one CUDA graph.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.pool.actions import ACTION, action_fields
from headrace.pool.batch import FINAL
from headrace.pool.torch.pool import TorchPool
from headrace.pool.torch.tensors import torch_dtype
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.collector import Collector, observation_name
from headrace.train.collect.final_observations import FinalObservationList, FinalObservationSlots, slots_needed
from headrace.train.collect.game_values import metric_names
from headrace.train.collect.outcome import FinalObservations
from headrace.train.collect.rollout_buffer import EVERYWHERE
from headrace.train.modules.graphs import Graph
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.settings.config import Config


class DeviceCollector(Collector):
    """A collector that steps a `TorchPool`, on a CPU or a GPU.

    Args:
        static: whether shapes must not depend on the data, as in a CUDA graph; by default on a GPU.
    """

    def __init__(self, config: Config, pool: TorchPool, policies: Sequence[Policy], static: bool | None = None):
        device = pool.device
        self.static = Graph.possible(device) if static is None else static
        super().__init__(config, pool.spec, policies, device, device, self.static, metric_names(config))
        self.pool = pool
        spec, envs = pool.spec, config.num_envs
        self._actions = {
            name: torch.zeros((envs, *shape), dtype=torch_dtype(dtype), device=device)
            for name, (dtype, shape) in action_fields(spec.action).items()
        }
        self._final = {name: torch.zeros_like(tensor[0]) for name, tensor in (self.observations | self.masks).items()}
        finals = {FINAL + name: tensor for name, tensor in self._final.items()}
        self._batches = [pool.make_batch(self._row(t) | finals) for t in range(self.steps)]
        # whether environments can read actions where the policy stores them, without a conversion
        first, own = self.experiences[0], self._actions.get(ACTION)
        self._in_place = (
            own is not None
            and first.agent_group.agents is None
            and first.actions.dtype == own.dtype
            and first.distribution.to_env(first.actions) is first.actions
        )
        sent: Any = self._actions if isinstance(spec.action, gym.spaces.Dict) else self._actions[ACTION]
        each = first.actions.unbind(0) if self._in_place else [sent] * self.steps
        self._steps = [pool.bind(actions, batch) for actions, batch in zip(each, self._batches, strict=True)]
        self._truncations = slots_needed(config.num_steps, spec.max_episode_steps)
        self._ended = (
            FinalObservationSlots(self._truncations, self._final, self.steps) if self.static else FinalObservationList()
        )
        # on the CPU, NumPy tests faster than torch whether any element is true
        self._flags = None if self.static or device.type != "cpu" else list(self.truncated.numpy())
        self._rollouts = 0

    def start(self) -> None:
        self.pool.reset(out=self._batches[-1])

    def _run(self) -> None:
        self._ended.clear()
        # On a GPU the clock waits for the device, so only the second rollout is measured; the first one includes work
        # that is done once, such as compilation.
        if self.device.type == "cuda":
            self._clock = self._waiting_clock if self._rollouts == 1 else float
            self._rollouts += 1
        super()._run()

    def _waiting_clock(self) -> float:
        torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _act(self, t: int) -> None:
        for experience in self.experiences:
            chosen = experience.act(t, EVERYWHERE)
            if not self._in_place:
                experience.agent_group.put(chosen, self._actions)

    def _step(self, t: int, actions: None) -> None:
        self._steps[t]()
        if self._truncations and (self._flags is None or np.count_nonzero(self._flags[t])):
            self._ended.note(t, self.truncated[t], self._final)
        self._note_ends(t, EVERYWHERE)

    def _final_observations(self, agent_group: AgentGroup) -> FinalObservations | None:
        return self._ended.of(agent_group, observation_name(agent_group)) if self._truncations else None

    def reported(self) -> Tensor | None:
        known = [self._info.get(name) for name in self.metrics]
        if not any(each is not None for each in known):
            return None
        every = torch.zeros(len(known), 2, self.steps, self.num_envs, dtype=torch.float64, device=self.storage)
        for row, info in zip(every, known, strict=True):
            if info is not None:
                row[0], row[1] = info[1].double().flatten(2).mean(-1) if info.ndim > 3 else info[1], 1.0
        return every.flatten(0, 1)

"""The executor of kernel environments on a device: a step is a single launch, as on the host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from headrace.pool.executors.device.executor import DeviceExecutor
from headrace.pool.executors.device.memory import DeviceMemory, DeviceTable
from headrace.pool.executors.kernels.build import AnyEnv
from headrace.pool.executors.kernels.diagnostics.first_steps import load_and_try
from headrace.pool.executors.kernels.launch import Run
from headrace.pool.executors.kernels.simulation import Simulation
from headrace.pool.spec import PoolSettings, TaskSpec


class KernelDeviceExecutor(DeviceExecutor):
    """The executor of one `KernelEnv` or `MultiAgentEnv` in torch's memory."""

    def __init__(self, env: AnyEnv, spec: TaskSpec, settings: PoolSettings):
        device = torch.device(settings.device)
        self._simulation = here = Simulation(env, spec, settings, DeviceMemory(device), load_and_try)
        super().__init__(env, spec, settings, here.state, here.streams, here.episodes, here.actions, here.bounds)
        if device.type == "cuda":  # copies on the streams of Warp and torch end before other streams use the memory
            torch.cuda.synchronize(device)

    def record(self, requests: DeviceTable, tensors: Mapping[str, torch.Tensor], rows: int) -> Run:
        return self._simulation.record(requests, tensors, rows)

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        arrays = {name: self.on_host(name, env_ids) for name in self.state_arrays()}
        return self._simulation.render(arrays, len(env_ids))

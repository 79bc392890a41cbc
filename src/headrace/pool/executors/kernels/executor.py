"""The `kernels` executor, for environments written as Warp kernels, on the host."""

from __future__ import annotations

from headrace.errors import OptionError
from headrace.pool.batch import BatchRing
from headrace.pool.executors.kernels.build import AnyEnv
from headrace.pool.executors.kernels.diagnostics.first_steps import load_and_try
from headrace.pool.executors.kernels.memory import HOST
from headrace.pool.executors.kernels.serving import SimulationExecutor
from headrace.pool.executors.kernels.simulation import Simulation
from headrace.pool.spec import PoolSettings, TaskSpec


class KernelExecutor(SimulationExecutor):
    """The executor of one `KernelEnv` or `MultiAgentEnv` on the host."""

    def __init__(self, env: AnyEnv, spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        if settings.device != "cpu":
            raise OptionError(f"arrays on {settings.device!r} are torch tensors: use headrace.make_torch")
        super().__init__(Simulation(env, spec, settings, HOST, load_and_try), spec, settings, ring)

"""Where a kernel environment is set up, for the host and for devices: checked, compiled, tried, and given memory.

What differs is whose memory it is (NumPy's or torch's), and in debug mode that nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from headrace.errors import RenderError
from headrace.pool.actions import action_fields
from headrace.pool.batch import FINAL, INFO
from headrace.pool.executors.kernels.build import AnyEnv, Program, actions_over, program_of, rules_of, scalars_of
from headrace.pool.executors.kernels.diagnostics.checks import check_environment, view_name
from headrace.pool.executors.kernels.launch import Run, quiet, record
from headrace.pool.executors.kernels.memory import AnyTable, struct_over
from headrace.pool.executors.kernels.program import STEP, Episodes, Requests
from headrace.pool.spec import PoolSettings, TaskSpec

Load = Callable[[AnyEnv, TaskSpec, Program, str], None]
Tb = TypeVar("Tb", bound=AnyTable, covariant=True)
Launch = Callable[[Any, int, Sequence[Any], str, int], Run]


class Memory(Protocol[Tb]):
    """Where a simulation's arrays lie."""

    def table(
        self,
        struct: Any,
        rows: int,
        shapes: Mapping[str, tuple[int | str, ...]] | None = None,
        scalars: Mapping[str, Any] | None = None,
        shared: Mapping[str, np.ndarray] | None = None,
    ) -> Tb:
        """Rows for a `warp.struct`, all zero: see `headrace.pool.executors.kernels.memory.Table`."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array or tensor of a NumPy dtype."""
        ...

    def put(self, array: Any, values: np.ndarray) -> None:
        """Copy values from the host into an array or tensor of the same number of bytes an element."""
        ...


class Simulation(Generic[Tb]):
    """N environments of a kernel environment on one device: the compiled program, and the memory that it works on.

    Args:
        memory: whose arrays it works on.
        load: compiles the program, and finds out whether it may be launched.
        launch: prepares a launch, as `record`.

    Attributes:
        env, program: what they are made of, and what it was compiled to.
        state, streams, episodes: tables of what lives from step to step.
        actions: name → array or tensor [N, …]: what the next step reads, row i for row i of the requests.
        rules: see `headrace.pool.executors.kernels.program.Rules`.

    Raises:
        KernelError: the environment and the task's spec do not fit together, or it does not pass ``load``.
    """

    def __init__(
        self,
        env: AnyEnv,
        spec: TaskSpec,
        settings: PoolSettings,
        memory: Memory[Tb],
        load: Load,
        launch: Launch = record,
    ):
        n, self._device, self._launch = settings.num_envs, settings.device, launch
        self.env, self._scalars = env, scalars_of(env, spec)
        check_environment(env, spec, self._scalars)
        self.program = program = program_of(env, spec, settings.device)
        load(env, spec, program, settings.device)
        self.state: Tb = memory.table(env.state, n, env.shapes, self._scalars, env.tables)
        self.streams: Tb = memory.table(program.streams, n, program.stream_shapes, program.stream_scalars)
        self.episodes: Tb = memory.table(Episodes, n)
        memory.put(self.streams.arrays["seed"], settings.seeds)
        self.rules = rules_of(spec, settings.autoreset, program)
        fields = action_fields(spec.action)
        self.actions = {name: memory.zeros((n, *shape), dtype) for name, (dtype, shape) in fields.items()}
        with quiet():
            self._actions = actions_over(program, self.actions)

    def record(self, requests: AnyTable, arrays: Mapping[str, Any], first: int, rows: int) -> Run:
        """The launch that serves ``rows`` requests from row ``first`` on into the same rows of a batch's arrays."""
        with quiet():
            results = _result_structs(self.env, self.program, arrays)
        tables = (self.state.struct, self.streams.struct, self.episodes.struct, self.rules, requests.struct)
        program, arguments = self.program, [*tables, self._actions, *results, first]
        return self._launch(program.kernel, rows * program.lanes, arguments, self._device, program.block_dim)

    def render(self, arrays: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """Frames uint8[rows, height, width, 3] of environments whose state is in these arrays [rows, …]."""
        draw = self.env.render
        if draw is None:
            raise RenderError(f"{self.env.name} has no rendering")
        return np.stack([draw({**self._scalars, **{name: a[i] for name, a in arrays.items()}}) for i in range(rows)])


def requests_for(memory: Memory[Tb], num_envs: int) -> Tb:
    """Requests for a step of all environments in order; whoever asks for something else writes over them."""
    requests = memory.table(Requests, num_envs)
    memory.put(requests.arrays["env_id"], np.arange(num_envs, dtype=np.int32))
    memory.put(requests.arrays["command"], np.full(num_envs, int(STEP), np.uint8))
    return requests


def _result_structs(env: AnyEnv, program: Program, arrays: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """A batch's arrays as kernels take them: outcome, view, and the view of what was last seen of an episode."""
    outcome = {name.replace(FINAL, "final_").replace(INFO, ""): array for name, array in arrays.items()}
    seen = {view_name(name): a for name, a in arrays.items() if not name.startswith(FINAL)}
    last = {view_name(name[len(FINAL) :]): a for name, a in arrays.items() if name.startswith(FINAL)}
    return struct_over(program.outcome, outcome), struct_over(env.view, seen), struct_over(env.view, last)

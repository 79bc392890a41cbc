"""Sets up kernel environments on the host or a device: checks, compiles and tries them out, and allocates memory.

The memory is NumPy's or torch's; in debug mode nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from headrace.errors import RenderError
from headrace.pool.actions import action_fields
from headrace.pool.batch import FINAL, INFO
from headrace.pool.executors.kernels.build import AnyEnv, Program, actions_over, program_of, rules_of, scalars_of
from headrace.pool.executors.kernels.diagnostics.checks import check_environment, view_name
from headrace.pool.executors.kernels.launch import Run, quiet, record
from headrace.pool.executors.kernels.memory import AnyTable, SavedField, array_fields, saved_fields, struct_over
from headrace.pool.executors.kernels.program import STEP, Bounds, Episodes, Requests
from headrace.pool.frames import rgb_frames
from headrace.pool.spec import PoolSettings, TaskSpec

Load = Callable[[AnyEnv, TaskSpec, Program, str], None]
Tb = TypeVar("Tb", bound=AnyTable, covariant=True)
MOST_STEPS = np.iinfo(np.int32).max - 1  # of a saved episode
Launch = Callable[[Any, int, Sequence[Any], str, int], Run]


class Memory(Protocol[Tb]):
    """An allocator of a simulation's arrays."""

    def table(
        self,
        struct: Any,
        rows: int,
        shapes: Mapping[str, tuple[int | str, ...]] | None = None,
        scalars: Mapping[str, Any] | None = None,
        shared: Mapping[str, np.ndarray] | None = None,
    ) -> Tb:
        """Returns rows for a `warp.struct`, all zero; see `headrace.pool.executors.kernels.memory.Table`."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Returns an array or tensor of zeros with the NumPy dtype ``dtype``."""
        ...

    def put(self, array: Any, values: np.ndarray) -> None:
        """Copies values from the host into an array or tensor of their shape whose elements have the same size."""
        ...


class Simulation(Generic[Tb]):
    """N environments of a kernel environment on one device: the compiled program and its memory.

    Args:
        env: the environment.
        spec: the task's spec.
        settings: the options that every task shares.
        memory: the allocator of its arrays.
        load: a function that compiles the program and tries it out; see `load_and_try`.
        launch: a function that prepares a launch, like `record`.

    Attributes:
        env, program: the environment and its program.
        state, streams, episodes: tables of the data that persist between steps.
        actions: name → array or tensor [N, …], the actions of the next step; row i belongs to row i of the requests.
        rules: see `headrace.pool.executors.kernels.program.Rules`.
        bounds: the bounds of the environment's state arrays.

    Raises:
        KernelError: the environment and the task's spec do not fit together, or ``load`` raises it.
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
        self.bounds = env.bounds(self._scalars) if callable(env.bounds) else env.bounds
        check_environment(env, spec, self._scalars, self.bounds)
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

    def record(self, requests: AnyTable, arrays: Mapping[str, Any], rows: int) -> Run:
        """Returns the launch that serves the first ``rows`` requests, into the same rows of ``arrays``."""
        sources = _results(self.env, self.program, arrays)
        with quiet():
            results = [struct_over(struct, given) for struct, given in sources.values()]
        tables = (self.state.struct, self.streams.struct, self.episodes.struct, self.rules, requests.struct)
        share = rows if self._device == "cpu" else 1  # of each thread
        program, arguments = self.program, [*tables, self._actions, *results, 0, share]
        return self._launch(program.kernel, rows // share * program.lanes, arguments, self._device, program.block_dim)

    def places(self, names: Iterable[str]) -> list[tuple[str, str, int]]:
        """Returns where a launch has the addresses of a batch's arrays, for `Movable`.

        Args:
            names: the names of the arrays, in order.
        """
        position = {name: i for i, name in enumerate(names)}
        results = _results(self.env, self.program, position)
        return [
            (argument, field, given[field])
            for argument, (struct, given) in results.items()
            for field in array_fields(struct)
            if field in given
        ]

    def render(self, arrays: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """Returns frames uint8[rows, height, width, 3] of environments whose state is in these arrays [rows, …].

        Raises:
            RenderError: the environment has no rendering, or draws something else.
        """
        draw = self.env.render
        if draw is None:
            raise RenderError(f"{self.env.name} has no rendering")
        states = ({**self._scalars, **{name: array[i] for name, array in arrays.items()}} for i in range(rows))
        return rgb_frames(self.env.name, [draw(state) for state in states])


def kept_fields(state: AnyTable, streams: AnyTable, episodes: AnyTable, bounds: Bounds) -> list[SavedField]:
    """Returns the fields of a saved state, in the order of the tables; ``bounds`` are those of ``state``."""
    progress = {"elapsed": (0, MOST_STEPS)}
    return [*saved_fields(state, bounds), *saved_fields(streams, {}), *saved_fields(episodes, progress)]


def requests_for(memory: Memory[Tb], num_envs: int) -> Tb:
    """Returns requests, which are initially a step of all environments in order."""
    requests = memory.table(Requests, num_envs)
    memory.put(requests.arrays["env_id"], np.arange(num_envs, dtype=np.int32))
    memory.put(requests.arrays["command"], np.full(num_envs, int(STEP), np.uint8))
    return requests


def _results(env: AnyEnv, program: Program, arrays: Mapping[str, Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Returns a kernel's argument → its `warp.struct`, and the batch's arrays by its fields' names and some others."""
    outcome = {name.replace(FINAL, "final_").replace(INFO, ""): array for name, array in arrays.items()}
    seen = {view_name(name): a for name, a in arrays.items() if not name.startswith(FINAL)}
    last = {view_name(name[len(FINAL) :]): a for name, a in arrays.items() if name.startswith(FINAL)}
    return {"outcome": (program.outcome, outcome), "view": (env.view, seen), "final": (env.view, last)}

"""Runs the first steps of a new environment in debug mode, before any compiled step.

In compiled code, an index out of range overwrites unrelated memory: training continues with wrong results, and fails
much later for another reason, or not at all. Making a pool of a user's environment therefore first interprets some
steps of it, with random actions and all indices checked. That usually takes less than a second, once for each version
of the environment: versions that passed are recorded in the user's cache.

Headrace's own environments are covered by its tests, and are not run here.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import EnvironmentFailure, KernelError
from headrace.pool.actions import action_fields
from headrace.pool.batch import INFO, Batch, BatchRing
from headrace.pool.cache import cache_folder
from headrace.pool.executors.kernels.build import AnyEnv, Program
from headrace.pool.executors.kernels.diagnostics.checks import functions_of
from headrace.pool.executors.kernels.diagnostics.mistakes import mistakes_named
from headrace.pool.executors.kernels.diagnostics.patience import TrialTimeout, tried_out
from headrace.pool.executors.kernels.launch import fingerprint, load, told_after
from headrace.pool.spec import AgentType, PoolSettings, TaskSpec
from headrace.version import __version__

PACKAGE = Path(__file__).parents[4]

NUM_ENVS = 3
STEPS = 50
SECONDS = 1.0  # time after which no further step is begun
MOST_SECONDS = 5.0  # time after which a running step is stopped


def load_and_try(env: AnyEnv, spec: TaskSpec, program: Program, device: str) -> None:
    """Compiles an environment's program, and runs its first steps unless this version has passed before.

    Raises:
        KernelError: the program does not compile, or debug mode found a mistake that compiled code would not report;
            the message names the author's line.
    """
    with mistakes_named(env):
        load(program.kernel, device, program.block_dim, spec.task)
    functions = [function for function, _ in functions_of(env, spec)]
    play_new(env, spec, functions, (program.kernel, program.block_dim), lambda: _play(env, spec))


def play_new(
    env: Any,
    spec: TaskSpec,
    functions: Sequence[Any],
    compiled: tuple[Any, int],
    play: Callable[[], None],
    more: Callable[[], bytes] = bytes,
) -> None:
    """Runs the first steps of a user's environment unless this version has passed before; raises as `load_and_try`.

    Args:
        env: the environment, with constants, shapes and tables.
        spec: the task's spec.
        functions: the author's Warp functions.
        compiled: the loaded kernel and the threads of its blocks, whose `fingerprint` identifies the version.
        play: a function that runs the steps; raises `EnvironmentFailure` for a mistake.
        more: a function that returns further bytes that identify the version.
    """
    if all(is_ours(function) for function in functions):
        return
    from headrace.pool.executors.kernels.diagnostics.rows import SILENT  # imports debug mode, only if needed

    passed = _mark(fingerprint(*compiled), repr(spec).encode(), *_constants(env), more())
    if passed.exists():
        return
    note = f"headrace: playing the first steps of {spec.task} in debug mode, this once …"
    try:
        with told_after(note), tried_out(MOST_SECONDS):
            play()
    except EnvironmentFailure as failure:
        if isinstance(failure.__cause__, SILENT):
            found = "found by playing its first steps in debug mode: compiled, nothing would have told"
            raise KernelError(f"{failure}\n  {found}") from failure
    except (Exception, TrialTimeout):
        pass
    with contextlib.suppress(OSError):  # without a record the steps run again the next time
        passed.parent.mkdir(parents=True, exist_ok=True)
        passed.touch()


def _constants(env: Any) -> list[bytes]:
    """Returns the parts of an environment that its compiled functions lack, as bytes: constants, shapes and tables."""
    tables = {name: np.asarray(table) for name, table in env.tables.items()}
    layout = [(name, table.dtype.str, table.shape) for name, table in tables.items()]
    described = repr((dict(env.constants), dict(env.shapes), layout)).encode()
    return [described, *(table.tobytes() for table in tables.values())]


def is_ours(function: Any) -> bool:
    """Returns whether something is a function, a Warp function or a `functools.partial` of one, of Headrace's own."""
    while (inner := getattr(function, "func", None)) is not None:
        function = inner
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(PACKAGE)


def _mark(*parts: bytes) -> Path:
    """Returns the file that exists if the version that these bytes identify has passed."""
    whole = hashlib.sha256(f"{__version__} {wp.__version__}".encode())
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return cache_folder() / "played" / whole.hexdigest()[:32]


def _play(env: Any, spec: TaskSpec) -> None:
    """Steps all environments together, and some in another order, with occasional resets."""
    from headrace.pool.executors.kernels.diagnostics.debug import DebugExecutor
    from headrace.pool.executors.kernels.diagnostics.rows import OutOfBoundsError

    settings = PoolSettings(NUM_ENVS, NUM_ENVS, 1, np.arange(NUM_ENVS, dtype=np.uint64))
    ring = BatchRing(spec, settings.autoreset, NUM_ENVS)
    executor = DebugExecutor(env, spec, settings, ring)
    ring.serve(executor)
    actions = RandomActions(spec)
    began = time.perf_counter()
    for step in range(-1, STEPS):
        ids = {2: [2, 0], 4: [1], 7: [1, 2]}.get(step % 8) if step >= 0 else None
        chosen = None if ids is None else np.array(ids, np.int32)
        batch = ring.take(NUM_ENVS if ids is None else len(ids))
        try:
            if step < 0 or step % 16 == 12:
                executor.reset(chosen, None, batch)
            else:
                executor.step(actions.draw(range(NUM_ENVS) if ids is None else ids), chosen, batch)
        except EnvironmentFailure as failure:
            if not isinstance(failure.__cause__, OutOfBoundsError):  # conformance checks report it
                raise
        actions.heed(batch)
        if time.perf_counter() - began > SECONDS:
            return


class RandomActions:
    """A source of random actions for environments of a task, among those that their latest masks allow."""

    def __init__(self, spec: TaskSpec):
        self._spec, self._space = spec, copy.deepcopy(spec.action)
        self._space.seed(0)
        self._random = np.random.default_rng(0)
        self._fields = action_fields(spec.action)
        self._masks: dict[int, np.ndarray] = {}

    def heed(self, batch: Batch) -> None:
        """Records the action masks of a batch of results."""
        if (masks := batch.arrays.get(f"{INFO}action_mask")) is not None:
            self._masks |= zip(batch.arrays["env_id"].tolist(), masks.copy(), strict=True)

    def draw(self, env_ids: Iterable[int]) -> Any:
        """Returns an action for each of these environments, in the form that executors take."""
        rows = [_allowed(self._spec, self._space.sample(), self._masks.get(i), self._random) for i in env_ids]
        if isinstance(rows[0], dict):
            return {name: np.stack([row[name] for row in rows]).astype(d) for name, (d, _) in self._fields.items()}
        ((dtype, _),) = self._fields.values()
        return np.stack(rows).astype(dtype)


def _allowed(spec: TaskSpec, action: Any, mask: np.ndarray | None, random: np.random.Generator) -> Any:
    """Returns one environment's action, with choices drawn at random from those that its mask allows.

    Args:
        spec: the task's spec.
        action: a sample of ``spec.action``.
        mask: bool [choices], or [agents, choices] of a multi-agent task; None if every action is allowed.
        random: the source of randomness.
    """
    if mask is None:
        return action
    action = {name: np.array(part) for name, part in action.items()} if isinstance(action, dict) else np.array(action)
    rows = mask.reshape(spec.num_agents, -1)
    first = 0
    for kind in spec.agents or (AgentType("agent", 1, spec.observation, spec.action),):
        mine = range(first, first + kind.count)
        first += kind.count
        if not (heads := _heads(kind.action)):
            continue
        if isinstance(action, dict):
            choices = action[kind.name].reshape(kind.count, -1)
        else:
            choices = action.reshape(spec.num_agents, -1)[mine.start : mine.stop]
        for row, chosen in zip(rows[mine.start : mine.stop], choices, strict=True):
            _draw(row, chosen, heads, random)
    return action


def _draw(mask: np.ndarray, chosen: np.ndarray, heads: list[tuple[int, int]], random: np.random.Generator) -> None:
    """Draws the choice of each head (first action, number of actions) from those that the mask allows.

    A head without allowed choices keeps its choice.
    """
    at = 0
    for head, (start, number) in enumerate(heads):
        free = np.flatnonzero(mask[at : at + number])
        if len(free):
            chosen[head] = start + random.choice(free)
        at += number


def _heads(space: gym.Space) -> list[tuple[int, int]]:
    if isinstance(space, gym.spaces.Discrete):
        return [(int(space.start), int(space.n))]
    if isinstance(space, gym.spaces.MultiDiscrete):
        return list(zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True))
    return []

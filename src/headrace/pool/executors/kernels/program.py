"""The definition of a kernel environment, and the kernel that is generated around it.

An environment's author writes three functions over named arrays: the start of an episode, the effect of an action, and
the observation. A single kernel is generated around them, with all that environments have in common: autoreset in three
modes, truncation, random streams, partial steps, final observations. Warp compiles it to one loop (CPU) or one grid
(CUDA), so a step of a pool is a single launch.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from headrace.pool.executors.kernels.random import Streams

Bounds = Mapping[str, tuple[Any, Any] | frozenset[int]]
"""State array → (least, greatest) of its valid values, or all of them."""
FINITE = (-np.inf, np.inf)

STEP = wp.constant(wp.uint8(0))
RESET = wp.constant(wp.uint8(1))
RESEED = wp.constant(wp.uint8(2))

# Indices are masked with this, so that the compiler can remove Warp's code for negative indices, which takes
# a third of a CartPole step.
NOT_NEGATIVE = wp.constant(0x7FFFFFFF)

NEXT_STEP = wp.constant(0)
SAME_STEP = wp.constant(1)
DISABLED = wp.constant(2)
MODES = {"next_step": int(NEXT_STEP), "same_step": int(SAME_STEP), "disabled": int(DISABLED)}

# No fused multiply-add: each operation rounds by itself, so a GPU, a CPU and NumPy get the same sums and products.
ROUNDING = {"fuse_fp": False, "fast_math": False}


@wp.struct
class Episodes:
    """The progress of each environment's episode: arrays [N]."""

    elapsed: wp.array[wp.int32]
    over: wp.array[wp.bool]


@wp.struct
class Requests:
    """The commands for environments: arrays [rows]. Seeds are read only if the command is RESEED."""

    env_id: wp.array[wp.int32]
    command: wp.array[wp.uint8]
    seed: wp.array[wp.uint64]


@wp.struct
class Rules:
    """The settings of a pool that apply to all of its environments."""

    autoreset: int
    max_episode_steps: int
    lanes: int  # threads that serve one row


@wp.struct
class Outcome:
    """The part of a result that every environment has: arrays [rows]."""

    reward: wp.array[wp.float32]
    terminated: wp.array[wp.bool]
    truncated: wp.array[wp.bool]
    env_id: wp.array[wp.int32]
    elapsed_step: wp.array[wp.int32]
    final_elapsed_step: wp.array[wp.int32]


@dataclass(frozen=True, eq=False)
class KernelEnv:
    """An environment as Warp functions over named arrays, for one agent.

    Attributes:
        name: the compiled kernel's name: an identifier.
        state: a `warp.struct`. Its array fields are the environments' state, one row for each environment;
            its scalar fields are shared by all: options of the task by name, and constants.
        view: a `warp.struct` of the outputs: ``obs`` (or ``obs_<key>`` for each entry of a `Dict`
            space) and the task's info fields by name; arrays with one row for each environment.
        reset: ``(state, env, streams)``: begin an episode in row ``env`` of the state.
        step: ``(state, env, actions, row, streams) → (reward float32, terminated bool)``: advance by
            one agent step; the environment's action is ``actions[row]``, or ``actions.<key>[row]`` for each
            entry of a `Dict` space.
        observe: ``(state, env, view, row)``: write the observation of ``env`` into ``row`` of the view.
        render: a function name → value of one environment's state and of the scalars → frame uint8[height, width, 3];
            None for no rendering.
        shapes: the shape of one environment's row, for state arrays of more than one dimension; an extent may be
            the name of a scalar field.
        constants: values of the state's scalar fields that are not options.
        tables: values of the state's array fields that all environments share and only read, such as maps.
        actions: a `warp.struct` with one array for each key of the action space, where that is a `Dict`.
        bounds: state array → (least, greatest) of its valid values, numbers or arrays that broadcast to one
            environment's row, or a frozenset of all of them; or a function scalars → that. `load_state` refuses a
            state with other values, or with one that is not finite. Arrays that are not named may hold any value.
        truncates: ``(state, env) → bool``: whether the episode is truncated after a step, as it also is by the task's
            ``max_episode_steps``; None for never.
        inlined: whether a CPU's compiler inlines also long functions, of which each call copies the state's struct
            and reads all its addresses anew.
    """

    name: str
    state: Any
    view: Any
    reset: Callable[..., Any]
    step: Callable[..., Any]
    observe: Callable[..., Any]
    render: Callable[[Mapping[str, Any]], np.ndarray] | None = None
    shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    actions: Any = None
    bounds: Bounds | Callable[[Mapping[str, Any]], Bounds] = field(default_factory=dict)
    truncates: Callable[..., Any] | None = None
    inlined: bool = False


@wp.func
def _never(state: Any, env: int) -> bool:
    return False


@functools.cache
def build_kernel(env: KernelEnv, actions_type: Any) -> Any:
    """Returns the kernel that serves requests: a row of the requests fills that row of the result.

    Each thread serves ``share`` rows, from row ``first + tid · share`` on. On a CPU one thread serves all rows of a
    launch, as the addresses of all arrays, which are read before the first row, take a third of a short step.
    ``actions_type`` is the Warp type of ``actions``: an array [rows, …], or a struct of them.
    """
    reset_episode, step_episode, observe, truncates = env.reset, env.step, env.observe, env.truncates or _never

    def advance(state, streams, episodes, rules, requests, actions, outcome, view, final, first, share):
        begin = first + wp.tid() * share
        for served in range(begin, begin + share):
            row = served & NOT_NEGATIVE
            env_id = requests.env_id[row] & NOT_NEGATIVE
            command = requests.command[row]
            reward = wp.float32(0.0)
            terminated = wp.bool(False)
            truncated = wp.bool(False)
            elapsed = wp.int32(0)

            if command == RESEED:
                streams.seed[env_id] = requests.seed[row]
                streams.drawn[env_id] = wp.uint64(0)
            starting = command != STEP or (rules.autoreset == NEXT_STEP and episodes.over[env_id])
            if not starting:
                reward, terminated = step_episode(state, env_id, actions, row, streams)
                elapsed = episodes.elapsed[env_id] + 1
                truncated = rules.max_episode_steps > 0 and elapsed >= rules.max_episode_steps
                truncated = truncated or truncates(state, env_id)

            over = terminated or truncated
            if over and rules.autoreset == SAME_STEP:
                observe(state, env_id, final, row)
                outcome.final_elapsed_step[row] = elapsed
                starting = wp.bool(True)
            if starting:  # at one place only, as compilers copy what is called
                reset_episode(state, env_id, streams)
                elapsed = wp.int32(0)
            episodes.elapsed[env_id] = elapsed
            episodes.over[env_id] = over

            observe(state, env_id, view, row)
            outcome.reward[row] = reward
            outcome.terminated[row] = terminated
            outcome.truncated[row] = truncated
            outcome.env_id[row] = env_id
            outcome.elapsed_step[row] = elapsed

    advance.__annotations__ = {
        "state": env.state,
        "streams": Streams,
        "episodes": Episodes,
        "rules": Rules,
        "requests": Requests,
        "actions": actions_type,
        "outcome": Outcome,
        "view": env.view,
        "final": env.view,
        "first": int,
        "share": int,
    }
    advance.__name__ = advance.__qualname__ = f"advance_{env.name}"
    options: dict[str, Any] = dict(ROUNDING)
    flags = getattr(wp.config, "cpu_compiler_flags", None)  # Warp's own, since 1.19
    if env.inlined and flags:
        options["cpu_compiler_flags"] = flags.replace("inline-threshold=9000", "inline-threshold=40000")
    # in a separate module, so that its key in Warp's cache does not depend on other kernels of this process
    return wp.kernel(advance, module="unique", module_options=options, enable_backward=False)

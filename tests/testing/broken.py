"""Environments that break the contract, each in one way: the conformance suite must name every one of them.

The sound one is a walk: a place that grows by the action and a little chance, and a pace drawn at the start.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

import headrace
from headrace.kernels import KernelEnv, KernelTask, Streams, integers, uniform
from headrace.pool.executors.kernels.executor import KernelExecutor
from headrace.pool.executors.kernels.launch import load
from headrace.pool.executors.kernels.memory import HOST
from headrace.pool.executors.kernels.program import MODES
from headrace.pool.executors.kernels.serving import SimulationExecutor
from headrace.pool.executors.kernels.simulation import Simulation

OBSERVATION = gym.spaces.Box(0.0, 40.0, (2,), np.float32)
ACTION = gym.spaces.Discrete(3)


@wp.struct
class State:
    place: wp.array[wp.int32]
    pace: wp.array[wp.float64]
    trail: wp.array2d[wp.int32]


@wp.struct
class View:
    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.place[env] = integers(streams, env, 0, 4)
    state.pace[env] = uniform(streams, env, wp.float64(1.0), wp.float64(2.0))
    for i in range(3):
        state.trail[env, i] = 0


@wp.func
def walk(state: State, env: int, action: wp.int64, streams: Streams):
    place = state.place[env] + int(action) + integers(streams, env, 0, 2)
    state.trail[env, place % 3] = place
    state.place[env] = place
    return wp.float32(state.pace[env]), place > 20


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    reward, over = walk(state, env, actions[row], streams)
    return reward, over


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.place[env])
    view.obs[row, 1] = wp.float32(state.pace[env])


def render(state: Any) -> np.ndarray:
    return np.full((2, 2, 3), state["place"], np.uint8)


SOUND = KernelEnv("SoundWalk", State, View, reset, step, observe, render, shapes={"trail": (3,)})


# -- broken functions ----------------------------------------------------------------------------


@wp.func
def reset_from_one_stream(state: State, env: int, streams: Streams):
    state.place[env] = integers(streams, 0, 0, 4)
    state.pace[env] = uniform(streams, 0, wp.float64(1.0), wp.float64(2.0))


@wp.func
def reset_without_seeds(state: State, env: int, streams: Streams):
    state.trail[env, 0] = state.trail[env, 0] + 1
    state.place[env] = state.trail[env, 0] % 3
    state.pace[env] = wp.float64(1.0)


@wp.func
def step_without_chance(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    state.place[env] = state.place[env] + int(actions[row])
    return wp.float32(state.pace[env]), state.place[env] > 20


@wp.func
def reset_forgetting_the_trail(state: State, env: int, streams: Streams):
    state.place[env] = integers(streams, env, 0, 4)
    state.pace[env] = uniform(streams, env, wp.float64(1.0), wp.float64(2.0))


@wp.func
def observe_the_trail(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.trail[env, 0])
    view.obs[row, 1] = wp.float32(state.pace[env])


@wp.func
def reset_going_on(state: State, env: int, streams: Streams):
    state.place[env] = state.place[env] % 4
    state.pace[env] = uniform(streams, env, wp.float64(1.0), wp.float64(2.0))


@wp.func
def observe_by_row(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.place[row])
    view.obs[row, 1] = wp.float32(state.pace[row])


@wp.func
def observe_its_number(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.place[env])
    view.obs[row, 1] = wp.float32(env)


@wp.func
def observe_too_much(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.place[env]) * 3.0
    view.obs[row, 1] = wp.float32(state.pace[env])


@wp.func
def step_pushing_others(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    reward, over = walk(state, env, actions[row], streams)
    if env > 0:
        state.place[env - 1] = state.place[env - 1] + 1
    return reward, over


PICTURES = itertools.count()


def render_anew(state: Any) -> np.ndarray:
    return np.full((2, 2, 3), next(PICTURES) % 256, np.uint8)


# -- broken executors ----------------------------------------------------------------------------


POOLS = itertools.count()


class Nondeterministic(KernelExecutor):
    def __init__(self, env, spec, settings, ring):
        super().__init__(env, spec, replace(settings, seeds=settings.seeds + np.uint64(next(POOLS))), ring)


class ThreadsMatter(KernelExecutor):
    def __init__(self, env, spec, settings, ring):
        more = np.uint64(settings.num_threads == 5)
        super().__init__(env, spec, replace(settings, seeds=settings.seeds + more), ring)


class AsynchronousMatters(KernelExecutor):
    def __init__(self, env, spec, settings, ring):
        more = np.uint64(settings.is_async)
        super().__init__(env, spec, replace(settings, seeds=settings.seeds + more), ring)


class LateTruncation(KernelExecutor):
    def __init__(self, env, spec, settings, ring):
        super().__init__(env, replace(spec, max_episode_steps=spec.max_episode_steps + 1), settings, ring)


class ForgetfulStates(KernelExecutor):
    def _saved_arrays(self):
        here = self._simulation
        return [*here.state.arrays.values(), *here.episodes.arrays.values()]  # and no random streams


class WrongCount(KernelExecutor):
    def step(self, actions, env_ids, batch):
        super().step(actions, env_ids, batch)
        batch.arrays["elapsed_step"][:] += 1


class NewForLast(KernelExecutor):
    def step(self, actions, env_ids, batch):
        super().step(actions, env_ids, batch)
        if "final:obs" in batch.arrays:
            batch.arrays["final:obs"][:] = batch.arrays["obs"]


class RenderMoves(KernelExecutor):
    def render(self, env_ids):
        self.state_arrays()["place"][env_ids] += 1
        return super().render(env_ids)


class Untried(SimulationExecutor):
    """Compiled code alone, as of a simulator in C++: most of what is broken in a kernel is found before it runs."""

    def __init__(self, env, spec, settings, ring):
        super().__init__(Simulation(env, spec, settings, HOST, compiled_alone), spec, settings, ring)


def compiled_alone(env, spec, program, device):
    load(program.kernel, device, program.block_dim, spec.task)


class NoReset(KernelExecutor):
    def __init__(self, env, spec, settings, ring):
        super().__init__(env, spec, settings, ring)
        if settings.autoreset == "next_step":
            self._simulation.rules.autoreset = MODES["disabled"]


# -- the defects, and the check that must find each -------------------------------------------------

ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "SharedStream": ("own_streams", {"reset": reset_from_one_stream}),
    "SeedsIgnored": ("seeds", {"reset": reset_without_seeds, "step": step_without_chance}),
    "FieldForgotten": ("resets", {"reset": reset_forgetting_the_trail, "observe": observe_the_trail}),
    "StateLeaks": ("resets", {"reset": reset_going_on}),
    "RowForEnv": ("partial_steps", {"observe": observe_by_row}),
    "NumberMatters": ("equal_seeds", {"observe": observe_its_number}),
    "OutsideSpace": ("spaces", {"observe": observe_too_much}),
    "OthersPushed": ("number_of_environments", {"step": step_pushing_others}),
    "RenderVaries": ("rendering", {"render": render_anew}),
}
EXECUTORS: dict[str, tuple[str, type[SimulationExecutor]]] = {
    "Nondeterministic": ("determinism", Nondeterministic),
    "ThreadsMatter": ("number_of_threads", ThreadsMatter),
    "AsynchronousMatters": ("asynchronous", AsynchronousMatters),
    "LateTruncation": ("truncation", LateTruncation),
    "ForgetfulStates": ("saved_states", ForgetfulStates),
    "WrongCount": ("elapsed_step", WrongCount),
    "NewForLast": ("autoreset_same_step", NewForLast),
    "RenderMoves": ("rendering", RenderMoves),
    "NoReset": ("autoreset_next_step", NoReset),
}
FOUND_FIRST = {
    "SharedStream": r"streams\.drawn\[0\] is not of this environment, which is 1",
    "SeedsIgnored": r"state\.trail\[0, 0\] is read, but was never set",
    "FieldForgotten": r"state\.trail\[0, 0\] is read, but was never set",
    "StateLeaks": r"state\.place\[0\] is read, but was never set",
    "RowForEnv": r"state\.place\[0\] is not of this environment, which is 2",
    "OthersPushed": r"state\.place\[0\] is not of this environment, which is 1",
}
"""the errors of those of `ENVIRONMENTS` whose defects debug mode finds in the first steps"""
CAUGHT_BY = {name: check for name, (check, _) in (ENVIRONMENTS | EXECUTORS).items()}


def _with_executor(executor: type[SimulationExecutor], env: KernelEnv = SOUND) -> Callable[..., headrace.Task]:
    def build(task: str, **options: Any) -> headrace.Task:
        sound = KernelTask(env, OBSERVATION, ACTION)(task, **options)
        return headrace.Task(sound.spec, partial(executor, env))

    return build


headrace.register("SoundWalk", KernelTask(SOUND, OBSERVATION, ACTION), replace=True)
headrace.register("UnseenWalk", KernelTask(replace(SOUND, render=None), OBSERVATION, ACTION), replace=True)
for _name, (_, _changes) in ENVIRONMENTS.items():
    _env = replace(SOUND, name=_name, **_changes)
    headrace.register(_name, _with_executor(Untried, _env), replace=True)
    headrace.register(f"{_name}Tried", KernelTask(_env, OBSERVATION, ACTION), replace=True)
for _name, (_, _executor) in EXECUTORS.items():
    headrace.register(_name, _with_executor(_executor), replace=True)

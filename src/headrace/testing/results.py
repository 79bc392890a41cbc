"""Checks that results depend only on seeds and actions, and not on the order in which agents act."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.pool import Pool
from headrace.pool.structure import row_of
from headrace.pool.views.make import make_spec
from headrace.testing.report import NotApplicable, conformance
from headrace.testing.trial import (
    Actions,
    Frame,
    Mismatch,
    Trial,
    advance,
    differ,
    frame,
    merged,
    on_device,
    play,
    rows_of,
    same,
    start,
    typed_as,
)

LIGHT = 50e-6  # seconds per environment step, including the call, up to which thousands of environments are used
MANY = 3000
DEVICE_STEPS = 1000
DEVICE_TOLERANCE = 1e-5
FEW = 2  # number of environments in debug mode, whose steps take some thousand times as long
ENOUGH = 20.0  # seconds of interpreted play after which no further step is begun
CLAIM = (
    "agents that act in another order must give the same results "
    "(does a phase use what an atomic function returned, or add up floats?)"
)


@conformance
def determinism(trial: Trial) -> None:
    """Checks that the same seeds and actions give the same bits, also while another pool is stepped."""
    actions = trial.actions()
    with trial.make() as pool:
        first = play(pool, actions)
    with trial.make() as pool, trial.make(seed=trial.seed + 999) as other:
        again = [start(pool)]
        start(other)
        for action in actions:
            advance(other, action)
            again.append(advance(pool, action))
    same(first, again, "two pools with the same seeds and actions must give the same results")


@conformance
def seeds(trial: Trial) -> None:
    """Checks that another seed, and a reset without a seed, give other episodes."""
    actions = trial.actions()
    with trial.make() as pool:
        first = play(pool, actions)
        second = play(pool, actions)
    with trial.make(seed=trial.seed + 1000) as pool:
        other = play(pool, actions)
    if not differ(first, second) and not differ(first, other):
        raise NotApplicable("nothing here is random: neither a second episode nor another seed differs")
    if not differ(first, other):
        raise Mismatch(f"seeds {trial.seed} and {trial.seed + 1000} must give different results, but all are equal")
    if not differ(first, second):
        raise Mismatch("reset() without a seed must go on with the random stream, but the same episode began again")


@conformance
def own_streams(trial: Trial) -> None:
    """Checks that random numbers drawn by one environment do not affect another: no random stream is shared."""
    actions = trial.actions()
    last = trial.num_envs - 1
    with trial.make() as pool:
        alone = play(pool, actions)
    with trial.make() as pool:
        disturbed = [start(pool)]
        for action in actions:
            start(pool, [last])  # must have no effect on the others
            disturbed.append(advance(pool, action))
    claim = f"resetting environment {last} before every step must not change the others"
    same(rows_of(alone, slice(0, last)), rows_of(disturbed, slice(0, last)), claim)


@conformance
def equal_seeds(trial: Trial) -> None:
    """Checks that environments with equal seeds and actions give the same results, for any env_id and row."""
    actions = [row_of(action, np.zeros(trial.num_envs, int)) for action in trial.actions()]
    with trial.make(seed=[trial.seed] * trial.num_envs) as pool:
        frames = play(pool, actions)
    for i in range(1, trial.num_envs):
        claim = f"environments 0 and {i} have equal seeds and actions, so they must do the same"
        same(rows_of(frames, [0]), rows_of(frames, [i]), claim)


@conformance
def resets(trial: Trial) -> None:
    """Checks that after any earlier steps ``reset(seed=…)`` gives the same results as a new pool."""
    actions = trial.actions()
    with trial.make() as pool:
        fresh = play(pool, actions)
    with trial.make(seed=trial.seed + 77) as pool:
        play(pool, trial.actions(seed=1))
        used = play(pool, actions, seed=trial.seed)
        claim = f"reset(seed={trial.seed}) in a used pool must give what a new pool gives (does reset set every field?)"
        same(fresh, used, claim)
        ids = np.arange(trial.num_envs)[::-1]
        play(pool, trial.actions(seed=2)[: trial.steps // 2])
        parts = merged([start(pool, [i], seed=[trial.seed + int(i)]) for i in ids])
        same(fresh[:1], [parts], "resetting environments one by one must give what resetting all at once gives")


@conformance
def number_of_environments(trial: Trial) -> None:
    """Checks that an environment gives the same results alone and among others."""
    actions = trial.actions()
    with trial.make() as pool:
        together = play(pool, actions)
    for i in range(trial.num_envs):
        with trial.make(num_envs=1, seed=trial.seed + i) as pool:
            alone = play(pool, [row_of(action, slice(i, i + 1)) for action in actions])
        claim = f"environment {i} must do the same alone (in row 0, with seed {trial.seed + i}) as among others"
        same(alone, rows_of(together, [i]), claim)


@conformance
def number_of_threads(trial: Trial) -> None:
    """Checks that results do not depend on the number of threads."""
    actions = trial.actions()
    with trial.make() as pool:
        began = time.perf_counter()
        play(pool, actions)
        seconds = time.perf_counter() - began
    if seconds < LIGHT * trial.steps * trial.num_envs:
        trial = replace(trial, num_envs=MANY)  # threads share launches of light environments only if there are many
    actions = trial.actions(min(trial.steps, 40))
    with trial.make(num_threads=1) as pool:
        one = play(pool, actions)
    for threads in (2, 5):
        with trial.make(num_threads=threads) as pool:
            same(one, play(pool, actions), f"{threads} threads must give what 1 thread gives")


@conformance
def partial_steps(trial: Trial) -> None:
    """Checks that stepping some environments at a time, in any order, gives the same results as stepping all."""
    actions = trial.actions()
    rng = np.random.default_rng(trial.seed)
    with trial.make() as pool:
        whole = play(pool, actions)
    with trial.make() as pool:
        cut = [start(pool)]
        for action in actions:
            parts = np.array_split(rng.permutation(trial.num_envs), 2)
            cut.append(merged([advance(pool, row_of(action, ids), ids) for ids in parts]))
    same(whole, cut, "stepping the environments in two parts, shuffled, must give what stepping all at once gives")


@conformance
def asynchronous(trial: Trial) -> None:
    """Checks that an asynchronous pool returns the same results as a synchronous one, at any batch size."""
    actions = trial.actions()
    with trial.make() as pool:
        waited = play(pool, actions)
    for batch_size in {1, trial.num_envs - 1} - {trial.num_envs, 0}:
        with trial.make(batch_size=batch_size) as pool:
            frames = _play_asynchronously(trial, pool, actions)
        for step, (one, other) in enumerate(zip(waited, frames, strict=True)):
            if not step:  # recv returns a reset like a step with reward 0
                other = {name: other[name] for name in one}
            same([one], [other], f"with batch_size={batch_size}, step {step} must give what a synchronous pool gives")


def _play_asynchronously(trial: Trial, pool: Pool, actions: Actions) -> list[Frame]:
    """Plays each environment as its results arrive; returns the frames by step.

    Environments that have taken all actions continue, so that there is always a whole batch in flight.
    """
    done = np.zeros(trial.num_envs, int)
    parts: list[list[Frame]] = [[] for _ in range(len(actions) + 1)]
    pool.async_reset()
    while done.min() <= len(actions):
        one = frame(pool, pool.recv(timeout=60))
        for row, env_id in enumerate(one["env_id"].tolist()):
            if done[env_id] <= len(actions):
                parts[done[env_id]].append({name: array[row : row + 1] for name, array in one.items()})
            following = actions[min(done[env_id], len(actions) - 1)]
            pool.send(row_of(following, slice(env_id, env_id + 1)), [env_id])
            done[env_id] += 1
    return [merged(part) for part in parts]


@conformance
def devices(trial: Trial) -> None:
    """Checks that CPU and CUDA give the same results over 1,000 steps: integers exactly, floats within 1e-5."""
    import warp as wp  # here, since other checks do not need it

    from headrace.pool.executors.kernels.launch import quiet

    with quiet():
        found = wp.is_cuda_available()
    if not found:
        raise NotApplicable("this machine has no CUDA device")
    spec = make_spec(trial.task, **trial.options)  # episodes have the task's length, so that errors can accumulate
    trial = replace(trial, limit=spec.max_episode_steps)
    actions = trial.actions(DEVICE_STEPS)
    with trial.make() as pool:
        here = play(pool, actions)
    try:
        pool = trial.make(device="cuda:0")
    except OptionError as error:
        raise NotApplicable(str(error)) from None
    with pool:
        there = play(pool, [on_device(action, pool.device) for action in actions])
    same(here, typed_as(here, there), "CUDA must give what the CPU gives", DEVICE_TOLERANCE)


@conformance
def order_of_agents(trial: Trial) -> None:
    """Checks that the order of agents within a phase has no effect, and that agents do not race.

    The task is played in debug mode, in order and in a random order for each phase, for at most `ENOUGH` seconds.
    """
    if not make_spec(trial.task, **trial.options).agents:
        raise NotApplicable("the task has one agent")
    from headrace.pool.executors.kernels.diagnostics.races import shuffled  # here, since other checks need no Warp

    trial = replace(trial, num_envs=FEW)
    with _interpreted(trial) as ordered:
        with shuffled(trial.seed):
            another = _interpreted(trial)
        with another:
            try:
                expected, seen = _side_by_side(trial, ordered, another)
            except EnvironmentFailure as failure:
                if isinstance(failure.__cause__, NotImplementedError):
                    raise NotApplicable(str(failure.__cause__)) from None
                raise
    same(expected, seen, CLAIM)


def _interpreted(trial: Trial) -> Pool:
    try:
        return trial.make(debug=True)
    except OptionError as error:
        raise NotApplicable(str(error)) from None


def _side_by_side(trial: Trial, *pools: Pool) -> list[list[Frame]]:
    began = time.monotonic()
    frames = [[start(pool)] for pool in pools]
    for action in trial.actions():
        if time.monotonic() - began > ENOUGH:
            break
        for played, pool in zip(frames, pools, strict=True):
            played.append(advance(pool, action))
    return frames

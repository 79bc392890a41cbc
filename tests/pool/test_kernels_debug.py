"""Debug mode does what compiled code does, and reports what compiled code would do silently."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false, reportRedeclaration=false

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.envs import classic_control, minatar, toy_text
from headrace.errors import EnvironmentFailure, OptionError
from headrace.kernels import KernelEnv, KernelTask, Streams, integers, random_bits, uniform
from nightly import rest_nightly


def place(path: Path, lines: list[str], source: str, nth: int = 0) -> str:
    """``file:line`` of the nth line with this text."""
    return f"{path}:{[i for i, line in enumerate(lines, 1) if source in line][nth]},"


# -- debug mode ----------------------------------------------------------------------------------


def compared(task: str, mode: str, steps: int = 40, **options: Any) -> int:
    """Play compiled and in debug mode side by side; returns how many episodes ended."""
    settings = {"num_envs": 3, "seed": 5, "autoreset": mode, "max_episode_steps": 15, **options}
    ended = 0
    with headrace.make(task, **settings) as compiled, headrace.make(task, debug=True, **settings) as debugged:
        same(compiled.reset()[0], debugged.reset()[0])
        space = compiled.action_space
        space.seed(3)
        for _ in range(steps):
            action = np.stack([space.sample() for _ in range(3)])
            ours, theirs = compiled.step(action), debugged.step(action)
            for one, other in zip(ours[:4], theirs[:4], strict=True):
                same(one, other)
            done = ours[2] | ours[3]
            ended += int(done.sum())
            if mode == "same_step" and done.any():
                same(rows(ours[4]["final_obs"], done), rows(theirs[4]["final_obs"], done))
            for key in compiled.spec.info:
                same(ours[4][key.name], theirs[4][key.name])
    return ended


def rows(obs: Any, mask: np.ndarray) -> Any:
    return {key: array[mask] for key, array in obs.items()} if isinstance(obs, dict) else obs[mask]


TASKS = [*classic_control.TASKS, *toy_text.TASKS, *minatar.TASKS, "TagGridWorld-v0"]
PLAYED = [(task, mode) for task in TASKS for mode in ("next_step", "same_step")]


def same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        for key, array in one.items():
            same(array, other[key])
    elif one.dtype.kind == "f":
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(other, one)


# a task in one mode, and the next in the other
@pytest.mark.parametrize(("task", "mode"), rest_nightly(PLAYED, *PLAYED[::4]))
def test_debug_mode_gives_the_results_of_compiled_code(task, mode):
    assert compared(task, mode) > 0


@wp.struct
class Pair:
    a: wp.int32
    b: wp.vec3d


@wp.struct
class Sums:
    counts: wp.array2d[wp.int32]
    total: wp.array[wp.vec3d]


@wp.struct
class SumsView:
    obs: wp.array2d[wp.float64]


HALF = 0.5
OFFSET = wp.constant(wp.vec3d(1.0, 2.0, 3.0))


@wp.func
def sums_reset(state: Sums, env: int, streams: Streams):
    for i in range(3):
        state.counts[env, i] = integers(streams, env, -50, 50)
    state.total[env] = wp.vec3d()


@wp.func
def grown(v: wp.vec3d, by: wp.float64, times: int = 2):
    v[0] = v[0] + by * wp.float64(times)  # the caller's vector does not change
    return v


@wp.func
def sums_step(state: Sums, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    a = state.counts[env, 0]
    b = int(actions[row]) + 1
    pair = Pair()
    pair.a = a / b
    pair.b = OFFSET * wp.float64(a)
    other = pair
    other.a = -a // b
    counts = state.counts[env]
    counts[1] = a % b - b * (a >> 1) + (a & 12 | 3 ^ b)
    counts[2] += other.a
    v = grown(pair.b, wp.float64(b))
    w = v
    w[1] = wp.float64(HALF) + wp.float64(1.0 / 3.0) + wp.float64(0.1) - wp.float64(-0.1)
    k = int(0)
    while k < 10:
        k += 1
        if k == b:
            break
    byte = wp.uint8(a) + wp.uint8(250)
    big = wp.uint64(random_bits(streams, env)) * wp.uint64(6364136223846793005)
    turn = wp.mat33d(0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0)
    state.total[env] = turn * (w + v) - pair.b * wp.float64(wp.length(wp.vec2(1.0, 2.0)))
    state.total[env][2] = wp.float64(byte) + wp.float64(big >> wp.uint64(40)) + wp.float64(~b)
    state.total[env].x = wp.float64(a)
    state.total[env].y += wp.float64(b)
    state.total[env][1] -= wp.float64(k)
    state.total[env][0] *= wp.float64(0.5)
    state.counts[env, 1] &= 31
    state.counts[env, 2] ^= 5
    wp.atomic_add(state.counts, env, 0, k - wp.min(b, 3) + wp.where(a > 0 and b > 2, -7, 7))
    smaller = v[1] < w[1] if b > 3 else a < 0 or not b % 2
    reward = float(a) * 0.1 + float(wp.sign(a)) * wp.sin(float(b)) - wp.max(float(k), 0.5) ** 2.0
    return reward, smaller and a < -60


@wp.func
def sums_observe(state: Sums, env: int, view: SumsView, row: int):
    for i in range(3):
        view.obs[row, i] = wp.float64(state.counts[env, i])
        view.obs[row, 3 + i] = state.total[env][i]


SUMS_SEEN = gym.spaces.Box(-np.inf, np.inf, (6,), np.float64)
SUMS = KernelEnv("Sums", Sums, SumsView, sums_reset, sums_step, sums_observe, shapes={"counts": (3,)})


def test_arithmetic_in_debug_mode_follows_warp_not_python():
    headrace.register("Sums-v0", KernelTask(SUMS, SUMS_SEEN, gym.spaces.Discrete(7)), replace=True)
    assert compared("Sums-v0", "same_step", steps=200) > 0


class Way(enum.IntEnum):
    LEFT = 0
    RIGHT = 2


class Elsewhere:
    """Stands for a module of helpers, whose names are found through a dot."""

    GRAVITY = wp.constant(wp.float64(9.8))


@wp.struct
class Places:
    x: wp.array[wp.float64]
    turn: wp.array2d[wp.mat22d]
    cells: wp.array[wp.vec2i]  # a table
    was: wp.array[wp.bool]


@wp.struct
class PlacesView:
    obs: wp.array2d[wp.float64]


def times(factor):
    constant = wp.constant(factor)

    @wp.func
    def multiplied(x: wp.float64):
        return x * wp.float64(constant)

    return multiplied


thrice = times(3)


@wp.func
def more(x: wp.float64):
    return x + wp.float64(1.0)


@wp.func
def more(x: int):  # noqa: F811  (Warp's functions may have several types)
    return x + 10


@wp.func
def places_reset(state: Places, env: int, streams: Streams):
    state.x[env] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))
    for i in range(3):
        state.turn[env, i] = wp.mat22d(wp.float64(0.3), wp.float64(1.0), wp.float64(2.0), wp.float64(0.5))
    state.was[env] = False


@wp.func
def places_step(state: Places, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    a = int(actions[row])
    x = more(state.x[env]) - wp.float64(more(a)) * wp.float64(0.1)
    if a == Way.RIGHT:
        x = thrice(x) * wp.float64(0.1)
    elif a == int(Way.LEFT):
        x += Elsewhere.GRAVITY * wp.float64(0.01)
    x = x + wp.float64(wp.static(len("static"))) * wp.float64(0.01) + wp.float64(np.pi)
    turn = state.turn[env, a]
    turn[0, 1] = x
    state.turn[env, a] = turn * wp.float64(0.9)
    cell = state.cells[a]
    y = wp.float64(cell[0]) + wp.float64(cell.x) * wp.determinant(turn)
    s = wp.float64(0.0)
    for i in range(3):
        s += wp.trace(state.turn[env, i])
    z, w = wp.sin(y), wp.cos(s)
    state.x[env] = wp.clamp(z + w + min(y, s) * wp.float64(0.01), wp.float64(-5.0), wp.float64(5.0))
    state.was[env] = not state.was[env] or a != 1
    state.x[env] -= wp.float64(0.25)
    q = wp.normalize(wp.vec3d(z, w, x))
    r = wp.dot(q, wp.cross(q, wp.vec3d(wp.float64(1.0), w, z))) + wp.float64(abs(-3)) + q.y
    return wp.float32(r), bool(state.x[env] > wp.float64(4.9))


@wp.func
def places_observe(state: Places, env: int, view: PlacesView, row: int):
    view.obs[row, 0] = state.x[env]
    view.obs[row, 1] = state.turn[env, 1][0, 1]
    view.obs[row, 2] = wp.where(state.was[env], wp.float64(1.0), wp.float64(0.0))
    view.obs[row, 3] = wp.float64(state.cells.shape[0])


def test_names_types_and_tables_in_debug_mode_match_compiled_code():
    env = KernelEnv(
        "Places",
        Places,
        PlacesView,
        places_reset,
        places_step,
        places_observe,
        shapes={"turn": (3,)},
        tables={"cells": np.array([[1, 2], [3, 4], [5, 6]], np.int32)},
    )
    seen = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    headrace.register("Places-v0", KernelTask(env, seen, gym.spaces.Discrete(3)), replace=True)
    assert compared("Places-v0", "same_step", steps=100) > 0


SPEED = "view.obs[row, 1] = wp.float32(state.speed[env])"
INDEX = {
    # what is changed, what the message says, the line that it names
    "after the end": (
        ("view.obs[row, 1]", "view.obs[row, 7]"),
        r"view\.obs\[\d, 7\] is out of range.* 2 elements",
        "7]",
    ),
    "negative": (("view.obs[row, 1]", "view.obs[row, -1]"), r"view\.obs\[\d, -1\] is out of range", "-1] ="),
    "the next one": (
        ("state.x[env] + speed", "state.x[env + 1] + speed"),
        r"x\[1\] is not of .* which is 0",
        "env + 1]",
    ),
    "one before": (("state.x[env] + speed", "state.x[env - 1] + speed"), r"state\.x\[-1\] is out of range", "env - 1]"),
    "divided by zero": (
        ("\n    distance = ", "\n    zero = int(actions[row]) / (int(actions[row]) - 1)\n    distance = "),
        "1 divided by 0: compiled, this would end the process",
        "    zero =",
    ),
    "no number": (("-wp.float32(distance)", "wp.sqrt(wp.float32(-distance))"), "the reward is nan", "def step("),
    "obs no number": ((SPEED, "view.obs[row, 1] = wp.log(-1.0)"), r"view\.obs\[row, 1\] is nan", "def observe"),
    "never set": (
        ("    state.speed[env] = wp.float64(0.0)\n", ""),
        r"NotSetError: state\.speed\[0\] is read, but was never set",
        SPEED,
    ),
    "not filled": (
        (f"    {SPEED}", "    pass"),
        r"view\.obs\[row, 1\] is not set: observe must set all 2 numbers",
        "def observe",
    ),
    "endless": (("\n    distance = ", "\n    while x == x:\n        x = x\n    distance = "), "100,000", "    while x"),
    "outside": (
        ("gym.spaces.Box(-np.inf", "gym.spaces.Box(5.0"),
        r"obs\[row, 0\] is .*, outside of .*5\.0, inf",
        "def obs",
    ),
}


@pytest.mark.parametrize(("change", "told", "source"), INDEX.values(), ids=INDEX)
def test_debug_mode_reports_the_authors_line(written, change, told, source):
    task, path, lines = written(change)
    with (
        headrace.make(task, num_envs=3, seed=0, debug=True) as pool,
        pytest.raises(EnvironmentFailure, match=told) as e,
    ):
        _ = pool.reset(), pool.step([1, 1, 1])
    text = str(e.value)
    assert "environment 0: " in text
    assert place(path, lines, source).rstrip(",") in text


def test_other_environments_go_on_when_one_fails_and_it_can_be_reset(written):
    task, *_ = written(("\n    distance = ", "\n    zero = 1 / int(actions[row])\n    distance = "))
    with headrace.make(task, num_envs=3, seed=0, debug=True) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match="environment 1: ZeroDivisionError"):
            pool.step([1, 0, 2])
        pool.reset([1])
        *_, info = pool.step([1, 1, 1])
        assert info["elapsed_step"].tolist() == [2, 1, 2]


def test_a_failure_in_flight_loses_nothing(written):
    task, *_ = written(("\n    distance = ", "\n    zero = 1 / int(actions[row])\n    distance = "))
    with headrace.make(task, num_envs=4, batch_size=2, seed=0, debug=True) as pool:
        pool.async_reset()
        pool.recv()
        pool.recv()
        pool.send([0, 1, 1, 2], [3, 0, 1, 2])
        with pytest.raises(EnvironmentFailure, match="environment 3"):
            pool.recv()
        assert pool.recv()[4]["env_id"].tolist() == [3, 0]
        assert pool.recv()[4]["env_id"].tolist() == [1, 2]
        pool.send([0, 0, 0, 0], [0, 1, 2, 3])
        pool.reset()  # drops the failures in flight
        assert (pool.recv()[4]["elapsed_step"] == 0).all()


def test_debug_mode_prints_and_stops_at_breakpoints(written, capsys, monkeypatch):
    task, path, _ = written(("\n    distance = ", '\n    print(f"x is {x:.3f}")\n    breakpoint()\n    distance = '))
    stops: list[Any] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(sys._getframe(1)))
    with headrace.make(task, debug=True) as pool:
        pool.reset(seed=0)
        pool.step([2])
    assert capsys.readouterr().out.startswith("x is ")
    (frame,) = stops
    assert frame.f_code.co_filename == str(path)
    assert {"state", "env", "x", "speed"} <= set(frame.f_locals)


def test_the_variable_headrace_debug_turns_on_debug_mode(written, monkeypatch):
    task, *_ = written(("view.obs[row, 1]", "view.obs[row, 7]"))
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    with headrace.make(task) as pool, pytest.raises(EnvironmentFailure, match="out of range"):
        pool.reset()


def test_states_move_between_debug_mode_and_compiled_code():
    with headrace.make("CartPole-v1", seed=2) as compiled, headrace.make("CartPole-v1", debug=True) as debugged:
        compiled.reset()
        debugged.load_state(None, compiled.save_state())
        np.testing.assert_array_equal(compiled.step([1])[0], debugged.step([1])[0])


def test_debug_mode_is_refused_except_for_kernels_on_a_cpu():
    with pytest.raises(OptionError, match="debug"):
        headrace.make("Pong-v5", debug=True)
    with pytest.raises(OptionError, match=r"cuda|CPU"):
        headrace.make("CartPole-v1", debug=True, device="cuda")

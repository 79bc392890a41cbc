"""Writing a kernel environment: mistakes name the author's line, and debug mode finds what compiled code would not."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.envs import classic_control, minatar, toy_text
from headrace.errors import EnvironmentFailure, KernelError, OptionError, UnknownTaskError
from headrace.kernels import KernelEnv, KernelTask, Streams, integers, random_bits

EXAMPLE = (Path(__file__).parents[2] / "examples" / "kernel_environment.py").read_text().partition("if __name__")[0]
NUMBERS = itertools.count()


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """The example with some text replaced, as a file of its own; returns (task, file, lines)."""

    def write(*changes: tuple[str, str]) -> tuple[str, Path, list[str]]:
        text, name = EXAMPLE, f"Cart{next(NUMBERS)}"
        for old, new in (*changes, ("TargetCart", name)):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{name.lower()}.py"
        path.write_text(text)
        return f"{path}:{name}-v0", path, text.splitlines()

    return write


def place(path: Path, lines: list[str], source: str, nth: int = 0) -> str:
    """``file:line`` of the nth line with this text."""
    return f"{path}:{[i for i, line in enumerate(lines, 1) if source in line][nth]},"


# -- mistakes ------------------------------------------------------------------------------------

STORE = "    state.x[env] = x\n"
PUSH = "    push = wp.float64(actions[row] - wp.int64(1))"
RETURN = "    return -wp.float32(distance), distance > wp.float64(3.0)"
SPEED = "view.obs[row, 1] = wp.float32(state.speed[env])"
BODY = "\n    distance = "
MISTAKES: dict[str, tuple[tuple[str, str], str, str]] = {
    # what is changed, what the message says, the line that it names
    "missing field": ((STORE, "    state.y[env] = x\n"), "State has no field 'y'; it has x, speed, target", "state.y["),
    "near field": ((STORE, "    state.xx[env] = x\n"), "did you mean 'x'", "state.xx["),
    "undefined name": (("-wp.float32(distance)", "-wp.float32(distanse)"), "did you mean 'distance'", "distanse"),
    "mixed types": (("wp.float64(0.9) *", "0.9 *"), r"float32 and float64: write wp.float64\(…\)", "0.9 * state"),
    "too few arguments": (
        ("wp.float64(1.0))\n    state.speed", ")\n    state.speed"),
        r"uniform was called with \(Streams, int32, float64\); it is uniform\(streams: Streams, env: int32, low",
        "state.x[env] = uniform(",
    ),
    "one result": ((RETURN, "    return -wp.float32(distance)"), "must return .* returns one value", "    return -wp"),
    "no result": ((RETURN, "    pass"), "must return .* it returns nothing", "def step("),
    "reward's type": (
        (RETURN, "    return -distance, False"),
        "its reward is float64, not float32",
        "    return -dist",
    ),
    "terminated's type": ((RETURN, "    return 0.0, 1"), "its terminated is int32, not bool", "    return 0.0"),
    "undeclared view": (
        ("wp.array2d[wp.float32]\n", "wp.array2d[wp.float32]\n    more: wp.array[wp.float32]\n"),
        r"View\.more is neither observation nor info of Cart\d+-v0",
        "    more:",
    ),
    "missing view": (
        ("    obs: wp.array2d", "    seen: wp.array2d"),
        "View lacks the field 'obs', an array of",
        "class View",
    ),
    "view's type": (("obs: wp.array2d[wp.float32]", "obs: wp.array2d[wp.float64]"), "array of float32 with 2", "obs:"),
    "state's rank": (
        ("    x: wp.array[wp", "    x: wp.array2d[wp"),
        r"State\.x has 2 dimensions; it must have 1",
        "    x:",
    ),
    "missing constant": (
        ("target: wp.array[wp.float64]\n", "target: wp.array[wp.float64]\n    drag: wp.float64\n"),
        r"State\.drag is neither an option .* constants=\{'drag'",
        "    drag:",
    ),
    "index's rank": (("state.x[env] + speed", "state.x[env, 0] + speed"), "1 dimensions was indexed with 2", "env, 0]"),
    "stored type": ((SPEED, "view.obs[row, 1] = state.speed[env]"), r"float64 .* write wp.float32\(…\)", "obs[row, 1]"),
    "try": ((BODY, "\n    try:\n        x = x\n    finally:\n        x = x" + BODY), "kernels know no try", "    try:"),
    "f-string": ((BODY, '\n    print(f"{x}")' + BODY), "kernels know no f-strings", "print("),
    "array outside": ((PUSH, "    push = wp.float64(TABLE[0])"), "cannot hold: numbers come from", "TABLE[0]"),
    "unknown function": (("wp.abs(", "wp.atan3("), "neither a Warp function .* did you mean 'atan'", "atan3"),
    "type of a loop": (
        (BODY, "\n    for i in range(actions[row]):\n        x = x" + BODY),
        r"int\(…\)",
        "range(actions",
    ),
    "retyped": ((BODY, "\n    x = 1" + BODY), "x is a float64 already and cannot become a int32", "    x = 1"),
    "not marked": (("@wp.func\ndef observe", "def observe"), r"observe is not marked with @wp\.func", "def observe"),
    "too few parameters": (("view: View, row: int)", "view: View)"), "takes 3 arguments, but is called", "def observe"),
    "action's type": (("actions: wp.array[wp.int64]", "actions: wp.array[wp.int32]"), "array of int64", "def step("),
}


@pytest.mark.parametrize(("change", "told", "source"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_the_environment_the_line_and_what_to_do(written, change, told, source):
    outside = ("@wp.struct\nclass State", "TABLE = np.zeros(3)\n\n\n@wp.struct\nclass State")
    task, path, lines = written(change, outside)
    with pytest.raises(KernelError, match=told) as failure:
        headrace.make(task)
    text = str(failure.value)
    assert text.startswith(Path(path).stem.capitalize())
    assert place(path, lines, source) in text
    assert text.splitlines()[-1].strip() in [line.strip() for line in lines]
    assert isinstance(failure.value, TypeError)


def test_what_warp_said_is_kept(written):
    task, *_ = written(("-wp.float32(distance)", "-wp.float32(distanse)"))
    with pytest.raises(KernelError) as failure:
        headrace.make(task)
    assert "undefined symbol: distanse" in str(failure.value.__cause__)


def test_native_code_that_does_not_compile_is_a_kernel_error(written, capfd):
    native = '@wp.func_native("return x + ;")\ndef bad(x: wp.float64) -> wp.float64: ...\n\n\n@wp.func\ndef step'
    task, *_ = written(("@wp.func\ndef step", native), ("state.x[env] + speed", "bad(state.x[env])"))
    with pytest.raises(KernelError, match="the compiler refused"):
        headrace.make(task)
    assert "expected expression" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"constants": {"pace": 1}}, "Sums has no scalar field for the constant 'pace'"),
        ({"shapes": {"pace": (3,)}}, "Sums has no array field for the shape of 'pace'; it has counts, total"),
        ({"shapes": {"counts": ("many",)}}, r"the shape of Sums\.counts names 'many', which is no option"),
        ({"shapes": {"counts": (3, 3)}}, r"Sums\.counts has 2 dimensions; it must have 3"),
        (
            {"tables": {"counts": np.zeros(3, np.int32)}},
            r"Sums\.counts has 2 dimensions; it must have 1: as its table",
        ),
    ],
)
def test_shapes_tables_and_constants_are_compared_with_the_state(changes, told):
    parts = {"shapes": {"counts": (3,)}} | changes
    env = KernelEnv("Sums", Sums, SumsView, sums_reset, sums_step, sums_observe, **parts)
    headrace.register("Sums-v0", KernelTask(env, SUMS_SEEN, gym.spaces.Discrete(7)), replace=True)
    with pytest.raises(KernelError, match=told):
        headrace.make("Sums-v0")


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


def same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        for key, array in one.items():
            same(array, other[key])
    elif one.dtype.kind == "f":
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("task", [*classic_control.TASKS, *toy_text.TASKS, *minatar.TASKS, "TagGridWorld-v0"])
def test_debug_mode_does_what_compiled_code_does(task, mode):
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
    v[0] = v[0] + by * wp.float64(times)  # the caller's stays as it is
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


def test_arithmetic_is_warps_and_not_pythons():
    headrace.register("Sums-v0", KernelTask(SUMS, SUMS_SEEN, gym.spaces.Discrete(7)), replace=True)
    assert compared("Sums-v0", "same_step", steps=200) > 0


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
    assert {"state", "env", "x", "speed"} <= frame.f_locals.keys()


def test_an_environment_variable_asks_for_debug_mode_everywhere(written, monkeypatch):
    task, *_ = written(("view.obs[row, 1]", "view.obs[row, 7]"))
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    with headrace.make(task) as pool, pytest.raises(EnvironmentFailure, match="out of range"):
        pool.reset()


def test_states_move_between_debug_mode_and_compiled_code():
    with headrace.make("CartPole-v1", seed=2) as compiled, headrace.make("CartPole-v1", debug=True) as debugged:
        compiled.reset()
        debugged.load_state(None, compiled.save_state())
        np.testing.assert_array_equal(compiled.step([1])[0], debugged.step([1])[0])


def test_debug_mode_belongs_to_kernels_on_a_cpu():
    with pytest.raises(OptionError, match="debug"):
        headrace.make("Pong-v5", debug=True)
    with pytest.raises(OptionError, match=r"cuda|CPU"):
        headrace.make("CartPole-v1", debug=True, device="cuda")


# -- tasks in files ------------------------------------------------------------------------------


def test_a_task_is_found_by_its_file(written, monkeypatch):
    task, path, _ = written()
    with headrace.make(str(path), num_envs=2) as pool:
        assert pool.spec.task == task.rpartition(":")[2]
    with headrace.make(task, num_envs=2) as pool:
        pool.reset()
    monkeypatch.syspath_prepend(path.parent)
    other, renamed, _ = written()
    assert headrace.make_spec(f"{renamed.stem}:{other.rpartition(':')[2]}").task == other.rpartition(":")[2]


def test_what_is_not_in_a_file_is_named(written, tmp_path):
    _, path, _ = written()
    with pytest.raises(UnknownTaskError, match=rf"no task '{path}:Other-v0': say {path}:Cart\d+-v0"):
        headrace.make(f"{path}:Other-v0")
    with pytest.raises(UnknownTaskError, match="there is no file"):
        headrace.make(str(tmp_path / "none.py"))
    with pytest.raises(UnknownTaskError, match="there is no module 'nowhere'"):
        headrace.make("nowhere:Task-v0")
    empty = tmp_path / "empty_of_tasks.py"
    empty.write_text("")
    with pytest.raises(UnknownTaskError, match="registers none"):
        headrace.make(str(empty))

"""A user's environment is played in debug mode before compiled code takes its first step."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.envs import classic_control, minatar, toy_text
from headrace.errors import KernelError, OptionError
from headrace.kernels import Field, KernelEnv, KernelTask, Streams
from headrace.pool.executors.kernels.diagnostics import first_steps
from headrace.pool.executors.kernels.diagnostics.patience import tried_out
from headrace.pool.registry import build_task
from nightly import rest_nightly

BODY = "\n    distance = "
SPEED = "view.obs[row, 1] = wp.float32(state.speed[env])"
ENTRY = "(state.x[env] - state.target[env])"
TABLE = (
    ("target: wp.array[wp.float64]\n", "target: wp.array[wp.float64]\n    ice: wp.array[wp.float64]\n"),
    ("step, observe)", "step, observe, tables={'ice': np.zeros(0)})"),
)
SILENT: dict[str, tuple[tuple[tuple[str, str], ...], str, str]] = {
    # what is changed, what the message says, the line that it names
    "more columns than the space": (
        (("obs[row, 1]", "obs[row, 9]"),),
        r"view\.obs\[0, 9\] is out of range: axis 1 of view\.obs has 2 elements",
        "obs[row, 9]",
    ),
    "fewer columns than the space": (
        (("(2,), np.float32", "(7,), np.float32"),),
        r"view\.obs\[row, 2\] is not set: observe must set all 7 numbers of view\.obs\[row\]",
        "def observe(",
    ),
    "before the first row": (
        (("state.x[env] + speed", "state.x[env - 9] + speed"),),
        r"state\.x\[-9\] is out of range",
        "env - 9]",
    ),
    "past the last row": (
        (("state.x[env] + speed", "state.x[env + 9] + speed"),),
        r"state\.x\[9\] is out of range",
        "env + 9]",
    ),
    "row in the place of env": (((ENTRY, ENTRY.replace("env", "row")),), "not of this environment", "target[row]"),
    "state that reset forgets": (
        (("    state.speed[env] = wp.float64(0.0)\n", ""),),
        r"state\.speed\[0\] is read, but was never set",
        SPEED,
    ),
    "an empty table": (
        (*TABLE, (BODY, "\n    x = x + state.ice[0]" + BODY)),
        r"axis 0 of state\.ice has 0 elements",
        "state.ice[0]",
    ),
    "an integer divided by zero": (
        ((BODY, "\n    zero = int(actions[row]) / (int(actions[row]) - 1)" + BODY),),
        "divided by 0",
        "    zero =",
    ),
    "a number divided by zero": (
        (("-wp.float32(distance)", "wp.float32(distance) / wp.float32(0.0)"),),
        "the reward is inf",
        "def step(",
    ),
    "a loop without an end": (
        ((BODY, "\n    k = int(0)\n    while k < 1:\n        k = k * 2" + BODY),),
        r"this loop has gone round 100,000 times .*`for i in range",
        "    while k",
    ),
    "a text's format for a number": (
        ((BODY, '\n    wp.printf("%s", x)' + BODY),),
        r"printf\('%s'\): %s is for a text, not a number, but .* is given",
        "printf(",
    ),
}


@pytest.mark.parametrize(("changes", "told", "source"), SILENT.values(), ids=SILENT)
def test_make_reports_a_mistake_that_compiled_code_would_hide(written, changes, told, source):
    task, path, lines = written(*changes)
    with pytest.raises(KernelError, match=told) as found:
        headrace.make(task, num_envs=2)
    assert f"{path}:{next(i for i, line in enumerate(lines, 1) if source in line)}, in " in str(found.value)


def test_make_torch_reports_a_mistake_that_compiled_code_would_hide(written):
    pytest.importorskip("torch")
    task, *_ = written(("obs[row, 1]", "obs[row, 9]"))
    with pytest.raises(KernelError, match="out of range"):
        headrace.make_torch(task, 2)


def test_make_accepts_observations_outside_of_their_space(written):
    task, *_ = written(("Box(-np.inf, np.inf,", "Box(-1e-3, 1e-3,"))
    headrace.make(task).close()


def marks(cache: Path) -> int:
    return len(list((cache / "headrace" / "played").glob("*")))


def test_each_version_of_a_task_is_played_once(written, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task, path, _ = written()
    headrace.make(task, num_envs=2).close()
    headrace.make(task, num_envs=64).close()
    assert marks(tmp_path) == 1
    headrace.make(task, max_episode_steps=7).close()
    assert marks(tmp_path) == 2
    changed = path.with_name(f"changed_{path.name}")
    changed.write_text(path.read_text().replace("wp.float64(0.9)", "wp.float64(0.8)").replace("Cart", "Changed"))
    headrace.make(str(changed)).close()
    assert marks(tmp_path) == 3
    headrace.make("CartPole-v1").close()
    assert marks(tmp_path) == 3, "Headrace's own environments are not played"


def test_a_task_whose_first_steps_failed_is_played_again(written, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task, *_ = written(("obs[row, 1]", "obs[row, 9]"))
    for _ in range(2):
        with pytest.raises(KernelError, match="out of range"):
            headrace.make(task)
    assert marks(tmp_path) == 0


def test_make_works_with_a_cache_that_cannot_be_written(written, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    task, *_ = written()
    headrace.make(task).close()


def test_first_steps_of_a_task_print_nothing(written, capfd):
    task, *_ = written((BODY, '\n    print(x)\n    wp.printf("%lld %5.2f%%\\n", wp.int64(3), x)' + BODY))
    headrace.make(task).close()
    out, error = capfd.readouterr()
    assert out == ""
    assert "in debug mode" not in error


def test_printf_prints_in_debug_mode(written, capsys):
    task, *_ = written((BODY, '\n    wp.printf("%lld %5.2f%% %d|", wp.int64(3), wp.float64(0.5), x > x)' + BODY))
    with headrace.make(task, debug=True) as pool:
        _ = pool.reset(), pool.step([1])
    assert capsys.readouterr().out == "3  0.50% 0|"


def test_first_steps_stop_when_their_time_is_up(written, monkeypatch):
    task, *_ = written((BODY, "\n    for i in range(3):\n        x = x + state.x[env + i]" + BODY))
    monkeypatch.setattr(first_steps, "MOST_SECONDS", 0.0)
    headrace.make(task).close()


def test_make_reports_a_mistake_in_a_program_that_registers_its_own_task(written, tmp_path):
    _, path, lines = written(("obs[row, 1]", "obs[row, 9]"))
    name = f"{path.stem.capitalize()}-v0"
    program = tmp_path / "program.py"
    program.write_text(path.read_text() + f"\nheadrace.make('{name}', num_envs=100)\nprint('made')\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    line = next(i for i, text in enumerate(lines, 1) if "obs[row, 9]" in text)
    assert f"{program}:{line}, in observe" in done.stderr


@wp.struct
class Doors:
    left: wp.array[wp.int32]
    prizes: wp.array[wp.float32]  # a table


@wp.struct
class DoorsView:
    obs: wp.array2d[wp.float32]
    action_mask: wp.array2d[wp.bool]


@wp.func
def close_none(state: Doors, env: int, streams: Streams):
    state.left[env] = 3


@wp.func
def go_through(state: Doors, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    state.left[env] = state.left[env] - 1
    return state.prizes[int(actions[row])], state.left[env] == 0


@wp.func
def look(state: Doors, env: int, view: DoorsView, row: int):
    view.obs[row, 0] = wp.float32(state.left[env])
    for i in range(4):
        view.action_mask[row, i] = i < state.left[env]


@wp.func_native("return x + 1;")
def one_more(x: int) -> int: ...


@wp.func
def go_natively(state: Doors, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    return state.prizes[0], one_more(0) == 1


SEEN = gym.spaces.Box(0, 3, (1,), np.float32)
MASK = Field("action_mask", np.dtype(np.bool_), (4,))
DOORS = KernelEnv("Doors", Doors, DoorsView, close_none, go_through, look, tables={"prizes": np.ones(3, np.float32)})


def test_first_steps_take_only_actions_that_the_mask_allows():
    """The fourth door has no prize, and is never open."""
    headrace.register("Doors-v0", KernelTask(DOORS, SEEN, gym.spaces.Discrete(4), info=(MASK,)), replace=True)
    headrace.make("Doors-v0").close()
    unmasked = replace(DOORS, name="OpenDoors", tables={"prizes": np.ones(2, np.float32)})
    headrace.register("OpenDoors-v0", KernelTask(unmasked, SEEN, gym.spaces.Discrete(4), info=(MASK,)), replace=True)
    with pytest.raises(KernelError, match=r"state\.prizes\[2\] is out of range"):
        headrace.make("OpenDoors-v0")


def test_a_task_that_debug_mode_cannot_run_is_made():
    native = replace(DOORS, name="NativeDoors", step=go_natively)
    headrace.register("NativeDoors-v0", KernelTask(native, SEEN, gym.spaces.Discrete(4), info=(MASK,)), replace=True)
    headrace.make("NativeDoors-v0").close()


OWN = [*classic_control.TASKS, *toy_text.TASKS, *minatar.TASKS, "TagGridWorld-v0"]


@pytest.mark.parametrize("task", rest_nightly(OWN, *OWN[::7]))
def test_headraces_own_environments_pass_the_first_steps(task: str):
    built: Any = build_task(task)
    with tried_out(1000.0):
        first_steps._play(built.kernel, built.spec)


def test_a_negative_max_episode_steps_is_refused_by_name(written):
    task, *_ = written(("max_episode_steps=100", "max_episode_steps=-5"))
    with pytest.raises(OptionError, match=r"max_episode_steps of Cart\d+-v0 must be an integer of at least 0, not -5"):
        headrace.make(task)
    with pytest.raises(OptionError, match=r"max_episode_steps of Mine-v0 must be .* not -1"):
        headrace.TaskSpec("Mine-v0", SEEN, gym.spaces.Discrete(2), max_episode_steps=-1)

"""Writing a kernel environment: mistakes name the author's line, and a task is found by its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.envs.classic_control import cartpole
from headrace.errors import KernelError, OptionError, UnknownTaskError
from headrace.kernels import Field, Option, decimal


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
    "a path without": (
        (RETURN, "    if x > wp.float64(0.0):\n        return wp.float32(1.0), False"),
        "must return .* here it can come to its end without",
        "    if x > ",
    ),
    "a condition read twice": (
        (STORE, "    if state.x[env]:\n        state.x[env] = x\n    else:\n        state.x[env] = -x\n"),
        r"Warp reads state\.x\[env\] again before the else, after it was set: write `now = state\.x\[env\]`",
        "    if state.x[env]",
    ),
    "field as a whole": (
        (STORE, "    state.x = x\n"),
        r"state\.x is set as a whole, which changes nothing",
        "state.x = x",
    ),
    "no result": ((RETURN, "    pass"), "must return .* without", "    pass"),
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
    "float index": (
        ("obs[row, 1]", "obs[row, 1.0]"),
        r"integers, not \(int32, float32\): write int\(…\)",
        "obs[row, 1.0]",
    ),
    "constant in a loop": (
        (BODY, "\n    left = 0.0\n    for i in range(int(actions[row])):\n        left += 1.0" + BODY),
        r"left begins as a literal or a constant .*int\(0\), float\(0.0\) or wp.float64\(0.0\)",
        "left += 1.0",
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


@pytest.mark.parametrize(("kind", "value"), [("int32", "1.5"), ("float64", "'fast'"), ("bool", "None")])
def test_a_constant_of_another_type_is_named(written, kind, value):
    field, constants = f"    hard: wp.{kind}\n    x: wp.array", f"step, observe, constants={{'hard': {value}}})"
    task, path, lines = written(("    x: wp.array", field), ("step, observe)", constants))
    with pytest.raises(KernelError, match=rf"State\.hard is {kind}, not {value}") as failure:
        headrace.make(task)
    assert place(path, lines, "    hard:") in str(failure.value)


@pytest.mark.parametrize(("name", "function"), [("State", "reset"), ("View", "observe")])
def test_a_class_without_the_struct_decorator_is_named(written, monkeypatch, name, function):
    task, path, lines = written((f"@wp.struct\nclass {name}", f"class {name}"))
    monkeypatch.syspath_prepend(path.parent)
    for of in (task, f"{path.stem}:{task.rpartition(':')[2]}"):
        with pytest.raises(
            KernelError, match=f"{name} is no warp.struct.*: write @wp.struct above its class"
        ) as failure:
            headrace.make(of)
        line = int(str(failure.value).rpartition(f"{path}:")[2].partition(",")[0])
        assert f"def {function}(" in "".join(lines[line - 1 : line + 1])


def test_an_exception_while_importing_a_file_is_shown_with_its_traceback(written):
    task, path, lines = written(("@wp.struct\nclass State", "raise RuntimeError('mine')\n\n\n@wp.struct\nclass State"))
    with pytest.raises(OptionError) as failure:
        headrace.make(task)
    line = lines.index("raise RuntimeError('mine')") + 1
    assert str(failure.value).splitlines() == [
        f"{path} cannot be imported:",
        "Traceback (most recent call last):",
        f'  File "{path}", line {line}, in <module>',
        "    raise RuntimeError('mine')",
        "RuntimeError: mine",
    ]
    assert isinstance(failure.value.__context__, RuntimeError)
    assert failure.value.__suppress_context__, "its traceback would be shown with the lines of the import"


def test_headraces_own_errors_in_a_file_are_passed_on(tmp_path):
    (tmp_path / "twice.py").write_text("import headrace\nheadrace.register('CartPole-v1', print)\n")
    with pytest.raises(OptionError, match=r"^there is a task 'CartPole-v1' already"):
        headrace.make(str(tmp_path / "twice.py"))


@pytest.mark.parametrize("field", ["state", "view"])
def test_a_state_or_view_that_is_no_warp_struct_is_refused_by_name(field):
    broken = replace(cartpole.TASKS["CartPole-v1"], env=replace(cartpole.ENV, **{field: Path}))
    headrace.register("BrokenPole-v0", broken, replace=True)
    with pytest.raises(KernelError, match=r"Path is no warp\.struct: write @wp.struct above its class"):
        headrace.make("BrokenPole-v0")


def test_a_kernel_error_keeps_warps_message_as_its_cause(written):
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
        ({"constants": {"pace": 1}}, "State has no scalar field for the constant 'pace'; it has sutton_barto_reward"),
        ({"shapes": {"pace": (3,)}}, "State has no array field for the shape of 'pace'; it has x, x_dot"),
        ({"shapes": {"x": ("many",)}}, r"the shape of State\.x names 'many', which is no option"),
        ({"shapes": {"x": (3,)}}, r"State\.x has 1 dimensions; it must have 2"),
        ({"tables": {"x": np.zeros((3, 3))}}, r"State\.x has 1 dimensions; it must have 2: as its table has"),
        (
            {"tables": {"x": np.zeros(3)}, "bounds": {}},
            r"state\.x is a table, which all environments share and none may write",
        ),
        ({"name": "cart-pole"}, "must be an identifier, not 'cart-pole'"),
    ],
)
def test_shapes_tables_and_constants_that_do_not_fit_the_state_are_refused(changes, told):
    broken = replace(cartpole.TASKS["CartPole-v1"], env=replace(cartpole.ENV, **changes))
    headrace.register("BrokenPole-v0", broken, replace=True)
    with pytest.raises(KernelError, match=told):
        headrace.make("BrokenPole-v0")


@pytest.mark.parametrize(
    ("info", "told"),
    [(name, f"an info field cannot be called '{name}'") for name in ("env_id", "reward", "obs")],
)
def test_an_info_field_with_the_name_of_a_batch_field_is_refused(info, told):
    task = replace(cartpole.TASKS["CartPole-v1"], info=(Field(info, np.dtype(np.float32)),))
    headrace.register("BrokenPole-v0", task, replace=True)
    with pytest.raises(KernelError, match=told):
        headrace.make("BrokenPole-v0")


# -- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [(None,), ([],), ("slow",), ("slow", 0, None, ("fast",)), (-1,), (3, 0, 2), (np.float64(0.5),), (np.nan,)]
)
def test_an_option_refuses_an_invalid_default(wrong):
    with pytest.raises(KernelError, match="an option's default must be"):
        Option(*wrong)


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        (Option(2, high=9), [0, 9, np.int64(3)], [-1, 10, 2.0, True, "2", None, 10**400]),
        (decimal(0.5), [-3, 1e300, np.float32(2.0)], [np.nan, np.inf, -np.inf, 10**400, -(10**400), True, "1"]),
        (Option(0.5, high=np.inf), [3.0], [np.inf, np.float32(np.inf)]),
        (Option(True), [False, np.bool_(True)], [1, "yes", None]),
        (Option("slow", choices=("slow", "fast")), ["fast"], ["quick", 1, None]),
    ],
)
def test_an_option_converts_good_values_and_refuses_bad_ones(option, good, bad):
    for value in good:
        assert type(option.convert("Task-v0", "pace", value)) is type(option.default)
        assert option.convert("Task-v0", "pace", value) == value
    for value in bad:
        with pytest.raises(OptionError, match="pace of Task-v0 must be "):
            option.convert("Task-v0", "pace", value)


# -- tasks in files ------------------------------------------------------------------------------


def test_a_task_is_found_by_its_file_or_module(written, monkeypatch):
    task, path, _ = written()
    with headrace.make(str(path), num_envs=2) as pool:
        assert pool.spec.task == task.rpartition(":")[2]
    with headrace.make(task, num_envs=2) as pool:
        pool.reset()
    monkeypatch.syspath_prepend(path.parent)
    other, renamed, _ = written()
    assert headrace.make_spec(f"{renamed.stem}:{other.rpartition(':')[2]}").task == other.rpartition(":")[2]


def test_a_missing_task_file_or_module_is_named(written, tmp_path):
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

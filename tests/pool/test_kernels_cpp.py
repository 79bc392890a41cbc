"""C++ functions of kernels: headers become Warp code, and the functions' Python bodies have the same results."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import importlib.util
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp

import headrace
from headrace.envs.boards import chess
from headrace.envs.craftax import classic, mobs, world
from headrace.envs.minatar import common
from headrace.envs.minigrid import pixels, sight
from headrace.envs.minigrid.world import VALID, WALL, State, looks, spread
from headrace.pool.executors.kernels.build import program_of
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.launch import fingerprint, load, quiet
from headrace.pool.registry import build_task

SOURCE = Path(headrace.__file__).parent
RNG = np.random.default_rng(0)


def python_body(function: Any) -> Any:
    """Returns the Python body of a C++ function as a Warp function of its own."""
    source = function.func
    twin = types.FunctionType(source.__code__, source.__globals__, f"plain_{source.__name__}", None, source.__closure__)
    twin.__annotations__, twin.__qualname__, twin.__module__ = source.__annotations__, twin.__name__, __name__
    return wp.func(twin)


def on_host(values: np.ndarray, kind: Any) -> Any:
    numbers = values.astype(wp.dtype_to_numpy(getattr(kind, "_wp_scalar_type_", kind)))
    return wp.array(numbers, dtype=kind, device="cpu")


def both(run: Any, function: Any) -> tuple[Any, Any]:
    return run(function), run(python_body(function))


def stamped(stamp: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(gradients: wp.array2d[wp.vec2f], cells: wp.array3d[wp.uint8]):
        env = wp.tid()
        odd = env % 2
        rows, columns = wp.where(odd == 1, 8, 16), wp.where(odd == 1, 2, 16)
        stamp(gradients, cells, env, rows, columns, 0.05 * float(odd), odd == 0, world.ROCK_LEVELS, 4 * odd)

    angles = np.random.default_rng(1).uniform(0, 2 * np.pi, (4, 9 * 33))
    gradients = on_host(np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32), wp.vec2f)
    cells = wp.zeros((4, 64, 64), wp.uint8, "cpu")
    wp.launch(kernel, 4, [gradients, cells], device="cpu")
    return cells.numpy()


def laid(lay_blocks: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(cells: wp.array3d[wp.uint8]):
        env = wp.tid()
        lay_blocks(cells, env, wp.uint64(env) * wp.uint64(0x123456789ABCDEF), 636)

    cells = on_host(np.random.default_rng(1).integers(0, 128, (4, 64, 64)), wp.uint8)
    wp.launch(kernel, 4, [cells], device="cpu")
    return cells.numpy()


def shown(show_blocks: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(obs: wp.array2d[wp.float32], cells: wp.array3d[wp.uint8], corners: wp.array[wp.vec2i]):
        row = wp.tid()
        show_blocks(obs, row, cells, row % 2, corners[row][0], corners[row][1])

    rng = np.random.default_rng(1)
    cells, corners = (
        rng.integers(0, 17, (2, 64, 64)) + 32 * rng.integers(0, 2, (2, 64, 64)),
        rng.integers(-9, 64, (99, 2)),
    )
    obs = wp.full((99, int(classic.SIZE_OF_VIEW)), 7.0, wp.float32, "cpu")
    wp.launch(kernel, 99, [obs, on_host(cells, wp.uint8), on_host(corners, wp.vec2i)], device="cpu")
    return obs.numpy()


def found(find_place: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(
        cells: wp.array3d[wp.uint8], places: wp.array[wp.vec2i], bits: wp.array[wp.uint64], at: wp.array[wp.int32]
    ):
        i = wp.tid()
        at[i] = find_place(cells, i % 3, places[i][0], places[i][1], 2, 7, 3 + 6 * (i % 2), bits[i])

    rng = np.random.default_rng(1)
    there = rng.random((3, 64, 64)) < np.array([0.5, 0.003, 0.0])[:, None, None]
    cells = on_host(np.where(there, rng.choice([2, 7], (3, 64, 64)), 3), wp.uint8)
    places, bits = rng.integers(0, 64, (600, 2)), rng.integers(0, 1 << 64, 600, np.uint64)
    at = wp.zeros(600, wp.int32, "cpu")
    wp.launch(kernel, 600, [cells, on_host(places, wp.vec2i), on_host(bits, wp.uint64), at], device="cpu")
    assert (at.numpy() >= 0).any()
    assert (at.numpy() < 0).any()
    return at.numpy()


def row_shown(show_row: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(screen: wp.array3d[wp.uint8]):
        bits = wp.tid()
        show_row(screen, bits / 10, bits % 10, bits)

    screen = wp.full((103, 10, 10), 9, wp.uint8, "cpu")
    wp.launch(kernel, 1 << 10, [screen], device="cpu")
    return screen.numpy()


def filled(fill: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(cells: wp.array4d[wp.uint8], bits: wp.array[wp.uint64]):
        plane = wp.tid()
        fill(cells, 1, 1, plane, bits[plane])

    cells = wp.full((2, 2, 50, 64), 9, wp.uint8, "cpu")
    bits = on_host(np.random.default_rng(1).integers(0, 1 << 64, 50, np.uint64), wp.uint64)
    wp.launch(kernel, 50, [cells, bits], device="cpu")
    return cells.numpy()


def cleared(clear: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(mask: wp.array3d[wp.bool]):
        clear(mask, 1, 0)

    mask = wp.ones((2, 2, 77), wp.bool, "cpu")
    wp.launch(kernel, 1, [mask], device="cpu")
    return mask.numpy()


def viewed(show_view: Any) -> np.ndarray:
    @wp.kernel(enable_backward=False, module="unique")
    def kernel(state: State, image: wp.array4d[wp.uint8]):
        env = wp.tid()
        show_view(state, env, image[env])

    images = []
    for width, height, see_through in [(3, 3, False), (6, 9, False), (13, 8, True), (25, 25, False)]:
        rng, n = np.random.default_rng(width), 200
        known = sorted(VALID)
        state = State()
        state.width, state.height, state.see_through = width, height, see_through
        state.cells = on_host(
            rng.choice(np.array([*known, *[int(WALL)] * 9, *[1] * len(known)]), (n, width * height)), wp.uint8
        )
        state.x, state.y = on_host(rng.integers(0, width, n), wp.int32), on_host(rng.integers(0, height, n), wp.int32)
        state.direction = on_host(rng.integers(0, 4, n), wp.int32)
        state.carrying = on_host(rng.choice(known, n), wp.int32)
        state.looks, state.spread = on_host(looks(), wp.int32), on_host(spread(), wp.uint8)
        image = wp.full((n, 7, 7, 3), 9, wp.uint8, "cpu")
        wp.launch(kernel, n, [state, image], device="cpu")
        images.append(image.numpy())
    return np.stack(images)


def tiled(put_tile: Any) -> np.ndarray:
    """A picture of five by six cells, alone or in a row after four numbers, with tiles of eight or of five pixels."""
    in_row = "row" in str(put_tile.key)
    kind = wp.array2d[wp.uint8] if in_row else wp.array4d[wp.uint8]
    pictures = []
    for side in (8, 5):

        @wp.kernel(enable_backward=False, module="unique")
        def kernel(picture: kind, tiles: wp.array4d[wp.uint8]):  # type: ignore[valid-type]
            cell = wp.tid()
            put_tile(picture[1], 4 if in_row else 0, cell % 5, cell / 5, 5, 6, tiles, cell)

        size = 3 * 30 * side * side
        shape = (3, 4 + size) if in_row else (3, 3, 6 * side, 5 * side)
        picture = wp.full(shape, 9, wp.uint8, "cpu")
        drawn = np.random.default_rng(1).integers(0, 256, (30, 3, side, side))
        wp.launch(kernel, 30, [picture, on_host(drawn, wp.uint8)], device="cpu")
        whole = picture.numpy().reshape(3, -1)
        assert (whole[[0, 2]] == 9).all() and (whole[1, : whole.shape[1] - size] == 9).all()
        assert (np.bincount(whole[1, -size:], minlength=256) == np.bincount(drawn.ravel(), minlength=256)).all()
        pictures.append(whole[1, -size:])
    return np.concatenate(pictures)


TWINS = {
    "stamp": (stamped, world.stamp),
    "lay_blocks": (laid, world.lay_blocks),
    "show_blocks": (shown, classic.show_blocks),
    "find_place": (found, mobs.find_place),
    "show_row": (row_shown, common.show_row),
    "fill": (filled, chess.fill),
    "clear": (cleared, chess.clear),
    "show_view": (viewed, sight.show_view),
    "put_tile": (tiled, pixels.put_tile),
    "put_tile_in_row": (tiled, pixels.put_tile_in_row),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_cpp_function_and_its_python_body_have_the_same_results(name):
    in_cpp, in_python = both(*TWINS[name])
    np.testing.assert_array_equal(in_cpp, in_python)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("MinAtar-Breakout-v1", {}),
        ("MiniGrid-DoorKey-8x8-v0", {}),
        ("MiniGrid-DoorKey-8x8-v0", {"from_pixels": True}),
        ("Craftax-Classic-Symbolic-v1", {}),
        ("Chess-v1", {}),
    ],
)
def test_tasks_with_cpp_compile_for_cuda(task, options, tmp_path):
    built = build_task(task, **options)
    env = built.kernel({}) if callable(built.kernel) else built.kernel
    program = program_of(env, built.spec, "cuda:0")
    program.kernel.module.options["block_dim"] = program.block_dim
    with quiet():
        wp.compile_aot_module(program.kernel.module, device=None, arch=90, module_dir=tmp_path, use_ptx=True)
    (file,) = tmp_path.glob("*.ptx")
    assert ".entry" in file.read_text(errors="replace")


def test_a_changed_header_changes_the_fingerprint_of_its_kernel(tmp_path):
    hashes = []
    for number, body in enumerate(["return x + 1;", "return x + 2;", "return x + 1;"]):
        source = tmp_path / str(number) / "one.py"
        source.parent.mkdir()
        source.write_text(
            "import warp as wp\nfrom headrace.pool.executors.kernels.cpp import cpp\n\n"
            '@wp.func_native(cpp(__file__, "more"))\ndef more(x: int) -> int: ...\n\n'
            '@wp.kernel(enable_backward=False, module="unique")\n'
            "def kernel(out: wp.array[wp.int32]):\n    out[0] = more(3)\n"
        )
        source.with_suffix(".h").write_text(f"inline int more(int x) {{\n  {body}\n}}\n")
        spec = importlib.util.spec_from_file_location(f"one_{number}", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        load(module.kernel, "cpu", 1, "a test")
        hashes.append(fingerprint(module.kernel, 1))
    assert hashes[0] == hashes[2] != hashes[1]


def test_cpp_puts_the_types_of_a_header_before_the_function_body(tmp_path):
    (tmp_path / "one.h").write_text(
        "#pragma once\n\nnamespace own {\n\nenum { A, B };\n\nstruct Pair {\n  int a;\n};\n\n"
        "inline int first(int x) {\n  return x;\n}\n\ntemplate <class T>\ninline int second(\n    T x, int y) {\n"
        "  if (y) {\n    return 1;\n  }\n  return B;\n}\n\n}  // namespace own\n"
    )
    body = "enum { A, B };\nstruct Pair {\n  int a;\n};\n  if (y) {\n    return 1;\n  }\n  return B;\n"
    assert cpp(str(tmp_path / "one.py"), "second") == "\n" + body
    with pytest.raises(LookupError, match=r"one\.h: no function third"):
        cpp(str(tmp_path / "one.py"), "third")


def test_native_functions_take_their_code_from_headers():
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    natives = {path: re.findall(r"func_native\((.*)", text) for path, text in texts.items() if "func_native(" in text}
    assert len(natives) >= 9
    for path, calls in natives.items():
        assert all(call.startswith("cpp(__file__, ") for call in calls), path
        assert path.with_suffix(".h").is_file(), path

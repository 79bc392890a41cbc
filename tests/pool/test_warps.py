"""Memory accesses of whole warps: their CUDA code runs with fibers as threads, and compiles to warp instructions."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import re
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from headrace.pool.executors.kernels import warps
from headrace.pool.executors.kernels.build import program_of
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.launch import quiet
from headrace.pool.registry import build_task
from nightly import rest_nightly

BLOCK = 64  # two warps
COUNT = 3  # numbers of a `wp.vec3f`
# CUDA's functions over fibers, which take turns at WP_TILE_SYNC alone; fibers that are not active call it as often
STAND_INS = """
    const struct { unsigned x; } threadIdx = { unsigned(WP_TILE_THREAD_IDX) };
    static unsigned long long said[WP_TILE_BLOCK_DIM];
    const unsigned warp_of = threadIdx.x & ~31u, among = threadIdx.x < 32 ? low : high;
    auto __activemask = [&] { return among; };
    auto __popc = [](unsigned x) { return unsigned(__builtin_popcount(x)); };
    auto __clz = [](unsigned x) { return unsigned(__builtin_clz(x)); };
    auto __ffs = [](unsigned x) { return unsigned(__builtin_ffs(x)); };
    auto __syncwarp = [](unsigned) { WP_TILE_SYNC(); };
    auto __match_any_sync = [&](unsigned, unsigned long long mine) {
        said[threadIdx.x] = mine;
        WP_TILE_SYNC();
        unsigned same = 0;
        for (unsigned n = 0; n < 32; ++n) same |= unsigned(among >> n & 1 && said[warp_of + n] == mine) << n;
        WP_TILE_SYNC();
        return same;
    };
    auto __reduce_min_sync = [&](unsigned same, int mine) {
        said[threadIdx.x] = mine;
        WP_TILE_SYNC();
        for (unsigned n = 0; n < 32; ++n) if (same >> n & 1) mine = wp::min(mine, (int)said[warp_of + n]);
        WP_TILE_SYNC();
        return mine;
    };
    auto atomicMin = [&](int* place, int value) { *place = wp::min(*place, value); called.data[0] += 1; };
"""


def cuda_code(snippet: str) -> str:
    """The part of a snippet that is for CUDA, over the stand-ins."""
    found = re.search(r"(.*?)#if defined\(__CUDA_ARCH__\).*?\n(.*?)#else", snippet, re.DOTALL)
    assert found
    return STAND_INS + found[1] + found[2].replace("__shared__", "static")


@wp.func_native(cuda_code(cpp(warps.__file__, "warp_atomic_min")))
def lower_by_warp(array: wp.array[wp.int32], at: int, value: int, low: int, high: int, called: wp.array[wp.int32]): ...


@wp.func_native(cuda_code(cpp(warps.__file__, "coalesced_store")))
def store_by_warp(
    array: wp.array3d[wp.float32],
    i: int,
    j: int,
    k: int,
    numbers: wp.vec3f,
    low: int,
    high: int,
    called: wp.array[wp.int32],
): ...


@wp.func_native("for (int n = 0; n < times; ++n) WP_TILE_SYNC();")
def wait(times: int): ...


@wp.kernel(enable_backward=False, module="unique")
def lower_all(out: wp.array[wp.int32], values: wp.array[wp.int32], low: int, high: int, called: wp.array[wp.int32]):
    thread = wp.tid()
    if (wp.where(thread < 32, low, high) >> (thread & 31)) & 1:
        lower_by_warp(out, thread / 48, values[thread], low, high, called)
    else:
        wait(4)


@wp.kernel(enable_backward=False, module="unique")
def store_all(out: wp.array3d[wp.float32], low: int, high: int, called: wp.array[wp.int32]):
    thread = wp.tid()
    if (wp.where(thread < 32, low, high) >> (thread & 31)) & 1:
        for k in range(2):  # twice, through the same shared memory
            first = float(10 * thread + 5 * k)
            at = 1 + k * COUNT
            store_by_warp(out, thread / 8, thread % 8, at, wp.vec3f(first, first + 1.0, first + 2.0), low, high, called)
    else:
        wait(4)


MASKS = [(-1, -1), (0x7F, -1), (0x1F1F1F1F, 0x1F), (-0x80000000, 1), (0x55555555, 0), (0, 0x00FFF000)]


def active(masks: tuple[int, int]) -> np.ndarray:
    return np.array([masks[thread // 32] >> thread % 32 & 1 for thread in range(BLOCK)], bool)


@pytest.mark.parametrize("masks", MASKS)
def test_an_atomic_minimum_is_called_once_per_warp_and_address(masks, monkeypatch):
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    values = np.random.default_rng(0).integers(-1000, 1000, BLOCK).astype(np.int32)
    out, called = wp.full(2, 5000, wp.int32, "cpu"), wp.zeros(1, wp.int32, "cpu")
    inputs = [out, wp.array(values, wp.int32, device="cpu"), *masks, called]
    with quiet():
        wp.launch(lower_all, BLOCK, inputs, device="cpu", block_dim=BLOCK)
    want, at, acts = np.full(2, 5000), np.arange(BLOCK) // 48, active(masks)
    np.minimum.at(want, at[acts], values[acts])
    np.testing.assert_array_equal(out.numpy(), want)
    groups = set(zip((np.arange(BLOCK) // 32)[acts].tolist(), at[acts].tolist(), strict=True))
    assert called.numpy()[0] == len(groups)


@pytest.mark.parametrize("masks", MASKS)
def test_a_warp_stores_the_numbers_of_its_active_threads_and_no_others(masks, monkeypatch):
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    out, called = wp.full((8, 8, 8), -1.0, wp.float32, "cpu"), wp.zeros(1, wp.int32, "cpu")
    with quiet():
        wp.launch(store_all, BLOCK, [out, *masks, called], device="cpu", block_dim=BLOCK)
    want = np.full((BLOCK, 8), -1.0)
    for thread in np.flatnonzero(active(masks)):
        want[thread, 1:7] = 10 * thread + np.array([0, 1, 2, 5, 6, 7])
    np.testing.assert_array_equal(out.numpy().reshape(BLOCK, 8), want)


@pytest.mark.parametrize("task", rest_nightly(["TagGridWorld-v0", "TagContinuous-v0"], "TagGridWorld-v0"))
def test_tag_environments_compile_to_warp_instructions_for_cuda(task, tmp_path):
    built = build_task(task)
    program = program_of(built.kernel, built.spec, "cuda:0")
    program.kernel.module.options["block_dim"] = program.block_dim
    with quiet():
        wp.compile_aot_module(program.kernel.module, device=None, arch=90, module_dir=tmp_path, use_ptx=True)
    (file,) = Path(tmp_path).glob("*.ptx")
    ptx = file.read_text(errors="replace")
    if task == "TagGridWorld-v0":
        lowest = re.findall(r"redux\.sync\.min\.s32\s+(%r\d+),", ptx)
        assert lowest and re.findall(r"atom\.global\.min\.s32\s+%r\d+, \[%rd\d+\], (%r\d+);", ptx) == lowest
    assert "st.shared.f32" in ptx

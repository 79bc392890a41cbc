"""Multi-agent results do not depend on the number of threads for each environment; programs compile for CUDA."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from pathlib import Path

import pytest
import warp as wp
from multi_agent_plays import HUNT, MODES, RING, assert_equal, in_parts, play

import headrace
import headrace.testing
import multi_agent_games as games
from headrace.pool.executors.kernels import build, executor
from headrace.pool.executors.kernels.agents import block_for, lanes_for
from headrace.pool.executors.kernels.build import program_of
from headrace.pool.executors.kernels.launch import load, quiet
from nightly import rest_nightly

COUNTS = {1: (1, 256), 2: (2, 256), 5: (8, 256), 32: (32, 256), 33: (64, 64), 500: (256, 256), 5000: (256, 256)}


def test_the_number_of_agents_determines_the_lanes_and_the_block_size():
    for agents, (lanes, block) in COUNTS.items():
        assert lanes_for(agents, "cuda:0") == lanes
        assert block_for(lanes, "cuda:0") == block
        assert block % lanes == 0, "an environment may not straddle two blocks"
        assert lanes <= 32 or block == lanes, "environments that share a block may not share its barrier"
        assert lanes_for(agents, "cpu") == block_for(1, "cpu") == 1
        spec = headrace.make_spec(RING, players=min(agents, 4096))
        program = program_of(games.RING, spec, "cuda:1")
        assert (program.lanes, program.block_dim) == (lanes, block)


@pytest.fixture
def not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the interpreted first steps, which have one lane, for programs that are given more."""
    monkeypatch.setattr(executor, "load_and_try", lambda env, spec, p, device: load(p.kernel, device, p.block_dim, ""))


@pytest.mark.usefixtures("not_tried")
@pytest.mark.parametrize("players", [1, 5, 33, 70])
@pytest.mark.parametrize("lanes", rest_nightly([1, 2, 8, 32, 64], 8))
def test_results_do_not_depend_on_the_number_of_lanes(lanes, players, monkeypatch):
    """Lanes are fibers here, which take turns only at barriers."""
    alone = [play(RING, steps=25, players=players, n=3, autoreset=mode) for mode in MODES]
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    monkeypatch.setattr(build, "lanes_for", lambda agents, device: lanes)
    for mode, want in zip(MODES, alone, strict=True):
        assert_equal(want, play(RING, steps=25, players=players, n=3, autoreset=mode))


@pytest.mark.usefixtures("not_tried")
@pytest.mark.parametrize("lanes", [4, 64])
def test_results_of_several_agent_types_do_not_depend_on_the_number_of_lanes(lanes, monkeypatch):
    alone = play(HUNT, steps=25, n=3, order=in_parts)
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    monkeypatch.setattr(build, "lanes_for", lambda agents, device: lanes)
    assert_equal(alone, play(HUNT, steps=25, n=3, order=in_parts))


@pytest.mark.parametrize("agents", rest_nightly([1, 5, 32, 33, 1000, "two types"], 5, 33, "two types"))
def test_multi_agent_programs_compile_for_cuda(agents, tmp_path):
    if agents == "two types":
        program = program_of(games.HUNT, headrace.make_spec(HUNT), "cuda:0")
    else:
        program = program_of(games.RING, headrace.make_spec(RING, players=agents), "cuda:0")
    program.kernel.module.options["block_dim"] = program.block_dim
    with quiet():
        wp.compile_aot_module(program.kernel.module, device=None, arch=90, module_dir=tmp_path, use_ptx=True)
    (file,) = Path(tmp_path).glob("*.ptx")
    ptx = file.read_text()
    assert f".maxntid {program.block_dim}" in ptx  # else a large block might want more registers than there are
    assert "bar.warp.sync" in ptx
    assert "bar.sync" in ptx or "barrier.sync" in ptx

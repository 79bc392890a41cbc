"""The benchmarks for GPUs run on a CPU too, in sizes that take a moment: what they draw, count and record.

And the pages say what the results do, the catalogue has every script, and what the README shows runs.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent

pytest.importorskip("torch", reason="torch is not installed")
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks")
    gpu_common: Any = importlib.import_module("gpu_common")
    gpu_tag: Any = importlib.import_module("gpu_tag")
    catalog: Any = importlib.import_module("catalog")
    run_all: Any = importlib.import_module("run_all")
    crazyflie_rltools: Any = importlib.import_module("crazyflie_rltools")
BENCHMARKS = ROOT / "benchmarks"


def run(script: str, out: Path, *sizes: str) -> tuple[str, dict[str, Any]]:
    """What a benchmark printed, and its record."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), "--device", "cpu", "--quick"]
    done = subprocess.run(
        [*command, "--out", str(out), *sizes], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = out.glob(f"{script}_*.json")
    return done.stdout, json.loads(path.read_text())


def check_cases(record: dict[str, Any], sizes: list[tuple[int, int]]) -> None:
    assert record["machine"]["device"]
    assert record["machine"]["packages"]["warp-lang"]
    assert [(case["environments"], case["agents"]) for case in record["cases"]] == sizes
    for case in record["cases"]:
        assert len(case["rates"]) == record["settings"]["repeats"] == 2
        assert case["agent_steps"] == case["median"] * case["agents"] > 0
        share = case["median"] * case["bytes_a_step"] / record["copy_bytes_a_second"]
        assert case["of_copy_bandwidth"] == pytest.approx(share, abs=1e-4)


def test_a_gpu_pool_of_cartpole_is_measured_with_its_bytes_a_step(tmp_path: Path) -> None:
    printed, record = run("gpu_pool", tmp_path, "--sizes", "3", "20")
    check_cases(record, [(3, 1), (20, 1)])
    assert "CartPole-v1" in printed
    # four float64 and an episode's int32 and bool, read and written; a request's int32 and byte; an action four times;
    # results: four float32, a float32, two bools, two int32
    assert record["cases"][0]["bytes_a_step"] == 2 * (4 * 8 + 5) + 5 + 4 * 8 + (16 + 4 + 2 + 8)


@pytest.mark.nightly
def test_every_size_of_tag_on_a_gpu_is_measured(tmp_path: Path) -> None:
    sizes = ["--crowd", "4", "30", "--environments", "2", "9", "--agents", "2", "--plane", "2", "12"]
    printed, record = run("gpu_tag", tmp_path, *sizes)
    check_cases(record, [(4, 30), (2, 5), (9, 5), (4, 2), (2, 12)])
    assert [case["section"] for case in record["cases"]] == [
        "crowd",
        *["more environments"] * 2,
        "more agents",
        "plane",
    ]
    assert record["published"]["env_steps"] == 2.9e6
    assert "published by WarpDrive's authors" in printed
    assert "ours is" not in printed, "the setting is another"


def test_actions_are_uniform_and_change_with_every_step() -> None:
    pool = gpu_tag.pool_of(gpu_tag.PLANE, 40, 22, "cpu")
    with pool:
        actions = gpu_common.RandomActions(pool, 5)
        drawn = []
        for _ in range(4):
            for draw in actions.draws:
                draw()
                drawn.append(actions.tensor.numpy().copy())
            actions.end_pass()
    drawn = np.stack(drawn)
    assert drawn.shape == (20, 40, 22, 2)
    assert len(np.unique(drawn.reshape(20, -1), axis=0)) == 20
    counts = np.bincount(drawn.ravel())
    assert len(counts) == 21
    expected = drawn.size / 21
    assert ((counts - expected) ** 2 / expected).sum() < 45.3  # chi-squared, 20 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(drawn.reshape(-1, 2).T)[0, 1]) < 0.03  # about four standard deviations


def test_resets_are_counted() -> None:
    pool = gpu_tag.pool_of(gpu_tag.GRID, 3, 5, "cpu")
    with pool:
        pool.reset()
        actions = gpu_common.RandomActions(pool, 10)
        share = gpu_common.ended(pool, actions, 20)
        assert 1 / 100 <= share < 1 / 5  # an episode has a hundred steps at most, and takes some to meet
        more = gpu_common.bytes_moved(pool, 1.0) - gpu_common.bytes_moved(pool, 0.0)
        # x, y and what was paid, the step and the nearest, and the episode; then observations, alive, elapsed_step
        assert more == 5 * 12 + 8 + 5 + 5 * 24 + 5 + 4


@pytest.mark.nightly
def test_training_on_a_gpu_is_measured_beside_stepping_and_inference(tmp_path: Path) -> None:
    printed, record = run("gpu_training", tmp_path, "--sizes", "4", "--crowd", "2", "6", "--horizon", "4")
    assert [(case["environments"], case["agents"]) for case in record["cases"]] == [(4, 1), (4, 5), (2, 6)]
    for case in record["cases"]:
        assert set(case["median"]) == {"stepping", "inference", "training"}
        assert min(case["median"].values()) > 0 and case["idle"] is None
    assert "with training" in printed and "published" in printed


def test_pages_hold_the_numbers_of_the_results():
    command = [sys.executable, str(ROOT / "benchmarks" / "table.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run python benchmarks/table.py"


def test_the_page_on_the_architecture_holds_the_counts_of_the_record():
    record = json.loads((BENCHMARKS / "results" / "structure.json").read_text())
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert record["note"] in " ".join(page.split())


def test_the_catalogue_names_scripts_and_misses_none():
    entries = [entry for section in catalog.sections().values() for entry in section]
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    assert {name for name in names if not (BENCHMARKS / f"{name}.py").exists()} == set()
    assert all(catalog.sentence(BENCHMARKS / f"{name}.py") != name for name in names)
    written = {path.stem for path in (BENCHMARKS / "results").glob("*.json")}
    others = ("gpu_", "atari_games", "atari_equality_")  # of other machines, or by an option
    assert {name for name in written if not name.startswith(others)} <= set(names)


def test_every_record_has_cases_of_rates_or_rows_of_equal_columns():
    """Comparisons of rates, or rows with the same columns; and what they are of, the command and the machine."""
    for path in sorted((BENCHMARKS / "results").glob("*.json")):
        record = json.loads(path.read_text())
        if path.name.startswith("gpu_"):
            continue  # of another machine
        assert record["name"] == path.stem and record["title"] and record["machine"]["cpu"], path.name
        script = record["command"].removeprefix("python ")
        assert (ROOT / script).exists(), f"{path.name}: no {script}"
        assert ("cases" in record) != ("rows" in record), path.name
        assert all(set(case["median"]) == set(case["rates"]) for case in record.get("cases", ())), path.name
        assert len({tuple(row) for row in record.get("rows", ())}) < 2, path.name


def test_missed_targets_have_an_explanation():
    for entry in catalog.CATALOG:
        path = BENCHMARKS / "results" / f"{entry.name}.json"
        reached, wanted = run_all.verdict(json.loads(path.read_text())) if path.exists() else (0, 0)
        assert reached == wanted or entry.short, f"{entry.name} misses marks: say why in benchmarks/catalog.py"


def test_the_benchmark_that_the_readme_shows_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (BENCHMARKS / "README.md").read_text(), re.M | re.S)
    assert len([line for line in code.splitlines() if line]) <= 10
    (tmp_path / "frozen_lake.py").write_text(code)
    command = [sys.executable, "frozen_lake.py", "--repeats", "2", "--seconds", "0.05", "--out", str(tmp_path)]
    path = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    (case,) = json.loads((tmp_path / "frozen_lake.json").read_text())["cases"]
    assert set(case["ratio"]) == {"gymnasium"} and len(case["rates"]["headrace"]) == 2


@pytest.mark.nightly
def test_steps_to_a_return_are_stored_by_task_and_seed(tmp_path: Path) -> None:
    """A mark that is reached at once ends a run; another run of the same takes its place, others stay beside it."""
    command = [sys.executable, str(ROOT / "benchmarks" / "learning.py"), "Pendulum-v1:ppo:-2000"]
    sizes = ["--set", "total_steps=4000", "num_envs=4", "num_steps=64", "--every", "500", "--episodes", "2"]
    for seeds in (["2"], ["2", "3"]):
        done = subprocess.run(
            [*command, *sizes, "--out", str(tmp_path), "--seeds", *seeds], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "learning.json").read_text())["runs"]
    assert [run["seed"] for run in runs] == [2, 3]
    for run in runs:
        there = run["reached"]
        assert there["mean_return"] >= run["mark"] == -2000 and 0 < there["steps"] < 4000 and there["updates"] > 0
        assert there["processor_seconds"] >= 0 and run["settings"]["preset"] == "fast" and run["machine"]["cores"]


def test_a_policy_is_read_from_the_code_that_rltools_saves(tmp_path: Path) -> None:
    """One hidden unit, whose fast tanh of 1 is 28/36 and of more than 3 is 1; then four means and four deviations."""
    checkpoint, obs = tmp_path / "checkpoint.h", np.array([[0.5, 9.0], [4.0, 9.0]], np.float32)
    wanted = np.tanh(np.array([[28 / 36], [1.0]]) * [1.0, -1.0, 0.5, 0.0])

    def write(outputs: np.ndarray) -> None:
        arrays = ([2.0, 0.0], [0.0], [1.0, -1.0, 0.5, 0.0, *[7.0] * 4], [0.0] * 8, obs.ravel(), outputs.ravel())
        lines = (", ".join(f"{float(value).hex().upper()}f" for value in each) for each in arrays)
        checkpoint.write_text("".join(f"constexpr float memory[] = {{{line}}};\n" for line in lines))

    write(wanted)
    np.testing.assert_allclose(crazyflie_rltools.actor_of(checkpoint)(obs), wanted, atol=1e-6)
    write(wanted + 0.01)
    with pytest.raises(AssertionError):
        crazyflie_rltools.actor_of(checkpoint)

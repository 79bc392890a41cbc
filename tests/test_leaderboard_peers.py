"""Other libraries train the leaderboard's rows: their scores, and the words for a missing or failed one."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.studies.leaderboard import scores, training
from headrace.studies.leaderboard.board import Row

PEERS = Path(__file__).parents[1] / "benchmarks" / "peers"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(PEERS)
    options: Any = importlib.import_module("cleanrl").options
    CLEANRL: Any = importlib.import_module("libraries").CLEANRL
    main: Any = runpy.run_path(str(PEERS / "__main__.py"))
    Peer, train = main["Peer"], main["train"]

SCRIPT = """
import sys
from torch.utils.tensorboard import SummaryWriter
assert __name__ == "__main__", __name__
writer = SummaryWriter("runs/one")
print(sys.argv[1:])
for step in range(1, 1001):
    print(f"global_step={step}, episodic_return=" + (f"[{step / 10}]" if step % 2 else f"{step / 10}"))
    print("SPS:", step)
print("not ended")
"""


def _request(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "who": "CleanRL", "task": "Pendulum-v1", "algo": "script", "num_envs": 2, "settings": {"anneal_lr": False},
        "seed": 3, "total_steps": 1000, "minutes": 1, "goal": 5.0, "episodes": 4, "folder": str(folder), "threads": 1,
    } | more  # fmt: skip


def _run(request: dict[str, Any], scripts: Path) -> tuple[int, str]:
    """Runs the program; its input stays open until it has ended."""
    command = [sys.executable, str(PEERS / "seed.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, CLEANRL: str(scripts)},
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        output = process.stdout.read()
        return process.wait(), output


def test_settings_become_options_of_cleanrls_scripts() -> None:
    words = options(_request(Path("here"), settings={"anneal_lr": False, "track": True, "total_timesteps": 7}))
    assert words == [
        "--env-id", "Pendulum-v1", "--seed", "3", "--total-timesteps", "7", "--num-envs", "2", "--no-cuda",
        "--no-anneal-lr", "--track",
    ]  # fmt: skip


def test_a_script_ends_at_the_goal(tmp_path: Path) -> None:
    """By the mean of as many episodes as the row has; its own files are in the folder."""
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    status, output = _run(_request(tmp_path), tmp_path)
    assert status == 0, output
    assert "'--no-anneal-lr'" in output and "not ended" not in output
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert (last["step"], last["return"]) == (52, pytest.approx((4.9 + 5.0 + 5.1 + 5.2) / 4))
    assert json.loads((tmp_path / "greedy.json").read_text()) is None
    assert list((tmp_path / "runs" / "one").iterdir())


@pytest.mark.nightly
def test_a_missing_script_is_named(tmp_path: Path) -> None:
    status, output = _run(_request(tmp_path), tmp_path)
    assert status == 1 and f"there is no {tmp_path / 'script.py'}" in output


def test_a_relative_folder_lies_in_the_callers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script runs in its own folder. One that does not reach the goal is measured to its end."""
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv(CLEANRL, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    row = Row("one", "Pendulum-v1", (5.0, 900.0), total_steps=1000, minutes=1, games=4)
    assert train(row, Peer("one", "CleanRL", "script", "own"), Path("out"), [1])
    (found,) = training.results(tmp_path / "out")
    assert not found.error and [each.steps is not None for each in found.reached] == [True, False]
    assert found.steps == 1000 and found.seconds > 0 and found.greedy is None


@pytest.mark.parametrize("scripts", [None, "", "nowhere"])
def test_a_row_goes_on_without_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scripts: str | None
) -> None:
    monkeypatch.delenv(CLEANRL, raising=False)
    if scripts is not None:
        monkeypatch.setenv(CLEANRL, scripts)
    row = Row("one", "Pendulum-v1", (1.0,), total_steps=1000, minutes=1)
    assert train(row, Peer("one", "CleanRL", "script", "own"), tmp_path / "CleanRL", [1])
    assert f"without CleanRL, which is not there: clone CleanRL, set {CLEANRL}" in capsys.readouterr().out
    assert not (tmp_path / "CleanRL").exists()


@pytest.mark.nightly
def test_the_leaderboard_shows_a_row_trained_by_stable_baselines(tmp_path: Path) -> None:
    row = Row("cart", "CartPole-v1", (15.0, 400.0), total_steps=1000, minutes=5, games=4)
    settings = {"n_steps": 64, "batch_size": 64, "n_epochs": 2}
    assert train(row, Peer("cart", "stable-baselines3", "PPO", "us", 4, settings), tmp_path / "cart" / "sb3", [1])
    scores.failed(1, row.goals, "of Headrace").write(training.result_file(tmp_path / "cart", 1))
    (entry,) = training.entries(tmp_path, [row])
    (found,) = entry.peers["sb3 PPO"]
    assert found.reached[0].steps is not None and 0 < found.steps <= 1000 + 4 * 64


@pytest.mark.nightly
def test_a_failure_of_a_library_is_reported_and_trained_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is said at once, and trained again by the same command."""
    row = Row("cart", "CartPole-v1", (15.0,), total_steps=1000, minutes=5, games=4)
    for _ in range(2):
        assert train(row, Peer("cart", "stable-baselines3", "PPO", "us", 4, {"epochs": 2}), tmp_path / "sb3", [1])
        assert "stable-baselines3 failed: its process ended with status 1" in capfd.readouterr().out
    assert training.results(tmp_path / "sb3")[0].error


@pytest.mark.nightly
def test_sbx_trains_a_row(tmp_path: Path) -> None:
    pytest.importorskip("sbx")
    row = Row("one", "Pendulum-v1", (0.0,), total_steps=900, minutes=2, games=2)
    peer = Peer("one", "sbx", "CrossQ", "chosen for this test", settings={"policy_kwargs": {"net_arch": [32]}})
    assert train(row, peer, tmp_path / "sbx", [1])
    (found,) = training.results(tmp_path / "sbx")
    assert not found.error and found.greedy is not None and -2000 < found.greedy < 0
    assert found.reached[0].seconds is None and 400 <= found.steps <= 900

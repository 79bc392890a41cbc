"""A user's algorithm, in a file of its own, does what those that come with Headrace do."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import OptionError, TrustError
from headrace.train import make_config, resume, train
from headrace.train.play.evaluate import evaluate
from headrace.train.runs import trust
from headrace.train.runs.folder import RunFolder
from whole_runs import SMALL, facts, start, wait_for_lines

FILE = Path(__file__).parents[1] / "my_algo.py"
ALGO = "my_algo.py:Reinforce"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the user's file, in which everything happens."""
    shutil.copy(FILE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_on_algorithms_shows_the_file_of_this_one() -> None:
    page = Path(__file__).parents[3] / "docs" / "write-an-algorithm.md"
    assert f"```python\n{FILE.read_text()}```" in page.read_text()
    assert len(FILE.read_text().splitlines()) < 120


def test_the_command_trains_plots_plays_and_films_an_own_algorithm(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = ["--stop-at-return", "100", "--stop-episodes", "20", "--baseline", "0.9", "--no-video", "--no-tensorboard"]
    assert main(["train", "CartPole-v1", "--algo", ALGO, "--run-dir", "run", *goal]) == 0
    assert "solved: mean return 1" in capsys.readouterr().out, "a random policy reaches 22"
    config = json.loads((folder / "run" / "config.json").read_text())
    assert (config["algo"], config["baseline"], config["num_envs"]) == (ALGO, 0.9, 16)
    assert "clip_range" not in config and "replay_size" not in config
    assert (folder / "run" / "curve.png").is_file()
    assert {"policy_loss", "value_loss"} < facts(folder / "run")[-1]["loss"].keys()
    assert evaluate("run", 4).mean_return > 50
    assert main(["play", "run", "--episodes", "2", "--no-film"]) == 0
    assert "mean return" in capsys.readouterr().out


@pytest.mark.nightly
def test_an_own_algorithm_goes_on_after_a_kill(folder: Path) -> None:
    options = {name: value for name, value in SMALL.items() if name != "minibatch_size"} | {"algo": ALGO}
    process = start("CartPole-v1", folder / "run", options)
    try:
        wait_for_lines(folder / "run", 3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    told = facts(folder / "run")[-1]["step"]
    assert told < 20_000
    assert resume(folder / "run", quiet=True).steps >= 20_000
    assert [line["step"] for line in facts(folder / "run")] == sorted({line["step"] for line in facts(folder / "run")})


def test_help_shows_the_settings_of_an_own_algorithm_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "CartPole-v1", "--algo", ALGO, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Reinforce options" in shown and "--baseline" in shown and "--learning-rate" in shown
    assert not any(f"--{name}" in shown for name in ("clip-range", "replay-size", "epsilon-end", "rollout-slots"))
    assert main(["train", "CartPole-v1", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "PPO options" in shown and "--clip-range" in shown
    assert not any(f"--{name}" in shown for name in ("baseline", "replay-size", "epsilon-end", "target-noise"))


def test_unused_settings_of_an_own_algorithm_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for words, users in ((["--clip-range", "0.1"], "ppo"), (["--rollout-slots", "3"], "ppo")):
        assert main(["train", "CartPole-v1", "--algo", ALGO, *words]) == 2
        assert f"would not be used by {ALGO}: it is for" in (told := capsys.readouterr().err) and users in told
    with pytest.raises(OptionError, match="baseline=2 must be between 0 and 1"):
        make_config("CartPole-v1", algo=ALGO, baseline=2)
    with pytest.raises(OptionError, match="does not learn from what workers collect"):
        train("CartPole-v1", ALGO, samplers=1, run_dir="none", quiet=True)
    assert not Path("none").exists()


def test_a_run_that_was_sent_runs_no_algorithm_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = make_config("CartPole-v1", algo=ALGO, baseline=0.5).to_json().replace("my_algo.py", "sent_algo.py")
    (folder / "sent").mkdir()
    (folder / "sent" / "config.json").write_text(text)
    (folder / "sent_algo.py").write_text(FILE.read_text() + '\nimport pathlib\npathlib.Path("ran").touch()\n')
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert RunFolder.read("sent")[1].task == "CartPole-v1"
    for opens in (RunFolder.open, resume, evaluate):
        with pytest.raises(TrustError, match=r"runs code of .*sent_algo\.py"):
            opens("sent")
    assert not (folder / "ran").exists()
    trust.remember({"algo": "sent_algo.py:Reinforce"})
    assert RunFolder.read("sent")[1].baseline == 0.5 and (folder / "ran").exists()

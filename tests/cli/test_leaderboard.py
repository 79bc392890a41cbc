"""``headrace leaderboard``: trains, goes on, and leaves a page and its data."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train.play.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("forked_runs")
POISONED = f"{Path(__file__).parents[1] / 'poisoned_env.py'}:Poisoned-v0"
BOARD = f"""
[[row]]
name = "cart"
task = "CartPole-v1"
goals = [15, 400]
total_steps = 3000
minutes = 5
games = 4
settings = {{ num_envs = 16, tensorboard = false }}
[[row.published]]
who = "<b>Somebody</b>"
goal = 475
seconds = 90
source = "a paper"
[[row]]
name = "judged"
task = "CartPole-v1"
goals = [15, 600]
total_steps = 3000
minutes = 5
games = 4
judge = "games"
settings = {{ num_envs = 16, tensorboard = false, checkpoint_seconds = 0 }}
[[row]]
name = "broken"
task = "{POISONED}"
goals = [1]
total_steps = 1000
minutes = 1
"""


def test_list_prints_the_rows_of_the_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "--list"]) == 0
    assert "CartPole-v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no row 'nothing'"),
        (["--board", "missing.toml"], "missing.toml cannot be read as a board"),
        (["--seeds", "0"], "--seeds '0' must be a number of seeds"),
        (["--jobs", "-1"], "--jobs -1 must be at least 0"),
    ],
)
def test_each_error_is_reported_in_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_board_is_trained_and_continued_with_another_seed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One seed, then another one: what is known is kept."""
    (tmp_path / "board.toml").write_text(BOARD)
    words = [
        "leaderboard",
        "cart",
        "--board",
        str(tmp_path / "board.toml"),
        "--out",
        str(tmp_path / "out"),
        "--quiet",
        "--trust",
    ]
    assert main(words) == 0
    first = (tmp_path / "out" / "cart" / "seed-1.json").read_text()
    assert main([*words, "--seeds", "2"]) == 0
    assert (tmp_path / "out" / "cart" / "seed-1.json").read_text() == first
    shown = capfd.readouterr().out
    assert "2 of 2" in shown  # of the return of 15

    data = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    (row,) = data["rows"]
    assert [seed["seed"] for seed in row["seeds"]] == [1, 2]
    low, high = row["seeds"][0]["reached"]
    assert low["steps"] > 0
    assert low["seconds"] > 0
    assert high["steps"] is None or high["steps"] >= low["steps"]
    assert row["seeds"][0]["greedy"] > 8  # no shorter episode is possible

    page = (tmp_path / "out" / "index.html").read_text()
    assert "&lt;b&gt;Somebody&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "headrace train CartPole-v1" in page
    assert page.count("data:image/svg+xml") == 1
    assert "http" not in page.replace("http://www.w3.org", "")


def test_games_of_checkpoints_judge_a_row_that_asks_for_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A goal is reached by the first checkpoint whose games without exploration are worth as much."""
    (tmp_path / "board.toml").write_text(BOARD)
    words = [
        "leaderboard",
        "judged",
        "--board",
        str(tmp_path / "board.toml"),
        "--out",
        str(tmp_path / "out"),
        "--quiet",
    ]
    assert main(words) == 0
    (row,) = json.loads((tmp_path / "out" / "leaderboard.json").read_text())["rows"]
    assert row["judge"] == "games"
    low, high = row["seeds"][0]["reached"]
    assert high["steps"] is None  # of 500 at most
    run = tmp_path / "out" / "judged" / "seed-1"
    earned = {
        int(path.name.removeprefix("step-")): evaluate(run, 4, which=path.name).mean_return
        for path in sorted((run / "checkpoints").glob("step-*"))
    }
    assert low["steps"] == next(step for step, mean in earned.items() if step and mean >= 15)
    assert low["seconds"] > 0
    assert "judged by games without exploration" in (tmp_path / "out" / "index.html").read_text()
    with pytest.raises(OptionError, match=r"step-000000000007.* or one of step-"):
        evaluate(run, 4, which="step-000000000007")


SHORT = """
[[row]]
name = "{name}"
task = "{task}"
goals = [-1000]
total_steps = 256
minutes = 5
games = 2
settings = {{ num_envs = 8, tensorboard = false, env_options = {{ max_episode_steps = 20 }} }}
"""


@pytest.mark.nightly
def test_the_page_keeps_the_rows_of_earlier_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of other rows of the board, of other seeds, and of boards that are not there any more."""
    out, one, other = tmp_path / "out", tmp_path / "one.toml", tmp_path / "other.toml"
    published = '[[row.published]]\nwho = "Somebody"\ngoal = 475\nsource = "a paper"\n'
    other.write_text(SHORT.format(name="gone", task="Acrobot-v1") + published)
    one.write_text(SHORT.format(name="second", task="Pendulum-v1") + SHORT.format(name="first", task="CartPole-v1"))

    def call(board: Path, *words: str) -> list[dict[str, Any]]:
        assert main(["leaderboard", *words, "--board", str(board), "--out", str(out), "--quiet"]) == 0
        return json.loads((out / "leaderboard.json").read_text())["rows"]

    assert [row["name"] for row in call(other)] == ["gone"]
    other.unlink()
    capfd.readouterr()
    assert [row["name"] for row in call(one, "first", "--seeds", "2")] == ["first", "gone"]
    shown = capfd.readouterr().out
    assert "CartPole-v1" in shown
    assert "Acrobot-v1" not in shown, "what is printed is what was asked for"
    second, first, gone = call(one, "second")
    assert (second["name"], first["name"], gone["name"]) == ("second", "first", "gone"), "the board's rows come first"
    assert [seed["seed"] for seed in call(one, "first", "--seeds", "1")[1]["seeds"]] == [1, 2]
    assert gone["task"] == "Acrobot-v1"
    assert gone["seeds"][0]["steps"] >= 256
    asked = {"num_envs": 8, "tensorboard": False, "env_options": {"max_episode_steps": 20}}
    assert gone["settings"].items() >= asked.items(), "and what its recipe had then"
    assert gone["published"][0]["who"] == "Somebody"
    page = (out / "index.html").read_text()
    assert all(f"<h2>{task}</h2>" in page for task in ("Pendulum-v1", "CartPole-v1", "Acrobot-v1"))


def test_a_failed_run_is_printed_and_stands_in_the_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "board.toml").write_text(BOARD)
    words = [
        "leaderboard",
        "--board",
        str(tmp_path / "board.toml"),
        "--out",
        str(tmp_path / "out"),
        "--quiet",
        "--trust",
    ]
    assert main([*words, "broken"]) == 1
    assert "failed" in capfd.readouterr().out
    assert "gave the reward nan" in (tmp_path / "out" / "index.html").read_text()


def test_an_unknown_task_is_refused_before_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "board.toml").write_text(BOARD.replace(POISONED, "no_such_file.py:A-v0"))
    words = ["leaderboard", "broken", "--board", str(tmp_path / "board.toml"), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "no_such_file.py" in capfd.readouterr().err


def test_results_of_a_changed_row_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Results of one task or one goal are never shown as those of another."""
    board = tmp_path / "board.toml"
    words = ["leaderboard", "cart", "--board", str(board), "--out", str(tmp_path / "out"), "--quiet", "--trust"]
    board.write_text(BOARD.replace("3000", "1000"))
    assert main(words) == 0
    for changed, message in (
        ("[15]", "goals=[15.0, 400.0], not goals=[15.0]"),
        ("[15, 300]", "not goals=[15.0, 300.0]"),
        ('[15, 400]\njudge = "games"', "judge's default, not judge='games'"),
    ):
        board.write_text(BOARD.replace("3000", "1000").replace("[15, 400]", changed))
        assert main(words) == 2
        assert message in capfd.readouterr().err
    board.write_text(BOARD.replace("3000", "1000").replace("CartPole-v1", "Acrobot-v1"))
    assert main(words) == 2
    assert "cart was trained with task='CartPole-v1', not task='Acrobot-v1'" in capfd.readouterr().err
    (tmp_path / "out" / "cart" / "row.json").write_text("[")
    assert main(words) == 1
    assert "row.json cannot be read" in capfd.readouterr().err

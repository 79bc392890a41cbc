"""Boards are read from TOML, and a mistake is named with its row."""

import re
import shlex
from pathlib import Path

import pytest

from headrace.cli import train as training
from headrace.errors import OptionError
from headrace.studies.leaderboard import board
from headrace.train.launch.checks import check_request
from headrace.train.recipes.make import make_config

ROW = '[[row]]\nname = "one"\ntask = "CartPole-v1"\ngoals = [100, 475]\ntotal_steps = 1000\nminutes = 1\n'
KEPT = Path("row.json")
PUBLISHED = '[[row.published]]\nwho = "Them"\ngoal = 475\nsource = "a page"\n'


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "board.toml"
    file.write_text(text)
    return file


def test_a_row_holds_its_goals_and_settings(tmp_path: Path) -> None:
    (row,) = board.read_board(written(tmp_path, ROW + "settings = { learning_rate = 1e-3 }\n" + PUBLISHED))
    assert row.goals == (100.0, 475.0)
    assert row.published[0].who == "Them"
    requested_settings = row.requested_settings()
    assert requested_settings["stop_at_return"] == 475.0
    assert requested_settings["learning_rate"] == 1e-3


@pytest.mark.parametrize("row", board.read_board(), ids=lambda row: row.name)
def test_the_rows_that_come_with_headrace_can_be_trained(row: board.Row) -> None:
    """The settings of each are accepted, and its command says the same."""
    asked = check_request(row.task, row.requested_settings())
    words = shlex.split(row.command(3))
    values = training.overrides(training.parse(words[2:]))
    assert (
        check_request(row.task, values).config == check_request(row.task, row.requested_settings() | {"seed": 3}).config
    )
    assert asked.config.stop_at_return == max(row.goals) + row.margin


@pytest.mark.parametrize("row", board.read_board(), ids=lambda row: row.name)
def test_a_row_trains_as_the_plain_command_does(row: board.Row) -> None:
    shown = {"env_options": row.settings.get("env_options", {})}
    ours, plain = (vars(make_config(row.task, **each)) for each in (row.requested_settings(), shown))
    differ = {name for name in ours if ours[name] != plain[name]}
    ends = {"stop_at_return", "stop_episodes"} if plain["stop_at_return"] is None else set()  # at the row's goal
    assert differ <= {*board.QUIET, *board.CHECKPOINTS, *ends}, "a row has no settings of learning"
    if not shown["env_options"]:
        assert row.command(3).startswith(f"headrace train {row.task} --no-video --no-viewer --")


def test_a_row_takes_its_missing_settings_from_the_recipe(tmp_path: Path) -> None:
    text = ROW.replace("total_steps = 1000\n", "").replace("CartPole-v1", "Pong-v5").replace("[100, 475]", "[18]")
    (row,) = board.read_board(written(tmp_path, text))
    assert (row.algo, row.total_steps) == ("ppo", 3_000_000) and row.kept()["clip_range"] == 0.2
    (own,) = board.read_board(written(tmp_path, text + 'settings = { preset = "default" }\n'))
    assert (own.algo, own.total_steps) == ("ppo", 5_000_000)
    assert own.command(1) == "headrace train Pong-v5 --preset default --no-video --no-viewer --seed 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("row = 3", "must be tables"),
        ("[[row]", "cannot be read as a board"),
        (ROW.replace('task = "CartPole-v1"\n', ""), "row 'one' has no task"),
        (ROW.replace("[100, 475]", "[475, 100]"), "must be a list of increasing returns"),
        (ROW.replace("[100, 475]", "475"), "must be a list of increasing returns"),
        (ROW.replace("minutes = 1", "minutes = 0"), "minutes=0 must be a number above 0"),
        (ROW.replace('"one"', '"../one"'), "a name has lower-case letters"),
        (ROW + ROW, "two rows of the name one"),
        (ROW + "colour = 1", "row 'one': there is no colour; keys are name, task, goals, "),
        (ROW + "colour = 1\nsize = 2", "there is no colour and no size"),
        ("colour = 1\n" + ROW, "there is no colour; keys are row"),
        (ROW + "[[rows]]\n", "there is no rows; keys are row"),
        (ROW + PUBLISHED + "colour = 1", "there is no colour; keys are who, goal, source"),
        (ROW + "settings = { seed = 3 }", "settings.seed is chosen by --seeds"),
        (ROW + "settings = { total_steps = 3 }", "settings.total_steps follows from the row's total_steps"),
        (ROW + "settings = { stop_at_return = 3 }", "settings.stop_at_return follows from the row's goals"),
        (ROW + 'settings = { algo = "sac" }', "settings.algo is a key of the row itself"),
        (ROW + 'settings = { run_dir = "here" }', "settings.run_dir is set by the leaderboard"),
        (ROW + "algo = 3", "algo=3 must be a string"),
        (ROW + "settings = 3", "settings=3 must be a dict"),
        (ROW + "settings = { day = 2026-01-01 }", "as config.json holds it"),
        (ROW + "margin = -1", "margin=-1 must be a number of at least 0"),
        (ROW + 'margin = "wide"', "margin='wide' must be a number of at least 0"),
        (ROW + 'judge = "me"', "judge='me' must be"),
        (ROW + "games = 1.5", "games=1.5 must be an integer"),
        (ROW.replace("1000", "1e3"), "total_steps=1000.0 must be an integer"),
        (ROW + PUBLISHED.replace("475", '"475"'), "goal='475' must be a number"),
        (ROW + PUBLISHED + 'seconds = "90"', "seconds='90' must be a number or None"),
    ],
)
def test_a_wrong_board_is_an_error_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        board.read_board(written(tmp_path, text))


def test_rows_are_chosen_by_name(tmp_path: Path) -> None:
    rows = board.read_board()
    assert board.chosen_rows(rows, ()) == rows
    assert [row.name for row in board.chosen_rows(rows, ("pendulum", "cartpole"))] == ["pendulum", "cartpole"]
    with pytest.raises(OptionError, match="no row 'pong3'; it has cartpole"):
        board.chosen_rows(rows, ("pong3",))


@pytest.mark.parametrize("row", board.read_board(), ids=lambda row: row.name)
def test_a_row_is_restored_from_its_stored_values(row: board.Row) -> None:
    kept = row.kept()
    again = board.Row.from_kept(row.name, kept, KEPT)
    assert again.kept() == kept
    assert again.command(2) == row.command(2)
    assert (again.goals, again.games, again.judge) == (row.goals, row.games, row.judge)


def test_a_row_from_before_recipes_keeps_its_preset() -> None:
    kept = board.Row("one", "Ant-v5", (5.0,), 1.0, algo="ppo", settings={"preset": "default"}).kept()
    assert board.Row.from_kept("one", {n: v for n, v in kept.items() if n != "preset"}, KEPT).kept() == kept


def test_a_run_ends_above_its_last_goal_by_a_margin() -> None:
    row = board.Row("one", "CartPole-v1", (15.0, 20.0), total_steps=1000, minutes=1, judge="games", margin=2.5)
    assert row.requested_settings()["stop_at_return"] == 22.5 and "--stop-at-return 22.5" in row.command(1)
    assert board.Row.from_kept("one", row.kept(), KEPT).margin == 2.5


def test_the_judge_of_a_row_is_kept(tmp_path: Path) -> None:
    (row,) = board.read_board(written(tmp_path, ROW + 'judge = "games"\nsettings = { keep_checkpoints = 5 }\n'))
    again = board.Row.from_kept(row.name, row.kept(), KEPT)
    assert (again.judge, again.settings["keep_checkpoints"]) == ("games", 5)
    assert row.requested_settings()["checkpoint_seconds"] == again.requested_settings()["checkpoint_seconds"] == 10
    (other,) = board.read_board(written(tmp_path, ROW))
    assert row.kept() != other.kept()

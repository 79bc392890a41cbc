"""Times to goals, medians over seeds, and their files."""

from pathlib import Path

import pytest

from headrace.errors import StateError
from headrace.studies.leaderboard.board import Row, read_board
from headrace.studies.leaderboard.report import cells, in_time, summary
from headrace.studies.leaderboard.scores import Measured, TimeToReturn, core_seconds, failed, median, times_to

POINTS = [(100, 1.0, 20.0), (200, 2.0, 60.0), (300, 3.0, 40.0), (400, 4.0, 80.0)]


def test_a_goal_is_reached_by_the_first_return_as_large() -> None:
    assert times_to(POINTS, (50.0, 60.0, 70.0, 90.0)) == (
        TimeToReturn(50.0, 200, 2.0), TimeToReturn(60.0, 200, 2.0), TimeToReturn(70.0, 400, 4.0), TimeToReturn(90.0),
    )  # fmt: skip
    assert times_to([], (1.0,)) == (TimeToReturn(1.0),)


def test_a_seed_that_never_reached_the_goal_counts_as_the_slowest() -> None:
    assert median([3.0, None, 1.0]) == 3.0
    assert median([3.0, None, None]) is None
    assert median([1.0, None]) is None
    assert median([]) is None


def test_a_goal_that_no_seed_reached_takes_longer_than_the_longest_run() -> None:
    row = Row("one", "CartPole-v1", (5.0, 9.0), total_steps=1000, minutes=1)
    reached = (TimeToReturn(5.0, 200, 2.0, 1.5), TimeToReturn(9.0))
    some, none = Measured(1, reached, 900, 50.0), Measured(2, (TimeToReturn(5.0), TimeToReturn(9.0)), 1000, 120.0)
    assert cells(row, [some, none]) == [("5", "1 of 2", "–", "–", "–"), ("9", "0 of 2", "> 2 min 00 s", "–", "–")]
    assert cells(row, [some])[0] == ("5", "1 of 1", "2.0 s", "1.5 s", "200")
    assert cells(row, [failed(1, row.goals, "broken")])[1] == ("9", "failed", "–", "–", "–")


def test_the_cores_used_by_a_run_are_summed_up_until_a_time() -> None:
    lines = [{"time": {"seconds": 2.0, "cores": 0.5}}, {"time": {"seconds": 6.0, "cores": 1.5}}]
    assert core_seconds(lines, 2.0) == 1.0
    assert core_seconds(lines, 6.0) == 7.0
    assert core_seconds(lines, None) is None
    assert core_seconds([*lines, {"time": {"seconds": 8.0}}], 8.0) == 10.0  # as the line before
    assert core_seconds([{"time": {"seconds": 1.0}}, *lines], 2.0) == 1.0  # the first line has none yet
    assert core_seconds([{"time": {"seconds": 1.0}}, *lines], 1.0) is None


def test_a_written_result_is_read_back_equal(tmp_path: Path) -> None:
    result = Measured(3, times_to(POINTS, (50.0, 90.0)), 400, 4.0, 81.5, 20)
    result.write(tmp_path / "seed-3.json")
    assert Measured.read(tmp_path / "seed-3.json") == result
    (tmp_path / "seed-3.json").write_text("{")
    with pytest.raises(StateError, match="remove it to measure again"):
        Measured.read(tmp_path / "seed-3.json")


def test_seeds_are_summed_up() -> None:
    row = next(row for row in read_board() if row.name == "cartpole")
    seeds = [
        Measured(seed, (TimeToReturn(475.0, 100 * seed, float(seed), 2.0 * seed),), 100, 1.0) for seed in (1, 2, 3)
    ]
    assert summary(row, seeds) == [(475.0, 3, 2.0, 4.0, 200)]
    assert summary(row, [*seeds[:1], failed(2, row.goals, "no"), failed(3, row.goals, "no")]) == [
        (475.0, 1, None, None, None)
    ]


def test_seconds_are_written_in_words() -> None:
    assert [in_time(each) for each in (1.24, 59.4, 61.0, 3600.0, None)] == [
        "1.2 s", "59 s", "1 min 01 s", "60 min 00 s", "–",
    ]  # fmt: skip

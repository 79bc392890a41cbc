"""``headrace bench`` measures pools of every kind, and refuses wrong arguments."""

from __future__ import annotations

import pytest

from headrace.cli.main import main
from headrace.cli.options import parse_options
from headrace.errors import OptionError

QUICK = ["--seconds", "0.01", "--repeats", "2"]


def test_options_are_literals_or_words() -> None:
    given = ["frame_skip=2", "gray_scale=False", "clip=true", "xml_file=ant.xml", "pair=(1, 2)"]
    expected = {"frame_skip": 2, "gray_scale": False, "clip": True, "xml_file": "ant.xml", "pair": (1, 2)}
    assert parse_options(given) == expected


@pytest.mark.parametrize("wrong", ["frame_skip", "=2", "frame skip=2"])
def test_malformed_task_options_are_errors(wrong: str) -> None:
    with pytest.raises(OptionError, match="name=value"):
        parse_options([wrong])


@pytest.mark.parametrize("more", [[], ["--async"], ["--option", "max_episode_steps=20"]])
def test_bench_prints_a_rate_for_each_number_of_environments(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "CartPole-v1", "--num-envs", "2", "16", *QUICK, *more]) == 0
    out = capsys.readouterr().out
    assert "steps/s" in out
    assert " 16 " in out


def test_bench_measures_atari_and_continuous_actions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "Pong-v5", "--num-envs", "2", *QUICK, "--option", "frame_skip=2"]) == 0
    assert main(["bench", "Pendulum-v1", "--num-envs", "2", *QUICK]) == 0
    assert "frames/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [
        *(["--seconds", value] for value in ("nan", "inf", "-1", "0")),
        ["--num-envs", "0"],
        ["--repeats", "0"],
        ["--num-threads", "-1"],
        ["--async", "--num-envs", "1"],
        ["--option", "frame_skipp=2"],
    ],
    ids=" ".join,
)
def test_invalid_measurement_arguments_are_errors(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "Pong-v5", *QUICK, *wrong]) == 2
    assert capsys.readouterr().err.startswith("headrace: ")


def test_bench_measures_dict_actions(capsys: pytest.CaptureFixture[str]) -> None:
    import multi_agent_games  # noqa: F401  (registers the task)

    assert main(["bench", "TestHunt-v0", "--num-envs", "3", "--seconds", "0.05", "--repeats", "2"]) == 0
    assert "TestHunt-v0" in capsys.readouterr().out

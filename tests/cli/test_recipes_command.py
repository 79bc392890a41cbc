"""``headrace recipes`` lists the algorithms and settings of the plain command."""

import pytest

from headrace.cli.main import main


def test_all_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    out = capsys.readouterr().out
    assert "Pong-v5" in out and "atari (family)" in out


def test_a_task_shows_its_algorithm_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "Hopper-v5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ppo, recipe Hopper-v5: a return of 3,000 in about ")
    assert "gamma                    0.995" in out and "headrace train Hopper-v5 --algo ppo --preset fast" in out


@pytest.mark.parametrize(
    ("task", "free"),
    [("Hopper-v5", "num_threads and torch_threads"), ("MinAtar-Asterix-v1", "num_threads")],
)
def test_what_depends_on_the_cores_is_named(capsys: pytest.CaptureFixture[str], task: str, free: str) -> None:
    assert main(["recipes", task]) == 0
    assert f"the cores decide {free}, and nothing that changes what is learnt\n" in capsys.readouterr().out


def test_an_unknown_task_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "Hoper-v5"]) == 2
    assert "did you mean Hopper-v5" in capsys.readouterr().err

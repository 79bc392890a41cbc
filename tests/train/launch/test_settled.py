"""What a run's settings leave open is decided when it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace import machine
from headrace.train import make_config
from headrace.train.launch.checks import check_request, resolved

REACH = f"{Path(__file__).parents[2] / 'goal_games.py'}:Reach"


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Any:
    def are(count: int) -> None:
        monkeypatch.setattr(machine, "usable_cores", lambda: count)

    return are


@pytest.mark.parametrize(
    ("task", "how", "samplers", "actor"),
    [
        ("Pendulum-v1", {"algo": "sac"}, 1, "cpu"),
        ("Pendulum-v1", {"algo": "ddpg"}, 1, "cpu"),
        ("Pendulum-v1", {"algo": "td3", "samplers": 3}, 3, "cpu"),
        ("Pendulum-v1", {"algo": "sac", "samplers": 0}, 0, ""),
        ("Pendulum-v1", {"algo": "sac", "replay_ratio": None}, 1, ""),
        ("Pendulum-v1", {"algo": "sac", "actor_device": ""}, 1, ""),
        ("Pendulum-v1", {"algo": "sac", "actor_device": "cuda:1"}, 1, "cuda:1"),
        ("Pendulum-v1", {"algo": "sac", "critic_device": "cuda"}, 1, ""),
        ("Pendulum-v1", {"algo": "sac", "batch_size": 4, "num_envs": 8}, 0, ""),
        ("Pendulum-v1", {"algo": "ppo"}, 0, ""),
        ("Pendulum-v1", {"algo": "ppo", "samplers": 2}, 2, ""),
        ("CartPole-v1", {"algo": "dqn"}, 1, ""),
        ("TagGridWorld-v0", {"algo": "dqn"}, 0, ""),
        ("CartPole-v1", {"algo": "dqn", "device": "cuda"}, 0, ""),  # environments and replay are there, too
        (
            "CartPole-v1",
            {"algo": "dqn", "device": "cuda", "n_step": 3},
            1,
            "",
        ),  # its replay is on the host, as they are
        ("MinAtar-Breakout-v1", {"algo": "dqn", "device": "cuda"}, 1, ""),
    ],
)
def test_what_is_open_is_decided_and_what_was_chosen_stays(
    cores: Any, task: str, how: dict[str, Any], samplers: int, actor: str
) -> None:
    cores(2)
    config = resolved(make_config(task, **how))
    assert (config.samplers, getattr(config, "actor_device", "")) == (samplers, actor)
    assert resolved(config) == config


def test_on_a_single_core_the_halves_of_an_update_stay_together(cores: Any) -> None:
    cores(1)
    assert resolved(make_config("Pendulum-v1", algo="sac")).actor_device == ""
    assert resolved(make_config("Pendulum-v1", algo="sac", actor_device="cpu")).apart


def test_before_it_is_decided_nothing_is_apart() -> None:
    assert not make_config("Pendulum-v1", algo="sac").apart


@pytest.mark.parametrize(("count", "words"), [(1, "as there is one core"), (2, "as there are several cores")])
def test_what_the_number_of_cores_decides_is_told(cores: Any, count: int, words: str) -> None:
    cores(count)
    asked = {"algo": "sac", "samplers": 1}
    assert [words in remark for remark in check_request("Pendulum-v1", asked).remarks()] == [True]
    for settings in ({"actor_device": "cpu"}, {"actor_device": ""}, {"samplers": 0}, {"replay_ratio": None}):
        assert not any("core" in remark for remark in check_request("Pendulum-v1", asked | settings).remarks())


@pytest.mark.parametrize("more", [{"samplers": 0}, {"samplers": 1}, {"deterministic": True}])
def test_what_a_given_setting_turns_off_of_a_preset_is_told_once(more: dict[str, Any]) -> None:
    env = {"flat_observation": True}
    asked = {"algo": "crossq", "preset": "fast", "total_steps": 10_000, "env_options": env} | more
    told = check_request(REACH, asked | {"hindsight": 0.8}).remarks()
    assert [words for words in told if "n_step" in words] == ["n_step=3, a preset's, is not used with hindsight=0.8"]
    for settings in ({}, {"hindsight": 0.8, "n_step": 1}):
        assert not any("n_step" in words for words in check_request(REACH, asked | settings).remarks())

"""What a run's settings leave open is decided when it begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import machine
from headrace.errors import OptionError
from headrace.pool.executors.mujoco import lanes
from headrace.pool.executors.mujoco.fields import native_module
from headrace.pool.registry import is_registered
from headrace.train import make_config, resume, train
from headrace.train.launch.checks import check_request, resolved
from headrace.train.recipes.recipes import keys
from hosts import act_as
from nightly import rest_nightly
from updates import CROSSQ

REACH = f"{Path(__file__).parents[2] / 'goal_games.py'}:Reach"

ROBOT = "InvertedPendulum-v5"
BRIEF: dict[str, Any] = {
    "num_envs": 4, "num_steps": 8, "evaluate_episodes": 0, "video": False, "quiet": True
}  # fmt: skip


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
def test_open_settings_are_decided_and_chosen_ones_stay(
    cores: Any, task: str, how: dict[str, Any], samplers: int, actor: str
) -> None:
    cores(2)
    config = resolved(make_config(task, **how))
    assert (config.samplers, vars(config).get("actor_device", "")) == (samplers, actor)
    assert resolved(config) == config


def test_on_a_single_core_the_halves_of_an_update_stay_together(cores: Any) -> None:
    cores(1)
    assert resolved(make_config("Pendulum-v1", algo="sac")).actor_device == ""
    assert resolved(make_config("Pendulum-v1", algo="sac", actor_device="cpu")).apart


def test_actor_and_critics_are_together_before_the_settings_are_decided() -> None:
    assert not make_config("Pendulum-v1", algo="sac").apart


@pytest.mark.parametrize(("count", "words"), [(1, "as there is one core"), (2, "as there are several cores")])
def test_a_decision_by_the_number_of_cores_is_printed(cores: Any, count: int, words: str) -> None:
    cores(count)
    asked = {"algo": "sac", "samplers": 1}
    assert [words in remark for remark in check_request("Pendulum-v1", asked).remarks] == [True]
    for settings in ({"actor_device": "cpu"}, {"actor_device": ""}, {"samplers": 0}, {"replay_ratio": None}):
        assert not any("core" in remark for remark in check_request("Pendulum-v1", asked | settings).remarks)


@pytest.mark.parametrize("more", [{"samplers": 0}, {"samplers": 1}, {"deterministic": True}])
def test_a_presets_setting_turned_off_by_a_given_one_is_named_once(more: dict[str, Any]) -> None:
    env = {"flat_observation": True}
    asked = {"algo": CROSSQ, "preset": "fast", "total_steps": 10_000, "env_options": env} | more
    told = check_request(REACH, asked | {"hindsight": 0.8}).remarks
    assert [words for words in told if "n_step" in words] == ["the preset's n_step=3 is not used with hindsight=0.8"]
    for settings in ({}, {"hindsight": 0.8, "n_step": 1}):
        assert not any("n_step" in words for words in check_request(REACH, asked | settings).remarks)


def test_a_run_without_an_algorithm_prints_its_recipe() -> None:
    (told,) = check_request("CartPole-v1", {}).remarks
    assert told.startswith("ppo, recipe CartPole-v1: a return of 475 in about ")
    assert told.endswith("; for DQN instead: --algo dqn")
    (told,) = check_request("Pendulum-v1", {"gamma": 0.8, "seed": 3, "epochs": 10}).remarks
    assert told.endswith("; for SAC instead: --algo sac; your gamma in place of the recipe's"), (
        "epochs are the recipe's"
    )
    assert check_request("CartPole-v1", {"algo": "ppo"}).remarks == ()


@pytest.mark.parametrize("task", rest_nightly(filter(is_registered, keys()), "CartPole-v1", "Humanoid-v5", "Pong-v5"))
def test_a_recipe_learns_the_same_on_any_number_of_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    settings = []
    for count in (1, 2, 64):
        with monkeypatch.context() as patch:
            act_as(patch, tmp_path, count)
            settings.append(resolved(make_config(task)))
    assert settings[0] == settings[1] == settings[2]


@pytest.mark.parametrize("quota", [2, None])
def test_a_run_that_may_not_use_all_cores_says_what_limits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], quota: float | None
) -> None:
    act_as(monkeypatch, tmp_path, 64, quota)
    brief: dict[str, Any] = BRIEF | {"quiet": False, "num_threads": 1, "torch_threads": 1, "viewer": False}
    train("CartPole-v1", "ppo", run_dir=tmp_path / "run", total_steps=32, **brief)
    said = "uses 2 of 64 cores: the container's quota of 2" in capfd.readouterr().out.splitlines()
    assert said == (quota is not None)


def test_a_run_of_another_recipe_goes_on_without_naming_its_algorithm(tmp_path: Path) -> None:
    """As does one from before the recipe of its task changed."""
    task, often = "MinAtar-Breakout-v1", {"sticky_action_prob": 0.2}
    brief: dict[str, Any] = BRIEF | {"minibatch_size": 16}
    other: dict[str, Any] = BRIEF | {"minibatch_size": 8}
    begun = train(task, "ppo", run_dir=tmp_path, total_steps=64, epochs=1, env_options=often, **brief)
    with pytest.raises(OptionError, match="minibatch_size cannot change"):
        train(task, run_dir=tmp_path, resume=True, total_steps=96, **other)
    more = train(task, run_dir=tmp_path, resume=True, total_steps=96, env_options=often, epochs=1, **brief)
    assert more.steps > begun.steps and json.loads((tmp_path / "config.json").read_text())["algo"] == "ppo"


def env_options(run: Path) -> dict[str, Any]:
    return json.loads((run / "config.json").read_text())["env_options"]


@pytest.mark.parametrize("asked", [{}, {"env_options": {"frame_skip": 3}}])
def test_a_run_keeps_the_physics_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    train(ROBOT, run_dir=tmp_path, total_steps=64, **BRIEF, **asked)
    kept = asked.get("env_options", {}) | {"physics": headrace.make_spec(ROBOT).options["physics"]}
    assert env_options(tmp_path) == kept
    monkeypatch.setattr(lanes, "PREFERRED", lanes.MUJOCO)  # as by default on another machine
    assert headrace.make_spec(ROBOT).options["physics"] == lanes.MUJOCO
    train(ROBOT, run_dir=tmp_path, resume=True, total_steps=96, **BRIEF, **asked)
    assert env_options(tmp_path) == kept
    other: dict[str, Any] = {"env_options": {"physics": "lanes" if kept["physics"] == "mujoco" else "mujoco"}}
    with pytest.raises(OptionError, match="env_options cannot change"):
        train(ROBOT, run_dir=tmp_path, resume=True, total_steps=96, **BRIEF, **other)


def test_a_run_older_than_the_choice_of_physics_has_none(tmp_path: Path) -> None:
    train(ROBOT, run_dir=tmp_path, total_steps=64, **BRIEF)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["env_options"]["physics"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert resume(tmp_path, quiet=True, total_steps=96).steps == 96
    assert "physics" not in env_options(tmp_path)


def test_a_requested_physics_stays(cores: Any) -> None:
    asked = resolved(make_config(ROBOT, env_options={"physics": lanes.MUJOCO}))
    assert asked.env_options["physics"] == lanes.MUJOCO
    assert "physics" not in resolved(make_config("CartPole-v1")).env_options


def test_observations_of_several_parts_are_learnt_from_as_one_array(tmp_path: Path) -> None:
    request = check_request(REACH, {})
    assert request.config.env_options == {"flat_observation": True}
    assert any("as one array" in words for words in request.remarks)
    assert not any("as one array" in words for words in check_request("CartPole-v1", {}).remarks)
    for _ in range(2):  # the second goes on with the first
        train(REACH, run_dir=tmp_path, total_steps=64, resume=True, **BRIEF)
    assert env_options(tmp_path) == {"flat_observation": True}
    with pytest.raises(OptionError, match="no network can learn from the observation space Dict"):
        train(REACH, run_dir=tmp_path / "parts", total_steps=64, env_options={"flat_observation": False}, **BRIEF)


@pytest.mark.parametrize(
    ("options", "replaces"),
    [({"from_pixels": True}, False), ({"from_pixels": True, "action_repeat": 2}, True)],
)
def test_options_that_are_added_to_the_recipes_replace_none(options: dict[str, Any], replaces: bool) -> None:
    (told,) = (words for words in check_request("CheetahRun-v1", {"env_options": options}).remarks if "recipe" in words)
    assert told.startswith("ppo, recipe CheetahRun-v1 from pixels")
    assert told.endswith("your env_options in place of the recipe's") == replaces


@pytest.mark.parametrize(
    ("how", "flat"),
    [({}, "pictures"), ({"network": "mlp"}, None), ({"algo": "dqn"}, "pictures"), ({"algo": "pqn"}, "pictures")],
)
def test_pictures_whose_channels_are_last_have_a_cnn(tmp_path: Path, how: dict[str, Any], flat: str | None) -> None:
    (tmp_path / "dots.py").write_text(
        "import gymnasium, numpy\n\nclass Dots(gymnasium.Env):\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    observation_space = gymnasium.spaces.Box(0, 255, (40, 48, 3), numpy.uint8)\n"
    )
    request = check_request(
        f"{tmp_path / 'dots.py'}:Dots", {"replay_size": 1000} | how if "dqn" in how.values() else how
    )
    assert request.config.env_options.get("flat_observation") == flat
    assert request.policies[""].fit.network == ("mlp" if flat is None else "cnn")
    assert any("pictures by convolutions" in words for words in request.remarks) == (flat is not None)


@pytest.mark.parametrize(
    ("task", "options", "flat"),
    [
        (
            "MiniGrid-DoorKey-8x8-v0",
            {"full_observation": True},
            True,
        ),  # cells of numbers, as many as a picture's pixels
        ("MiniGrid-DoorKey-8x8-v0", {"from_pixels": True}, "pictures"),
        ("CarRacing-v3", {"frame_skip": 2, "max_episode_steps": 9}, "pictures"),
        ("Craftax-Classic-Pixels-v1", {}, "pictures"),
        ("MiniGrid-Fetch-5x5-N2-v0", {"from_pixels": True, "full_observation": True}, "pictures"),
    ],
)
def test_a_task_whose_cells_look_like_pictures_has_a_cnn_only_for_pictures(
    task: str, options: dict[str, Any], flat: bool | str
) -> None:
    request = check_request(task, {"env_options": options})
    assert request.config.env_options == options | {"flat_observation": flat}
    assert request.policies[""].fit.network == ("mlp" if flat is True else "cnn")


@pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")
@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "Hopper-v5: physics lanes"), ({"physics": "mujoco"}, "Hopper-v5: physics mujoco; lanes can step it, too")],
)
def test_the_first_line_of_a_run_names_a_robots_physics(options: dict[str, str], said: str) -> None:
    assert check_request("Hopper-v5", {"env_options": options}).remarks[0] == said
    assert "physics" not in check_request("CartPole-v1", {}).remarks[0]

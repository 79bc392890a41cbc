"""ViZDoom's tasks: EnvPool's surface, options, errors, and what a pool promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.envs import vizdoom as family
from headrace.envs.vizdoom import scenarios
from headrace.errors import OptionError, StateError
from headrace.testing import NotApplicable, saved_states

vizdoom: Any = pytest.importorskip("vizdoom")

HAS_ASSETS = importlib.util.find_spec("envpool_assets") is not None
SMALL: dict[str, Any] = {"img_height": 24, "img_width": 32, "stack_num": 1, "use_combined_action": True}
SCENARIOS = Path(vizdoom.scenarios_path)


def test_names_spaces_and_options_equal_those_of_envpool() -> None:
    envpool = pytest.importorskip("envpool")
    gym.logger.min_level = gym.logger.ERROR
    theirs = {
        task for task in envpool.list_all_envs() if envpool.registration.registry.specs[task][0] == "envpool.vizdoom"
    }
    assert theirs == set(family.TASKS)
    for task in family.TASKS:
        if task == scenarios.CUSTOM:
            continue
        for combined in (False, True):
            spec = headrace.make_spec(task, use_combined_action=combined)
            its = envpool.make_spec(task, use_combined_action=combined)
            assert spec.observation == its.observation_space
            assert (spec.action.shape, spec.action.dtype) == (its.action_space.shape, its.action_space.dtype)
            if combined:
                assert spec.action == its.action_space
            config = its.config._asdict()
            for name, value in spec.options.items():
                if name.endswith("path") or name == "scenario_reward":
                    continue
                if isinstance(value, dict):
                    assert value.keys() == config[name].keys()
                    for key in value:
                        assert np.allclose(value[key], config[name][key])
                else:
                    assert value == config[name]
            assert spec.max_episode_steps == config["max_episode_steps"] == 525


@pytest.mark.parametrize("task", ["Cig-v1", "MultiDuel-v1"])
def test_maps_for_several_players_can_be_played_alone(make: Any, task: str) -> None:
    pool = make(task, num_envs=1, num_threads=1, seed=3, **SMALL)
    _, info = pool.reset()
    assert info["HEALTH"][0] > 0


def test_episodes_are_truncated_and_begin_anew(make: Any) -> None:
    pool = make("D1Basic-v1", num_envs=2, num_threads=1, seed=3, max_episode_steps=5, **SMALL)
    _, info = pool.reset()
    assert (info["HEALTH"] > 0).all() and info["HEALTH"].dtype == np.float64
    for step in range(1, 13):
        _, reward, terminated, truncated, info = pool.step(np.zeros(2, np.int64))
        assert info["elapsed_step"].tolist() == [step % 6] * 2
        assert truncated.tolist() == [step % 6 == 5] * 2
        assert not terminated.any()
        if step % 6 == 0:
            assert not reward.any()


def test_final_info_belongs_to_the_ended_episode_and_info_to_the_next(make: Any) -> None:
    pool = make("D1Basic-v1", num_envs=2, num_threads=1, seed=3, max_episode_steps=40, autoreset="same_step", **SMALL)
    pool.reset()
    before = np.zeros(2)
    for _ in range(39):
        before = pool.step(np.zeros(2, np.int64))[4]["HEALTH"].copy()
        assert (before < 100).all()
    *_, truncated, info = pool.step(np.zeros(2, np.int64))
    assert truncated.all()
    assert (info["final_info"]["HEALTH"] <= before).all()
    assert (info["HEALTH"] > info["final_info"]["HEALTH"]).all()


def test_frames_show_the_observation_and_saving_a_state_is_refused(make: Any) -> None:
    pool = make("Basic-v1", num_envs=2, num_threads=1, seed=0, **SMALL | {"img_height": 240, "img_width": 320})
    obs, _ = pool.reset()
    assert np.array_equal(pool.render([0, 1]), np.moveaxis(obs, 1, -1))
    with pytest.raises(StateError, match="ViZDoom cannot save a game"):
        pool.save_state([0])
    pool.step(np.zeros(2, np.int64))
    with pytest.raises(NotApplicable, match="ViZDoom cannot save a game"):
        saved_states("Basic-v1", num_envs=2, steps=4, **SMALL)
    grey = make("D1Basic-v1", seed=0, **SMALL | {"img_height": 120, "img_width": 160})
    obs, _ = grey.reset()
    assert np.array_equal(grey.render(0)[0], np.repeat(obs[0, 0, ..., None], 3, -1))


@pytest.mark.parametrize("colours", ["CBCGCR", "RGB24", "BGR24", "RGBA32", "ARGB32", "BGRA32", "ABGR32", "GRAY8"])
def test_every_screen_format_shows_the_same_picture(make: Any, tmp_path: Path, colours: str) -> None:
    text = (SCENARIOS / "basic.cfg").read_text()
    frames = []
    for name in ("CRCGCB", colours):
        (tmp_path / "mine.cfg").write_text(f"{text}\nscreen_format = {name}\n")
        pool = make("Basic-v1", seed=0, cfg_path=str(tmp_path / "mine.cfg"), **SMALL)
        obs, _ = pool.reset()
        assert obs.shape == (1, *pool.spec.observation.shape)
        frames.append(pool.render(0)[0].astype(int))
    if colours == "GRAY8":
        assert np.abs(frames[0].mean(-1) - frames[1].mean(-1)).mean() < 8
    else:
        assert np.array_equal(*frames)


def test_a_scenario_in_files_of_the_user_plays_the_same_game(make: Any, tmp_path: Path) -> None:
    (tmp_path / "my.wad").write_bytes((SCENARIOS / "basic.wad").read_bytes())
    settings = (SCENARIOS / "basic.cfg").read_text().replace("basic.wad", "my.wad")
    (tmp_path / "mine.cfg").write_text(settings)
    seen = []
    for task, options in (
        ("Basic-v1", {}),
        ("VizdoomCustom-v1", {"cfg_path": str(tmp_path / "mine.cfg")}),
        ("VizdoomCustom-v1", {"cfg_path": str(SCENARIOS / "basic.cfg"), "wad_path": str(tmp_path / "my.wad")}),
        ("Basic-v1", {"iwad_path": str(Path(vizdoom.__path__[0]) / "freedoom2"), "map_id": "map01"}),
    ):
        pool = make(task, seed=5, **SMALL, **options)
        pool.reset()
        seen.append(pool.step(np.ones(1, np.int64))[0].copy())
    assert all(np.array_equal(seen[0], obs) for obs in seen)


def test_lmp_save_dir_gets_a_recording_of_each_episode(make: Any, tmp_path: Path) -> None:
    folder = tmp_path / "recorded" / "here"
    pool = make("Basic-v1", num_envs=2, num_threads=1, seed=0, lmp_save_dir=str(folder), max_episode_steps=3, **SMALL)
    pool.reset()
    for _ in range(5):
        pool.step(np.zeros(2, np.int64))
    pool.close()
    assert sorted(path.name for path in folder.iterdir()) == [f"env_{i}_{k}.lmp" for i in range(2) for k in range(2)]


def test_scenario_reward_gives_the_rewards_of_the_scenario(make: Any) -> None:
    earned = {}
    for own in (False, True):
        pool = make("HealthGathering-v1", seed=0, scenario_reward=own, **SMALL)
        pool.reset()
        total, over = [], False
        while not over:
            _, reward, terminated, *_ = pool.step(np.zeros(1, np.int64))
            total.append(float(reward[0]))
            over = bool(terminated[0])
        earned[own] = total
    assert earned[True][:-1] == [4.0] * (len(earned[True]) - 1) and earned[True][-1] < -90  # 1 a tic, 100 for death
    assert len(earned[False]) == len(earned[True])
    assert earned[False][-1] == 0 and min(earned[False]) < 0


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("Basic-v1", {"frameskip": 4}, "did you mean frame_skip"),
        ("Basic-v1", {"stack_num": 0}, "stack_num"),
        ("Basic-v1", {"max_episode_steps": -1}, "max_episode_steps"),
        ("Basic-v1", {"on_failure": "ignore"}, "on_failure"),
        ("Basic-v1", {"cfg_path": "nowhere.cfg"}, "cfg_path of Basic-v1: there is no file nowhere.cfg"),
        ("Basic-v1", {"wad_path": "nowhere.wad"}, "wad_path of Basic-v1: there is no file nowhere.wad"),
        ("Basic-v1", {"iwad_path": "nowhere"}, "iwad_path of Basic-v1: there is no file nowhere.wad"),
        ("Basic-v1", {"reward_config": {"LUCK": (1, 1)}}, "'LUCK', which is not a game variable"),
        ("Basic-v1", {"reward_config": {"WEAPON3": (1, 1)}}, "WEAPON3, which is not observed"),
        ("Basic-v1", {"reward_config": {"HEALTH": 1}}, "reward_config of Basic-v1 must be a dict"),
        ("Basic-v1", {"selected_weapon_reward_config": {9: 1.0}}, "selected_weapon_reward_config"),
        (
            "Basic-v1",
            {"reward_config": {}, "scenario_reward": True},
            "reward_config of Basic-v1 is for scenario_reward",
        ),
        ("Basic-v1", {"force_speed": True}, "force_speed of Basic-v1 is for use_combined_action=True"),
        ("Basic-v1", {"force_speed": True, "use_combined_action": True}, "needs the button SPEED"),
        (
            "Basic-v1",
            {"delta_button_config": {"TURN_LEFT_RIGHT_DELTA": (3, -1, 1)}, "use_combined_action": True},
            "the scenario has none",
        ),
        (
            "Deathmatch-v1",
            {"delta_button_config": {"ATTACK": (3, -1, 1)}, "use_combined_action": True},
            "'ATTACK', no delta button that is there: the scenario has LOOK_UP_DOWN_DELTA",
        ),
        ("VizdoomCustom-v1", {}, "needs cfg_path"),
    ],
)
def test_invalid_options_are_refused_by_name(task: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(task, **options)


def test_invalid_scenario_settings_are_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.cfg"
    path.write_text("available_buttons = { ATTACK FLY_AWAY }\n")
    with pytest.raises(OptionError, match=r"does not know all settings in .*mine.cfg"):
        headrace.make("Basic-v1", cfg_path=str(path))
    path.write_text("available_buttons = { ATTACK }\n")
    with pytest.raises(OptionError, match="names no doom_scenario_path"):
        headrace.make("VizdoomCustom-v1", cfg_path=str(path))
    path.write_text("doom_scenario_path = gone.wad\navailable_buttons = { ATTACK }\n")
    with pytest.raises(OptionError, match=r"names the map .*gone.wad, and there is no such file"):
        headrace.make("VizdoomCustom-v1", cfg_path=str(path))
    path.write_text("doom_scenario_path = basic.wad\n")
    with pytest.raises(OptionError, match="has no buttons"):
        headrace.make("Basic-v1", cfg_path=str(path))


def test_the_error_of_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'headrace\[vizdoom\]'"):
        headrace.make("Basic-v1")
    if HAS_ASSETS:
        monkeypatch.setattr(
            scenarios, "find_spec", lambda name: importlib.util.find_spec(name) if name == "vizdoom" else None
        )
        with pytest.raises(OptionError, match="pip install envpool-assets"):
            headrace.make("D3Battle-v1")

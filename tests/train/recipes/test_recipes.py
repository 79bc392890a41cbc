"""A run begins with the best algorithm and settings known for its task, its family or its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.envs import FAMILIES
from headrace.mujoco import Servo
from headrace.pool.family import FROM_PIXELS
from headrace.train.recipes import recipes
from headrace.train.recipes.make import make_config
from headrace.train.recipes.recipes import keys, kinds_of, preset_of, reached, recipe_at, recipe_of
from headrace.train.recipes.table import RECIPES
from headrace.train.settings.algorithm import Presets, find_settings
from pool.mujoco_robot import TASK, with_env

OWN = """
import gymnasium, numpy, time

class Base(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)

    def __init__(self, wide=False, made=True):
        if not made:
            raise ValueError("not made")
        if wide:
            self.action_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)

class Slow(Base):
    def reset(self, seed=None, options=None):
        return numpy.zeros(3, numpy.float32), {}

    def step(self, action):
        time.sleep(0.01)
        return numpy.zeros(3, numpy.float32), 0.0, False, False, {}

class Seen(Base):
    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), numpy.uint8)
"""

PIXELS: dict[str, Any] = {"env_options": {"from_pixels": True}}
TABLES: Presets = {
    "default": {"": {"epochs": 1}, "atari": {"epochs": 2}, "Pong-v5": {"epochs": 3}, "gru": {"gamma": 0.5}},
    "fast": {"atari": {"epochs": 4}},
}


@pytest.mark.parametrize(
    ("task", "preset", "epochs"),
    [
        ("Pong-v5", "default", 3),
        ("Breakout-v5", "default", 2),
        ("CartPole-v1", "default", 1),
        ("Pong-v5", "fast", 4),  # what the preset has for the family, before what the default one has for the task
        ("CartPole-v1", "fast", 1),
        ("CartPole-v1", "unknown", 1),  # of the run, for a policy whose algorithm has none of this name
    ],
)
def test_a_task_has_the_entry_that_fits_it_best(task: str, preset: str, epochs: int) -> None:
    assert preset_of(TABLES, task, "auto", preset) == {"epochs": epochs}
    assert preset_of(TABLES, task, "gru", preset) == {"epochs": epochs, "gamma": 0.5}
    assert preset_of({"other": {}}, task, "gru", preset) == {}


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return str(file)


def test_a_task_without_an_entry_has_the_entry_of_its_kind(own: str) -> None:
    table: Presets = {"default": {"": {"epochs": 1}, "continuous actions": {"epochs": 2}, "pictures": {"epochs": 3}}}
    assert preset_of(table, f"{own}:Base", "auto", "default") == {"epochs": 1}
    assert preset_of(table, f"{own}:Base", "auto", "default", {"wide": True}) == {"epochs": 2}
    assert preset_of(table, f"{own}:Seen", "auto", "default", {"wide": True}) == {"epochs": 3}
    assert preset_of(table, f"{own}:Base", "auto", "default", {"made": False}) == {"epochs": 1}, "a later check raises"
    assert preset_of(table, "Ant-v5", "auto", "default") == {"epochs": 2}, "of a family without an entry, too"
    assert preset_of(table | {"default": {"mujoco": {"epochs": 4}}}, "Ant-v5", "auto", "default") == {"epochs": 4}


@pytest.mark.parametrize(
    ("task", "kinds"),
    [
        ("BipedalWalker-v3", ("continuous actions",)),
        ("FrozenLake-v1", ("observations of a category", "discrete actions")),
        ("CartPole-v1", ("discrete actions",)),
        ("Nothing-v0", ()),
        ("TagGridWorld-v0", ("several agents",)),
    ],
)
def test_the_spaces_of_a_task_decide_its_kind(task: str, kinds: tuple[str, ...]) -> None:
    assert kinds_of(task, {}) == kinds


def test_a_robot_of_ones_own_that_moves_by_servos_has_the_recipe_of_robots() -> None:
    table: Presets = {"default": {"robots": {"epochs": 4}, "continuous actions": {"epochs": 2}}}
    for env, epochs in ({}, 2), ({"actions": Servo(), "act": None}, 4):
        headrace.register("Pair-v0", with_env(TASK, **env), replace=True)
        assert preset_of(table, "Pair-v0", "auto", "default") == {"epochs": epochs}


@pytest.mark.parametrize("given", [{}, {"algo": "ppo"}, {"algo": "ppo", "preset": "fast"}])
def test_robots_learn_from_pictures_without_a_mirror(given: dict[str, Any]) -> None:
    begun = make_config("Go1Flat-v0", **PIXELS, **given)
    assert begun.env_options["render_width"] == 64 and begun.num_envs <= 16
    assert begun.algo == "sac" or not begun.mirror


def test_a_given_setting_replaces_the_schedule_of_the_recipe() -> None:
    explored = make_config("FrozenLake8x8-v1")
    assert explored.schedules["entropy_coef"][0] == [0, 0.1] and make_config("Acrobot-v1").schedules == {}
    assert make_config("FrozenLake8x8-v1", entropy_coef=0.01).schedules == {}
    assert make_config("FrozenLake8x8-v1", learning_rate=0.01).schedules == explored.schedules


def test_rollouts_of_slow_steps_are_short(own: str) -> None:
    assert recipe_of(f"{own}:Slow", {}) == ("ppo", "default", "slow steps, discrete actions")
    wide = {"env_options": {"wide": True}}
    assert recipe_of(f"{own}:Slow", wide) == ("ppo", "default", "slow steps, continuous actions")
    assert make_config(f"{own}:Slow").num_steps < make_config(f"{own}:Base").num_steps
    assert recipe_of(f"{own}:Base", wide) == ("ppo", "default", "continuous actions"), "one that cannot be stepped"


@pytest.mark.parametrize(
    ("task", "given", "algo", "preset", "key"),
    [
        ("Pong-v5", {}, "ppo", "fast", "Pong-v5"),
        ("Pong-v5", {"algo": "ppo"}, "ppo", "fast", "Pong-v5"),  # to name the recipe's own changes nothing
        ("Pong-v5", {"algo": "dqn"}, "dqn", "default", "Pong-v5"),
        ("Pong-v5", {"algo": "ppo", "preset": "default"}, "ppo", "default", "Pong-v5"),
        ("MinAtar-Asterix-v1", {"network": "gru"}, "ppo", "default", "minatar"),  # PQN has none
        ("Asteroids-v5", {}, "ppo", "fast", "atari"),
        ("Ant-v3", {}, "ppo", "fast", "Ant-v4"),  # another name of it
        ("Swimmer-v5", {}, "ppo", "fast", "mujoco"),
        ("Swimmer-v5", {"algo": "sac"}, "sac", "default", ""),
        ("CartPole-v1", {}, "ppo", "default", "CartPole-v1"),
        ("MiniGrid-DoorKey-8x8-v0", {}, "ppo", "default", "MiniGrid-DoorKey-8x8-v0"),
        ("MiniGrid-DoorKey-8x8-v0", PIXELS, "ppo", "default", "MiniGrid-DoorKey-8x8-v0 from pixels"),
        ("BabyAI-GoTo-v0", PIXELS, "ppo", "default", "minigrid from pixels"),
        ("BabyAI-GoTo-v0", PIXELS | {"algo": "dqn"}, "dqn", "default", ""),
        ("Swimmer-v5", PIXELS, "ppo", "fast", "mujoco"),  # which has no others for pictures
        ("CheetahRun-v1", {}, "ppo", "fast", "dm_control"),
        ("CheetahRun-v1", PIXELS, "ppo", "fast", "CheetahRun-v1 from pixels"),
        ("WalkerRun-v1", PIXELS, "ppo", "fast", "dm_control from pixels"),
        ("CheetahRun-v1", PIXELS | {"algo": "sac"}, "sac", "default", "CheetahRun-v1 from pixels"),
        ("Go1Flat-v0", PIXELS, "sac", "default", "robots from pixels"),  # another algorithm
        ("Go1Flat-v0", PIXELS | {"algo": "ppo", "preset": "fast"}, "ppo", "fast", "robots from pixels"),
        ("Nothing-v0", {}, "ppo", "default", ""),
    ],
)
def test_a_recipe_is_an_algorithm_and_the_best_of_its_presets(
    task: str, given: dict[str, Any], algo: str, preset: str, key: str
) -> None:
    assert recipe_of(task, given) == (algo, preset, key)
    begun = make_config(task, **given)
    assert (begun.algo, begun.preset) == (algo, preset)
    assert begun == make_config(task, **{"algo": algo, "preset": preset, **given}), "named, it is the same"


def test_every_recipe_is_of_an_algorithm_that_has_its_preset() -> None:
    assert {"Pong-v5", "Hopper-v5", "atari", "mujoco", "minigrid", "minigrid from pixels"} <= {*keys()}
    for key in keys():
        algo, preset, own = recipe_at(key)
        assert own == key and preset in find_settings(algo).presets
    assert recipe_at("robots from pixels").algo == "sac" != recipe_at("robots").algo
    assert {key.removesuffix(FROM_PIXELS) for key in RECIPES} <= {"", *FAMILIES, *recipes.KINDS}


def test_a_recipe_names_the_return_that_it_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [{"goal": 10.0, "seconds": 30.2}, {"goal": 1000.0, "seconds": 150.0}, {"goal": 2000.0, "seconds": None}]
    board = [{"goal": 0.9, "seconds": 12.0, "against": "random moves"}]
    table = {"cores": 4, "tasks": {"Pong-v5": times, "Ant-v4": times[:1], "Hex-v0": board}}
    monkeypatch.setattr(recipes, "_reached", lambda: table)
    assert (
        reached("Pong-v5") == "a return of 1,000 in about 2 min on 4 cores"
    )  # what most seeds have not reached is left out
    assert reached("Ant-v3") == "a return of 10 in about 30 s on 4 cores"
    assert reached("Hex-v0") == "0.9 of the points against random moves in about 12 s on 4 cores"
    assert reached("Nothing-v0") is None
    told = recipe_of("Pong-v5", {}).describe("Pong-v5")
    assert told == "ppo, recipe Pong-v5: a return of 1,000 in about 2 min on 4 cores"
    assert recipe_of("Pong-v5", {"algo": "dqn"}).describe("Pong-v5") == "dqn, recipe Pong-v5"
    assert recipe_of("Freeway-v5", {}).describe("Freeway-v5") == "ppo, recipe atari"
    door = "MiniGrid-DoorKey-8x8-v0"
    assert recipe_of(door, PIXELS).describe(door) == f"ppo, recipe {door} from pixels", "nothing of numbers' return"

"""Configurations: round trip, and errors that name the option."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headrace.errors import OptionError
from headrace.train import resume, train
from headrace.train.recipes.make import make_config
from headrace.train.settings.algorithm import ALGORITHMS, find_settings
from headrace.train.settings.config import Config
from headrace.train.settings.fields import Setting
from headrace.train.settings.owners import ARGUMENTS, OTHER_NAMES


@pytest.mark.parametrize(
    "task",
    [*ALGORITHMS["ppo"].presets["default"], "Breakout-v5", "HalfCheetah-v5", "WalkerWalk-v1", "SomethingElse-v0"],
)
def test_a_configuration_is_read_back_from_its_json(task):
    config = make_config(task, seed=7, env_options={"frame_skip": 2})
    assert Config.from_json(config.to_json()) == config


def test_an_algorithm_has_tuned_settings_of_its_own():
    known, unknown = make_config("Pendulum-v1", algo="ddpg"), make_config("Swing-v0", algo="ddpg")
    assert known.stop_at_return == -200 and known.exploration_noise > unknown.exploration_noise
    assert known.activation == unknown.activation == "relu" != make_config("Pendulum-v1").activation
    assert Config.from_json(known.to_json()) == known


def test_algorithms_and_networks_bring_their_settings():
    ppo, a2c = make_config("CartPole-v1"), make_config("CartPole-v1", algo="a2c")
    gru = make_config("CartPole-v1", network="gru")
    assert ppo.anneal_learning_rate and not a2c.anneal_learning_rate
    assert a2c.num_envs * a2c.num_steps < ppo.num_envs * ppo.num_steps and a2c.stop_at_return == 475
    assert gru.normalise_rewards and not ppo.normalise_rewards
    assert not make_config("CartPole-v1", network="gru", normalise_rewards=False).normalise_rewards
    policies = {"tagger": {"network": "gru"}, "runner": {}}
    run = make_config("TagGridWorld-v0", policies=policies)
    assert run.of_policy("tagger").normalise_rewards and not run.of_policy("runner").normalise_rewards


def test_a_run_begins_with_the_preset_that_is_named():
    default, fast = make_config("Ant-v5", preset="default"), make_config("Ant-v5", preset="fast")
    assert (default.preset, fast.preset) == ("default", "fast") and fast.epochs < default.epochs
    assert make_config("Ant-v5", preset="fast", total_steps=7).total_steps == 7, "what is given counts"
    assert Config.from_json(fast.to_json()) == fast
    unknown = make_config("SomethingElse-v0", preset="fast")
    assert unknown.replace(preset="default") == make_config("SomethingElse-v0"), "no family of ours"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "quick"}, "preset='quick' must be one that ppo has: default, fast"),
        ({"preset": "fast", "algo": "a2c"}, "preset='fast' must be one that a2c has: default"),
        ({"preset": 3}, "preset=3 must be a string"),
    ],
)
def test_an_unknown_preset_is_named(given, message):
    with pytest.raises(OptionError, match=message):
        make_config("Ant-v5", **given)


def test_policies_of_other_algorithms_begin_with_the_preset_if_they_have_it():
    policies = {"tagger": {"algo": "a2c"}, "runner": {}}
    run = make_config("TagGridWorld-v0", preset="fast", policies=policies)
    assert run.of_policy("tagger").learning_rate == make_config("TagGridWorld-v0", algo="a2c").learning_rate
    with pytest.raises(OptionError, match="cannot have a preset of its own"):
        make_config("TagGridWorld-v0", policies={"tagger": {"preset": "fast"}})


def test_a_policy_with_its_own_algorithm_has_the_settings_of_that_algorithm():
    policies = {"archer": {"algo": "ddpg", "target_rate": 0.5}, "dog": {}, "cat": {"agents": [7], "algo": "ppo"}}
    run = make_config("TestHunt-v0", policies=policies, gamma=0.7)
    archer, alone = run.of_policy("archer"), make_config("TestHunt-v0", algo="ddpg")
    for name in ("hidden", "activation", "learning_rate", "anneal_learning_rate", "adam_epsilon", "max_grad_norm"):
        assert getattr(archer, name) == getattr(alone, name) != getattr(run, name), name
    assert (archer.target_rate, archer.gamma) == (0.5, 0.7), "what is given counts"
    assert archer.num_envs == run.num_envs, "what policies share stays the run's"
    for name in ("dog", "cat"):
        assert run.of_policy(name) == make_config("TestHunt-v0", gamma=0.7)
    assert Config.from_json(run.to_json()).of_policy("archer") == archer
    backwards = make_config("TagContinuous-v0", algo="dqn", policies={"tagger": {"algo": "ppo"}, "runner": {}})
    plain = make_config("TagContinuous-v0")
    assert backwards.of_policy("tagger").entropy_coef == plain.entropy_coef != 0
    assert backwards.of_policy("tagger").normalise_observations


def test_env_options_are_merged_into_the_tuned_ones():
    config = make_config("Pong-v5", env_options={"frame_skip": 2})
    assert config.env_options["frame_skip"] == 2
    assert config.env_options["reward_clip"] is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rat", 1e-3),
        ("learning_rate", "fast"),
        ("learning_rate", -1.0),
        ("num_envs", 0),
        ("num_envs", 2.5),
        ("gamma", 1.5),
        ("network", "transformer"),
        ("hidden", ()),
        ("hidden", (64, 0)),
        ("batch_size", 7),
        ("epochs", True),
        ("seed", -1),
        ("stop_episodes", 2**63),
        ("torch_threads", 1025),
    ],
)
def test_bad_options_are_named(name, value):
    with pytest.raises(OptionError, match=name):
        make_config("CartPole-v1", **{name: value})


FLOATS = {
    (algo, name)
    for algo in ("ppo", "dqn", "sac")
    for name in ALGORITHMS[algo].settings
    if isinstance(ALGORITHMS[algo].default(name), float)
}
MAYBE = [("ppo", "stop_at_return"), ("ppo", "value_clip_range"), ("ppo", "target_kl"), ("sac", "target_entropy")]
NOT_FINITE = [math.inf, -math.inf, math.nan]


class Walk:
    """What a program may take for a task to train in, as `headrace.make` takes it."""


@pytest.mark.parametrize(
    ("task", "named"),
    [(Walk, "file.py:Walk"), *((other, "file.py:function") for other in (lambda: Walk(), None, 3))],
)
def test_a_task_to_train_in_is_a_name(task: Any, named: str):
    with pytest.raises(OptionError, match=f"a task to train in is a name.*{named}"):
        make_config(task)


@pytest.mark.parametrize(
    ("name", "value"), [("env_options", {"length": np.int64(3)}), ("policies", {"a": {"agents": {1}}})]
)
def test_a_value_that_no_file_can_hold_is_named(name, value):
    with pytest.raises(OptionError, match=f"{name}=.*as config.json holds it"):
        make_config("CartPole-v1", **{name: value})


@pytest.mark.parametrize(("algo", "name"), [*sorted(FLOATS), *MAYBE])
def test_every_number_must_be_finite_wherever_it_comes_from(algo, name):
    for value in NOT_FINITE:
        wheres: list[dict[str, Any]] = [{name: value}, {"policies": {"one": {name: value}}}]
        for where in wheres:
            if name in ALGORITHMS[algo].shared() and "policies" in where:
                continue
            with pytest.raises(OptionError, match=rf"{name}={value} must be a finite number"):
                make_config("CartPole-v1", algo=algo, **where)
        text = json.dumps(json.loads(make_config("CartPole-v1", algo=algo).to_json()) | {name: value})
        with pytest.raises(OptionError, match="must be a finite number"):
            Config.from_json(text)
    beyond: dict[str, Any] = {name: 10**400}
    with pytest.raises(OptionError, match="must be between"):
        make_config("CartPole-v1", algo=algo, **beyond)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_points_of_schedules_must_be_finite(value):
    for point in ([7, value], [value, 0.1]):
        with pytest.raises(OptionError, match=r"schedules\['learning_rate'\].*must be a finite number"):
            make_config("CartPole-v1", schedules={"learning_rate": [point]})


def test_another_librarys_name_of_a_setting_is_answered_by_our_name() -> None:
    for algo, name, ours in (
        ("ppo", "n_steps", "num_steps"),
        ("ppo", "ent_coef", "entropy_coef"),
        ("sac", "ent_coef", "initial_temperature"),
        ("ppo", "tau", "gae_lambda"),
        ("sac", "tau", "target_rate"),
        ("dqn", "exploration_fraction", "epsilon_fraction"),
        ("dqn", "callbacks", "callback"),
    ):
        with pytest.raises(OptionError, match=f"training option '{name}' is called '{ours}' here$"):
            make_config("Task-v0", **{"algo": algo, name: 1})  # type: ignore[arg-type]
    with pytest.raises(
        OptionError, match="'clip_coef' is called 'clip_range' here, and not used by sac: it is for ppo"
    ):
        make_config("Task-v0", algo="sac", clip_coef=0.1)
    known = set().union(*(each.settings for each in ALGORITHMS.values()))
    assert OTHER_NAMES.keys() <= known | {*ARGUMENTS, "run_dir"}
    assert known & {name for names in OTHER_NAMES.values() for name in names.split()} == {"batch_size"}


def test_a_whole_number_may_be_a_float() -> None:
    config = make_config("CartPole-v1", total_steps=1e5)
    assert config.total_steps == 100_000 and isinstance(config.total_steps, int)
    with pytest.raises(OptionError, match=r"total_steps=1\.5 must be an integer"):
        make_config("CartPole-v1", total_steps=1.5)


def test_an_unknown_option_is_answered_with_the_nearest():
    with pytest.raises(OptionError, match="learning_rate"):
        make_config("CartPole-v1", learning_rat=1.0)
    with pytest.raises(OptionError, match=r"nearest: callback\b"):
        make_config("CartPole-v1", callbak=[])
    with pytest.raises(OptionError, match=r"give env_options=\{'frame_skip': 2\}"):
        make_config("Pong-v5", frame_skip=2)


def test_a_single_value_for_a_list_is_taken_if_its_meaning_is_clear() -> None:
    assert make_config("CartPole-v1", log="wandb").log == ("wandb",)
    assert make_config("CartPole-v1", devices="cpu").devices == ("cpu",)
    with pytest.raises(OptionError, match=r"hidden=64 must be a tuple of integers: \(64,\) for one, \(64, 64\) "):
        make_config("CartPole-v1", hidden=64)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"hidden='64' must be a tuple of integers$"):
        make_config("CartPole-v1", hidden="64")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"hidden": np.array([8, 4])}, (8, 4)),
        ({"total_steps": np.int64(7)}, 7),
        ({"learning_rate": np.float32(0.5)}, 0.5),
        ({"load": Path("runs/x")}, "runs/x"),
        ({"device": torch.device("cpu")}, "cpu"),
    ],
)
def test_values_of_numpy_torch_and_paths_are_those_of_python(given: dict[str, Any], value: Any) -> None:
    found = getattr(make_config("CartPole-v1", **given), next(iter(given)))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("algo", "name", "value"),
    [
        ("ppo", "value_clip_range", -0.5),
        ("ppo", "value_clip_range", 0.0),
        ("ppo", "target_kl", 0.0),
        ("ppo", "value_coef", -1.0),
        ("ppo", "entropy_coef", -1.1),
        ("ppo", "log_std_init", 1e9),
        ("ppo", "evaluate_share", 2.0),
        ("dqn", "target_rate", 2.0),
    ],
)
def test_every_number_that_has_bounds_keeps_to_them(algo: str, name: str, value: float) -> None:
    given: dict[str, Any] = {"algo": algo, name: value}
    with pytest.raises(OptionError, match=f"{name}={value} must be (above|at least|at most|between)"):
        make_config("Pendulum-v1", **given)


OWN_FILE = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Long(CartPoleEnv):
    def __init__(self, half_length: float = 0.5, **more):
        super().__init__(**more)
"""


def test_an_option_of_the_task_is_answered_with_the_way_to_give_it(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text(OWN_FILE)
    for task, name in (
        ("CartPole-v1", "sutton_barto_reward"),
        ("CartPole-v1", "max_episode_steps"),
        (f"{file}:Long", "half_length"),
        (f"{file}:Long", "sutton_barto_reward"),
        (f"{file}:Long", "flat_observation"),
    ):
        given: dict[str, Any] = {name: 3}
        with pytest.raises(OptionError, match=rf"{name} is an option of .*give env_options=\{{'{name}': 3\}}"):
            make_config(task, **given)
    with pytest.raises(OptionError, match=r"'frame_skip'.*env_options; CartPole-v1 has max_episode_steps, sutton_"):
        make_config("CartPole-v1", frame_skip=3)  # type: ignore[arg-type]
    text = json.dumps(json.loads(make_config("CartPole-v1").to_json()) | {"task": f"{file}:Other", "frame_skip": 3})
    file.write_text("raise SystemExit('a file of settings ran it')")
    with pytest.raises(OptionError, match=r"unknown training option 'frame_skip'$"):
        Config.from_json(text)


def test_a_property_of_an_algorithm_is_no_setting() -> None:
    given: dict[str, Any] = {"several_agents": True}
    with pytest.raises(OptionError, match="unknown training option 'several_agents'"):
        make_config("CartPole-v1", **given)


def test_a_replaced_setting_is_checked_as_a_given_one() -> None:
    config = make_config("Pendulum-v1", algo="sac")
    assert config.replace(hidden=[8]).hidden == (8,) and config.replace(total_steps=1e5).total_steps == 100_000
    for changes, words in (
        ({"num_env": 3}, "'num_env' is called 'num_envs' here"),
        ({"clip_range": 0.1}, "clip_range=0.1 would not be used by sac: it is for ppo"),
        ({"num_envs": 2.5}, r"num_envs=2\.5 must be an integer"),
    ):
        with pytest.raises(OptionError, match=words):
            config.replace(**changes)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="settings cannot change"):
        config.num_envs = 3


def test_schedules_are_linear_between_their_points():
    config = make_config("CartPole-v1", schedules={"entropy_coef": [(100, 0.5), (200, 0.1), (400, 0.0)]})
    seen = [config.at(step).entropy_coef for step in (0, 100, 150, 200, 300, 1000)]
    assert seen == pytest.approx([0.5, 0.5, 0.3, 0.1, 0.05, 0.0])
    assert config.at(150).learning_rate == config.learning_rate


@pytest.mark.parametrize(
    "schedules",
    [{"gamma": [(0, 0.9)]}, {"clip_range": []}, {"clip_range": [(5, 0.1), (5, 0.2)]}, {"clip_range": [0.1, 0.2]}],
)
def test_wrong_schedules_are_named(schedules):
    with pytest.raises(OptionError, match=next(iter(schedules))):
        make_config("CartPole-v1", schedules=schedules)


def test_a_schedule_may_end_the_learning_rate_at_0():
    config = make_config("CartPole-v1", schedules={"learning_rate": [(0, 1e-3), (100, 0.0)]})
    assert [config.at(step).learning_rate for step in (50, 100, 200)] == pytest.approx([5e-4, 0.0, 0.0])
    with pytest.raises(OptionError, match="learning_rate"):
        make_config("CartPole-v1", learning_rate=0.0)
    with pytest.raises(OptionError, match="learning_rate"):
        make_config("CartPole-v1", schedules={"learning_rate": [(0, 1e-3), (100, -1e-3)]})


def test_scheduled_values_are_checked_like_any_other():
    with pytest.raises(OptionError, match="clip_range"):
        make_config("CartPole-v1", schedules={"clip_range": [(0, 0.2), (10, -0.2)]})


def test_schedules_survive_their_file():
    config = make_config("CartPole-v1", schedules={"learning_rate": [(0, 1e-3), (100, 1e-4)]})
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_an_algorithm_has_its_own_settings_alone(algo):
    config = make_config("CartPole-v1", algo=algo)
    assert config.algorithm is find_settings(algo)
    written = json.loads(config.to_json())
    assert list(written) == list(config.algorithm.settings)
    assert ("clip_range" in written, "epsilon_end" in written) == (algo == "ppo", algo in ("dqn", "pqn"))
    for name, known in config.algorithm.settings.items():
        assert known.help and known.group and known != Setting(), name


def test_settings_of_other_algorithms_are_errors_that_name_them():
    with pytest.raises(OptionError, match=r"clip_range=0\.3 would not be used by sac: it is for ppo"):
        make_config("Pendulum-v1", algo="sac", clip_range=0.3)
    with pytest.raises(OptionError, match=r"rho_clip=0\.5 would not be used by a2c: it is for ppo with samplers"):
        make_config("Pendulum-v1", algo="a2c", rho_clip=0.5)


def test_a_setting_of_the_run_reaches_the_policies_whose_algorithm_has_it():
    policies = {"tagger": {"algo": "dqn"}, "runner": {}}
    config = make_config("TagGridWorld-v0", policies=policies, learning_starts=77)
    assert config.of_policy("tagger").learning_starts == 77
    assert not hasattr(config, "learning_starts") and not hasattr(config.of_policy("runner"), "learning_starts")
    with pytest.raises(OptionError, match="policy_delay=3 would not be used by ppo"):
        make_config("TagGridWorld-v0", policies=policies, policy_delay=3)


def test_settings_are_pickled_by_the_name_of_their_algorithm():
    config = make_config("Pendulum-v1", algo="sac", seed=5, hidden=(8,))
    again = pickle.loads(pickle.dumps(config))
    assert again == config and again.algorithm is ALGORITHMS["sac"]
    assert b"SACSettings" not in pickle.dumps(config), "another process finds it through the algorithm"


def test_bounds_stand_beside_the_setting():
    with pytest.raises(OptionError, match=r"gamma=1.5 must be between 0 and 1"):
        make_config("x", defaults=False, algo="ppo", gamma=1.5)
    with pytest.raises(OptionError, match=r"replay_ratio=0 must be above 0"):
        make_config("x", algo="sac", replay_ratio=0)
    assert make_config("x", algo="sac", replay_ratio=None).replay_ratio is None


@pytest.mark.parametrize(
    ("name", "words"),
    [("alchemy", "is not an algorithm"), ("ppO", "did you mean ppo"), ("gzip:X", "no class X"), ("a.py", "a.py:Class")],
)
def test_unknown_algorithms_are_errors(name, words):
    with pytest.raises(OptionError, match=f"algo='{name}'.*{words}"):
        make_config("CartPole-v1", algo=name)


def settings_of_all(**chosen: Any) -> str:
    """A config.json as it was when every run listed the settings of all algorithms."""
    every: dict[str, Any] = {}
    for algo in reversed(ALGORITHMS):
        every |= json.loads(make_config("CartPole-v1", defaults=False, algo=algo).to_json())
    return json.dumps(every | {"algo": "ppo"} | chosen)


def test_a_file_with_the_settings_of_all_algorithms_is_read():
    text = settings_of_all(epochs=7, replay_size=9)
    assert {"clip_range", "replay_size", "policy_delay", "epsilon_end"} < json.loads(text).keys()
    config = Config.from_json(text)
    assert config == make_config("CartPole-v1", defaults=False, algo="ppo", epochs=7)
    assert "replay_size" not in json.loads(config.to_json())
    policies = {"tagger": {"algo": "dqn", "epsilon_end": 0.2}, "runner": {}}
    tagger = Config.from_json(settings_of_all(policies=policies, replay_size=9)).of_policy("tagger")
    assert (tagger.replay_size, tagger.epsilon_end) == (9, 0.2), "what all policies had"
    with pytest.raises(OptionError, match="unknown training option 'alchemy'"):
        Config.from_json(settings_of_all(alchemy=1))


@pytest.mark.parametrize(("algo", "task"), [("ppo", "CartPole-v1"), ("sac", "Pendulum-v1")])
def test_a_run_with_the_settings_of_all_algorithms_goes_on(algo, task, tmp_path):
    run = tmp_path / "run"
    small: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "samplers": 0, "video": False, "tensorboard": False}
    train(task, algo, total_steps=256, run_dir=run, quiet=True, **small)
    file = run / "config.json"
    file.write_text(settings_of_all(**json.loads(file.read_text())))
    assert resume(run, total_steps=512, quiet=True).steps == 512
    assert list(json.loads(file.read_text())) == [*find_settings(algo).settings, "updates"]

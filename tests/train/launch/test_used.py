"""A setting that a run will not use is an error that names it; every setting has somebody who uses it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import headrace
from headrace.envs import FAMILIES
from headrace.errors import OptionError
from headrace.train import train
from headrace.train.collect.fitting import policy_settings
from headrace.train.launch.checks import resolved, why_no_samplers
from headrace.train.launch.used import check_learns, check_used
from headrace.train.recipes.make import make_config
from headrace.train.settings.algorithm import ALGORITHMS
from headrace.train.settings.config import Fit
from nightly import rest_nightly
from updates import CROSSQ

KNOWN = {key for algo in ("ppo", "dqn") for key in ALGORITHMS[algo].presets["default"]}
TASKS = (KNOWN | {*FAMILIES["minatar"].tasks}) - {"", "gru", *FAMILIES}
SETTINGS = [(algo, name) for algo in ALGORITHMS for name in ALGORITHMS[algo].settings]


@pytest.mark.parametrize(("algo", "name"), SETTINGS)
def test_a_setting_is_used_by_the_algorithms_that_have_it(algo, name):
    chosen: dict[str, Any] = {"copies": "another", "normalise_observations": True}
    if algo == "dqn":
        chosen |= {"target_update": 0, "prioritised": True}
    algorithm = ALGORITHMS[algo]
    if "standardise_pixels" in algorithm.settings:
        chosen["trunk"] = "strided"
    if "decisions_only" in algorithm.settings:
        chosen["decisions_only"] = True
    policies = [
        make_config("Some-v0", defaults=False, algo=algo, samplers=samplers, **chosen).replace(Fit(kind))
        for samplers in ((0, 1) if algorithm.has_workers else (0,))
        for kind in algorithm.network_kinds
    ]
    assert any(own.has(name) for own in policies) == (name in algorithm.usable)
    assert name in algorithm.usable or (algo in ("a2c", "pqn") and name in WORKERS_ONLY)


WORKERS_ONLY = ("ray", "evaluate_seconds", "evaluate_share")
"""settings of workers, which a2c and pqn have none of"""


def refused(task: str = "Pendulum-v1", **settings: Any) -> str:
    with pytest.raises(OptionError) as caught:
        check(task, **settings)
    return str(caught.value)


def check(task: str, **settings: Any) -> None:
    """As a run that begins with these settings is checked."""
    config = resolved(make_config(task, **settings))
    spec = headrace.make_spec(task, **config.env_options)
    check_used(config, settings, policy_settings(config, spec), why_no_samplers(config))


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg", "dqn"])
def test_steps_and_priorities_are_for_one_agent_without_hindsight(algo):
    task, others = ("CartPole-v1", ["TagGridWorld-v0"]) if algo == "dqn" else ("Pendulum-v1", [])
    for name, value in (("n_step", 3), ("prioritised", True)) if algo == "dqn" else (("n_step", 3),):
        settings: dict[str, Any] = {"algo": algo, name: value}
        for samplers in (0, 1):
            check(task, samplers=samplers, **settings)
        refusals = [refused(task, hindsight=0.8, **settings), *(refused(other, **settings) for other in others)]
        for words in refusals:
            assert words.startswith(f"{name}={value} would not be used") and "in tasks with one agent" in words
    if algo != "dqn":
        assert "prioritised=True" in refused(task, algo=algo, prioritised=True, samplers=0)


def test_rewards_of_several_steps_are_not_silently_dropped_with_hindsight():
    """Given, they are an error, also where they are a preset's; a preset's alone are a remark."""
    fast: dict[str, Any] = {"algo": CROSSQ, "preset": "fast", "hindsight": 0.8}
    for samplers in (0, 1):
        words = refused(samplers=samplers, n_step=3, **fast)
        assert words.startswith(f"n_step=3 would not be used by {CROSSQ}") and "with hindsight=0" in words
        check("Pendulum-v1", samplers=samplers, **fast)
        check("Pendulum-v1", samplers=samplers, n_step=1, **fast)
        check("Pendulum-v1", samplers=samplers, n_step=3, **(fast | {"hindsight": 0}))
    dqn: dict[str, Any] = {"task": "MinAtar-Breakout-v1", "algo": "dqn", "preset": "fast"}
    check(**dqn, target_rate=make_config(**dqn).target_rate)  # type: ignore[attr-defined]  # target_update is its, too


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("CartPole-v1", {"n_step": 3}, "with n_step=3 the replay .*: leave batch_size out, or set n_step=1$"),
        ("CartPole-v1", {"prioritised": True}, "with prioritised=True the replay .* out, or set prioritised=False$"),
        ("MinAtar-Breakout-v1", {"n_step": 3}, "with images and n_step=3 the replay .*: leave batch_size out$"),
        ("Pendulum-v1", {"algo": CROSSQ, "preset": "fast"}, "with n_step=3 the replay .* out, or set n_step=1$"),
    ],
)
def test_rows_of_a_replay_of_steps_are_of_all_environments(tmp_path, task, settings, words):
    """What needs the replay is named, also where a preset has it, and how to do without."""
    with pytest.raises(OptionError, match=f"batch_size=4 steps environments in groups, but {words}"):
        train(task, run_dir=tmp_path / "run", num_envs=8, batch_size=4, **({"algo": "dqn"} | settings))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("algo", "name", "value", "more", "words"),
    [
        ("sac", "publish_every", 7, {"batch_size": 4, "num_envs": 8}, r"samplers=0 \(because batch_size=4\)"),
        ("sac", "publish_every", 7, {"devices": ("cpu", "cpu")}, r"because devices="),
        ("sac", "clip_range", 0.3, {}, "it is for ppo"),
        ("a2c", "epochs", 7, {}, "it is for ppo"),
        ("a2c", "minibatch_size", 7, {}, "it is for ppo, pqn, ddpg, td3, sac, dqn"),
        ("ppo", "replay_ratio", 0.5, {}, "it is for ddpg, td3, sac, dqn"),
        ("ppo", "rho_clip", 0.5, {}, "it is for ppo with samplers"),
        ("ppo", "evaluate_seconds", 3.0, {}, "it is for ppo, ddpg, .*dqn.* with samplers"),
        ("ppo", "device", "cuda", {"devices": ("cpu", "cpu")}, "with devices="),
        ("ppo", "log_std_init", -1.0, {"task": "CartPole-v1"}, "with continuous actions"),
        ("ppo", "bf16", True, {}, "with a network that is cnn"),
        ("ppo", "shared", True, {"network": "gru"}, "with a network that is mlp"),
        ("ppo", "hidden", (8,), {"task": "MinAtar-Breakout-v1"}, "with a network that is mlp or gru"),
        ("sac", "num_steps", 99, {}, "with samplers=0"),
        ("sac", "normalise_observations", True, {}, "with samplers=0"),
        ("sac", "frozen", True, {}, "with samplers=0"),
        ("dqn", "frozen", True, {}, "with samplers=0"),
        ("sac", "policy_delay", 3, {}, "it is for td3"),
        ("td3", "max_grad_norm", 3.0, {}, "it is for ppo, a2c, pqn, ddpg, dqn"),
        ("sac", "actor_device", "cpu", {"samplers": 0}, "with samplers"),
        ("sac", "publish_every", 7, {"samplers": 0}, "with samplers"),
        ("dqn", "priority_exponent", 0.7, {}, "dqn in tasks with one agent with prioritised"),
        ("dqn", "target_rate", 0.1, {"target_update": 50}, "with target_update=0"),
    ],
)
def test_an_unused_setting_is_named_with_its_users(algo, name, value, more, words):
    task = {"task": "CartPole-v1" if algo == "dqn" else "Pendulum-v1"}
    error = refused(**(task | more), algo=algo, **{name: value})
    assert error.startswith(f"{name}={value!r} would not be used by {algo}")
    assert re.search(words, error)


def test_a_schedule_of_an_unused_setting_is_named():
    schedules = {"clip_range": [(0, 0.2), (10, 0.1)]}
    assert "a schedule of clip_range" in refused("Pendulum-v1", algo="sac", schedules=schedules)


def test_a_policy_with_its_own_algorithm_uses_the_settings_of_that():
    policies = {"tagger": {"algo": "dqn", "replay_size": 500, "epsilon_end": 0.2}, "runner": {"clip_range": 0.3}}
    settings: dict[str, Any] = {"policies": policies, "epochs": 9, "learning_starts": 77}
    check("TagGridWorld-v0", **settings)
    wrong = refused("TagGridWorld-v0", policies={"tagger": {"algo": "dqn", "epochs": 9}, "runner": {}})
    assert "policy 'tagger'" in wrong and "epochs=9" in wrong


@pytest.mark.parametrize(
    ("algo", "settings", "words"),
    [
        ("ppo", {"frozen": True}, "with frozen=True no policy would learn"),
        ("sac", {"frozen": True, "samplers": 0}, "with frozen=True no policy would learn"),
        ("sac", {"samplers": 0, "replay_ratio": None}, "replay_ratio=None .* samplers=0 it must be a number"),
        ("sac", {"deterministic": True, "replay_ratio": None}, r"samplers=0 \(because deterministic=True\)"),
        ("td3", {"learning_starts": 65, "total_steps": 64}, "learning_starts=65 and total_steps=64 nothing would be"),
        ("sac", {"learning_starts": 65, "total_steps": 64, "samplers": 0}, "learning_starts=65 and total_steps=64"),
    ],
)
def test_a_run_that_would_not_learn_is_refused_before_its_folder_is_made(tmp_path, algo, settings, words):
    with pytest.raises(OptionError, match=words):
        train("Pendulum-v1", algo, run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


def test_a_run_of_several_policies_needs_one_that_learns():
    one, other = make_config("TagGridWorld-v0"), make_config("TagGridWorld-v0", frozen=True)
    check_learns(one, {}, {"tagger": one, "runner": other})
    with pytest.raises(OptionError, match="no policy would learn"):
        check_learns(one, {}, {"tagger": other, "runner": other})
    late = make_config("TagGridWorld-v0", algo="dqn", samplers=0, total_steps=10, learning_starts=40)
    given = {"learning_starts": 40}
    check_learns(late, given, {"tagger": late.replace(Fit(agents=4))})  # each of its agents collects
    with pytest.raises(OptionError, match="policy 'tagger': with learning_starts=40"):
        check_learns(late, given, {"tagger": late.replace(Fit(agents=3))})


def test_a_run_that_learns_nothing_by_default_prints_a_remark(tmp_path, capfd):
    options: dict[str, Any] = {"total_steps": 64, "num_envs": 4, "samplers": 0, "video": False, "tensorboard": False}
    train("Pendulum-v1", "sac", run_dir=tmp_path / "run", **options)
    assert "learning_starts=1000 and total_steps=64 nothing would be learnt" in capfd.readouterr().out


@pytest.mark.parametrize("algo", rest_nightly(ALGORITHMS, "sac"))
@pytest.mark.parametrize("samplers", [0, 1])
def test_defaults_and_settings_turned_off_are_no_mistake(algo, samplers):
    for task in TASKS:
        config = make_config(task, algo=algo, samplers=samplers)
        check_used(config, vars(config), {"": config})
    nothing: dict[str, Any] = {"evaluate_episodes": 0}
    nothing |= {"save_replay": False, "n_step": 1} if ALGORITHMS[algo].replays else {}
    config = make_config("CartPole-v1", algo=algo, samplers=samplers, **nothing)
    check_used(config, nothing, {"": config})


def test_an_automatic_choice_of_no_samplers_is_reported(tmp_path, capfd):
    options: dict[str, Any] = {"total_steps": 64, "num_envs": 8, "batch_size": 4, "video": False, "tensorboard": False}
    train("CartPole-v1", "dqn", run_dir=tmp_path / "one", n_step=1, **options)
    (line,) = [line for line in capfd.readouterr().out.splitlines() if "in turn" in line]
    assert "samplers=0" in line and "batch_size=4" in line
    train("CartPole-v1", "dqn", run_dir=tmp_path / "two", samplers=0, **options)
    assert "in turn" not in capfd.readouterr().out


def test_a_refused_run_leaves_no_folder(tmp_path):
    with pytest.raises(OptionError, match="publish_every=7"):
        train("Pendulum-v1", "sac", samplers=0, publish_every=7, run_dir=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()

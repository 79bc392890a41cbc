"""With ``deterministic`` a run repeats bit for bit, whatever learns; also one that was stopped on its way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.launch.checks import resolved
from headrace.train.modules import compiled
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import load
from headrace.train.runs.events import read_events
from headrace.train.settings.config import Config
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run, facts, stopped_half_way

train: Any = headrace.train
OPTIONS = {name: value for name, value in SMALL.items() if name not in ("epochs", "minibatch_size")}
OPTIONS |= {"deterministic": True, "total_steps": 2000, "log_steps": 128, "keep_checkpoints": 1000, "quiet": True}
REPLAY = {"learning_starts": 256, "replay_ratio": 0.1, "hidden": (16, 16), "replay_size": 1000, "minibatch_size": 32}
NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {"normalise_values": True}),
    "a2c": ("CartPole-v1", {}),
    "pqn": ("CartPole-v1", {}),
    "dqn": ("CartPole-v1", REPLAY | {"target_update": 7}),
    "sac": ("Pendulum-v1", REPLAY | NORMALISED),
    "crossq": ("Pendulum-v1", REPLAY),
    "td3": ("Pendulum-v1", REPLAY | {"policy_delay": 5}),
    "ddpg": ("Pendulum-v1", REPLAY | NORMALISED),
}


@pytest.mark.parametrize("algo", rest_nightly(["ppo", "a2c"], "ppo"))
def test_a_run_on_pictures_that_was_stopped_repeats_bit_for_bit(tmp_path: Path, algo: str):
    """Its convolutions are compiled, where they can be; those of DQN are in test_turn_learners.py."""
    options = OPTIONS | {"num_envs": 4, "num_steps": 8, "total_steps": 320, "log_steps": 32}
    options |= {"env_options": {"max_episode_steps": 9}}
    options |= {"epochs": 2, "minibatch_size": 16} if algo == "ppo" else {}
    run = tmp_path / "one"
    train("MinAtar-Breakout-v1", algo, run_dir=run, **options)
    assert note_of(run).startswith("torch" if compiled.compiled_module() is None else "compiled (")
    stopped_half_way(run, tmp_path / "stopped")
    resume(tmp_path / "stopped", quiet=True)
    assert len(facts(run)) > 4 and facts(run)[-1]["loss"] and facts(run)[-1]["step"] >= 320
    assert_same_run(run, tmp_path / "stopped")


@pytest.mark.parametrize("algo", rest_nightly(ALGORITHMS, "ppo", "sac"))
def test_runs_repeat_bit_for_bit(tmp_path: Path, algo: str):
    task, settings = ALGORITHMS[algo]
    options = OPTIONS | settings | {"env_options": {"max_episode_steps": 30}}
    for name in ("one", "two"):
        train(task, algo, run_dir=tmp_path / name, **options)
    stopped_half_way(tmp_path / "one", tmp_path / "stopped")
    resume(tmp_path / "stopped", quiet=True)
    assert len(facts(tmp_path / "one")) > 10 and facts(tmp_path / "one")[-1]["loss"]
    for name in ("two", "stopped"):
        assert_same_run(tmp_path / "one", tmp_path / name)


def note_of(run: Path) -> str:
    """What makes a run's updates, as its file says beside settings that are read as before."""
    text = (run / "config.json").read_text()
    assert not hasattr(Config.from_json(text), "updates")
    return json.loads(text)["updates"]


def test_a_run_that_goes_on_with_other_updates_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if compiled.compiled_module() is None:
        pytest.skip("PyTorch makes all updates here")
    task, settings = ALGORITHMS["td3"]
    options = OPTIONS | settings | {"total_steps": 300}
    train(task, "td3", run_dir=tmp_path / "run", **options)
    assert note_of(tmp_path / "run").startswith("compiled (")
    monkeypatch.setenv(compiled.LEFT_OUT, "1")
    compiled.compiled_module.cache_clear()
    try:
        resume(tmp_path / "run", total_steps=320, quiet=True)
    finally:
        compiled.compiled_module.cache_clear()
    assert note_of(tmp_path / "run") == f"torch ({compiled.LEFT_OUT})"
    said = [event.text for event in read_events(tmp_path / "run" / "events.jsonl")]
    assert "compiled code made this run's updates, and now PyTorch does: they differ by rounding" in said


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_the_best_weights_do_not_depend_on_the_moments_of_saving(tmp_path: Path, algo: str):
    task, settings = ALGORITHMS[algo]
    options = OPTIONS | settings | {"env_options": {"max_episode_steps": 30}}
    for name, seconds in (("often", 0.0), ("once", 1e9)):
        train(task, algo, run_dir=tmp_path / name, **(options | {"checkpoint_seconds": seconds}))
    often, once = (load(tmp_path / name / "checkpoints" / "best") for name in ("often", "once"))
    assert often.counters["step"] == once.counters["step"] > 0
    for name, tensor in often.model.items():
        assert torch.equal(tensor, once.model[name]), name


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_deterministic_run_has_no_samplers_and_one_thread_by_default(algo: str):
    config = resolved(make_config(ALGORITHMS[algo][0], algo=algo, deterministic=True))
    assert (config.samplers, config.torch_threads) == (0, 1)
    assert vars(config).get("actor_device", "") == "", "algorithms with an actor and critics alone have one"
    assert resolved(make_config("Pendulum-v1", deterministic=True, torch_threads=2)).torch_threads == 2


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"samplers": 2}, "samplers=2"),
        ({"actor_device": "cpu"}, "actor_device='cpu'"),
        ({"batch_size": 4, "num_envs": 8}, "batch_size=4"),
    ],
)
def test_a_setting_that_cannot_repeat_is_refused(settings: dict[str, Any], named: str):
    with pytest.raises(OptionError, match=f"{named} .*deterministic"):
        make_config("Pendulum-v1", algo="sac", deterministic=True, **settings)


def test_the_command_line_takes_deterministic(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    words = ["train", "Pendulum-v1", "--algo", "sac", "--total-steps", "600", "--no-video", "--deterministic"]
    assert main([*words, "--run-dir", str(tmp_path / "run")]) == 0
    assert "tuned" not in capfd.readouterr().out
    assert Config.from_json((tmp_path / "run" / "config.json").read_text()).samplers == 0
    assert main([*words, "--samplers", "2"]) == 2 and "samplers=2" in capfd.readouterr().err

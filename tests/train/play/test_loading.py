"""A run begins with the network of another, whichever way both train; networks that do not fit are refused at once."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from headrace.errors import OptionError
from headrace.train import load, train
from headrace.train.play.agent import load_checkpoint
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder, ranked_runs
from nightly import rest_nightly

TINY: dict[str, Any] = {
    "num_envs": 4, "hidden": (8,), "total_steps": 256, "stop_at_return": None, "tensorboard": False, "video": False,
}  # fmt: skip


def trained(folder, algo: str, task: str = "Pendulum-v1", **settings: Any) -> str:
    if algo != "ppo":
        settings = {"learning_starts": 64, "replay_ratio": 0.1, "minibatch_size": 16} | settings
    train(task, algo, run_dir=folder, quiet=True, **(TINY | settings))
    return str(folder)


NORMALISED = {"normalise_observations": True, "normalise_values": True}
WAYS = [(*way, samplers) for way in (("sac", {}), ("td3", {}), ("ppo", NORMALISED)) for samplers in (0, 1)]


@pytest.mark.parametrize(("algo", "how", "samplers"), rest_nightly(WAYS, WAYS[1], WAYS[2], WAYS[5]))
def test_a_run_begins_with_the_weights_of_another(tmp_path, algo, how, samplers):
    how = {"normalise_observations": False, **how} if algo == "ppo" else how
    source = trained(tmp_path / "source", algo, samplers=0, **how)
    config = make_config("Pendulum-v1", algo=algo, samplers=samplers, load=source, seed=5, **(TINY | how))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path / "run", config))
    try:
        model = trainer.saver.checkpoint().model
        learnt = load_checkpoint(RunFolder.open(source)[0], checkpoints.BEST).model
        assert model.keys() == learnt.keys()
        assert all(torch.equal(model[name], learnt[name]) for name in learnt)
        assert algo == "ppo" or not trainer.policies[0].distribution.widely  # it acts as it has learnt
        if samplers:  # they begin with it, too
            trainer.learner.begin(False)
            before = trainer.policies[0].actor_parameters.clone()
            trainer.policies[0].actor_parameters.zero_()
            assert trainer.source.policy_copy.read(trainer.source.weights)
            assert torch.equal(trainer.policies[0].actor_parameters, before)
    finally:
        trainer.close()


@pytest.mark.parametrize("algo", ["sac", "dqn"])
def test_until_learning_starts_a_loaded_policy_acts_as_it_has_learnt(tmp_path, algo):
    task = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    settings: dict[str, Any] = {**TINY, "samplers": 0, "learning_starts": 64, "num_steps": 4}
    trained(tmp_path / "source", algo, task, **settings | {"total_steps": 64})
    config = make_config(task, algo=algo, load=str(tmp_path / "source"), **settings)
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path / "run", config))
    try:
        for _ in range(3):
            trainer.iterate()
            how = trainer.policies[0].distribution
            assert float(how.epsilon) == pytest.approx(config.epsilon_end) if algo == "dqn" else not how.widely
    finally:
        trainer.close()


def test_a_run_loads_no_weights_of_values_normalised_otherwise(tmp_path):
    source = trained(tmp_path / "source", "ppo", normalise_values=True)
    with pytest.raises(OptionError, match=r"normalise_values=False .*source.* normalise_values=True"):
        train("Pendulum-v1", run_dir=tmp_path / "run", quiet=True, load=source, **TINY)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("samplers", [0, 1])
def test_a_run_loads_no_weights_of_observations_normalised_otherwise(tmp_path, there, samplers):
    source = trained(tmp_path / "source", "ppo", normalise_observations=there)
    settings = TINY | {"normalise_observations": not there, "load": source, "samplers": samplers}
    words = f"normalise_observations={not there} .*source.* normalise_observations={there}"
    with pytest.raises(OptionError, match=words):
        train("Pendulum-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_run_loads_no_weights_of_another_activation(tmp_path, algo):
    source = trained(tmp_path / "source", algo, activation="tanh", samplers=0)
    settings = TINY | {"activation": "relu", "load": source, "samplers": 0}
    with pytest.raises(OptionError, match=r"activation='relu' .*source.* activation='tanh'"):
        train("Pendulum-v1", algo, run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


def test_a_network_of_another_shape_is_named(tmp_path):
    source = trained(tmp_path / "source", "ppo")
    with pytest.raises(OptionError, match=r"load=.*source.* has shape \[16, 3\] there, and \[18, 3\] here$"):
        train("Pendulum-v1", run_dir=tmp_path / "run", quiet=True, **(TINY | {"load": source, "hidden": (9,)}))


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            "MountainCarContinuous-v0",
            r"Pendulum-v1, whose observation is float32\[3\]; that of .* is float32\[2\]: load",
        ),
        ("Acrobot-v1", r"Pendulum-v1, whose observation is float32\[3\]; that of .* is float32\[6\]: load"),
    ],
)
def test_a_run_of_other_spaces_is_refused_before_a_folder_is_made(tmp_path, task, words):
    source = trained(tmp_path / "source", "ppo")
    with pytest.raises(OptionError, match=words):
        train(task, run_dir=tmp_path / "run", quiet=True, load=str(source), **TINY)
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_checkpoint_is_named(tmp_path):
    RunFolder.create(tmp_path / "source", make_config("Pendulum-v1"))
    options: dict[str, Any] = TINY | {"load": str(tmp_path / "source")}
    with pytest.raises(OptionError, match=r"load=.*no checkpoint"):
        train("Pendulum-v1", run_dir=tmp_path / "run", quiet=True, **options)


@pytest.mark.parametrize("name", ["device", "critic_device", "actor_device"])
@pytest.mark.parametrize("device", ["cuda:77", "disk"])
def test_missing_devices_are_named(tmp_path, name, device):
    with pytest.raises(OptionError, match=device):
        train("Pendulum-v1", "sac", run_dir=tmp_path / "run", quiet=True, **(TINY | {name: device}))
    assert not (tmp_path / "run").exists()


def test_a_run_that_never_began_leaves_its_folder_free(tmp_path):
    """What does not fit is found when networks are made, by then there is a folder."""
    train("CartPole-v1", run_dir=tmp_path / "wide", total_steps=128, hidden=(8, 8), quiet=True, video=False)
    settings: dict[str, Any] = {"run_dir": tmp_path / "next", "total_steps": 128, "quiet": True, "video": False}
    with pytest.raises(OptionError, match="load"):
        train("CartPole-v1", load=str(tmp_path / "wide"), hidden=(16, 16), **settings)
    train("CartPole-v1", load=str(tmp_path / "wide"), hidden=(8, 8), **settings)


def test_a_folder_of_runs_stands_for_one_of_them(tmp_path, capsys):
    runs = tmp_path / "runs"
    for seed in (1, 2):
        train("CartPole-v1", run_dir=runs / str(seed), quiet=True, seed=seed, **TINY)
    capsys.readouterr()
    (best, first), (worst, last) = ranked_runs(runs)
    assert best > worst
    os.utime(last / "checkpoints")  # the newest
    assert load(runs).run_dir == last
    (runs / "seeds.json").write_text("{}")
    agent = load(str(runs))
    assert agent.run_dir == first and str(first) in repr(agent)
    assert load(last).run_dir == last
    assert capsys.readouterr() == ("", "")
    (tmp_path / "empty").mkdir()
    for wrong, words in (("empty", "there is no run in"), ("nowhere", "is not a folder")):
        with pytest.raises(OptionError, match=words):
            load(tmp_path / wrong)

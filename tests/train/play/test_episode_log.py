"""An episode's log equals stepping by hand, replica by replica, and making one disturbs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)
from headrace.errors import OptionError
from headrace.train import log_episode
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import playing_pool
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
SHORT = SMALL | {"total_steps": 600}
GAMES: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {"env_options": {"max_episode_steps": 12}},
    "TagGridWorld-v0": {"env_options": {"num_taggers": 4, "grid_length": 8}},
    "TagContinuous-v0": {"env_options": {"num_taggers": 3, "num_runners": 2, "max_episode_steps": 9}},
    "TestHunt-v0": {"network": "gru", "hidden": (8,)},
}
SAMPLED = ("CartPole-v1", False)


def by_hand(run_dir: Path, names: list[str] | None, env_id: int, deterministic: bool) -> dict[str, np.ndarray]:
    """The same from a pool of many replicas, all of which play on; the state after the end is not seen."""
    run, config = RunFolder.open(run_dir)
    rows: list[dict[str, Any]] = []
    with playing_pool(config, num_envs=5, seed=77) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run))
        obs, _ = pool.reset()
        while True:
            row: dict[str, Any] = pool.state_arrays(names)
            one = {key: part[[env_id]] for key, part in obs.items()} if isinstance(obs, dict) else obs[[env_id]]
            chosen = agent.act(one, deterministic)
            if isinstance(chosen, dict):
                actions: Any = {key: np.repeat(part, 5, 0) for key, part in chosen.items()}
                row |= {f"action:{key}": part for key, part in actions.items()}
            else:
                actions = np.repeat(chosen, 5, 0)
                row["action"] = actions
            obs, row["reward"], row["terminated"], row["truncated"], _ = pool.step(actions)
            rows.append({name: array[env_id].copy() for name, array in row.items()})
            if rows[-1]["terminated"] or rows[-1]["truncated"]:
                return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize(
    ("task", "deterministic"),
    rest_nightly([(task, yes) for task in GAMES for yes in (True, False)], *((task, True) for task in GAMES), SAMPLED),
)
def test_an_episode_log_equals_stepping_by_hand(tmp_path: Path, task, deterministic):
    train(task, run_dir=tmp_path, quiet=True, **(SHORT | GAMES[task]))
    lengths = set()
    for env_id in (0, 3):
        log = log_episode(tmp_path, env_id=env_id, seed=77, deterministic=deterministic)
        expected = by_hand(tmp_path, None, env_id, deterministic)
        assert log.keys() == expected.keys()
        steps = len(log["reward"])
        lengths.add(steps)
        for name, array in expected.items():
            logged = log[name]
            assert len(logged) == steps + (name.split(":")[0] not in ("action", "reward", "terminated", "truncated"))
            assert logged.dtype == array.dtype
            np.testing.assert_array_equal(logged[:steps], array, err_msg=name)
        ends = log["terminated"] | log["truncated"]
        assert ends.tolist() == [False] * (steps - 1) + [True]
    assert min(lengths) > 1


def test_the_last_row_is_the_final_state(tmp_path: Path):
    options = {"num_taggers": 4, "grid_length": 3, "random_start": True}
    train("TagGridWorld-v0", run_dir=tmp_path, quiet=True, **(SHORT | {"env_options": options}))
    caught = 0
    for seed in range(12):
        log = log_episode(tmp_path, ["x", "y"], seed=seed, deterministic=False)
        assert list(log) == ["x", "y", "action", "reward", "terminated", "truncated"]
        x, y = log["x"], log["y"]
        together = ((x[:, :4] == x[:, 4:]) & (y[:, :4] == y[:, 4:])).any(1)
        assert (together[1:] == log["terminated"]).all()
        moved = np.abs(np.diff(x, axis=0)) + np.abs(np.diff(y, axis=0))
        assert (moved[log["action"] == 0] == 0).all() and moved.max() == 1
        caught += int(log["terminated"][-1])
    assert caught


def test_unknown_arrays_environments_and_runs_are_refused(tmp_path: Path):
    train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, **SHORT)
    with pytest.raises(OptionError, match="no state array 'pos'; it has"):
        log_episode(tmp_path / "run", ["pos"])
    with pytest.raises(OptionError, match="env_id"):
        log_episode(tmp_path / "run", env_id=-1)
    with pytest.raises(OptionError, match="is not a folder: name run folders"):
        log_episode(tmp_path / "nowhere")


@pytest.mark.parametrize("network", rest_nightly(["mlp", "gru"], "mlp"))
def test_logging_an_episode_leaves_training_unchanged(tmp_path: Path, network):
    options: dict[str, Any] = (
        SHORT | GAMES["TagGridWorld-v0"] | {"network": network, "hidden": (8,), "normalise_observations": True}
    )
    train("TagGridWorld-v0", run_dir=tmp_path / "alone", quiet=True, **options)
    config = make_config("TagGridWorld-v0", **options)
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path / "logged", config))
    first = trainer.log_episode(["x"], env_id=3)
    chance = torch.get_rng_state()
    trainer.iterate()
    trainer.log_episode(["x"], env_id=3)
    trainer.log_episode(["x"], env_id=3, deterministic=False)
    assert torch.equal(torch.get_rng_state(), chance)
    trainer.train(Dashboard(quiet=True))
    last = trainer.log_episode(["x", "t"], env_id=3)
    trainer.close()
    assert_same_run(tmp_path / "alone", tmp_path / "logged")
    saved = log_episode(tmp_path / "logged", ["x", "t"], env_id=3, which="newest")
    for name, array in saved.items():
        np.testing.assert_array_equal(array, last[name])
    assert not (first["action"].shape == last["action"].shape and (first["action"] == last["action"]).all())

"""EnvPool's dictionaries as one array: what it holds, in every kind of pool, and runs that learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.pool.flat_observation import Joined, words_of
from headrace.pool.structure import row_of
from headrace.train import load, train

envpool = pytest.importorskip("envpool")

BABY, MAZE = "envpool:BabyAI-GoToLocal-v0", "envpool:Maze-v0"
GOALS = "envpool:Parking-v0"


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
@pytest.mark.parametrize("task", [BABY, MAZE, "envpool:Knapsack-v1", GOALS])
def test_flat_rows_equal_the_joined_parts_of_each_environment(task: str, autoreset: Any) -> None:
    settings: dict[str, Any] = {"num_envs": 3, "seed": 1, "autoreset": autoreset}
    with headrace.make(task, **settings) as plain, headrace.make(task, flat_observation=True, **settings) as pool:
        space: Any = pool.spec.observation
        parts, rows = plain.reset()[0], pool.reset()[0]
        pool.action_space.seed(3)
        ends = 0
        for _ in range(110):
            assert rows.dtype == space.dtype
            np.testing.assert_array_equal(rows, [space.of(row_of(parts, i)) for i in range(3)])
            action = pool.action_space.sample()
            action = np.stack([action] * 3)
            parts, *theirs, told = plain.step(action)
            rows, *mine, info = pool.step(action)
            assert all(map(np.array_equal, mine, theirs))
            if "final_obs" in info and (over := np.flatnonzero(mine[1] | mine[2])).size:
                ends += over.size
                last = [space.of(row_of(told["final_obs"], i)) for i in over]
                np.testing.assert_array_equal(info["final_obs"][over], last)
        assert ends or autoreset == "next_step" or task == BABY


def test_a_babyai_mission_becomes_the_counts_of_its_words() -> None:
    with headrace.make(BABY, num_envs=2, seed=1) as plain:
        missions = [bytes(row).decode().rstrip("\0") for row in plain.reset()[0]["mission"]]
    with headrace.make(BABY, num_envs=2, batch_size=2, seed=1, flat_observation="pictures") as pool:
        space: Any = pool.spec.observation
        assert isinstance(space, Joined) and space.words().startswith(
            "direction [0:4] (one-hot), image [4:151], mission [151:"
        )
        obs, _ = pool.reset()
    assert all(mission.startswith("go to ") for mission in missions)
    np.testing.assert_array_equal(obs[:, 151:], [words_of(mission) for mission in missions])


def test_a_wrong_value_of_flat_observation_is_refused() -> None:
    said = r"flat_observation of envpool:Maze-v0 must be True or False or 'pictures', not 1"
    with pytest.raises(OptionError, match=said):
        headrace.make(MAZE, flat_observation=1)


@pytest.mark.parametrize("task", [BABY, MAZE, GOALS])
def test_a_run_trains_on_dictionary_observations_and_can_be_played(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    limit: dict[str, Any] = {"env_options": {"max_episode_steps": 64}} if task == BABY else {}  # else without a limit
    train(task, run_dir=run, total_steps=256, num_envs=4, samplers=0, video=False, evaluate_episodes=0, **limit)
    assert "learns from the parts of an observation as one array" in capsys.readouterr().out
    with headrace.make(task, num_envs=2, seed=1) as pool:
        parts, _ = pool.reset()
    policy = load(run)
    together = policy.act(parts)
    assert np.asarray(together)[1] == pytest.approx(np.asarray(policy.act(row_of(parts, 1))))
    assert main(["play", str(run), "--no-film"]) == 0

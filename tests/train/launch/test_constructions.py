"""How many environments of a user's class a run makes, as making one may take seconds."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import headrace
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.train import resume, train
from python_games import TABLE, Count

QUIET: dict[str, Any] = {"num_envs": 4, "video": False, "viewer": False, "quiet": True, "total_steps": 64}
OURS = str(os.getpid())


def made(log: Path) -> Counter[str]:
    """Process → how many environments it has made since this was last asked."""
    found = Counter(log.read_text().split())
    log.unlink()
    return found


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_makes_one_environment_to_read_spaces_beside_its_stepped_ones(tmp_path: Path, algo: str) -> None:
    options = {"log": str(tmp_path / "log")}
    own: dict[str, Any] = {"evaluate_episodes": 0} | ({"samplers": 0} if algo == "dqn" else {})
    train(TABLE, algo, run_dir=tmp_path / "run", env_options=options, **own, **QUIET)
    found = made(tmp_path / "log")
    timed = algo == "ppo"  # whose settings depend on how long a step takes
    assert found.pop(OURS) == 1 and found.total() == 4 + timed
    resume(tmp_path / "run", quiet=True, total_steps=96)
    found = made(tmp_path / "log")
    assert found.pop(OURS) == 1 and found.total() == 4


@pytest.mark.nightly
def test_workers_make_one_environment_to_read_spaces_beside_their_stepped_ones(tmp_path: Path) -> None:
    options = {"log": str(tmp_path / "log")}
    how: dict[str, Any] = QUIET | {"samplers": 1, "evaluate_episodes": 3, "total_steps": 300, "learning_starts": 100}
    train(TABLE, "dqn", run_dir=tmp_path / "run", env_options=options, **how)
    found = made(tmp_path / "log")
    assert found.pop(OURS) == 1  # as the sampler and the evaluator do, which are processes of their own
    assert found.total() == 2 + 4 + 3


def test_a_pool_makes_one_environment_more_each_time(tmp_path: Path) -> None:
    for _ in range(2):  # the file of the environment's data may have changed meanwhile
        with headrace.make(TABLE, num_envs=4, log=str(tmp_path / "log")) as pool:
            pool.reset()
        found = made(tmp_path / "log")
        assert found.pop(OURS) == 1 and found.total() == 4


def sized(size: int) -> Any:
    env = Count()
    env.observation_space = gym.spaces.Box(0, 1, (size,))
    return env


def test_spaces_read_once_belong_to_one_name_and_its_options(tmp_path: Path) -> None:
    source = tmp_path / "sized_env.py"
    shutil.copy(TABLE.rpartition(":")[0], source)
    text = "\n\nclass {0}(Count):\n    def __init__(self, size={1}):\n        super().__init__()\n"
    text += "        self.observation_space = gym.spaces.Box(0, 1, (size,))\n"
    source.write_text(source.read_text() + text.format("One", 1) + text.format("Two", 2))
    shapes: list[Any] = []
    with spaces_read_once():
        for name, options in (("One", {}), ("Two", {}), ("One", {"size": 3}), ("One", {})):
            shapes.append(headrace.make_spec(f"{source}:{name}", **options).observation_space.shape)
        for size in (4, 5):
            shapes.append(headrace.make_spec(lambda size=size: sized(size)).observation_space.shape)
    assert shapes == [(1,), (2,), (3,), (1,), (4,), (5,)]

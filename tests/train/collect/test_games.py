"""Returns and ends of games are the task's own, never those of an environment's keys of the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.train.collect.steps import Frames
from headrace.train.config.settings import make_config
from headrace.train.play.evaluate import evaluate

train: Any = headrace.train


class Talkative(gym.Env):
    """Pays 0.25 in each of four steps; its info says other things of the names that tasks may declare."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, said: str = "numbers"):
        numbers: dict[str, Any] = {"reward": 75.0, "terminated": False, "truncations": "none", "alive": 0.5}
        self.said = numbers if said == "numbers" else {key: {"deep": 1.0} for key in numbers}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return np.zeros(2, np.float32), self.said

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.zeros(2, np.float32), 0.25, self.count == 4, False, self.said


class Stacking(Talkative):
    """Has an argument of its own that is called like an option of other tasks."""

    observation_space = gym.spaces.Box(0, 255, (4, 36, 36), np.uint8)

    def __init__(self, frame_stack: int = 1):
        super().__init__()


@pytest.mark.parametrize("said", ["numbers", "dicts"])
@pytest.mark.parametrize("settings", [{"algo": "ppo", "num_steps": 16}, {"algo": "dqn", "n_step": 2}], ids=str)
def test_returns_are_of_rewards_and_episodes_end_as_they_do(
    tmp_path: Path, said: str, settings: dict[str, Any]
) -> None:
    own = {"env_options": {"said": said}, "num_envs": 2, "total_steps": 64, "quiet": True}
    result = train(f"{__file__}:Talkative", **settings, **own, run_dir=tmp_path / "run")
    assert result.mean_return == 1.0
    assert evaluate(tmp_path / "run", 2, max_steps=9, which="newest", trust=True).returns == [1.0, 1.0]


def test_a_frame_stack_of_an_environments_own_stays_with_it() -> None:
    config = make_config(f"{__file__}:Stacking", algo="dqn", env_options={"frame_stack": 4})
    assert Frames.of(config) == Frames({"frame_stack": 4}, 1)

"""Returns and ends of games are the task's own, never those of an environment's keys of the same names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.train.collect.steps import Frames, StepRecorder
from headrace.train.play.evaluate import play_episodes
from headrace.train.recipes.make import make_config
from headrace.train.storage.step_replay import StepReplay


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


class Idle:
    """Takes the first action."""

    def reset(self, rows: Any = None) -> None:
        pass

    def act(self, obs: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        return np.zeros(len(obs), np.int64)

    def score(self, reward: np.ndarray) -> np.ndarray:
        return reward


@pytest.mark.parametrize("said", ["numbers", "dicts"])
def test_evaluated_returns_are_sums_of_rewards_whatever_info_says(said: str) -> None:
    idle: Any = Idle()
    with headrace.make(Talkative, num_envs=2, autoreset="same_step", said=said) as pool:
        played = play_episodes(idle, pool, 1, max_steps=9)
    assert played is not None and played.returns == [1.0, 1.0] and not played.stopped


@pytest.mark.parametrize("said", ["numbers", "dicts"])
def test_returns_of_steps_in_a_replay_are_sums_of_rewards_whatever_info_says(said: str) -> None:
    with headrace.make(Talkative, num_envs=2, said=said) as pool:
        replay = StepReplay(pool.observation_space, pool.action_space, 1, 16, 2)
        policy: Any = SimpleNamespace(encoder=SimpleNamespace(image=False))
        recorder = StepRecorder(pool, policy, replay.writer(0), 1, lambda: "")
        recorder.begin()
        steps = [recorder.step(torch.zeros(2, dtype=torch.int64), np.zeros(2, np.int64)) for _ in range(4)]
    assert [step.scores.tolist() for step in steps] == [[0.25, 0.25]] * 4
    assert [step.ends.tolist() for step in steps] == [[False, False]] * 3 + [[True, True]]


def test_an_environment_keeps_a_frame_stack_of_its_own() -> None:
    config = make_config(f"{__file__}:Stacking", algo="dqn", env_options={"frame_stack": 4})
    assert Frames.of(config) == Frames({"frame_stack": 4}, 1)

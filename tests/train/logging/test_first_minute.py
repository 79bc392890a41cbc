"""A run whose returns do not improve at first says so once, and names settings to try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

import headrace
from headrace.train.logging import first_minute
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.first_minute import LEAST, PATIENCE, UPDATES, FirstMinute, own_settings
from headrace.train.recipes.make import make_config
from headrace.train.recipes.recipes import another
from headrace.train.runs.events import read_events

train: Any = headrace.train  # the module itself, called; a type checker sees a module only

OWN = '''
import gymnasium as gym
import numpy as np


class Toss(gym.Env):
    """A coin is tossed, whatever is done."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), float(self.np_random.integers(2)), bool(self.np_random.integers(2)), False, {}
'''


def test_a_run_that_does_not_improve_prints_its_remedies_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(first_minute, "PATIENCE", 0.0)
    monkeypatch.setattr(first_minute, "UPDATES", 8)
    (tmp_path / "toss.py").write_text(OWN)
    task, run = f"{tmp_path / 'toss.py'}:Toss", tmp_path / "run"
    brief: dict[str, Any] = {"num_envs": 4, "num_steps": 32, "log_steps": 1, "video": False, "evaluate_episodes": 0}
    train(task, run_dir=run, total_steps=1500, seed=2, **brief)
    train(task, run_dir=run, total_steps=2000, seed=2, resume=True, **brief)
    words = "--normalise-observations, --normalise-rewards or --learning-rate 0.0003; where none of them helps, "
    words += f"try --algo dqn, or headrace sweep {task}, which searches for settings"
    assert capsys.readouterr().out.count(words) == 1
    assert [event.kind for event in read_events(run / "events.jsonl") if event.text.endswith(words)] == ["warning"]


def returned(tracker: EpisodeTracker, *values: float) -> None:
    tracker.add(torch.tensor(values), torch.ones(len(values)))


@pytest.mark.parametrize(
    ("later", "says"),
    [(1.0, "61 s and 1,000 updates: it was 1.5 at first, and is 1.5 now"), (2.0, None), (-9.0, "has not risen")],
)
def test_an_improvement_must_exceed_chance(later: float, says: str | None) -> None:
    tracker, judge = EpisodeTracker(1, 100), FirstMinute()
    returned(tracker, *[1.0, 2.0] * (LEAST // 2))
    assert judge.look(tracker, 1.0, UPDATES) is None
    returned(tracker, *[later, later + 1] * LEAST)
    assert judge.look(tracker, PATIENCE - 1, UPDATES) is None, "it is too early"
    assert judge.look(tracker, PATIENCE + 1, UPDATES - 1) is None, "a slow task has hardly begun to learn"
    said = judge.look(tracker, PATIENCE + 1, UPDATES)
    assert said is None if says is None else says in str(said)
    returned(tracker, *[-99.0] * LEAST)
    assert judge.look(tracker, 2 * PATIENCE, UPDATES) is None, "it was judged already"


def test_the_first_minute_waits_for_enough_episodes() -> None:
    tracker, judge = EpisodeTracker(1, 100), FirstMinute()
    for count in range(2 * LEAST - 1):
        returned(tracker, 0.0)
        assert judge.look(tracker, PATIENCE * (2 + count), UPDATES) is None
    returned(tracker, 0.0)
    assert judge.look(tracker, 9 * PATIENCE, UPDATES) is not None


def test_another_algorithm_fits_the_actions() -> None:
    box, discrete, several = (
        headrace.make_spec(task).action for task in ("Pendulum-v1", "CartPole-v1", "TagContinuous-v0")
    )
    assert another("ppo", box) == "sac" and another("ppo", several) == "a2c"
    assert another("ppo", discrete) == "dqn" and another("dqn", discrete) == "ppo"


@pytest.mark.parametrize(
    ("algo", "settings", "options"),
    [
        ("ppo", {"normalise_observations": True, "entropy_coef": 0.0, "learning_rate": 3e-3},
         ["--normalise-rewards", "--entropy-coef 0.01", "--learning-rate 0.001"]),
        ("dqn", {"samplers": 1, "epsilon_fraction": 0.2, "learning_rate": 3e-4},
         ["--epsilon-fraction 0.4", "--learning-rate 0.0001"]),
        ("td3", {"samplers": 0, "exploration_noise": 0.1},
         ["--normalise-observations", "--normalise-rewards", "--exploration-noise 0.2"]),
    ],
)  # fmt: skip
def test_settings_of_the_same_algorithm_come_first(algo: str, settings: dict[str, Any], options: list[str]) -> None:
    config = make_config("Pendulum-v1" if algo == "td3" else "CartPole-v1", algo=algo, **settings)
    assert own_settings(config, gym.spaces.Box(-1, 1, (3,))) == options

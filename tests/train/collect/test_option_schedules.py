"""Options of a task that change within episodes, by a schedule of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace
import weighed_games  # noqa: F401 (registers its task)
from headrace import HeadraceError
from headrace.train import resume
from headrace.train.collect.curriculum import final_options, scheduled_options, stage_at
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runners.callbacks import Callback, Training
from headrace.train.runs.checkpoint import BEST, load
from headrace.train.runs.metrics import read_metrics
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
FALLS = {"bonus": [(0, 1.0), (256, 1.0), (768, 0.5)]}
SHORT = SMALL | {
    "total_steps": 1024, "log_steps": 128, "stop_episodes": 5, "quiet": True, "option_schedules": FALLS,
    "anneal_learning_rate": False,
}  # fmt: skip


class Rewards(Callback):
    """Rewards and options of each rollout, of 8 environments and 16 steps, after each update."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float, float]] = []
        self.pools = set[int]()

    def on_update(self, training: Training) -> None:
        source: Any = training._trainer.source  # type: ignore[attr-defined]
        self.pools.add(id(source.pool))
        rewards = source.collector.rewards
        assert float(rewards.min()) == float(rewards.max())
        self.seen.append((training.step, float(rewards[0, 0]), source.pool.config.get("bonus")))


@pytest.mark.parametrize(
    "settings", [{}, {"batch_size": 4}, {"reward": lambda step: step.reward}], ids=["", "batch_size", "reward"]
)
def test_rewards_follow_the_schedule_within_episodes(tmp_path: Path, settings: dict[str, Any]) -> None:
    rewards = Rewards()
    run = train("Counting-v0", **SHORT | settings, run_dir=tmp_path / "run", callback=rewards).run_dir
    wanted = [1.0] * 3 + [1 - 0.5 * (step - 256) / 512 for step in (384, 512, 640)] + [0.5] * 2
    assert [seen[1] for seen in rewards.seen] == wanted and [seen[2] for seen in rewards.seen] == wanted
    assert len(rewards.pools) == 1
    lengths = {line["length"] for line in read_metrics(run / "metrics.jsonl") if line["length"]}
    assert lengths == {20.0}  # no episode was cut
    assert evaluate(run, 2).returns == [10.0, 10.0]  # with the last value


def test_the_best_weights_are_of_the_last_stage(tmp_path: Path) -> None:
    """Returns are 20 at first, and 10 of episodes that began after step 768, each of at most 20 steps."""
    limit = {"env_options": {"max_episode_steps": 20}}
    run = train("Counting-v0", **SHORT | limit, run_dir=tmp_path / "run").run_dir
    best = load(run / "checkpoints" / BEST)
    assert best.counters["best_return"] == 10 and best.counters["step"] > 768 + 8 * 20


def test_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    train("Counting-v0", **SHORT, run_dir=tmp_path / "whole")
    train("Counting-v0", **SHORT | {"total_steps": 640}, run_dir=tmp_path / "parts")
    resume(tmp_path / "parts", total_steps=1024, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_samplers_follow_the_schedule(tmp_path: Path) -> None:
    settings = {"samplers": 2, "num_envs": 4, "total_steps": 4000, "viewer": False}
    schedule = {"bonus": [(0, 1.0), (1000, 1.0), (2000, 0.25)]}
    run = train("Counting-v0", **SHORT | settings | {"option_schedules": schedule}, run_dir=tmp_path / "run").run_dir
    returns = [line["return"] for line in read_metrics(run / "metrics.jsonl") if line["return"]]
    assert returns[-1] == 5.0


PAID = """
import gymnasium as gym
import numpy as np



class Paid(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)
    bonus = 3.0

    def reset(self, **_):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.bonus, False, False, {}
"""


@pytest.mark.parametrize("nested", [False, True])
def test_attributes_of_python_environments_follow_the_schedule(tmp_path: Path, nested: bool) -> None:
    """A dict of observations is made one array by a wrapper, which the attribute is behind."""
    text = PAID
    if nested:
        text = text.replace("gym.spaces.Box(0, 1, (1,))", "gym.spaces.Dict(at=gym.spaces.Box(0, 1, (1,)))")
        text = text.replace("np.zeros(1, np.float32)", "{'at': np.zeros(1, np.float32)}")
    (tmp_path / "paid.py").write_text(text)
    rewards = Rewards()
    train(f"{tmp_path / 'paid.py'}:Paid", **SHORT, num_threads=1, run_dir=tmp_path / "run", callback=rewards)
    assert [seen[1] for seen in rewards.seen][-2:] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"option_schedules": {"speed": [(0, 1), (100, 2)]}}, "speed of Counting-v0 cannot change while"),
        ({"option_schedules": {"malus": [(0, 1)]}}, "malus"),
        ({"option_schedules": {"bonus": [(10, 1), (0, 2)]}}, "the schedule of bonus must be"),
        ({"curriculum": {"bonus": [(0, 1.0)]}}, "no option of curriculum"),
    ],
)
def test_what_cannot_change_is_told_before_the_run(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(HeadraceError, match=told):
        train("Counting-v0", **SHORT | changes, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_values_and_stages() -> None:
    config = make_config("Counting-v0", option_schedules=FALLS, curriculum={"slope": [(0, 0.0), (512, 1.0)]})
    assert [scheduled_options(config, step)["bonus"] for step in (0, 256, 512, 768, 9999)] == [1, 1, 0.75, 0.5, 0.5]
    assert [stage_at(config, step) for step in (0, 255, 256, 511, 512, 767, 768)] == [0, 0, 256, 256, 512, 512, 768]
    assert final_options(config) == {"bonus": 0.5, "slope": 1.0}
    assert final_options(config.replace(env_options={"bonus": 2.0})) == {"bonus": 2.0, "slope": 1.0}

"""Hindsight: goals of the same episode's later steps, rewards of the environment's own, runs that learn by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.pool.goals import Goals
from headrace.pool.registry import build_task
from headrace.train import resume
from headrace.train.play.evaluate import evaluate
from headrace.train.storage.device_replay import Transitions
from headrace.train.storage.hindsight import HindsightReplay
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
GAMES = Path(__file__).parents[2] / "goal_games.py"
FLIP = f"{GAMES}:BitFlip"
COLUMNS = 3


def judged(achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (100 * achieved[:, 0] - desired[:, 0]).astype(np.float32), achieved[:, 0] == desired[:, 0]


def replay(capacity: int, share: float = 1.0) -> HindsightReplay:
    goals = Goals(slice(1, 2), slice(2, 3), lambda: judged)
    return HindsightReplay(capacity, 3, 1, COLUMNS, goals, share, torch.Generator().manual_seed(2))


class Story:
    """Episodes of chance: columns of an observation are its column, its step (what is achieved), and the goal, -1."""

    def __init__(self):
        self.chance, self.step = np.random.default_rng(0), 0
        self.episodes: list[list[int]] = [[0] for _ in range(COLUMNS)]  # the steps at which each begins

    def write(self, into: HindsightReplay, count: int) -> None:
        inputs, following, over = [], [], []
        for _ in range(count):
            for column in range(COLUMNS):
                inputs.append([column, self.step, -1])
                following.append([column, self.step + 1, -1])
                over.append(bool(self.chance.random() < 0.2))
                if over[-1]:
                    self.episodes[column].append(self.step + 1)
            self.step += 1
        rows = torch.tensor(inputs, dtype=torch.float32)
        none = torch.zeros(len(rows))
        after = torch.tensor(following, dtype=torch.float32)
        into.write(Transitions(rows, none[:, None], none - 7, none + 0.9, after), None, torch.tensor(over))

    def last(self, column: int, step: int) -> int:
        """The last step so far of the episode that a step is in."""
        return next((begin - 1 for begin in self.episodes[column] if begin > step), self.step - 1)


@pytest.mark.parametrize("capacity", [31, 60, 3000])
def test_goals_are_what_the_same_episode_achieved_later(capacity):
    held, story = replay(capacity), Story()
    for count in (4, 7, 1, 10, 3, 9, 9):
        story.write(held, count)
        rows = held.draw((4000,), torch.Generator().manual_seed(story.step))
        drawn = held.read(rows)
        seen: dict[tuple[int, int], set[int]] = {}
        for before, after, reward, discount in zip(
            drawn.inputs, drawn.following, drawn.rewards, drawn.discounts, strict=True
        ):
            column, step, goal = (int(x) for x in before)
            assert after.tolist() == [column, step + 1, goal]
            assert step + 1 <= goal <= story.last(column, step) + 1
            assert float(reward) == 100 * (step + 1) - goal
            assert float(discount) == float(step + 1 != goal)
            seen.setdefault((column, step), set()).add(goal)
        oldest = max(0, story.step - capacity // COLUMNS)
        assert {step for _, step in seen} == set(range(oldest, story.step))
        for (column, step), goals in seen.items():  # all of them are drawn
            later = story.last(column, step) + 1 - step
            assert len(goals) == later or later > 4


def test_a_share_of_goals_stays():
    held = replay(3000, share=0.7)
    Story().write(held, 50)
    drawn = held.read(held.draw((20_000,), torch.Generator().manual_seed(1)))
    kept = drawn.inputs[:, 2] == -1
    assert float(kept.float().mean()) == pytest.approx(0.3, abs=0.02)
    assert bool((drawn.rewards[kept] == -7).all()) and bool((drawn.discounts[kept] == 0.9).all())
    whole = replay(3000, share=0.0)
    Story().write(whole, 50)
    assert bool((whole.read(torch.arange(150)).inputs[:, 2] == -1).all())


def test_what_was_written_is_what_is_loaded():
    held, story = replay(60), Story()
    story.write(held, 15)
    story.write(held, 12)
    other = replay(60)
    other.load({name: tensor.clone() for name, tensor in held.state().items()})
    other.generator.set_state(held.generator.get_state())
    for each in (held, other):
        again = Story()
        again.chance, again.step = np.random.default_rng(5), story.step
        again.write(each, 4)
    rows = torch.arange(60)
    for one, two in zip(held.read(rows)[:5], other.read(rows)[:5], strict=True):
        assert torch.equal(one, two)


# -- tasks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BitFlip", "OneGoalAtATime"])
def test_rewards_are_the_environments_own(name):
    task = build_task(f"{GAMES}:{name}", bits=12, flat_observation=True)
    assert task.goals is not None and task.spec.observation.shape == (36,)
    with headrace.make(f"{GAMES}:{name}", num_envs=2, seed=1, bits=12, flat_observation=True) as pool:
        pool.reset()
        for _ in range(3):
            obs, reward, *_ = pool.step(np.array([1, 2]))
            found, ends = task.goals.judge()(obs[:, task.goals.achieved], obs[:, task.goals.desired])
            assert found.dtype == np.float32 and np.array_equal(found, reward)
            assert ends is not None and ends.dtype == np.bool_ and not ends.any()
    same = np.ones((5, 12))
    found, ends = task.goals.judge()(same, same)
    assert found.tolist() == [0] * 5
    assert ends is not None and ends.tolist() == [True] * 5


def test_flat_observations_are_gymnasiums():
    task = build_task(FLIP, bits=3, flat_observation=True)
    assert task.goals is not None
    assert (task.goals.achieved, task.goals.desired) == (slice(0, 3), slice(3, 6))
    assert build_task(FLIP, bits=3).goals is None
    with pytest.raises(OptionError, match="flat_observation must be True or False"):
        build_task(FLIP, flat_observation=1)


def test_what_cannot_have_hindsight_is_named(tmp_path):
    quiet = {"quiet": True, "total_steps": 100, "run_dir": tmp_path / "never", "hindsight": 0.8}
    flat = {"env_options": {"flat_observation": True}}
    (tmp_path / "rewards.py").write_text("def mine(step):\n    return step.reward\n")
    for task, settings, words in (
        ("CartPole-v1", {}, "achieved_goal"),
        (f"{GAMES}:NoGoals", flat, "compute_reward"),
        (FLIP, flat | {"samplers": 1}, "hindsight=0.8 would not be used"),
        (FLIP, flat | {"hindsight": 1.5}, "hindsight=1.5"),
        (FLIP, flat | {"reward": f"{tmp_path}/rewards.py:mine"}, "leave reward out"),
    ):
        with pytest.raises(OptionError, match=words):
            train(task, "dqn", **(quiet | settings))
    assert not (tmp_path / "never").exists()


OPTIONS: dict[str, Any] = SMALL | {
    "num_steps": 4,
    "hidden": (64,),
    "minibatch_size": 64,
    "learning_starts": 200,
    "replay_ratio": 0.25,
    "replay_size": 20_000,
    "gamma": 0.95,
    "epsilon_fraction": 0.5,
    "log_steps": 2000,
    "checkpoint_seconds": 600.0,
    "torch_threads": 1,
    "quiet": True,
    "env_options": {"flat_observation": True},
}


@pytest.mark.parametrize("share", [0.8, pytest.param(0.0, marks=pytest.mark.nightly)])
def test_bits_are_flipped_by_hindsight(tmp_path, share):
    """Chance meets a goal of 8 bits in a few episodes of a hundred; at best it takes 4 steps, of which 3 cost 1."""
    train(FLIP, "dqn", run_dir=tmp_path / "run", hindsight=share, samplers=0, **(OPTIONS | {"total_steps": 12_000}))
    earned = evaluate(tmp_path / "run", episodes=100, which="newest").mean_return
    assert earned > -4.5 if share else earned < -6


def test_a_run_goes_on_as_if_undisturbed(tmp_path):
    options = OPTIONS | {"hindsight": 0.8, "replay_size": 600, "anneal_learning_rate": False}
    options |= {"epsilon_start": 0.3, "epsilon_end": 0.3}  # it would fall with the steps to come, which differ here
    options |= {"num_envs": 5, "deterministic": True}
    train(FLIP, "dqn", run_dir=tmp_path / "whole", **(options | {"total_steps": 1500}))
    train(FLIP, "dqn", run_dir=tmp_path / "broken", **(options | {"total_steps": 700}))
    resume(tmp_path / "broken", total_steps=1500, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.nightly
@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_a_point_learns_to_reach(tmp_path, algo):
    """At best some 8 of 40 steps cost 1; without learning most of them do."""
    settings = {name: value for name, value in OPTIONS.items() if not name.startswith("epsilon")}
    settings |= {"hindsight": 0.8, "total_steps": 10_000, "learning_rate": 1e-3, "replay_ratio": 0.5}
    train(f"{GAMES}:Reach", algo, run_dir=tmp_path / "run", samplers=0, **settings)
    assert evaluate(tmp_path / "run", episodes=50, which="newest").mean_return > -15


def test_a_maze_of_gymnasium_robotics_has_goals():
    pytest.importorskip("gymnasium_robotics")
    task = build_task("gymnasium_robotics:PointMaze_UMaze-v3", flat_observation=True)
    assert task.goals is not None and task.spec.observation.shape == (8,)
    here, there = np.zeros((3, 2)), np.array([[0.0, 0.3], [0.0, 2.0], [0.3, 0.0]])
    earned, ends = task.goals.judge()(here, there)
    assert earned.tolist() == [1, 0, 1]
    assert ends is not None and not ends.any()

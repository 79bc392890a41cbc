"""Hindsight: goals of the same episode's later steps, rewards of the environment's own, runs that learn by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from goal_games import BitFlip
from headrace.errors import OptionError
from headrace.pool.goals import Goals, goals_of
from headrace.pool.registry import build_task
from headrace.train import resume
from headrace.train.play.evaluate import evaluate
from headrace.train.runs.metrics import read_metrics
from headrace.train.storage.hindsight import HindsightReplay
from headrace.train.storage.step_replay import StepReplay
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
GAMES = Path(__file__).parents[2] / "goal_games.py"
FLIP = f"{GAMES}:BitFlip"
ENVS, GAMMA = 3, 0.5
ENDS = 0.2  # the chance that an episode ends with a step


def judged(achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (100 * achieved[:, 0] - desired[:, 0]).astype(np.float32), achieved[:, 0] == desired[:, 0]


GOALS = Goals(slice(1, 2), slice(2, 3), lambda: judged)


class Story:
    """Episodes of chance: an observation is of environment, row (what is achieved), and the goal, -1."""

    def __init__(self, steps: int, segments: int = 1, ends: float = ENDS):
        space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.replay = StepReplay(space, gym.spaces.Discrete(2), segments, steps, ENVS, 1, GAMMA)
        self.writers = [self.replay.writer(segment) for segment in range(segments)]
        self.chance, self.ends = np.random.default_rng(0), ends
        self.last: dict[int, list[np.ndarray]] = {segment: [] for segment in range(segments)}
        for writer in self.writers:
            writer.begin()

    def write(self, count: int, segment: int = 0) -> None:
        writer = self.writers[segment]
        for _ in range(count):
            row, t = writer.row, writer.written
            row.observation[:] = [[segment * ENVS + env, t, -1] for env in range(ENVS)]
            row.action[:], row.reward[:] = 0, -7
            before = self.last[segment][-1] if t else np.zeros(ENVS, bool)
            over = (self.chance.random(ENVS) < self.ends) & ~before  # what follows an end only begins an episode
            self.last[segment].append(over)
            writer.publish(np.zeros(ENVS, bool), over)

    def final(self, segment: int, env: int, t: int) -> int:
        """The row with the last known observation of the episode that a row is in."""
        ends = self.last[segment]
        return next((u + 1 for u in range(t, len(ends) - 1) if ends[u][env]), len(ends) - 1)


@pytest.mark.parametrize(("steps", "ends"), [(24, ENDS), (64, ENDS), (640, 0.005)])
def test_goals_are_later_achievements_of_the_same_episode(steps, ends):
    story = Story(steps, 2, ends)
    held = HindsightReplay(story.replay, GOALS, 1.0)
    for turn in range(6):
        story.write(steps // 4, 0)
        story.write(steps // 7 + 3, 1)
        drawn = held.sample(4000, torch.Generator().manual_seed(turn))
        numbers = held.numbers
        seen: dict[tuple[int, int], set[int]] = {}
        rows = zip(drawn.inputs, drawn.next_observations, drawn.rewards, drawn.discounts, strict=True)
        for before, after, reward, discount in rows:
            column, t, goal = (int(x) for x in before)
            final = story.final(*divmod(column, ENVS), t)
            assert after.tolist() == [column, t + 1, goal]
            assert t + 1 <= goal <= final
            assert float(reward) == 100 * (t + 1) - goal
            assert float(discount) == GAMMA * (t + 1 != goal)
            seen.setdefault((column, t), set()).add(goal)
        for (column, t), goals in seen.items():  # all of them are drawn
            later = story.final(*divmod(column, ENVS), t) - t
            assert len(goals) == later or later > 2 or steps > 64
        assert set(numbers.tolist()) <= {t * 2 * ENVS + column for column, t in seen}


def test_a_share_of_goals_stays():
    story = Story(64)
    story.write(60)
    held = HindsightReplay(story.replay, GOALS, 0.7)
    drawn = held.sample(20_000, torch.Generator().manual_seed(1))
    kept = drawn.inputs[:, 2] == -1
    assert float(kept.float().mean()) == pytest.approx(0.3, abs=0.02)
    assert bool((drawn.rewards[kept] == -7).all()) and bool((drawn.discounts[kept] == GAMMA).all())
    none = HindsightReplay(story.replay, GOALS, 0.0)
    assert bool((none.sample(100, torch.Generator()).inputs[:, 2] == -1).all())


def test_overwritten_rows_are_drawn_anew():
    story = Story(64)
    story.write(60)
    held = HindsightReplay(story.replay, GOALS, 1.0)
    chance = torch.Generator().manual_seed(1)
    numbers = story.replay.draw((64,), chance)
    story.write(50)
    drawn = held.read(numbers, chance)
    assert int(numbers.min()) // ENVS >= 110 + 2 - 64
    assert (drawn.inputs[:, 1] == numbers // ENVS).all() and (drawn.inputs[:, 2] > drawn.inputs[:, 1]).all()


# -- tasks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BitFlip", "OneGoalAtATime"])
def test_rewards_of_new_goals_are_those_of_the_environment(name):
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


def test_a_run_that_cannot_have_hindsight_is_refused(tmp_path):
    quiet = {"quiet": True, "total_steps": 100, "run_dir": tmp_path / "never", "hindsight": 0.8}
    flat = {"env_options": {"flat_observation": True}}
    (tmp_path / "rewards.py").write_text("def mine(step):\n    return step.reward\n")
    for task, settings, words in (
        ("CartPole-v1", {}, "achieved_goal"),
        (f"{GAMES}:NoGoals", flat, "compute_reward"),
        (FLIP, flat | {"n_step": 3, "samplers": 1}, "n_step=3 would not be used"),
        (
            FLIP,
            flat | {"batch_size": 4, "num_envs": 8},
            "with hindsight=0.8 .* leave batch_size out, or set hindsight=0",
        ),
        (FLIP, flat | {"hindsight": 1.5}, "hindsight=1.5"),
        (FLIP, flat | {"curriculum": {"bits": [(0, 8), (50, 8)]}}, "rewards of .* env_options: leave curriculum out"),
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


@pytest.mark.nightly
@pytest.mark.parametrize(("share", "samplers"), [(0.8, 0), (0.0, 0), (0.8, 1)])
def test_hindsight_learns_to_flip_bits(tmp_path, share, samplers):
    """Chance meets a goal of 8 bits in a few episodes of a hundred; at best it takes 4 steps, of which 3 cost 1."""
    options = OPTIONS | {"total_steps": 12_000, "samplers": samplers, "hindsight": share}
    if samplers:
        del options["num_steps"]
    train(FLIP, "dqn", run_dir=tmp_path / "run", **options)
    earned = evaluate(tmp_path / "run", episodes=100, which="newest").mean_return
    assert earned > -4.5 if share else earned < -6


@pytest.mark.nightly
def test_a_run_goes_on_as_if_undisturbed(tmp_path):
    options = OPTIONS | {"hindsight": 0.8, "replay_size": 600, "anneal_learning_rate": False}
    options |= {"epsilon_start": 0.3, "epsilon_end": 0.3}  # it would fall with the steps to come, which differ here
    options |= {"num_envs": 5, "deterministic": True}
    train(FLIP, "dqn", run_dir=tmp_path / "whole", **(options | {"total_steps": 1500}))
    train(FLIP, "dqn", run_dir=tmp_path / "broken", **(options | {"total_steps": 700}))
    resume(tmp_path / "broken", total_steps=1500, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("actor_device", ["", "cpu"])
def test_hindsight_learns_from_samplers(tmp_path, actor_device):
    """Also where the actor learns in a process of its own."""
    settings = {
        name: value for name, value in OPTIONS.items() if not name.startswith("epsilon") and name != "num_steps"
    }
    settings |= {"hindsight": 0.8, "total_steps": 1000, "samplers": 1, "evaluate_episodes": 0}
    train(f"{GAMES}:Reach", "sac", run_dir=tmp_path / "run", actor_device=actor_device, **settings)
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert last["updates"] == 200 and np.isfinite(last["loss"]["critic_loss"])


@pytest.mark.nightly
@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_a_point_learns_to_reach(tmp_path, algo):
    """At best some 8 of 40 steps cost 1; without learning most of them do."""
    settings = {name: value for name, value in OPTIONS.items() if not name.startswith("epsilon")}
    settings |= {"hindsight": 0.8, "total_steps": 10_000, "learning_rate": 1e-3, "replay_ratio": 0.5}
    train(f"{GAMES}:Reach", algo, run_dir=tmp_path / "run", samplers=0, **settings)
    assert evaluate(tmp_path / "run", episodes=50, which="newest").mean_return > -15


FETCH: dict[str, Any] = {"quiet": True, "video": False, "tensorboard": False, "seed": 1}


@pytest.mark.parametrize("algo", rest_nightly(["sac", "td3", "ddpg"], "sac"))
def test_native_environments_have_hindsight(tmp_path, algo):
    pytest.importorskip("gymnasium_robotics")
    few = {"total_steps": 640, "learning_starts": 320, "minibatch_size": 32, "num_envs": 4, "hidden": (16,)}
    options = {"hindsight": 0.8, "env_options": {"flat_observation": True}, "samplers": 0, "replay_ratio": 0.1}
    train("FetchReach-v4", algo, run_dir=tmp_path / "run", **(FETCH | few | options))
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert last["episodes"] == 12 and 0 <= last["metrics"]["is_success"] < 1
    assert np.isfinite(last["loss"]["critic_loss"])


@pytest.mark.nightly
def test_the_recipe_learns_to_reach(tmp_path):
    """Chance succeeds in 2 % of episodes, and learning without hindsight as rarely."""
    pytest.importorskip("gymnasium_robotics")
    train("FetchReach-v4", run_dir=tmp_path / "run", **(FETCH | {"total_steps": 12_000}))
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert last["metrics"]["is_success"] > 0.9


def test_a_maze_of_gymnasium_robotics_has_goals():
    pytest.importorskip("gymnasium_robotics")
    task = build_task("gymnasium_robotics:PointMaze_UMaze-v3", flat_observation=True)
    assert task.goals is not None and task.spec.observation.shape == (8,)
    here, there = np.zeros((3, 2)), np.array([[0.0, 0.3], [0.0, 2.0], [0.3, 0.0]])
    earned, ends = task.goals.judge()(here, there)
    assert earned.tolist() == [1, 0, 1]
    assert ends is not None and not ends.any()


class Listed(BitFlip):
    """Returns lists: of one number for a pair of goals, and of several for several."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.atleast_1d(super().compute_reward(achieved, desired, info)).tolist()

    def step(self, action: int) -> Any:
        self.state[action] = 1 - self.state[action]
        self.steps += 1
        over = bool(self.compute_terminated(self.state, self.goal, {}))
        return self._seen(), self.compute_reward(self.state, self.goal, {})[0], over, self.steps >= self.bits, {}


class OneByOne(Listed):
    """Takes a single pair of goals, and returns a list of one number."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        assert achieved.ndim == 1
        return super().compute_reward(achieved, desired, info)


class Untold(BitFlip):
    """Forgets to return what it computes."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return None


def test_rewards_of_goals_may_be_lists() -> None:
    achieved, desired = np.random.default_rng(1).integers(0, 2, (2, 6, 8)).astype(np.float32)
    desired[2] = achieved[2]
    plain = goals_of(BitFlip(), BitFlip)
    for kind in (Listed, OneByOne):
        goals = goals_of(kind(), kind)
        assert goals is not None and plain is not None
        for one, other in zip(goals.judge()(achieved, desired), plain.judge()(achieved, desired), strict=True):
            np.testing.assert_array_equal(one, other)
    untold = goals_of(Untold(), Untold)
    assert untold is not None
    with pytest.raises(OptionError, match=r"compute_reward\(.*\) must return one number, not None"):
        untold.judge()(achieved, desired)

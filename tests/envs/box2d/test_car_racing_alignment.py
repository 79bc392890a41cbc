"""The racing car beside Gymnasium's: from equal seeds and actions all rewards and ends are equal, and so are pictures,
except for the digits of the score, which are not those of pygame's font."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from nightly import rest_nightly

pytest.importorskip("Box2D", reason="Box2D is not installed")
pytest.importorskip("pygame", reason="pygame is not installed")
N, SEED = 2, 5
SCORE = (slice(84, 96), slice(0, 12))  # rows and columns of the score in a picture
STEPS = 130  # past the first second, in which the camera comes nearer


def drive(step: int, rng: np.random.Generator) -> np.ndarray:
    """Turns to both sides, with gas and sometimes brakes, so that wheels slide on road and grass."""
    steer = 0.7 * np.sin(step / 15 + np.arange(N)) + rng.normal(0, 0.2, N)
    return np.stack([steer, rng.random(N), rng.random(N) * (rng.random(N) < 0.1)], axis=1).astype(np.float32)


def choose(step: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(5, N, p=[0.1, 0.2, 0.1, 0.5, 0.1])


def race(step: int, rng: np.random.Generator) -> np.ndarray:
    return np.tile(np.array([0, 1, 0], np.float32), (N, 1))


CASES: dict[str, tuple[dict[str, Any], Callable[[int, np.random.Generator], np.ndarray], int]] = {
    "continuous": ({}, drive, STEPS),
    "discrete, other colours": ({"continuous": False, "domain_randomize": True}, choose, STEPS),
    "a lap at once": ({"lap_complete_percent": 0.0}, drive, 5),
    "off the field": ({}, race, 600),
    "a whole episode": ({}, drive, 1000),
}


def assert_same_picture(seen: np.ndarray, theirs: np.ndarray) -> None:
    apart = np.abs(seen.astype(int) - theirs.astype(int))
    assert apart[SCORE].mean() < 15  # of 255; without digits it would be 28
    apart[SCORE] = 0
    assert apart.max() == 0


@pytest.mark.parametrize("case", rest_nightly(CASES, "continuous", "discrete, other colours", "a lap at once"))
def test_a_race_equals_the_race_in_gymnasium(case: str) -> None:
    options, act, steps = CASES[case]
    envs = [gym.make("CarRacing-v3", **options) for _ in range(N)]
    rng, rewards, ended = np.random.default_rng(1), 0.0, 0
    seeds = list(range(SEED, SEED + N))
    with headrace.make("CarRacing-v3", num_envs=N, seed=seeds, autoreset="disabled", **options) as pool:
        for episode in range(2):
            obs, _ = pool.reset()
            for i, env in enumerate(envs):
                assert_same_picture(obs[i], env.reset(seed=None if episode else SEED + i)[0])
            running = np.ones(N, bool)
            for step in range(steps):
                ids = np.flatnonzero(running).astype(np.int32)
                if len(ids) == 0:
                    break
                actions = act(step, rng)[ids]
                seen, reward, terminated, truncated, _ = pool.step(actions, ids)
                for row, (i, action) in enumerate(zip(ids, actions, strict=True)):
                    picture, expected, *ends, _ = envs[i].step(action)
                    assert_same_picture(seen[row], picture)
                    assert reward[row] == np.float32(expected)
                    assert [terminated[row], truncated[row]] == ends
                rewards = max(rewards, float(reward.max()))
                running[ids] = ~(terminated | truncated)
            ended += int((~running).sum())
    assert rewards > 1, "no tile has been visited"
    assert (ended > 0) == (steps != STEPS)


def test_spaces_and_limits_equal_those_of_gymnasium() -> None:
    for options in ({}, {"continuous": False}):
        ours, theirs = headrace.make_spec("CarRacing-v3", **options), gym.make("CarRacing-v3", **options)
        assert theirs.spec is not None
        assert ours.observation == theirs.observation_space
        assert ours.action == theirs.action_space
        assert ours.max_episode_steps == theirs.spec.max_episode_steps
        assert ours.render_fps == theirs.metadata["render_fps"]


def test_a_rendered_frame_equals_that_of_gymnasium_where_no_wheel_has_slid() -> None:
    env = gym.make("CarRacing-v3", render_mode="rgb_array")
    env.reset(seed=SEED)
    with headrace.make("CarRacing-v3", num_envs=1, seed=[SEED], autoreset="disabled") as pool:
        pool.reset()
        for _ in range(60):
            action = np.array([0.1, 0.2, 0], np.float32)
            pool.step(action[None])
            env.step(action)
        frame, theirs = pool.render([0])[0], env.render()
    assert isinstance(theirs, np.ndarray)
    apart = np.abs(frame.astype(int) - theirs.astype(int))
    apart[350:, :75] = 0  # the score
    assert apart.max() == 0

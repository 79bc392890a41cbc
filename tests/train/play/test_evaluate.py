"""Games that an agent plays: whole ones, whose lives begin as in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.train.play.evaluate import play_episodes, playing_pool
from headrace.train.play.video import film
from headrace.train.recipes.make import make_config
from headrace.train.runs.episodes import kept
from headrace.train.runs.folder import RunFolder

pytest.importorskip("headrace_atari._atari")

LIVES = 5  # of Breakout


class Waiting:
    """Who does nothing, and never presses FIRE; counts how often each environment began anew."""

    def __init__(self, envs: int):
        self.begun = np.zeros(envs, int)

    def reset(self, rows: np.ndarray | None = None) -> None:
        if rows is not None:
            self.begun += rows

    def act(self, obs: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        return np.zeros(len(obs), np.int32)

    def score(self, reward: np.ndarray) -> np.ndarray:
        return reward


@pytest.mark.parametrize("episodic", [True, False])
def test_an_evaluation_begins_lives_with_fire_and_counts_whole_games(episodic: bool) -> None:
    """Where a life ended nothing in training, the agent itself must press FIRE, and the game does not go on."""
    options = {"episodic_life": episodic, "img_height": 36, "img_width": 36}
    config = make_config("Breakout-v5", algo="dqn", env_options=options)
    waiting: Any = Waiting(2)
    with playing_pool(config, lives=True, num_envs=2, seed=1) as pool:
        played = play_episodes(waiting, pool, 1, max_steps=600)
    assert played is not None and played.stopped == (0 if episodic else 2)
    assert (waiting.begun >= LIVES).all() if episodic else (waiting.begun == 1).all()
    assert all(length > 15 * LIVES for length in played.lengths)


@pytest.mark.parametrize("episodic", [True, False])
def test_a_video_begins_lives_with_fire_and_shows_a_whole_game(tmp_path: Path, episodic: bool) -> None:
    pytest.importorskip("av")
    options = {"episodic_life": episodic, "img_height": 36, "img_width": 36}
    config, run, waiting = make_config("Breakout-v5", algo="dqn", env_options=options), RunFolder(tmp_path), Waiting(1)
    agent: Any = waiting
    with playing_pool(config, lives=True, num_envs=1, seed=1) as pool:
        film(run, agent, pool, 0, "best", max_steps=600)
    (video,) = kept(run.episodes)
    assert video.complete == episodic and (15 * LIVES < video.length < 600 if episodic else video.length == 600)
    assert waiting.begun[0] == (LIVES if episodic else 0)


def test_a_pool_for_logs_has_whole_games() -> None:
    config = make_config("Breakout-v5", algo="dqn", preset="fast")
    with playing_pool(config, num_envs=1, seed=1) as pool:
        assert not pool.spec.options["episodic_life"] and not pool.spec.options["reward_clip"]

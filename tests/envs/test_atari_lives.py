"""``episodic_life``: a lost life ends an episode and the game goes on, in EnvPool's ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace

pytest.importorskip("ale_py")
pytest.importorskip("headrace_atari._atari")

CLOCK = 90  # in Breakout's RAM: one more at each frame

Row = tuple[int, bool, bool, int, bool]  # lives, terminated, truncated, elapsed_step, whether the game is over


def rows(pool: Any, steps: int, seed: int = 0) -> Iterator[Row]:
    """The first environment's rows in random play."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        action = rng.integers(pool.action_space.n, size=len(pool.all_env_ids)).astype(np.int32)
        _, _, terminated, truncated, info = pool.step(action)
        over = bool(info["terminated"][0])
        yield int(info["lives"][0]), bool(terminated[0]), bool(truncated[0]), int(info["elapsed_step"][0]), over


def check_rules(pool: Any, steps: int, limit: int) -> tuple[int, int]:
    """Asserts that each row follows from the one before; returns how many lives and games have ended."""
    _, info = pool.reset()
    full = lives = int(info["lives"][0])
    elapsed, ended, game_ended, lost, games = 0, False, False, 0, 0
    for now, terminated, truncated, count, over in rows(pool, steps):
        if ended:  # the row that autoreset brings
            assert (terminated, truncated, over) == (False, False, False)
            assert (now, count) == ((full, 0) if game_ended else (lives, elapsed))
        else:
            assert count == elapsed + 1
            assert truncated == (count == limit)
            assert terminated or truncated or over == (0 < now < lives)  # the last life only ends with the game
            assert not terminated or over or 0 < now < lives
            lost, games = lost + (terminated and not over), games + (over or truncated)
        ended, game_ended, lives, elapsed = terminated or truncated, over or truncated, now, count
    return lost, games


@pytest.mark.parametrize(("task", "steps", "limit"), [("Breakout-v5", 800, 90), ("Atlantis-v5", 1500, 27_000)])
def test_lost_lives_games_and_limits_end_episodes_by_the_rules(make: Any, task: str, steps: int, limit: int) -> None:
    pool = make(task, seed=0, episodic_life=True, max_episode_steps=limit)
    lost, games = check_rules(pool, steps, limit)
    assert lost >= 4
    assert games >= 1


def test_envpool_passes_the_same_check_of_the_rules() -> None:
    """The same check passes on EnvPool, which tells truncated from terminated episodes."""
    envpool = pytest.importorskip("envpool")
    pool = envpool.make_gymnasium("Breakout-v5", num_envs=1, seed=0, episodic_life=True, max_episode_steps=90)
    lost, games = check_rules(pool, 800, 90)
    assert lost >= 4
    assert games >= 1


def test_losing_the_last_life_ends_no_episode_while_the_game_goes_on(make: Any) -> None:
    """Atlantis is played on for some frames without lives."""
    pool = make("Atlantis-v5", seed=0, episodic_life=True)
    pool.reset()
    without, over = 0, False
    for lives, terminated, _, _, over in rows(pool, 20_000):
        if over:
            break
        without += lives == 0
        assert not (terminated and lives == 0)
    assert over
    assert without > 1


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_an_explicit_reset_starts_a_new_game(make: Any, autoreset: str) -> None:
    pool = make("Breakout-v5", seed=0, episodic_life=True, autoreset=autoreset)
    pool.reset()
    for after in (0, 5):
        lives = next(lives for lives, terminated, *_ in rows(pool, 500) if terminated)
        assert lives == 4
        if autoreset != "disabled":
            list(rows(pool, after))
        _, info = pool.reset()
        assert (info["lives"][0], info["elapsed_step"][0]) == (5, 0)


def test_same_step_autoreset_after_a_lost_life_continues_the_game(make: Any) -> None:
    pool = make("Breakout-v5", seed=0, episodic_life=True, autoreset="same_step")
    pool.reset()
    rng = np.random.default_rng(0)
    obs, _, terminated, _, info = pool.step(rng.integers(4, size=1))
    while not terminated[0]:
        obs, _, terminated, _, info = pool.step(rng.integers(4, size=1))
    assert info["elapsed_step"][0] == info["final_info"]["elapsed_step"][0] > 0
    assert info["lives"][0] == info["final_info"]["lives"][0] == 4
    assert np.array_equal(obs[0, :3], info["final_obs"][0, 1:])  # one frame more, of the same game


def frames_after_lives(pool: Any, lives: int) -> list[int]:
    """How many frames pass between an episode's last row and the next one's first, by the game's own clock."""
    counts: list[int] = []
    rng = np.random.default_rng(1)
    before = ended = None
    while len(counts) < lives:
        action = rng.integers(pool.action_space.n, size=1).astype(np.int32)
        _, _, terminated, _, info = pool.step(action)
        clock, over = int(info["ram"][0, CLOCK]), bool(info["terminated"][0])
        if ended and before is not None:
            counts.append((clock - before) % 256)
        ended, before = bool(terminated[0]), None if over else clock
    return counts


def test_random_no_ops_follow_a_lost_life(make: Any) -> None:
    options: dict[str, Any] = {"episodic_life": True, "noop_max": 9}
    pool = make("Breakout-v5", seed=0, **options)
    pool.reset()
    ours = frames_after_lives(pool, 60)
    assert set(ours) == set(range(2, 11))  # 1 to 9 no-ops, and FIRE


def test_dm_env_marks_the_first_step_of_each_life() -> None:
    env = headrace.make_dm("Breakout-v5", num_envs=1, seed=0, episodic_life=True)
    step, last, lives = env.reset(), False, 0
    rng = np.random.default_rng(0)
    for _ in range(300):
        step = env.step(rng.integers(4, size=1))
        assert bool(step.step_type[0] == 0) == last
        last = bool(step.step_type[0] == 2)
        lives += last
    assert lives > 3
    env.close()

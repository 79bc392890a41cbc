"""What a run says of its memory and its hours before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.machine import readable
from headrace.train.collect.steps import make_replay
from headrace.train.launch import forecast as forecasts
from headrace.train.launch.checks import resolved
from headrace.train.launch.forecast import forecast
from headrace.train.recipes.make import make_config

SLOW = """
import time
import gymnasium as gym
import numpy as np
class Slow(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 1, (2,), np.float32), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        time.sleep(0.004)
        return np.zeros(2, np.float32), 0.0, False, False, {}
"""


def test_small_runs_print_no_forecast() -> None:
    assert not list(forecast(resolved(make_config("Pendulum-v1", algo="sac"))))
    assert not list(forecast(resolved(make_config("CartPole-v1", algo="ppo", total_steps=10**9))))


@pytest.mark.parametrize(("samplers", "n_step"), [(0, 1), (0, 3), (1, 1)])
def test_the_replay_takes_the_forecast_memory(samplers: int, n_step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "LEAST_BYTES", 1)
    config = resolved(
        make_config("Pendulum-v1", algo="sac", replay_size=20_000, num_envs=4, samplers=samplers, n_step=n_step)
    )
    (words,) = forecast(config)
    if samplers or n_step > 1:
        needed = make_replay(config).layout.nbytes
    else:
        needed = 20_000 * 4 * (3 + 1 + 1 + 1 + 3)
    assert f"replay_size=20,000 takes {readable(needed)} of memory once it is full" in words


def test_a_replay_beyond_the_memory_is_named_before_it_fills() -> None:
    config = resolved(make_config("Pendulum-v1", algo="sac", replay_size=10**11, samplers=0))
    (words,) = forecast(config)
    assert words.endswith("are free: a smaller one is safe")


def test_slow_environments_say_how_long_their_steps_take(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    config = make_config(f"{tmp_path}/slow.py:Slow", algo="ppo", total_steps=10_000_000)
    (words,) = forecast(config)
    assert words.startswith("10,000,000 steps of the environments alone take some ")
    assert " h " in words and "ms each" in words
    assert not list(forecast(make_config(f"{tmp_path}/slow.py:Slow", algo="ppo", total_steps=1_000)))

"""A Crazyflie beside the simulator l2f: the same motions, observations, rewards and ends from equal states."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.crazyflie import TASKS
from headrace.errors import OptionError

RECORDED = dict(np.load(Path(__file__).with_name("crazyflie_recorded.npz")))  # by record_crazyflie.py
CLOSE = 1e-5
HISTORY = 16  # actions that l2f's observations have
NAMES = {
    "place": "position",
    "attitude": "orientation",
    "velocity": "linear_velocity",
    "spin": "angular_velocity",
    "rotors": "rpm",
}


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("kind", ["plain", "spread", "disturbed"])
def test_every_step_is_that_of_l2f(kind: str) -> None:
    flights = {name.removeprefix(f"{kind}/"): values for name, values in RECORDED.items() if name.startswith(kind)}
    steps, n = flights["reward"].shape
    with headrace.make("Crazyflie-v0", num_envs=n, autoreset="disabled", action_history=HISTORY) as pool:
        pool.reset()
        state = arrays_of(pool)
        for name in ("mass", "thrust", "lag", "push", "twist"):
            state[name][:] = flights[name]
        state["actions"][:] = 2 * flights["rpm"][0, :, None] - 1
        flying = np.arange(n)
        for step in range(steps):
            for ours, name in NAMES.items():  # what is compared is one step's rounding, not that of all before it
                state[ours][:] = flights[name][step]
            obs, reward, terminated, _, _ = pool.step(flights["action"][step, flying], env_id=flying)
            close(obs, flights["obs"][step, flying])
            close(reward, flights["reward"][step, flying])
            for ours, name in NAMES.items():
                close(state[ours][flying], flights[name][step + 1, flying])
            np.testing.assert_array_equal(terminated, flights["ends"][step, flying])
            flying = flying[~terminated]
        assert 0 < len(flying) < n


def test_a_whole_flight_is_that_of_l2f() -> None:
    steps, n = RECORDED["plain/reward"].shape
    with headrace.make("Crazyflie-v0", num_envs=n, autoreset="disabled", action_history=HISTORY) as pool:
        pool.reset()
        state = arrays_of(pool)
        for ours, name in NAMES.items():
            state[ours][:] = RECORDED[f"plain/{name}"][0]
        flying = np.flatnonzero(~RECORDED["plain/ends"].any(0))
        for step in range(steps):
            pool.step(RECORDED["plain/action"][step, flying], env_id=flying)
        for ours, name in NAMES.items():
            np.testing.assert_allclose(state[ours][flying], RECORDED[f"plain/{name}"][-1, flying], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_initial_states_are_spread_as_options_say(task: str) -> None:
    options: dict[str, Any] = {
        "mass_spread": 0.1,
        "thrust_spread": 0.2,
        "lag_spread": 0.5,
        "force": 0.02,
        "torque": 1e-4,
    }
    with headrace.make(task, num_envs=4000, seed=2, **options) as pool:
        obs, info = pool.reset()
        state = arrays_of(pool)
        np.testing.assert_allclose(info["distance"], np.linalg.norm(obs[:, :3], axis=1), rtol=1e-5)
        resting = info["distance"] < 1e-6
        assert 0.08 < resting.mean() < 0.12 and not obs[resting, 12:18].any()
        assert 0.49 < np.abs(obs[:, :3]).max() <= 0.5 and 0.98 < np.abs(obs[:, 12:18]).max() <= 1.0
        angle = 2 * np.arccos(state["attitude"][~resting, 0])
        assert 1.5 < angle.max() <= np.pi / 2 and 0.75 < angle.mean() < 0.82
        np.testing.assert_allclose(np.linalg.norm(state["attitude"], axis=1), 1, rtol=1e-6)
        for name, spread in (("mass", 0.1), ("thrust", 0.2), ("lag", 0.5)):
            off = np.abs(state[name] - 1)
            assert off.max() <= spread + 1e-6 and abs(off.mean() / spread - 0.5) < 0.02
        np.testing.assert_allclose(state["push"].std(0), 0.02, rtol=0.05)
        np.testing.assert_allclose(state["twist"].std(0), [1e-4, 1e-4, 1e-6], rtol=0.05)


def test_a_curve_is_flown_once_in_a_period() -> None:
    with headrace.make("CrazyflieCurve-v0", num_envs=1, seed=3, period=1.6, curve_x=0.3, curve_z=0.2) as pool:
        obs, _ = pool.reset()
        state = arrays_of(pool)
        targets, ahead = [], []
        for _ in range(160):
            state["place"][:] = state["velocity"][:] = 0
            obs, *_ = pool.step(np.full((1, 4), 0.5, np.float32))
            place = state["place"][0]
            targets.append((place - obs[0, :3], state["velocity"][0] - obs[0, 12:15]))
            ahead.append(place - obs[0, 22:].reshape(3, 3))
    places, velocities = np.moveaxis(np.array(targets), 1, 0)
    np.testing.assert_allclose(np.abs(places).max(0), [0.3, 1.0, 0.2], atol=1e-3)
    np.testing.assert_allclose(np.gradient(places, 0.01, axis=0)[1:-1], velocities[1:-1], atol=0.02)
    for i in range(3):
        np.testing.assert_allclose(np.roll(places, -20 * (i + 1), axis=0), np.array(ahead)[:, i], atol=1e-4)


# signs of a vector, a quaternion and an angular velocity, the rotors that the image shows, and its place in a curve
IMAGES = {
    "Crazyflie-v0": ((-1, -1, 1), (1, -1, -1, 1), (-1, -1, 1), (2, 3, 0, 1), 0.0),
    "CrazyflieCurve-v0": ((1, -1, 1), (1, -1, 1, -1), (-1, 1, -1), (3, 2, 1, 0), 0.5),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_mirrored_flight_is_a_flight_with_the_same_rewards(task: str) -> None:
    options: dict[str, Any] = {"thrust_spread": 0.2, "lag_spread": 0.5, "force": 0.02, "torque": 1e-4}
    axes, turn, spin, rotors, later = IMAGES[task]
    with (
        headrace.make(task, num_envs=64, seed=5, action_history=2, autoreset="disabled", **options) as pool,
        headrace.make(task, num_envs=64, seed=6, action_history=2, autoreset="disabled", **options) as image,
    ):
        pool.reset()
        image.reset()
        mirror = pool.spec.mirror
        assert mirror is not None
        seen, acted = (([*side[0]], np.array(side[1], np.float32)) for side in (mirror.observation, mirror.action))
        state, shown = arrays_of(pool), arrays_of(image)
        for name, signs in (("place", axes), ("attitude", turn), ("velocity", axes), ("spin", spin), ("push", axes)):
            shown[name][:] = state[name] * np.array(signs, np.float32)
        shown["twist"][:] = state["twist"] * np.array(spin, np.float32)
        for name in ("rotors", "actions", "thrust", "lag"):
            shown[name][:] = state[name][..., rotors]
        shown["phase"][:] = (state["phase"] + later) % 1
        rng = np.random.default_rng(7)
        for _ in range(20):
            action = rng.uniform(-0.2, 1, (64, 4)).astype(np.float32)
            obs, reward, terminated, *_ = pool.step(action)
            theirs, earned, ended, *_ = image.step(action[:, acted[0]] * acted[1])
            np.testing.assert_allclose(obs[:, seen[0]] * seen[1], theirs, atol=2e-4)
            np.testing.assert_allclose(reward, earned, atol=2e-4)
            np.testing.assert_array_equal(terminated, ended)
            if terminated.any():
                break


def test_a_curve_with_a_height_has_no_mirror() -> None:
    with headrace.make("CrazyflieCurve-v0", num_envs=1, curve_z=0.2) as pool:
        assert pool.spec.mirror is None


@pytest.mark.parametrize("task", TASKS)
def test_rendered_frames_change_with_the_state(task: str) -> None:
    with headrace.make(task, num_envs=2, seed=0) as pool:
        pool.reset()
        first = pool.render([0, 1])
        assert first.shape == (2, 480, 480, 3) and first.dtype == np.uint8
        for _ in range(3):
            pool.step(np.zeros((2, 4), np.float32))
        assert (pool.render([0])[0] != first[0]).any()


def test_signals_say_where_each_action_is_seen() -> None:
    with headrace.make("CrazyflieCurve-v0", num_envs=1, seed=0, action_history=2) as pool:
        pool.reset()
        actions = np.random.default_rng(0).uniform(-1, 1, (2, 1, 4)).astype(np.float32)
        obs = [np.array(pool.step(action)[0][0]) for action in actions][-1]
        told = pool.spec.signals.observation
        ends = np.cumsum([part.size for part in told])
        seen = {part.name: obs[end - part.size : end] for part, end in zip(told, ends, strict=True)}
    assert ends[-1] == len(obs)
    np.testing.assert_array_equal(seen["last action"], actions[1, 0])
    np.testing.assert_array_equal(seen["action 2 steps ago"], actions[0, 0])


def test_invalid_options_are_refused() -> None:
    mistakes: list[dict[str, Any]] = [{"action_history": 0}, {"mass_spread": 0.9}, {"force": -1.0}, {"period": 3.0}]
    for wrong in mistakes:
        with pytest.raises(OptionError, match=next(iter(wrong))):
            headrace.make("Crazyflie-v0", **wrong)

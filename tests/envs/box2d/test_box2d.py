"""Tasks on Box2D as tasks: options, saved states and pictures; for what they compute see the alignment tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from headrace.envs.box2d import TASKS
from headrace.errors import OptionError, StateError

N = 4


def actions_of(pool: Any, steps: int, seed: int = 1) -> list[np.ndarray]:
    pool.action_space.seed(seed)
    return [np.stack([pool.action_space.sample() for _ in range(N)]) for _ in range(steps)]


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("LunarLander-v3", {"gravity": 0.0}, "gravity of LunarLander-v3 must be a number between -12 and 0, not 0.0"),
        ("LunarLander-v3", {"gravity": float("nan")}, "gravity of LunarLander-v3 must be"),
        ("LunarLander-v3", {"gravity": "low"}, "gravity of LunarLander-v3 must be"),
        ("LunarLander-v3", {"wind_power": float("inf")}, "wind_power of LunarLander-v3 must be a finite number"),
        ("LunarLander-v3", {"hardcore": True}, "LunarLander-v3 has no option 'hardcore'"),
        ("BipedalWalker-v3", {"hardcore": 1}, "hardcore of BipedalWalker-v3 must be True or False"),
        (
            "CarRacing-v3",
            {"lap_complete_percent": 95},
            "lap_complete_percent of CarRacing-v3 must be a number between 0",
        ),
    ],
)
def test_invalid_options_are_refused_by_name(task: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        headrace.make(task, num_envs=1, **options)


@pytest.mark.parametrize(
    ("task", "option", "named"),
    [
        ("LunarLander-v3", "continuous", "LunarLanderContinuous-v3"),
        ("BipedalWalker-v3", "hardcore", "BipedalWalkerHardcore-v3"),
    ],
)
def test_the_option_of_a_variant_gives_the_same_task_as_its_name(task: str, option: str, named: str) -> None:
    chosen: dict[str, Any] = {option: True}
    with headrace.make(task, num_envs=2, seed=1, **chosen) as one, headrace.make(named, num_envs=2, seed=1) as other:
        assert one.action_space == other.action_space
        np.testing.assert_array_equal(one.reset()[0], other.reset()[0])


def test_a_damaged_saved_state_is_refused() -> None:
    with headrace.make("LunarLander-v3", num_envs=1, seed=1) as pool:
        pool.reset()
        pool.step(np.array([2]))
        (whole,) = pool.save_state()
        wrong = np.frombuffer(whole, np.uint8).copy()
        wrong[-4:] = np.frombuffer(np.float32(np.nan).tobytes(), np.uint8)
        for state in (whole[:-1], whole + b"\0", wrong.tobytes(), whole[: len(whole) // 2]):
            with pytest.raises(StateError):
                pool.load_state([0], [state])
        pool.load_state([0], [whole])
        assert np.isfinite(pool.step(np.array([0]))[0]).all()


@pytest.mark.parametrize("task", TASKS)
def test_a_picture_shows_the_state(task: str) -> None:
    with headrace.make(task, num_envs=2, seed=1) as pool:
        pool.reset()
        before = pool.render([0, 1])
        np.testing.assert_array_equal(before, pool.render([0, 1]))
        for actions in actions_of(pool, 40):
            pool.step(actions[:2])
        after = pool.render([0, 1])
    assert before.shape == (2, 400, 600, 3)
    assert (before != after).any() and (before[0] != before[1]).any()
    assert len(np.unique(after[0].reshape(-1, 3), axis=0)) > 20  # bodies, ground, smooth edges


def test_pictures_of_the_car_may_have_their_channels_first() -> None:
    with (
        headrace.make("CarRacing-v3", num_envs=2, seed=3) as last,
        headrace.make("CarRacing-v3", num_envs=2, seed=3, flat_observation="pictures") as first,
    ):
        assert first.spec.observation.shape == (3, 96, 96)
        pairs = [(last.reset()[0], first.reset()[0])]
        action = np.tile(np.array([0.3, 1, 0], np.float32), (2, 1))
        pairs += [(last.step(action)[0], first.step(action)[0]) for _ in range(3)]
        for seen, turned in pairs:
            assert np.array_equal(np.moveaxis(seen, -1, 1), turned)
        assert len(np.unique(pairs[-1][1][0, 1])) > 3
    with pytest.raises(OptionError, match="must be False or 'pictures', not True"):
        headrace.make_spec("CarRacing-v3", flat_observation=True)


@pytest.mark.parametrize("options", [{}, {"continuous": False}])
def test_a_skipped_frame_repeats_the_action(options: dict[str, Any]) -> None:
    given = {"num_envs": 2, "seed": 5, "max_episode_steps": 0, "autoreset": "disabled", **options}
    action = np.array([3, 3]) if options else np.array([[0.0, 0.2, 0], [0.0, 0.3, 0]], np.float32)
    with headrace.make("CarRacing-v3", **given) as every, headrace.make("CarRacing-v3", frame_skip=7, **given) as some:
        assert some.spec.frame_skip == 7 and some.spec.render_fps == every.spec.render_fps / 7
        assert np.array_equal(every.reset()[0], some.reset()[0])
        ends = np.zeros(2, bool)
        for _ in range(200):  # until a car leaves the field
            seen, reward, earned = np.empty(0), np.zeros(2), np.zeros(2)
            for _ in range(7):
                seen, reward, ends, *_ = every.step(action)
                earned += reward
                if ends.any():
                    break
            skipped = some.step(action)
            assert np.array_equal(ends, skipped[2])
            gone = ends if ends.any() else np.ones(2, bool)  # the other's action is still repeated
            assert np.array_equal(seen[gone], skipped[0][gone])
            assert np.allclose(earned[gone], skipped[1][gone], atol=1e-4)
            if ends.any():
                break
        assert ends.any()
        before = some.render([0, 1])
        some.load_state([0, 1], some.save_state())
        assert np.array_equal(some.render([0, 1]), before)
    with pytest.raises(OptionError, match="frame_skip of CarRacing-v3 must be an integer of at least 1"):
        headrace.make_spec("CarRacing-v3", frame_skip=0)

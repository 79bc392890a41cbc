"""Debug mode reports agents that race, with both lines of code, and reports no others."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)
import racy_games
from headrace.errors import EnvironmentFailure
from headrace.pool.executors.kernels.diagnostics.races import shuffled

LINES = inspect.getsource(racy_games).splitlines()
HEIST = f"{Path(__file__).parents[2]}/examples/guard_and_thieves.py:Heist-v0"
PLANE = {"num_taggers": 3, "num_runners": 6}  # the game of examples/tag_plane.py, in a smaller size
SOUND: list[tuple[str, dict[str, Any]]] = [
    ("SoundGame", {}),
    ("TestRing-v0", {}),
    ("TestHunt-v0", {}),
    ("TestDuel-v0", {}),
    ("TestDash-v0", {}),
    ("TagGridWorld-v0", {}),
    ("TagGridWorld-v0", {"full_observation": True, "num_taggers": 3}),
    ("TagContinuous-v0", PLANE),
    ("TagContinuous-v0", {"full_observation": True, **PLANE}),
    (HEIST, {}),
]


def played(task: str, steps: int, **options: Any) -> list[np.ndarray]:
    """Returns the observations and rewards of random actions in debug mode."""
    seen = []
    with headrace.make(task, num_envs=2, seed=4, debug=True, autoreset="same_step", **options) as pool:
        obs, _ = pool.reset()
        pool.action_space.seed(4)
        for _ in range(steps):
            both = [pool.action_space.sample() for _ in range(2)]
            parted = isinstance(both[0], dict)
            action = {key: np.stack([one[key] for one in both]) for key in both[0]} if parted else np.stack(both)
            obs, reward, *_ = pool.step(action)
            seen += [*(obs.values() if isinstance(obs, dict) else [obs]), reward]
    return seen


@pytest.mark.parametrize("race", racy_games.RACES)
def test_agents_that_race_are_named_with_both_lines(race):
    _, said, sources = racy_games.RACES[race]
    with pytest.raises(EnvironmentFailure, match=said) as failure:
        played(race, 3)
    for source in sources:
        lines = [number for number, line in enumerate(LINES, 1) if source in line]
        named = [line for line in lines if f"{racy_games.__file__}:{line}, in " in str(failure.value)]
        assert named, f"{source!r} is not named in {failure.value}"


@pytest.mark.parametrize(("task", "options"), SOUND)
def test_agents_separated_by_barriers_do_not_race_and_their_order_changes_nothing(task, options):
    steps = 4 if task == "TagContinuous-v0" else 25
    ordered = played(task, steps, **options)
    with shuffled(seed=1):
        other = played(task, steps, **options)
    for one, two in zip(ordered, other, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("task", racy_games.ORDER)
def test_shuffling_agents_changes_the_results_of_order_dependent_atomics(task):
    def differ(seed: int) -> bool:
        with shuffled(seed):
            other = played(task, 10)
        return any((one != two).any() for one, two in zip(ordered, other, strict=True))

    ordered = played(task, 10)
    assert differ(1)
    with shuffled(7):
        first = played(task, 10)
    with shuffled(7):
        again = played(task, 10)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)


def test_an_environment_whose_agents_race_can_be_reset():
    with headrace.make("ReadThenAtomic", num_envs=2, debug=True) as pool:
        pool.reset()
        for _ in range(2):
            with pytest.raises(EnvironmentFailure, match="environment 0: race: agent 1 reads"):
                pool.step(np.zeros((2, racy_games.AGENTS), np.int64))
            pool.reset()


def test_augmented_assignments_give_the_same_results_in_debug_mode():
    with (
        headrace.make("SoundGame", num_envs=2, seed=4) as compiled,
        headrace.make("SoundGame", num_envs=2, seed=4, debug=True) as debugged,
    ):
        compiled.reset()
        debugged.reset()
        for step in range(30):
            action = np.full((2, racy_games.AGENTS), step % 3)
            for one, two in zip(compiled.step(action)[:4], debugged.step(action)[:4], strict=True):
                np.testing.assert_array_equal(one, two)

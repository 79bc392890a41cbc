"""Chess from any loadable state: it can be played on, in debug mode too, and its neighbours do not change."""

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.errors import StateError
from nightly import rest_nightly

TASK = "Chess-v1"
MIDDLE = 1  # of three environments


def damage(array, bounds, rng):
    """Writes random values within bounds; into sets of cells many bits, few, the own but for some, or the own."""
    if bounds is not None:
        array[...] = rng.integers(bounds[0], bounds[1] + 1, array.shape)
    elif array.dtype == bool:
        array[...] = rng.random() < 0.1
    else:
        drawn = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
        sparse = drawn & rng.permutation(drawn.ravel()).reshape(array.shape)
        array[...] = (drawn, sparse, array ^ (sparse & np.roll(drawn, 1)), array)[rng.integers(4)]


def damaged_state(pool, rng):
    """A saved state of the middle environment with random arrays; the environment itself is put back."""
    before, bounds = pool.save_state([MIDDLE]), pool._executor._simulation.bounds
    for name, array in arrays_of(pool).items():
        damage(array[MIDDLE : MIDDLE + 1], bounds.get(name), rng)
    (saved,) = pool.save_state([MIDDLE])
    pool.load_state([MIDDLE], before)
    return saved


def assert_plays_alike(pool, lone, saved, steps, rng):
    """Loads a state into the middle environment and a pool of one, and plays the same actions, most of them allowed."""
    pool.load_state([MIDDLE], [saved])
    lone.load_state([0], [saved])
    actions = rng.integers(0, 64 * 73, (1, 2))
    for _ in range(steps):
        results = [pool.step(actions, [MIDDLE]), lone.step(actions)]
        for ours, theirs in zip(*(result[:4] for result in results), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        masks = [result[-1]["action_mask"] for result in results]
        np.testing.assert_array_equal(*masks)
        assert results[0][0].max() == 1
        assert masks[0].any(2).all()
        actions = (masks[0] * rng.random(masks[0].shape)).argmax(2)


@pytest.mark.parametrize(("trials", "steps", "debug"), rest_nightly([(200, 12, False), (4, 2, True)], (200, 12, False)))
def test_any_state_within_bounds_can_be_played_and_leaves_neighbours_alone(trials, steps, debug):
    rng = np.random.default_rng(trials)
    with (
        headrace.make(TASK, num_envs=3, seed=1) as pool,
        headrace.make(TASK, num_envs=2, seed=1) as beside,
        headrace.make(TASK, debug=debug) as lone,
    ):
        for each in (pool, beside, lone):
            _, info = each.reset()
            for _ in range(6):  # so that there are earlier positions
                mask = info["action_mask"]
                *_, info = each.step((mask * np.random.default_rng(0).random(mask.shape[1:])).argmax(2))
        kept = pool.save_state([MIDDLE])
        for _ in range(trials):
            assert_plays_alike(pool, lone, damaged_state(pool, rng), steps, rng)
            pool.load_state([MIDDLE], kept)
        for name, array in arrays_of(pool).items():
            np.testing.assert_array_equal(array[[0, 2]], arrays_of(beside)[name])


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("castling", (-1, 16)),
        ("idle", (-1, 101)),
        ("number", (0,)),
        ("ending", (-1, 6)),
        ("mover", (-1, 2)),
        ("result", (2.0, np.nan)),
    ],
)
def test_states_with_values_outside_their_bounds_are_refused(field, values):
    with headrace.make(TASK) as pool:
        pool.reset()
        for value in values:
            arrays_of(pool)[field][0] = value
            saved = pool.save_state()
            with pytest.raises(StateError, match=field):
                pool.load_state([0], saved)

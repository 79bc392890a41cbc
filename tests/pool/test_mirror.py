"""How a task says what it looks like in a mirror."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import HeadraceError, Mirror

Side = tuple[list[int], list[int]]
ONE = ((0,), (-1,))


@st.composite
def sides(draw: st.DrawFn) -> Side:
    """Pairs of elements that change places, and elements that stay."""
    order = draw(st.permutations(range(draw(st.integers(1, 12)))))
    pairs = draw(st.integers(0, len(order) // 2))
    indices, signs = list(range(len(order))), [1] * len(order)
    for k in range(len(order)):
        signs[k] = draw(st.sampled_from((1, -1)))
    for a, b in zip(order[: 2 * pairs : 2], order[1 : 2 * pairs : 2], strict=True):
        indices[a], indices[b] = b, a
        signs[b] = signs[a]
    return indices, signs


@given(sides(), sides())
def test_what_is_mirrored_twice_is_as_it_was(
    observation: tuple[list[int], list[int]], action: tuple[list[int], list[int]]
):
    mirror = Mirror(observation, action)
    for (indices, signs), given_ in ((mirror.observation, observation), (mirror.action, action)):
        assert (list(indices), list(signs)) == given_
        x = np.random.default_rng(0).normal(size=len(indices))
        once = np.array(signs) * x[list(indices)]
        assert (np.array(signs) * once[list(indices)] == x).all()


@pytest.mark.parametrize(
    ("side", "told"),
    [
        (((0, 1), (1,)), "the mirror of the action has 2 indices but 1 signs: give one of each"),
        (((0, 1), (1, 2)), "the mirror of the action has the sign 2 of element 1, which must be 1 or -1"),
        (((0, 2), (1, 1)), "the mirror of the action has the index 2 of element 1, of 2 elements"),
        (((0, 0), (1, 1)), "mirrored twice: elements 1 and 0 must show each other, with the same sign"),
        (((1, 0), (1, -1)), "mirrored twice: elements 0 and 1 must show each other, with the same sign"),
        (
            ((1, 2, 0), (1, 1, 1)),
            "mirrored twice: elements 0 and 1 must show each other, with the same sign",
        ),
    ],
)
def test_others_are_errors(side: tuple, told: str) -> None:
    with pytest.raises(HeadraceError, match=told):
        Mirror(ONE, side)

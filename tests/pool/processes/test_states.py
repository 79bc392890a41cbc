"""States of Python environments are loaded as they were saved; large contents have blocks of their own."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from headrace.pool.executors.processes import states
from headrace.pool.state import BLOCK

pd = pytest.importorskip("pandas")
TABLE = np.random.default_rng(0).random(10_000)
FIXED = TABLE[::2].copy()
FIXED.flags.writeable = False
TEXT = bytes(range(256)) * 100
CONTENTS: dict[str, Any] = {
    "array": TABLE,
    "columns": np.asfortranarray(TABLE.reshape(100, 100)),
    "part": TABLE[::2],
    "fixed": FIXED,
    "small": TABLE[:3],
    "bytes": TEXT,
    "frame": pd.DataFrame({"price": TABLE, "day": np.arange(len(TABLE))}),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_loaded_contents_equal_the_dumped_ones(name: str) -> None:
    value = CONTENTS[name]
    (found,) = states.loaded(states.dumped([value]))
    assert type(found) is type(value) and np.array_equal(found, value)
    if isinstance(value, np.ndarray):
        assert found.flags.writeable == value.flags.writeable
        assert found.flags.f_contiguous == np.ascontiguousarray(value).flags.f_contiguous or name == "columns"


def test_an_object_that_occurs_twice_is_stored_and_loaded_once() -> None:
    array, again, *texts = states.loaded(states.dumped([TABLE, TABLE, *[TEXT] * 1000]))
    assert array is again and all(text is texts[0] for text in texts)
    assert len(states.dumped([TEXT] * 1000)) < 2 * len(TEXT) + BLOCK


def test_a_state_of_an_earlier_version_is_loaded() -> None:
    assert np.array_equal(states.loaded(pickle.dumps(TABLE)), TABLE)


def test_an_array_has_the_same_bytes_in_states_that_differ_elsewhere() -> None:
    one, two = (states.dumped(["x" * n, TABLE, n]) for n in (1, 5000))
    assert len(one) != len(two) and one[-len(TABLE.tobytes()) :] == two[-len(TABLE.tobytes()) :]

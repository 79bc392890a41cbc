"""Actions are checked against their space, whatever its shape and names."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from headrace.errors import ActionError, OptionError
from headrace.pool.actions import action_check, action_fields, unpacked
from headrace.pool.batch import observation_fields

Box, Dict, Discrete = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete
CLASHING = Dict({"a:b": Discrete(2), "a": Dict({"b": Discrete(2)})})


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (Box(-3, 5, (), np.int64), 6),
        (Box(-3, 5, (), np.int64), -4),
        (Box(0, 9, (2,), np.uint8), np.array([3, 10], np.uint8)),
        (Box(np.array([0, 2]), np.array([1, 3]), dtype=np.int32), [1, 1]),
        (Dict({"gear": Box(1, 6, (), np.int8)}), {"gear": np.array([7], np.int8)}),
    ],
)
def test_integers_outside_of_a_box_are_refused(space: gym.Space, action: Any) -> None:
    check = action_check(space)
    with pytest.raises(ActionError, match="is not in"):
        check(action if isinstance(action, dict) else np.asarray(action)[None], 1)
    check({"gear": np.array([6], np.int8)} if isinstance(space, Dict) else np.asarray(space.high)[None], 1)  # type: ignore[attr-defined]


def test_all_uint8_values_and_floats_outside_of_a_box_pass() -> None:
    action_check(Box(0, 255, (2,), np.uint8))(np.array([[0, 255]], np.uint8), 1)
    action_check(Box(-1, 1, (1,), np.float32))(np.array([[2]], np.float32), 1)


def test_two_leaves_that_would_share_an_array_are_refused_by_name() -> None:
    for fields in (action_fields, observation_fields):
        with pytest.raises(OptionError, match=r"\['a', 'b'\] and \['a:b'\] name one array|\['a:b'\] and \['a', 'b'\]"):
            fields(CLASHING)
    assert len(action_fields(Dict({"a:b": Discrete(2), "a": Dict({"c": Discrete(2)})}))) == 2


def test_env_id_is_an_action_if_the_action_space_names_it() -> None:
    space = Dict({"env_id": Discrete(3), "move": Discrete(2)})
    action = {"env_id": [2], "move": [1]}
    assert unpacked(action, [0], space) == (action, [0])
    assert unpacked(action | {"players": 0}, None, Dict({"move": Discrete(2)})) == ({"move": [1]}, [2])

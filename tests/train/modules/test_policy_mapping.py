"""Every agent is mapped to exactly one policy, which must be able to play it."""

from typing import Any

import numpy as np
import pytest
import torch

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)
from headrace.errors import OptionError
from headrace.train.modules.policy_mapping import policy_mapping

TAG = headrace.make_spec("TagGridWorld-v0", num_taggers=4)


def test_one_agent_is_one_group_without_a_name():
    (name, agent_group), *others = policy_mapping(headrace.make_spec("CartPole-v1"), {}).items()
    assert name == "" and not others and agent_group.width == 1
    values = torch.arange(6.0).view(2, 3)
    assert agent_group.of_all(values) is values and agent_group.of_each(values) is values
    assert agent_group.columns(slice(1, 3)) == slice(1, 3)


def test_every_type_has_a_policy_of_its_own_by_default():
    groups = policy_mapping(TAG, {})
    assert list(groups) == ["tagger", "runner"]
    assert groups["tagger"].agents == slice(0, 4) and groups["runner"].agents == slice(4, 5)
    assert not groups["tagger"].sees.whole


def test_columns_are_the_groups_agents_environment_by_environment():
    groups = policy_mapping(TAG, {"odd": {"agents": [1, 3]}, "rest": {"agents": [0, 2, "runner"]}})
    values = torch.arange(2 * 3 * 5).view(2, 3, 5)
    np.testing.assert_array_equal(groups["odd"].of_all(values)[0], [1, 3, 6, 8, 11, 13])
    np.testing.assert_array_equal(groups["rest"].of_all(values)[1], [15, 17, 19, 20, 22, 24, 25, 27, 29])
    np.testing.assert_array_equal(groups["odd"].of_each(torch.tensor([[7, 8, 9]])), [[7, 7, 8, 8, 9, 9]])
    assert groups["odd"].columns(slice(1, 3)) == slice(2, 6)


def test_types_of_different_spaces_have_arrays_of_their_own():
    spec = headrace.make_spec("TestHunt-v0")
    groups = policy_mapping(spec, {})
    for kind in spec.agents:
        agent_group = groups[kind.name]
        assert (agent_group.observation, agent_group.action, agent_group.width) == (
            kind.observation,
            kind.action,
            kind.count,
        )
        assert agent_group.sees.key == kind.name and agent_group.sees.whole
    with pytest.raises(OptionError, match="different spaces"):
        policy_mapping(spec, {"all": {"agents": [kind.name for kind in spec.agents]}})


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        ({"all": {"agents": ["tagger"]}}, "agent 4 .* exactly one policy, but belongs to 0"),
        (
            {"a": {"agents": ["tagger", "runner"]}, "b": {"agents": [2]}},
            "agent 2 .* exactly one policy, but belongs to 2",
        ),
        ({"a": {"agents": ["tagger", 9]}}, "9"),
        ({"a": {"agents": ["wolf"]}}, "'wolf'.*tagger, runner"),
        ({"a": {"agents": []}}, "no agents"),
    ],
)
def test_wrong_mappings_are_named(policies: dict[str, Any], told: str):
    with pytest.raises(OptionError, match=told):
        policy_mapping(TAG, policies)


def test_one_agent_has_no_policies_to_map():
    with pytest.raises(OptionError, match="one agent"):
        policy_mapping(headrace.make_spec("CartPole-v1"), {"a": {"agents": [0]}})


@pytest.mark.parametrize("agents", [None, "tagger", 0])
def test_agents_must_be_a_list(agents: Any) -> None:
    with pytest.raises(OptionError, match=f"has agents={agents!r}, which must be a list: .* has tagger, runner"):
        policy_mapping(TAG, {"all": {"agents": agents}})

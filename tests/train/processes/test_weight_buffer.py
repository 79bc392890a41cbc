"""Weights between processes: a reader has a whole version or none, whatever happens to the writer."""

from __future__ import annotations

import pytest
import torch

from headrace.errors import OptionError
from headrace.train.processes.weight_buffer import WeightBuffer


def test_a_reader_gets_each_version_once():
    buffer = WeightBuffer(5, 2)
    into, extras = torch.zeros(5), torch.zeros(2, dtype=torch.float64)
    assert buffer.version == 0 and buffer.read(into, extras) is None
    assert buffer.publish(torch.full((5,), 1.0), torch.tensor([1.0, 2.0]).double()) == 1
    assert buffer.publish(torch.full((5,), 2.0), torch.tensor([3.0, 4.0]).double()) == 2
    assert buffer.read(into, extras) == 2
    assert into.tolist() == [2] * 5 and extras.tolist() == [3, 4]
    assert buffer.read(into, extras) is None
    assert buffer.version == 2


def test_a_half_written_version_is_not_seen_and_its_successor_goes_on():
    buffer = WeightBuffer(3)
    into = torch.zeros(3)
    buffer.publish(torch.ones(3))
    place = 2 % 2  # a writer is killed after this:
    buffer._versions[place], buffer._vectors[place, 0] = -1, 7
    assert buffer.read(into) == 1 and into.tolist() == [1, 1, 1]
    assert buffer.publish(torch.full((3,), 2.0)) == 2
    assert buffer.read(into) == 2 and into.tolist() == [2, 2, 2]


def test_mistakes_have_names():
    buffer = WeightBuffer(3, 2)
    with pytest.raises(OptionError, match="vector must have 3 elements"):
        buffer.publish(torch.zeros(4), torch.zeros(2))
    with pytest.raises(OptionError, match="extras must have 2 elements"):
        buffer.publish(torch.zeros(3))
    buffer.close()
    buffer.close()

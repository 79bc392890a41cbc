"""Critics side by side answer as one after the other."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.modules.layers import FullPrecision
from headrace.train.modules.twin_critic import TwinCritic
from updates import critic_values


@pytest.fixture(autouse=True)
def _in_double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(7,), (8, 6), (8, 6, 5)])
@pytest.mark.parametrize("critics", [1, 2, 3])
def test_values_and_gradients_equal_those_of_single_critics(critics, hidden, activation):
    torch.manual_seed(1)
    module = TwinCritic(5, hidden, activation, critics)
    FlatAdam(module).parameters.normal_(std=0.5)
    inputs, actions, d = torch.randn(9, 3), torch.randn(9, 2, requires_grad=True), torch.randn(critics, 9)
    sources = (*module.parameters(), actions)
    plain = torch.stack([critic_values(module, k, inputs, actions, activation) for k in range(critics)])
    expected, values = torch.autograd.grad(plain, sources, d), module(inputs, actions)
    torch.testing.assert_close(values, plain)
    torch.testing.assert_close(torch.autograd.grad(values, sources, d), expected)


@pytest.mark.parametrize("hidden", [(7,), (8, 6), (8, 6, 5)])
def test_weights_begin_equal_to_those_of_plain_linear_layers(hidden):
    torch.manual_seed(3)
    module = TwinCritic(5, hidden, "relu")
    torch.manual_seed(3)
    sizes = list(itertools.pairwise((5, *hidden, 1)))
    plain = [nn.Sequential(*(m for a, b in sizes for m in (nn.Linear(a, b), nn.ReLU())))[:-1] for _ in range(2)]
    x = torch.randn(9, 5)
    values = torch.stack([critic(x).squeeze(1) for critic in plain])
    torch.testing.assert_close(module(x), values)


def test_full_precision_ends_with_its_block():
    torch.set_float32_matmul_precision("medium")
    with FullPrecision():
        with FullPrecision():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "medium"

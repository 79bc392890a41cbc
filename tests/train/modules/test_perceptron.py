"""A perceptron begins, and answers, as torch's own layers do."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from headrace.train.modules.layers import tanh_
from headrace.train.modules.perceptron import Perceptron


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(7,), (8, 6), (8, 6, 5)])
def test_a_perceptron_begins_with_the_weights_of_plain_linear_layers(hidden, activation, squash):
    torch.manual_seed(3)
    module = Perceptron(5, 2, hidden, activation, squash)
    torch.manual_seed(3)
    act = nn.ReLU if activation == "relu" else nn.Tanh
    plain = nn.Sequential(*(m for a, b in itertools.pairwise((5, *hidden, 2)) for m in (nn.Linear(a, b), act())))[:-1]
    x = torch.randn(9, 5)
    expected = torch.tanh(plain(x)) if squash else plain(x)
    torch.testing.assert_close(module(x), expected)


def test_the_tanh_without_gradients_equals_torchs_tanh():
    x = torch.cat((torch.randn(10_000) * 3, torch.tensor([0.0, 1e-20, -1e-4, 30.0, -1e30, torch.inf, -torch.inf])))
    exact = torch.tanh(x.double())
    same = x.clone()
    assert tanh_(same) is same
    torch.testing.assert_close(same.double(), exact, atol=3e-7, rtol=0)
    assert torch.isnan(tanh_(torch.tensor([torch.nan]))).all()
    leaf = x.clone().requires_grad_()
    tanh_(leaf * 1).sum().backward()
    torch.testing.assert_close(leaf.grad, 1 - exact.float().square(), atol=1e-6, rtol=0)

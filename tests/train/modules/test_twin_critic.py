"""Critics side by side: values, and both backward passes, as autograd has them for one after the other."""

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
def test_values_and_gradients_are_those_of_autograd(critics, hidden, activation):
    torch.manual_seed(1)
    module = TwinCritic(5, hidden, activation, critics)
    optimiser = FlatAdam(module)
    optimiser.parameters.normal_(std=0.5)
    inputs, actions, d = torch.randn(9, 3), torch.randn(9, 2, requires_grad=True), torch.randn(critics, 9)

    plain = torch.stack([critic_values(module, k, inputs, actions, activation) for k in range(critics)])
    expected = torch.autograd.grad(plain, (*module.parameters(), actions), d, retain_graph=True)
    (first_alone,) = torch.autograd.grad(plain[0], actions, d[0])

    with torch.inference_mode():
        x = module.joined(inputs, actions)
        values, saved = module.forward_saving(x)
        module.backward_into_gradients(saved, d)
        d_actions = module.input_gradient(saved, d, 3)
        torch.testing.assert_close(values, plain)
        for (name, parameter), gradient in zip(module.named_parameters(), expected, strict=False):
            torch.testing.assert_close(parameter.grad, gradient, msg=name)
        torch.testing.assert_close(d_actions, expected[-1])
        values, saved = module.forward_saving(x, critics=1)
        torch.testing.assert_close(values, plain[:1])
        torch.testing.assert_close(module.input_gradient(saved, d[:1], 3), first_alone)


@pytest.mark.parametrize("hidden", [(7,), (8, 6), (8, 6, 5)])
def test_weights_begin_as_those_of_plain_linear_layers(hidden):
    torch.manual_seed(3)
    module = TwinCritic(5, hidden, "relu")
    torch.manual_seed(3)
    sizes = list(itertools.pairwise((5, *hidden, 1)))
    plain = [nn.Sequential(*(m for a, b in sizes for m in (nn.Linear(a, b), nn.ReLU())))[:-1] for _ in range(2)]
    x = torch.randn(9, 5)
    values = torch.stack([critic(x).squeeze(1) for critic in plain])
    torch.testing.assert_close(module(x), values)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_weighted_and_half_the_squared_error_of_each(weighted):
    torch.manual_seed(1)
    module = TwinCritic(5, (8, 6), "relu")
    FlatAdam(module).parameters.normal_(std=0.5)
    x, wanted, weights = module.joined(torch.randn(9, 5)), torch.randn(9), torch.rand(9) if weighted else None
    plain = torch.stack([critic_values(module, k, x[:, :3], x[:, 3:5], "relu") for k in range(2)])
    loss = 0.5 * ((plain - wanted) ** 2 * (1.0 if weights is None else weights)).mean(1).sum()
    expected = torch.autograd.grad(loss, tuple(module.parameters()))
    answered, mean = module.fit_into_gradients(x, wanted, weights)
    torch.testing.assert_close(answered, loss)
    torch.testing.assert_close(mean, plain.mean())
    for parameter, gradient in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_full_precision_ends_with_its_block():
    torch.set_float32_matmul_precision("medium")
    with FullPrecision():
        with FullPrecision():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "medium"

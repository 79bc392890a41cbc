"""Normalised layers in compiled code, beside torch's: outputs and gradients of perceptrons and CNNs, and who acts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compiled_pictures import CPU, NATURE, SMALL, STRIDED, Shape, distance, pictures, space_of, wild
from headrace.train.algorithms.optimiser import FlatRAdam
from headrace.train.algorithms.pqn.pqn import PQN
from headrace.train.modules.cnn import cpu_has_bf16
from headrace.train.modules.compiled import compiled_module, memory
from headrace.train.modules.compiled_networks import CompiledValues, compile_trunks
from headrace.train.modules.normed import NormedConvolutions, NormedPerceptron, NormedTrunk
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config

pytestmark = [
    pytest.mark.skipif(compiled_module() is None, reason="left out, or this processor has no registers for it"),
    pytest.mark.usefixtures("one_thread"),
]
# inputs, hidden layers, activation
PERCEPTRONS = [(1, (1,), "relu"), (5, (16, 3, 40), "tanh"), (130, (65, 80), "relu"), (64, (128, 128), "relu")]
# a trunk, and the channels, height and width of its pictures
TRUNKS: list[tuple[str, Shape]] = [
    SMALL,
    ("small", (7, 9, 13)),
    ("small", (1, 8, 8)),
    NATURE,
    ("nature", (1, 41, 50)),
    STRIDED,
    ("strided", (4, 42, 42)),
]


EACH = pytest.mark.parametrize(("trunk", "shape"), [SMALL, NATURE, STRIDED])


def perceptron(inputs: int, hidden: tuple[int, ...], activation: str) -> Any:
    torch.manual_seed(0)
    network = NormedPerceptron(inputs, 4, hidden, activation)
    wild(network)
    FlatRAdam(network)
    return network


def cnn(trunk: str, shape: Shape, bf16: bool = False) -> Any:
    torch.manual_seed(0)
    network = NormedConvolutions(space_of(shape), 4, "nature" if trunk == "small" else trunk, bf16)
    wild(network)
    FlatRAdam(network)
    return network


def by_torch(network: Any, x: Tensor, d: Tensor, double: bool = True) -> tuple[Tensor, ...]:
    """Outputs, and the gradients of all parameters, given those of the outputs; in float64 as layer by layer."""
    twin = copy.deepcopy(network)
    for parameter in twin.parameters():
        parameter.grad = None
    if not double:
        found = twin(x)
    elif isinstance(twin.double(), NormedTrunk):
        found = twin.head(twin.body(x.double() * twin.factor))
    else:
        found = twin(x.double())
    found.backward(d.to(found.dtype))
    return found.detach().float(), *(parameter.grad.float() for parameter in twin.parameters())


def by_compiled_code(network: Any, x: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    values = CompiledValues(network, ())
    values._refresh()
    values._learner.backward(memory(x), memory(d))
    return values.values(x), *(parameter.grad.clone() for parameter in network.parameters())


def assert_close(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        near = torch.isclose(
            mine, other, rtol=1e-4, atol=2e-5 * float(torch.cat([t.flatten() for t in theirs]).abs().max())
        )
        # a unit may be just above 0 by one sum, and just below by the other: then a filter's gradients differ
        assert near.float().mean() > 0.98 and (near.all() or distance(mine, other) < 5e-3)


@pytest.mark.parametrize(("inputs", "hidden", "activation"), PERCEPTRONS)
@pytest.mark.parametrize("rows", [1, 9, 65])
def test_perceptrons_have_the_outputs_and_gradients_of_torch(
    inputs: int, hidden: tuple[int, ...], activation: str, rows: int
) -> None:
    network = perceptron(inputs, hidden, activation)
    x, d = torch.randn(rows, inputs), torch.randn(rows, 4)
    assert_close(by_compiled_code(network, x, d), by_torch(network, x, d))


@pytest.mark.parametrize(("trunk", "shape"), TRUNKS)
@pytest.mark.parametrize("rows", [1, 9, 65])
def test_cnns_have_the_outputs_and_gradients_of_torch(trunk: str, shape: Shape, rows: int) -> None:
    network = cnn(trunk, shape)
    x, d = pictures(shape, rows), torch.randn(rows, 4)
    assert_close(by_compiled_code(network, x, d), by_torch(network, x, d))


def needs_bfloat16() -> None:
    module: Any = compiled_module()
    if not module.widths(bfloat16=True) or not cpu_has_bf16():
        pytest.skip("this processor does not multiply bfloat16")


@pytest.mark.parametrize(("trunk", "shape"), TRUNKS)
def test_bfloat16_is_as_near_to_float64_as_that_of_torch(trunk: str, shape: Shape) -> None:
    needs_bfloat16()
    network = cnn(trunk, shape, bf16=True)
    x, d = pictures(shape, 33), torch.randn(33, 4)
    exact, theirs = by_torch(network, x, d), by_torch(network, x, d, double=False)
    ours = by_compiled_code(network, x, d)
    for mine, other, wanted in zip(ours, theirs, exact, strict=True):
        assert distance(mine, wanted) < 2 * distance(other, wanted) + 2e-3  # by chance, units pass 0
    assert not torch.equal(ours[0], by_compiled_code(cnn(trunk, shape), x, d)[0])


@EACH
def test_pictures_of_one_level_have_finite_results(trunk: str, shape: Shape) -> None:
    """Filters without a bias then have equal sums at all places."""
    network = cnn(trunk, shape)
    for level in (0, 255):
        x, d = torch.full((9, *shape), level, dtype=torch.uint8), torch.ones(9, 4)
        assert all(each.isfinite().all() for each in by_compiled_code(network, x, d))
        torch.testing.assert_close(by_compiled_code(network, x, d)[0], by_torch(network, x, d)[0], rtol=1e-3, atol=1e-3)


def test_a_layer_that_is_constant_is_0_before_its_shift() -> None:
    network = perceptron(3, (16,), "relu")
    x, d = torch.zeros(2, 3), torch.ones(2, 4)
    with torch.no_grad():
        network[0].bias.fill_(7.3)
    found = by_compiled_code(network, x, d)
    torch.testing.assert_close(
        found[0], F.relu(network[1].bias).expand(2, 16) @ network[3].weight.t() + network[3].bias
    )
    assert all(each.isfinite().all() for each in found)


# -- who acts -----------------------------------------------------------------------------------------


def policy_of(space: gym.Space, **settings: Any) -> Any:
    torch.manual_seed(5)
    config = make_config("x", defaults=False, algo="pqn", torch_threads=1, **({"bf16": False} | settings))
    policy = PQN("", config, AgentGroup(space, gym.spaces.Discrete(4)), CPU)
    wild(policy.network)
    return policy


@EACH
def test_compiled_values_act_and_follow_changes_of_parameters(trunk: str, shape: Shape) -> None:
    policy = policy_of(space_of(shape), trunk="nature" if trunk == "small" else trunk)
    network, x = policy.network, pictures(shape, 5)

    @torch.no_grad()
    def agrees() -> None:
        q, values = network(x)
        torch.testing.assert_close(q, network.q(x), rtol=1e-4, atol=1e-4)
        assert torch.equal(values, q.amax(1)) and not torch.equal(q, network.q(x))

    agrees()
    network.load_state_dict({name: each + 0.01 for name, each in network.state_dict().items()})
    agrees()
    with torch.inference_mode():
        policy.optimiser.parameters.mul_(0.5)
    agrees()
    for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert copied.compiled is None
    assert network(x)[0].requires_grad


@EACH
@pytest.mark.parametrize("rows", [1, 9])
def test_a_trunk_within_a_network_of_torch_has_torchs_gradients(trunk: str, shape: Shape, rows: int) -> None:
    found = []
    for changes in (False, True):
        torch.manual_seed(0)
        inner = NormedTrunk(space_of(shape), "nature" if trunk == "small" else trunk, bf16=False)
        network = nn.Sequential(inner, nn.Linear(inner.features, 4))
        wild(network)
        FlatRAdam(network)
        if changes:
            assert compile_trunks(network) == 1
        out = network(pictures(shape, rows))
        out.backward(torch.ones(rows, 4))
        found.append((out.detach(), *(each.grad for each in network.parameters())))
    assert_close(found[1], found[0])

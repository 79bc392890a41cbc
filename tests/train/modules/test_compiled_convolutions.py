"""Convolutions in compiled code, beside torch's: outputs and gradients, and how pictures may lie in memory."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from compiled_pictures import (
    ALGORITHMS,
    CHOICE,
    CPU,
    NATURE,
    SMALL,
    STRIDED,
    Shape,
    distance,
    network_of,
    pictures,
    policy_of,
    samples_of,
    space_of,
)
from headrace.pool.flat_observation import Joined
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.cnn import StridedTrunk, cpu_has_bf16
from headrace.train.modules.compiled import compiled_module
from headrace.train.modules.compiled_networks import CompiledNetwork, compile_trunks
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config

pytestmark = [
    pytest.mark.skipif(compiled_module() is None, reason="left out, or this processor has no registers for it"),
    pytest.mark.usefixtures("one_thread"),
]
# a trunk, and the channels, height and width of its pictures
SIZES: list[tuple[str, Shape]] = [
    ("nature", (4, 36, 36)),
    ("nature", (1, 41, 50)),
    ("nature", (3, 36, 39)),
    ("small", (1, 8, 8)),
    ("small", (2, 12, 10)),
    ("small", (7, 9, 13)),
    ("strided", (1, 36, 47)),
    ("strided", (4, 42, 42)),
    ("strided", (12, 37, 36)),
]
EACH = pytest.mark.parametrize(("trunk", "shape"), [SMALL, NATURE, STRIDED])


def results_in_torch(network: Any, x: Tensor, d: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    gradient.zero_()
    params, values = network(x)
    both = torch.cat((params, values.unsqueeze(1)), 1)
    both.backward(d)
    return both.detach(), gradient.clone()


def results_compiled(network: Any, x: Tensor, d: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    gradient.zero_()
    compiled = CompiledNetwork(network)
    compiled.backward(x, d)
    return compiled.forward(x), gradient.clone()


@pytest.mark.parametrize(("trunk", "shape"), SIZES)
@pytest.mark.parametrize("rows", [1, 9, 65])
def test_outputs_and_gradients_equal_those_of_torch(trunk: str, shape: Shape, rows: int) -> None:
    network, gradient = network_of(trunk, shape)
    x, d = pictures(shape, rows), torch.randn(rows, 4)
    wanted = results_in_torch(network, x, d, gradient)
    for ours, theirs in zip(results_compiled(network, x, d, gradient), wanted, strict=True):
        near = torch.isclose(ours, theirs, rtol=1e-5, atol=1e-5 * float(theirs.abs().max()))
        # a unit may be just above 0 by one sum, and just below by the other: then a filter's gradients differ
        assert near.float().mean() > 0.99 and distance(ours, theirs) < 5e-3


@pytest.mark.parametrize(("trunk", "shape"), [each for each in SIZES if each[0] != "small"])
def test_bfloat16_is_as_near_to_float32_as_that_of_torch(trunk: str, shape: Shape) -> None:
    module: Any = compiled_module()
    if not module.widths(bfloat16=True) or not cpu_has_bf16():
        pytest.skip("this processor does not multiply bfloat16")
    network, gradient = network_of(trunk, shape)
    x, d = pictures(shape, 33), torch.randn(33, 4)
    exact = results_in_torch(network, x, d, gradient)
    network.trunk.dtype = torch.bfloat16
    ours, theirs = (each(network, x, d, gradient) for each in (results_compiled, results_in_torch))
    for mine, other, wanted in zip(ours, theirs, exact, strict=True):
        assert 0 < distance(mine, wanted) < 1.3 * distance(other, wanted) + 1e-3


@EACH
def test_pictures_that_are_all_black_or_white_have_finite_results(trunk: str, shape: Shape) -> None:
    for bf16 in (False, True) if trunk != "small" else (False,):
        network, gradient = network_of(trunk, shape, bf16=bf16)
        for level in (0, 255):
            x, d = torch.full((9, *shape), level, dtype=torch.uint8), torch.ones(9, 4)
            if isinstance(network.trunk, StridedTrunk):
                network.trunk.fit(x)
            out, found = results_compiled(network, x, d, gradient)
            assert out.isfinite().all() and found.isfinite().all() and found.any()
            if not bf16:
                torch.testing.assert_close(out, results_in_torch(network, x, d, gradient)[0], rtol=1e-4, atol=1e-4)


# -- how pictures may lie in memory ------------------------------------------------------------------


@EACH
def test_pictures_may_lie_anywhere_in_memory(trunk: str, shape: Shape) -> None:
    network, _ = network_of(trunk, shape)
    compiled, (channels, height, width) = CompiledNetwork(network), shape
    all_of_them, wide = pictures((channels + 1, height, width), 12), pictures((channels, height, width + 3), 5)
    last = all_of_them.flatten()[-channels * height * width :].view(1, *shape)  # the end of the memory
    turned = all_of_them[:, 1:].contiguous(memory_format=torch.channels_last)
    for x in (all_of_them[::3, 1:], all_of_them[2:3, :-1].expand(6, *shape), last, turned, wide[..., 2:-1]):
        torch.testing.assert_close(compiled.forward(x), compiled.forward(x.clone().contiguous()), rtol=0, atol=0)
    with pytest.raises(ValueError, match="without gaps"):
        compiled.backward(turned, torch.ones(12, 4))


def test_other_shapes_and_types_are_errors() -> None:
    network, _ = network_of(*SMALL)
    compiled, x = CompiledNetwork(network), pictures(SMALL[1], 4)
    wrong = [x.float(), x.to(torch.int8), x[0], x.flatten(1), x.flatten(1).float(), x.transpose(2, 3).contiguous()]
    for each in [*wrong, x[:, :1].contiguous(), x[..., 1:].contiguous(), x.float().double()]:
        with pytest.raises((TypeError, ValueError)):
            compiled.forward(each)
        with pytest.raises((TypeError, ValueError)):
            compiled.backward(each, torch.ones(4, 4))
    with pytest.raises(ValueError, match=r"images must be uint8\[B, .*\], not torch.float32\[4, "):
        compiled.forward(x.float())
    for each in (torch.ones(4, 5), torch.ones(3, 4), torch.ones(4, 4).double(), torch.ones(16)):
        with pytest.raises((TypeError, ValueError)):
            compiled.backward(x, each)


def test_filters_and_trunks_of_wrong_shapes_are_errors() -> None:
    module: Any = compiled_module()

    def ones(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    whole = {"weight": ones(5, 3, 3, 2), "bias": ones(5), "stride": 2}
    whole |= {"weight_gradient": ones(5, 3, 3, 2), "bias_gradient": ones(5)}
    one = module.Convolution(**whole)
    for wrong in (
        {"weight": ones(5, 3, 2, 2)},
        {"weight": ones(5, 3, 3, 2).transpose(0, 2, 3, 1)},
        {"weight": np.ones((5, 3, 3, 2))},
        {"bias": ones(4)},
        {"stride": 0},
        {"weight_gradient": ones(5, 3, 3, 1)},
        {"weight_gradient": None},
        {"bias_gradient": ones(6)},
    ):
        with pytest.raises((TypeError, ValueError)):
            module.Convolution(**whole | wrong)
    trunk: dict[str, Any] = {"shape": (2, 9, 8), "convolutions": [one], "mean": ones(2, 9, 8), "scale": ones(2, 9, 8)}
    made = module.Trunk(**trunk)
    for wrong in (
        {"shape": (3, 9, 8)},
        {"shape": (2, 2, 20)},
        {"shape": (2, -9, -8)},
        {"convolutions": []},
        {"convolutions": [one, one]},
        {"mean": None},
        {"scale": ones(2, 8, 9)},
    ):
        with pytest.raises((TypeError, ValueError)):
            module.Trunk(**trunk | wrong)
    none = {"weight_gradient": None, "bias_gradient": None}
    for inputs in (60, 59):  # five channels of 4 x 3 places
        stacks = [[[module.Linear(weight=ones(4, inputs), bias=ones(4), **none)]]]
        if inputs == 60:
            module.Learner(inputs=0, relu=True, stacks=stacks, trunk=made)
        for relu, many in ((False, stacks), (True, stacks * 2), *([(True, stacks)] * (inputs == 59))):
            with pytest.raises(ValueError, match=r"a trunk|as many inputs"):
                module.Learner(inputs=0, relu=relu, stacks=many, trunk=made)


# -- networks ----------------------------------------------------------------------------------------


@EACH
def test_changes_of_parameters_and_pixels_statistics_are_seen(trunk: str, shape: Shape) -> None:
    policy, x = policy_of("ppo", trunk, shape), pictures(shape, 5)
    network: Any = policy.network

    def agrees() -> None:
        with torch.no_grad():
            plain = network.policy(network.trunk(x)), network.value(network.trunk(x)).squeeze(1)
            for ours, theirs in zip(network(x), plain, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)

    agrees()
    network.load_state_dict({name: each + 0.01 for name, each in network.state_dict().items()})
    agrees()
    with torch.inference_mode():
        policy.optimiser.parameters.mul_(0.5)
    agrees()
    if isinstance(network.trunk, StridedTrunk):
        network.trunk.fit(pictures(shape, 8, 3) // 2)
        agrees()
    policy.update(samples_of(policy, shape, CHOICE, 20), Rates.of(policy.config, 0), [torch.arange(20).view(2, 10)])
    agrees()


def test_a_copy_of_a_network_is_torchs() -> None:
    network, x = policy_of("ppo", *SMALL).network, pictures(SMALL[1], 3)
    assert network.compiled is not None
    with torch.no_grad():
        for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
            assert copied.compiled is None
            torch.testing.assert_close(copied(x)[0], network(x)[0], rtol=1e-5, atol=1e-5)
    params, values = network(x)
    assert params.requires_grad and values.requires_grad


@pytest.mark.nightly
@EACH
def test_an_exported_network_answers_as_the_compiled_one(trunk: str, shape: Shape) -> None:
    network, x = policy_of("ppo", trunk, shape).network, pictures(shape, 3)
    rows = torch.export.Dim("rows", min=1)
    with torch.no_grad():
        program = torch.export.export(network, (x,), dynamic_shapes=({0: rows},)).module()
        for seen in (x, pictures(shape, 5)):
            for ours, theirs in zip(network(seen), program(seen), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@EACH
@pytest.mark.parametrize("rows", [1, 9, 70])
def test_a_trunk_within_a_network_of_torch_has_torchs_gradients(trunk: str, shape: Shape, rows: int) -> None:
    """Also of several passes, in any order, and of gradients that are added to others."""
    network, gradient = network_of(trunk, shape)
    first, second = pictures(shape, rows, 1), pictures(shape, rows, 2)
    d = torch.randn(rows, 4)
    found = []
    for compiled in (False, True):
        if compiled:
            assert compile_trunks(network) == 1
        for order in ((0, 1), (1, 0)):
            gradient.zero_()
            made = [torch.cat((p, v.unsqueeze(1)), 1) for p, v in (network(first), network(second))]
            for each in order:
                made[each].backward(d * (each + 1))
            found.append((*(each.detach() for each in made), gradient.clone()))
    for number, results in enumerate(found[1:]):
        for ours, theirs in zip(results, found[0], strict=True):
            near = torch.isclose(ours, theirs, rtol=1e-5, atol=2e-5 * float(theirs.abs().max()))
            assert near.float().mean() > 0.99 and distance(ours, theirs) < 5e-3, number


def test_threads_that_act_with_one_network_get_their_own_results() -> None:
    network, _ = network_of(*NATURE)
    compiled = CompiledNetwork(network)
    batches = [pictures(NATURE[1], 9, seed) for seed in range(4)]
    wanted = [compiled.forward(each) for each in batches]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            for found, expected in zip(threads.map(compiled.forward, batches), wanted, strict=True):
                assert torch.equal(found, expected)


@EACH
def test_no_pictures_have_no_results_and_no_gradients(trunk: str, shape: Shape) -> None:
    network, gradient = network_of(trunk, shape)
    none = pictures(shape, 1, 1)[:0]
    assert CompiledNetwork(network).forward(none).shape == (0, 4)
    compile_trunks(network)
    gradient.zero_()
    params, values = network(none)
    (params.sum() + values.sum()).backward()
    assert params.shape == (0, 3) and not gradient.any()


OWN = """
import torch
class Mine(torch.nn.Module):
    def __init__(self, space, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(space.shape[0], outputs + 1)
    def forward(self, x):
        out = self.layer(x.float().mean((2, 3)))
        return out[:, :-1], out[:, -1]
"""


def test_a_policy_says_whether_its_convolutions_are_compiled(tmp_path: Path) -> None:
    module: Any = compiled_module()
    best = {16: "AVX-512", 8: "AVX2", 1: "scalar"}[module.widths()[0]]
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    images = space_of((4, 44, 44))
    joined = Joined(
        gym.spaces.Dict(speed=gym.spaces.Box(-1, 1, (2,), np.float32), eye=space_of((16, 16, 3))), keep=True
    )
    compiled, other = f"compiled ({best})", "torch (network)"
    for algo, settings, space, told in (
        ("ppo", {}, images, compiled),
        ("ppo", {"trunk": "strided"}, images, compiled),
        ("a2c", {}, space_of((4, 10, 10)), compiled),
        ("dqn", {"dueling": True}, images, compiled),
        ("ppo", {"target_kl": 0.01}, images, "torch (target_kl) with compiled convolutions"),
        ("ppo", {"network": f"{file}:Mine"}, images, other),
        ("dqn", {"network": f"{file}:Mine"}, images, other),
        ("ppo", {}, joined, f"{other} with compiled convolutions"),
        ("dqn", {}, joined, f"{other} with compiled convolutions"),
    ):
        agents = AgentGroup(space, CHOICE)
        config = make_config("x", defaults=False, algo=algo, torch_threads=1, **{"bf16": False, **settings})
        policy: Any = ALGORITHMS[algo]("", config, agents, CPU)
        assert policy.updated_by == told and (policy.compiled is not None) == (told == compiled), (algo, settings)
    if module.widths(bfloat16=True):
        policy = policy_of("ppo", *NATURE, bf16=True)
        assert "AMX" in policy.updated_by or "BF16" in policy.updated_by

"""Networks and updates in compiled code, beside torch's."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headrace.train.algorithms.a2c.a2c import A2C
from headrace.train.algorithms.optimiser import FlatAdam, FlatRAdam
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import Rates
from headrace.train.algorithms.update_threads import torch_threads
from headrace.train.modules.action_masks import masked
from headrace.train.modules.compiled import LEFT_OUT, adam_of, compiled_module, described
from headrace.train.modules.compiled_networks import CompiledNetwork
from headrace.train.modules.mlp import MLP
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.storage.samples import Samples, draw_order, pick

pytestmark = pytest.mark.skipif(compiled_module() is None, reason="left out, or this processor has no registers for it")
ROWS = 200
SEEN = gym.spaces.Box(-1, 1, (5,), np.float32)
BOX, CHOICE = gym.spaces.Box(-2.0, 1.0, (2,), np.float32), gym.spaces.Discrete(3)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small updates of torch take longer on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_build_of_another_version_is_not_used_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("headrace_learner"), "__version__", "0.0.7")
    with pytest.warns(UserWarning, match=r"takes longer: headrace-learner 0\.0\.7 does not fit headrace .*"):
        assert compiled_module.__wrapped__() is None


def test_the_compiled_module_is_left_out_at_the_users_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEFT_OUT, "1")
    assert compiled_module.__wrapped__() is None


@pytest.mark.parametrize(
    ("inputs", "outputs", "hidden", "activation", "shared"),
    [
        (4, 2, (64, 64), "tanh", False),
        (17, 6, (64,), "relu", True),
        (1000, 18, (33, 5, 64), "tanh", True),
        (1, 1, (1,), "relu", False),
    ],
)
@pytest.mark.parametrize("rows", [1, 63, 130])
def test_outputs_and_gradients_equal_those_of_torch(
    inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, shared: bool, rows: int
) -> None:
    torch.manual_seed(0)
    network = MLP(inputs, outputs, hidden, activation, None, shared)
    optimiser = FlatAdam(network)
    x, d = torch.randn(rows, inputs), torch.randn(rows, outputs + 1)
    params, values = network(x)
    torch.autograd.backward((params, values), (d[:, :-1], d[:, -1]))
    wanted = optimiser.gradient.clone()
    optimiser.gradient.zero_()
    compiled, both = CompiledNetwork(network), torch.cat((params, values.unsqueeze(1)), 1).detach()
    torch.testing.assert_close(compiled.forward(x), both, rtol=1e-5, atol=1e-5)
    compiled.backward(x, d)
    torch.testing.assert_close(optimiser.gradient, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize(("actor", "critic"), [(1, 1), (5, 300), (48, 75), (100, 30)])
@pytest.mark.parametrize("rows", [1, 63, 130])
def test_a_critic_that_sees_more_equals_that_of_torch(actor: int, critic: int, rows: int) -> None:
    torch.manual_seed(0)
    network = MLP(actor, 6, (64, 33), "tanh", None, critic=critic)
    optimiser = FlatAdam(network)
    x, d = torch.randn(rows, actor + critic), torch.randn(rows, 7)
    params, values = network(x)
    torch.autograd.backward((params, values), (d[:, :-1], d[:, -1]))
    wanted = optimiser.gradient.clone()
    optimiser.gradient.zero_()
    compiled, both = CompiledNetwork(network), torch.cat((params, values.unsqueeze(1)), 1).detach()
    torch.testing.assert_close(compiled.forward(x), both, rtol=1e-5, atol=1e-5)
    compiled.backward(x, d)
    torch.testing.assert_close(optimiser.gradient, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))
    network.compiled = compiled
    with torch.no_grad():
        alone, unknown = network(x[:, :actor])
    torch.testing.assert_close(alone, params.detach(), rtol=1e-5, atol=1e-5)
    assert unknown.isnan().all() and not values.isnan().any()


def policy_of(action: gym.Space, critic: int = 0, inputs: int = 5, **settings: Any) -> PPO:
    """A policy, whose critic sees the last columns of the inputs alone."""
    torch.manual_seed(0)
    seen = gym.spaces.Box(-1, 1, (inputs,), np.float32)
    config = make_config("x", defaults=False, algo="ppo", **settings)
    return PPO("", config, AgentGroup(seen, action, critic=critic), torch.device("cpu"))


def samples_of(policy: PPO | A2C, action: gym.Space) -> Samples:
    """A rollout, whose actions are some that the policy takes, and whose probabilities have changed since."""
    torch.manual_seed(1)
    columns = torch.randn(4, ROWS)
    actions = torch.randint(0, 3, (ROWS,)) if action is CHOICE else torch.randn(ROWS, 2)
    inputs = torch.randn(ROWS, *policy.encoder.shape)
    with torch.no_grad():
        log_probs = policy.distribution.evaluate(policy.network(inputs)[0], actions)[0] + 0.2 * columns[0]
    return Samples(inputs, actions, log_probs, columns[1], columns[2], columns[3])


def masked_samples_of(policy: PPO) -> Samples:
    """`samples_of` with masks that allow the actions, of which only some rows are to be learnt from."""
    samples = samples_of(policy, CHOICE)
    closed = (torch.rand(ROWS, 3) < 0.5).scatter_(1, samples.actions.unsqueeze(1), False)
    with torch.no_grad():
        log_probs = policy.distribution.evaluate(masked(policy.network(samples.inputs)[0], closed), samples.actions)[0]
    rows = (torch.rand(ROWS) < 0.8).nonzero().squeeze(1)
    return replace(samples, log_probs=log_probs + 0.2 * torch.randn(ROWS), forbidden=closed, rows=rows)


@pytest.mark.parametrize("action", [CHOICE, BOX], ids=["discrete", "continuous"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shared": True, "hidden": (32,)},
        {"value_clip_range": 0.2},
        {"normalise_advantages": False},
        {"critic": 2},
        {"critic": 140, "inputs": 170, "hidden": (20,)},
    ],
    ids=["plain", "shared", "clipped values", "plain advantages", "critic sees more", "critic sees much more"],
)
def test_an_epoch_ends_with_the_weights_of_torch(action: gym.Space, settings: dict[str, Any]) -> None:
    results = []
    for compiled in (True, False):
        policy = policy_of(action, minibatch_size=64, entropy_coef=-0.01, **settings)
        assert isinstance(policy.network.compiled, CompiledNetwork)
        samples, rates = samples_of(policy, action), Rates.of(policy.config, 0)
        if not compiled:
            policy.compiled = None
        orders = [draw_order(samples, 64, torch.Generator().manual_seed(seed)) for seed in range(2)]
        measured = policy.update(samples, rates, orders)
        assert measured is not None and policy.updates == int(policy.optimiser.steps) == 6
        results.append((measured, policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_ctrl_c_is_not_lost_in_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """nanobind discards what a tensor's own conversion raises, and goes on."""

    def press(*_: object, **__: object) -> None:
        pressed.append("Ctrl-C")
        raise KeyboardInterrupt

    pressed: list[str] = []
    policy = policy_of(CHOICE, minibatch_size=64)
    samples = samples_of(policy, CHOICE)
    monkeypatch.setattr(torch.Tensor, "__dlpack__", press)
    policy.update(samples, Rates.of(policy.config, 0), [draw_order(samples, 64, torch.Generator())])
    policy.network(samples.inputs)[0].sum().backward()
    assert not pressed and policy.updates == 3


def test_an_epoch_with_masks_ends_with_the_weights_of_torch() -> None:
    results = []
    for compiled in (True, False):
        policy = policy_of(CHOICE, minibatch_size=64, entropy_coef=0.1)
        rates, samples = Rates.of(policy.config, 0), masked_samples_of(policy)
        order = draw_order(samples, 64, torch.Generator().manual_seed(0))
        if not compiled:
            policy.compiled = None
        assert policy.update(samples, rates, [order]) is not None
        results.append((policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("size", "hidden"), [(1500, (64, 64)), (129, (256, 256))])
def test_parts_of_a_large_minibatch_end_with_the_weights_of_torch(
    threads: int, size: int, hidden: tuple[int, ...]
) -> None:
    torch.set_num_threads(threads)
    results = []
    for compiled in (True, False):
        policy = policy_of(BOX, minibatch_size=size, hidden=hidden)
        rates, some = Rates.of(policy.config, 0), samples_of(policy, BOX)
        samples = pick(some, torch.arange(2 * size) % ROWS)
        order = draw_order(samples, size, torch.Generator().manual_seed(0))
        if not compiled:
            policy.compiled = None
        assert policy.update(samples, rates, [order]) is not None
        results.append((policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("action", [CHOICE, BOX], ids=["discrete", "continuous"])
@settings(max_examples=8, deadline=None)
@given(
    hidden=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    size=st.one_of(st.integers(2, 70), st.integers(250, 700)),
)
def test_any_number_of_threads_ends_with_the_same_bits(action: gym.Space, hidden: tuple[int, ...], size: int) -> None:
    results = []
    for threads in (1, 2, 3, 8):
        policy = policy_of(action, minibatch_size=size, hidden=hidden)
        samples = pick(samples_of(policy, action), torch.arange(2 * size) % ROWS)
        order = draw_order(samples, size, torch.Generator().manual_seed(0))
        with torch_threads(threads), torch.inference_mode():
            measured = policy.update(samples, Rates.of(policy.config, 0), [order])
            said = policy.network(samples.inputs)  # acting, by the same code
        results.append((measured, policy.optimiser.parameters, policy.optimiser.mean, *said))
    for some in results[1:]:
        assert all(torch.equal(mine, other) for mine, other in zip(results[0], some, strict=True))


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
@pytest.mark.parametrize(
    ("hidden", "size", "sees"),
    [
        ((128, 128), 301, {}),
        ((70, 97), 64, {}),
        ((128, 128), 301, {"inputs": 123, "critic": 75}),
        ((70, 97), 64, {"inputs": 200, "critic": 101}),
    ],
)
def test_products_of_bfloat16_are_close_with_any_number_of_threads(
    precision: str, hidden: tuple[int, ...], size: int, sees: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = compiled_module()
    if not module.widths(bfloat16=True):
        pytest.skip("this processor does not multiply bfloat16")
    results = []
    for chosen, threads in (("highest", 1), *((precision, threads) for threads in (1, 2, 3, 8))):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: chosen)  # noqa: B023
        policy = policy_of(BOX, minibatch_size=size, hidden=hidden, **sees)
        assert policy.updated_by == described(chosen == "medium")
        samples = pick(samples_of(policy, BOX), torch.arange(size) % ROWS)
        with torch_threads(threads), torch.inference_mode():
            said = policy.network(samples.inputs)  # acting, by the same code
            policy.update(samples, Rates.of(policy.config, 0), [torch.arange(size).view(1, -1)])
        results.append((policy.optimiser.gradient, *said))
    exact, first, *others = results
    for mine, wanted in zip(first, exact, strict=True):
        assert torch.equal(mine, wanted) == (precision != "medium")
        assert F.cosine_similarity(mine.flatten(), wanted.flatten(), 0) > 0.999
    for some in others:
        assert all(map(torch.equal, first, some))


@pytest.mark.parametrize("action", [CHOICE, BOX], ids=["discrete", "continuous"])
@pytest.mark.parametrize("normalise", [False, True])
def test_an_update_of_a2c_equals_that_of_torch(action: gym.Space, normalise: bool) -> None:
    results = []
    for compiled in (True, False):
        torch.manual_seed(0)
        config = make_config("x", defaults=False, algo="a2c", entropy_coef=0.01, normalise_advantages=normalise)
        policy = A2C("", config, AgentGroup(SEEN, action), torch.device("cpu"))
        samples, rates = replace(samples_of(policy, action), log_probs=None), Rates.of(policy.config, 0)
        if compiled:
            assert policy.update(samples, rates, [None]) is not None
            policy = A2C("", config, AgentGroup(SEEN, action), torch.device("cpu"))
        else:
            policy.compiled = None
        torch.manual_seed(0)
        policy.network.load_state_dict({n: 0.3 * torch.randn_like(w) for n, w in policy.network.state_dict().items()})
        measured = policy.update(samples, rates, policy.draw_orders(samples, torch.Generator()))
        assert measured is not None and policy.updates == int(policy.optimiser.steps) == 1
        results.append((measured, policy.optimiser.parameters, policy.optimiser.mean, policy.optimiser.square))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_a_subclass_with_its_own_loss_or_optimiser_learns_in_torch() -> None:
    class Own(PPO):
        def loss(self, batch: Samples, rates: Rates) -> Any:
            return super().loss(batch, rates)

    class Rectified(PPO):
        compiled_form = PPO.compiled_form

        def _build(self) -> None:
            super()._build()
            self.optimiser = FlatRAdam(self.network)

    policy = policy_of(CHOICE)
    assert policy.compiled is not None
    for kind, reason in ((Own, "algorithm"), (Rectified, "optimiser")):
        own = kind("", policy.config, policy.agent_group, torch.device("cpu"))
        assert own.compiled is None and own.updated_by == f"torch ({reason})"


def test_changes_of_parameters_are_seen() -> None:
    policy = policy_of(CHOICE)
    x, network = torch.randn(7, 5), policy.network

    def agrees() -> bool:
        with torch.inference_mode():
            return bool(torch.allclose(network(x)[0], network.layered(x)[0], atol=1e-5))

    assert agrees()
    network.load_state_dict({name: torch.randn_like(value) for name, value in network.state_dict().items()})
    assert agrees()
    with torch.inference_mode():
        policy.optimiser.parameters.mul_(0.5)
    assert agrees()
    policy.optimiser.gradient.fill_(1.0)
    policy.optimiser.step(1e-2, 0.5)
    assert agrees()
    samples = samples_of(policy, CHOICE)
    policy.update(samples, Rates.of(policy.config, 0), [draw_order(samples, 64, torch.Generator())])
    assert agrees()
    for parameter in network.parameters():
        nn.init.ones_(parameter)
    assert agrees()


def test_a_copy_of_a_network_runs_in_torch() -> None:
    network = policy_of(CHOICE).network
    for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert copied.compiled is None
        assert torch.allclose(copied(torch.ones(2, 5))[0], network(torch.ones(2, 5))[0], atol=1e-6)


def test_torch_records_gradients_of_a_compiled_network() -> None:
    params, values = policy_of(BOX).network(torch.randn(3, 5))
    assert params.requires_grad and values.requires_grad


def test_wrong_sizes_are_refused() -> None:
    compiled = policy_of(CHOICE).network.compiled
    with pytest.raises((TypeError, ValueError)):
        compiled.forward(torch.randn(3, 6))
    policy = policy_of(CHOICE)
    samples, rates = samples_of(policy, CHOICE), Rates.of(policy.config, 0)
    with pytest.raises(ValueError, match="a row that the rollout has not"):
        policy.update(samples, rates, [torch.full((1, 4), ROWS)])


def arguments_of_an_epoch() -> dict[str, Any]:
    """Of a network with five inputs and three choices, over numpy's memory."""
    rows, policy = 8, policy_of(CHOICE)
    columns = {name: np.ones(rows, np.float32) for name in ("log_probs", "advantages", "returns", "values")}
    rates = dict.fromkeys(("learning_rate", "clip_range", "entropy_coef", "value_coef", "max_grad_norm"), 0.1)
    how = {"value_clip_range": None, "normalise_advantages": True, "threads": 1, "forbidden": None, "actions": None}
    return (
        columns
        | rates
        | how
        | {
            "inputs": np.ones((rows, 5), np.float32),
            "choices": np.zeros(rows, np.int64),
            "order": np.arange(rows).reshape(2, 4),
            "adam": adam_of(policy.optimiser),
        }
    )


WRONG: dict[str, Any] = {
    "inputs": [
        np.ones((8, 6), np.float32),
        np.ones((7, 5), np.float32),
        np.ones((8, 5)),
        np.ones(40, np.float32),
        0x7F00,
    ],
    "choices": [np.zeros(7, np.int64), np.zeros(8, np.int32), np.full(8, 3), np.full(8, -1), None],
    "returns": [np.ones(9, np.float32), np.ones(8), np.ones((8, 1), np.float32), np.ones(16, np.float32)[::2], None],
    "forbidden": [np.zeros((8, 4), np.bool_), np.zeros((7, 3), np.bool_), np.zeros((8, 3), np.float32)],
    "actions": [np.ones((8, 3), np.float32)],
    "order": [np.arange(8), np.full((2, 4), 8), np.full((2, 4), -1), np.zeros((0, 4), np.int64), np.ones((2, 4))],
    "adam": [None, [np.ones(16, np.float32)] * 5],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_arrays_of_wrong_shapes_and_types_are_errors(name: str, value: Any) -> None:
    learner, arguments = policy_of(CHOICE).network.compiled._learner, arguments_of_an_epoch()
    assert len(learner.epoch(**arguments)) == 6
    with pytest.raises((TypeError, ValueError)):
        learner.epoch(**arguments | {name: value})


def test_networks_and_optimisers_of_wrong_shapes_are_errors() -> None:
    module: Any = compiled_module()
    one = {"weight": np.ones((3, 5), np.float32), "bias": np.ones(3, np.float32)}
    none = {"weight_gradient": None, "bias_gradient": None}
    whole = module.Linear(**one, **none)
    for inputs, stacks in ((5, [[[whole], [whole]]]), (4, [[[whole]]])):
        with pytest.raises(ValueError, match="as many inputs as the layer below has outputs"):
            module.Learner(inputs=inputs, relu=True, stacks=stacks)
    for wrong in ({"bias": np.ones(5, np.float32)}, {"weight": np.ones((3, 5))}, {"weight_gradient": one["weight"]}):
        with pytest.raises((TypeError, ValueError)):
            module.Linear(**one | none | wrong)
    arrays = {name: np.zeros(16, np.float32) for name in ("parameters", "gradient", "mean", "square")}
    how = {"steps": np.zeros(1, np.float32), "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-5}
    module.Adam(**arrays, **how)
    for wrong in ({"mean": np.zeros(32, np.float32)}, {"steps": np.zeros(2, np.float32)}, {"gradient": np.zeros(16)}):
        with pytest.raises((TypeError, ValueError)):
            module.Adam(**arrays | how | wrong)
    with pytest.raises(ValueError, match="as many parameters as targets"):
        module.polyak_update(target=arrays["mean"], source=np.zeros(32, np.float32), rate=0.1)


def test_a_forked_process_learns_on_threads_of_its_own() -> None:
    """The second thread of updates is kept between them; a fork does not have its parent's."""
    torch.set_num_threads(2)
    policy = policy_of(BOX, minibatch_size=1500)
    samples = pick(samples_of(policy, BOX), torch.arange(3000) % ROWS)
    rates, order = Rates.of(policy.config, 0), draw_order(samples, 1500, torch.Generator().manual_seed(0))
    policy.update(samples, rates, [order])
    threads = {*Path("/proc/self/task").iterdir()}
    before = policy.optimiser.parameters.clone()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # it ends, if it waits for a thread that it does not have
        policy.update(samples, rates, [order])
        os._exit(int(torch.equal(policy.optimiser.parameters, before)))
    policy.update(samples, rates, [order])
    assert threads >= {*Path("/proc/self/task").iterdir()}
    assert os.waitpid(child, 0)[1] == 0

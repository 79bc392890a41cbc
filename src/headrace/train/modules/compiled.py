"""Perceptrons and CNNs for compiled updates, where the code is installed.

A small network's update in torch is some fifty operations, whose dispatch takes longer than their arithmetic; two
thirds of a CNN's are spent on copies and activations. The module `headrace_learner` makes all updates of an epoch, or
an update of critics and actor, in one call, in blocks of samples that stay in the processor's cache.
"""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.native_modules import LEARNER
from headrace.train.modules.cnn import ImageActorCritic, NatureTrunk, SmallTrunk, StridedTrunk
from headrace.train.modules.mlp import MLP
from headrace.train.modules.normed import NormedConvolutions, NormedPerceptron, NormedTrunk
from headrace.train.modules.perceptron import Critic, Layers, Perceptron
from headrace.train.modules.q_network import ImageQ, PerceptronQ
from headrace.train.modules.twin_critic import TwinCritic

LEFT_OUT = "HEADRACE_NO_LEARNER"
"""an environment variable; if it is set, torch makes all updates"""
SCALES = {256: "AMX", 16: "AVX-512", 8: "AVX2", 1: "scalar"}
"""floats in a register → the name of such instructions"""
TRUNKS = NatureTrunk, SmallTrunk, StridedTrunk, NormedTrunk
"""the trunks that have compiled convolutions"""
Stack = list[list[Any]]
"""a perceptron's layers, each a list of the compiled module's ``Linear``"""


@functools.cache
def compiled_module() -> ModuleType | None:
    """Returns the compiled module; None where it is left out, not installed, or has no registers on this processor."""
    if LEFT_OUT in os.environ:
        return None
    try:
        module = LEARNER.load()
    except OptionError as error:
        if LEARNER.installed() or LEARNER.can_build():
            warnings.warn(f"PyTorch updates small networks, which takes longer: {error}", stacklevel=2)
        return None
    return module if module.widths() else None


def why_torch_here() -> str | None:
    """Returns in a word why torch makes all updates on this machine; None where compiled code can make some."""
    if LEFT_OUT in os.environ:
        return LEFT_OUT
    return LEARNER.distribution if compiled_module() is None else None


def makes_bfloat16(network: nn.Module) -> bool:
    """Returns whether a network's products are of bfloat16: its settings and the processor let them.

    Of a CNN it is the setting ``bf16``, of others ``matmul_precision``.
    """
    module, trunk = compiled_module(), trunk_in(network)
    if trunk is None:
        wanted = torch.get_float32_matmul_precision() == "medium"
    else:
        wanted = getattr(trunk, "dtype", None) == torch.bfloat16
    return wanted and module is not None and bool(module.widths(bfloat16=True))


def described(bfloat16: bool = False) -> str:
    """Returns in words that compiled code makes updates, and with which instructions."""
    module = compiled_module()
    assert module is not None
    widest = module.widths(bfloat16=bfloat16)[0]
    return f"compiled ({SCALES[widest]}{' BF16' * (bfloat16 and widest == 16)})"


def polyak_update(target: Tensor, source: Tensor, rate: float) -> None:
    """Moves a target network's parameters, float32[P], towards others: ``target += rate · (source - target)``.

    Torch would wake its other threads, which then wait for more work on the cores that the next update needs.
    """
    module = compiled_module()
    if module is None or target.device.type != "cpu":
        target.lerp_(source, rate)
    else:
        module.polyak_update(memory(target), memory(source), rate)


def call(function: Callable[..., Any], **arguments: Any) -> Any:
    """Returns what a function of the compiled module returns, given tensors.

    The module gets arrays of numpy over the tensors' memory: it would ask a tensor itself for its memory in Python
    (`Tensor.__dlpack__`), and nanobind discards all exceptions there, such as the KeyboardInterrupt of a Ctrl-C.
    """
    return function(**{name: memory(value) for name, value in arguments.items()})


def memory(value: Any) -> Any:
    """Returns an array of numpy over the memory of a tensor; another value as it is."""
    return value.detach().numpy() if isinstance(value, Tensor) else value


def adam_of(optimiser: Any) -> Any:
    """Returns an optimiser's memory and constants, as the compiled module has them."""
    module, (beta1, beta2) = compiled_module(), optimiser.betas
    assert module is not None
    arrays = {name: getattr(optimiser, name) for name in ("parameters", "gradient", "mean", "square")}
    constants = {"beta1": beta1, "beta2": beta2, "epsilon": optimiser.epsilon}
    return call(module.Adam, **arrays, steps=optimiser.steps.view(1), **constants)


def has_form(network: nn.Module) -> bool:
    """Returns whether there is compiled code for a network: perceptrons, trunks of `TRUNKS`, and heads after these."""
    if type(network) in (ImageQ, ImageActorCritic):
        return type(network.trunk) in TRUNKS
    normed = NormedPerceptron, NormedConvolutions
    return type(network) in (MLP, Perceptron, Critic, TwinCritic, PerceptronQ, *normed, *TRUNKS)


def input_columns(network: Any) -> int:
    """Returns the columns of a network's inputs, or the pixels of its pictures."""
    trunk: Any = trunk_in(network)
    if trunk is not None:
        return math.prod(trunk.shape)
    if type(network) is NormedPerceptron:
        network = network[0]
        return network.in_features
    return network.columns if type(network) is MLP else network.weights[0].shape[1]


def trunk_in(network: nn.Module) -> nn.Module | None:
    """Returns the convolutions and the dense layer of a CNN; None for other networks."""
    return network if type(network) in (*TRUNKS, NormedConvolutions) else getattr(network, "trunk", None)


def stacks_of(network: nn.Module) -> list[Stack]:
    """Returns the perceptrons of a network that `has_form`, over the memory of their parameters and gradients.

    Of a CNN they are what comes after its convolutions, see `trunk_of`.
    """
    if type(network) is MLP:
        return _stacks_of_mlp(network)
    if type(network) is TwinCritic:
        return [_stack_of_critic(network, k) for k in range(network.critics)]
    if isinstance(network, Layers) and type(network) in (Perceptron, Critic):
        return [_stack_of_layers(network)]
    if type(network) is PerceptronQ:
        return [[*_stack_of_layers(network), _parts_of_head(network.head)]]
    if type(network) is NormedPerceptron:
        *hidden, last = network
        pairs: Any = zip(hidden[::3], hidden[1::3], strict=True)
        return [[*([_part(layer.weight, layer.bias, norm=_norm(norm))] for layer, norm in pairs), _parts(last)]]
    trunk: Any = trunk_in(network)
    dense = _parts(trunk.dense)
    if type(network) is NormedConvolutions:
        return [[[_part(trunk.dense.weight, trunk.dense.bias, norm=_norm(trunk.norms[-1]))], _parts(network.head)]]
    if network is trunk:
        return [[dense]]
    assert isinstance(network, ImageQ | ImageActorCritic)
    heads = _parts_of_head(network.head) if isinstance(network, ImageQ) else _parts(network.policy, network.value)
    return [[dense, heads]]


def trunk_of(network: nn.Module) -> Any:
    """Returns a CNN's convolutions, over the memory of their parameters and gradients; None for other networks."""
    trunk: Any = trunk_in(network)
    if type(trunk) not in (*TRUNKS, NormedConvolutions):
        return None
    module, made = compiled_module(), []
    assert module is not None
    norms = iter(getattr(trunk, "norms", ()))
    for number, layer in enumerate(trunk.convolutions):
        found = _memory_of(layer.weight, layer.bias, lambda each: each.permute(0, 2, 3, 1))
        factor = 1.0 if number else trunk.factor
        how = {"stride": layer.stride[0], "factor": factor, "norm": _norm(next(norms, None))}
        made.append(call(module.Convolution, **found, **how))
    standard = {"mean": trunk.mean, "scale": trunk.scale} if isinstance(trunk, StridedTrunk) else {}
    return call(module.Trunk, shape=trunk.shape, convolutions=made, **standard)


def _parts_of_head(head: Any) -> list[Any]:
    parts = _parts(head.advantage)
    return [*parts, _part(head.value.weight, head.value.bias, begin=head.width)] if head.dueling else parts


def _parts(*layers: Any) -> list[Any]:
    return [_part(layer.weight, layer.bias) for layer in layers]


def _norm(norm: Any) -> Any:
    """Returns a normalisation, over the memory of its parameters and gradients; None for none."""
    if norm is None:
        return None
    module, found = compiled_module(), _memory_of(norm.weight, norm.bias, torch.flatten)
    assert module is not None
    names = {"weight": "gain", "bias": "shift", "weight_gradient": "gain_gradient", "bias_gradient": "shift_gradient"}
    return call(module.Norm, **{names[name]: each for name, each in found.items()}, epsilon=norm.eps)


def _stack_of_layers(network: Layers) -> Stack:
    return [[_part(weight, bias)] for weight, bias in zip(network.weights, network.biases, strict=True)]


def _stack_of_critic(network: TwinCritic, k: int) -> Stack:
    """Returns one of several critics, whose first layer's biases are the last row of its weights."""
    layers = [[_part(network.first, network.first, (k, slice(-1)), (k, -1), output_first=False)]]
    for weight, bias in zip(network.weights, network.biases, strict=True):
        layers.append([_part(weight, bias, k, (k, 0), output_first=False)])
    return [*layers, [_part(network.last, network.last_bias, k, k)]]


def _stacks_of_mlp(network: MLP) -> list[Stack]:
    width = len(network.first_bias) // network.count
    heads = [_part(network.policy_weight, network.policy_bias), _part(network.value_weight, network.value_bias)]
    stacks: list[Stack] = []
    for k in range(network.count):
        rows = slice(k * width, (k + 1) * width)
        apart = len(network.first_weight) < len(network.first_bias)  # the critic's weights
        first = network.critic_weight if apart and k == 1 else network.first_weight
        layers = [[_part(first, network.first_bias, ... if apart else rows, rows)]]
        layers += [[_part(weight, bias, k, (k, 0), output_first=False)] for weight, bias in network._layers]
        stacks.append([*layers, heads if network.count == 1 else heads[k : k + 1]])
    return stacks


def _part(weight: Tensor, bias: Tensor, of_weight: Any = ..., of_bias: Any = ..., **how: Any) -> Any:
    """Returns some of a layer's outputs: parts of two parameters, and of their gradients if they have some."""
    module = compiled_module()
    assert module is not None
    found = _memory_of(weight, bias, lambda each: each[of_weight], lambda each: each[of_bias].view(-1))
    return call(module.Linear, **found, **how)


def _memory_of(
    weight: Tensor,
    bias: Tensor,
    of_weight: Callable[[Tensor], Tensor],
    of_bias: Callable[[Tensor], Tensor] = torch.flatten,
) -> dict[str, Tensor | None]:
    """Returns parts of two parameters, and of their gradients if they have some, by the compiled module's names."""
    found: dict[str, Tensor | None] = {}
    with torch.no_grad():
        for name, parameter, part in (("weight", weight, of_weight), ("bias", bias, of_bias)):
            found[name] = part(parameter)
            found[f"{name}_gradient"] = None if parameter.grad is None else part(parameter.grad)
    return found

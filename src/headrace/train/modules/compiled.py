"""Networks of perceptrons for compiled updates, where the code is installed.

A small network's update in torch is some fifty operations, whose dispatch takes longer than their arithmetic. The
module `headrace_learner` makes all updates of an epoch, or an update of critics and actor, in one call, in blocks of
samples that stay in the processor's cache.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.native_modules import LEARNER
from headrace.train.modules.distributions import Categorical, DiagonalGaussian, Distribution
from headrace.train.modules.mlp import MLP
from headrace.train.modules.perceptron import Critic, Layers, Perceptron
from headrace.train.modules.q_network import PerceptronQ
from headrace.train.modules.twin_critic import TwinCritic

LEFT_OUT = "HEADRACE_NO_LEARNER"
"""an environment variable; if it is set, torch makes all updates"""
Part = tuple[int, bool, int, int, int, int, int, int]
"""some of a layer's outputs, as the compiled module describes them"""
Stack = list[tuple[int, list[Part]]]
"""a perceptron's layers: inputs, and outputs"""


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


def call(function: Callable[..., Any], **arguments: Any) -> Any:
    """Returns what a function of the compiled module returns, given tensors or lists of tensors.

    The module gets arrays of numpy over the tensors' memory: it would ask a tensor itself for its memory in Python
    (`Tensor.__dlpack__`), and nanobind discards all exceptions there, such as the KeyboardInterrupt of a Ctrl-C.
    """
    return function(**{name: memory(value) for name, value in arguments.items()})


def memory(value: Any) -> Any:
    """Returns arrays of numpy over the memory of tensors in sequences; other values as they are."""
    if isinstance(value, Tensor):
        return value.detach().numpy()
    return [memory(each) for each in value] if isinstance(value, list) else value


class CompiledMLP:
    """A learner over the parameters of an `MLP` and their gradients, which stay torch's.

    Args:
        network: an `MLP`, whose parameters have gradients.
        counters: tensors that are changed whenever the parameters are, if by other operations than on themselves.
        width: floats in a register; 0 for as many as the processor has.

    Attributes:
        size: logits of a `Categorical`, or dimensions of a `DiagonalGaussian`.
        keeps_masks: whether `epoch` takes ``forbidden``, which builds of earlier sources do not.
    """

    def __init__(self, network: MLP, counters: Sequence[Tensor] = (), width: int = 0):
        module = compiled_module()
        assert module is not None
        self._network = network  # which owns the memory
        self._watched = (*network.parameters(), *counters)
        self._versions: list[int] | None = None
        stacks, inputs = stacks_of(network), network.first_weight.shape[1]
        self._learner = module.Learner(inputs=inputs, relu=network.relu, stacks=stacks, width=width)
        self.size = len(network.policy_bias)
        self.keeps_masks = "forbidden" in (module.Learner.epoch.__doc__ or "")
        self._log_std = (0, 0)
        if (log_std := network.log_std) is not None:
            self._log_std = _at(log_std)

    def __reduce__(self) -> Any:
        """A copy of a network has memory of its own, and so none of these."""
        return type(None), ()

    @staticmethod
    def fits(network: nn.Module, distribution: Distribution) -> bool:
        """Returns whether there is compiled code for a network and its actions' distribution."""
        return (
            isinstance(network, MLP)
            and isinstance(distribution, Categorical | DiagonalGaussian)
            and network.first_weight.device.type == "cpu"
            and torch.get_float32_matmul_precision() == "highest"
            and compiled_module() is not None
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns the distribution's parameters that the network computes, and the values, float32[B, size + 1]."""
        outputs = torch.empty(len(inputs), self.size + 1)
        self._refresh()
        self._learner.forward(memory(inputs), memory(outputs))
        return outputs

    def backward(self, inputs: Tensor, gradients: Tensor) -> None:
        """Overwrites ``.grad`` of all parameters but ``log_std``, given the gradient of `forward`'s result."""
        self._refresh()
        self._learner.backward(memory(inputs), memory(gradients))

    def _refresh(self) -> None:
        """Gives the learner the parameters, if they have changed."""
        versions = [each._version for each in self._watched]
        if versions != self._versions:
            self._learner.refresh()
            self._versions = versions

    @torch.inference_mode()
    def epoch(self, actions: Tensor, **arguments: Any) -> Tensor:
        """Makes one update for each minibatch of an epoch; see the compiled module for the other arguments.

        Args:
            actions: int64[M] or float32[M, *action_shape].

        Returns:
            Averages of policy loss, value loss, entropy, KL, share of clipped ratios and gradient norm, float32[6].
        """
        discrete = self._network.log_std is None
        self._refresh()
        measured = call(
            self._learner.epoch,
            choices=actions.contiguous() if discrete else None,
            actions=None if discrete else actions.reshape(len(actions), -1).contiguous(),
            size=self.size,
            log_std=self._log_std,
            **arguments,
        )
        return torch.tensor(measured)  # its caller changes the counters; the learner has the new parameters


def stacks_of(network: nn.Module) -> list[Stack]:
    """Returns a network's perceptrons, by the addresses of their parameters and gradients; none for other networks."""
    if type(network) is MLP:
        return _stacks_of_mlp(network)
    if type(network) is TwinCritic:
        return [_stack_of_critic(network, k) for k in range(network.critics)]
    if isinstance(network, Layers) and type(network) in (Perceptron, Critic):
        return [_stack_of_layers(network)]
    if type(network) is PerceptronQ:
        head, width = network.head, network.head.width
        last = [_part_of(head.advantage, 0)] + ([_part_of(head.value, width)] if head.dueling else [])
        return [[*_stack_of_layers(network), (width * len(last), last)]]
    return []


def _part_of(layer: nn.Linear, begin: int) -> Part:
    """Returns a layer whose inputs begin at a column of what is below."""
    return (*_part(_at(layer.weight), _at(layer.bias), layer.out_features)[:-2], begin, layer.in_features)


def _stack_of_layers(network: Layers) -> Stack:
    layers = zip(network.weights, network.biases, strict=True)
    return [(weight.shape[1], [_part(_at(weight), _at(bias), len(bias))]) for weight, bias in layers]


def _stack_of_critic(network: TwinCritic, k: int) -> Stack:
    """Returns one of several critics, whose first layer's biases are the last row of its weights."""
    _, rows, width = network.first.shape
    layers = [(rows - 1, [_part(_at(network.first, k), _at(network.first, k, rows - 1), width, output_first=False)])]
    for weight, bias in zip(network.weights, network.biases, strict=True):
        layers.append((weight.shape[1], [_part(_at(weight, k), _at(bias, k), weight.shape[2], output_first=False)]))
    return [*layers, (network.last.shape[2], [_part(_at(network.last, k), _at(network.last_bias, k), 1)])]


def _stacks_of_mlp(network: MLP) -> list[Stack]:
    total, inputs = network.first_weight.shape
    width, heads = total // network.count, []
    for weight, bias in ((network.policy_weight, network.policy_bias), (network.value_weight, network.value_bias)):
        heads.append(_part(_at(weight), _at(bias), len(bias)))
    stacks: list[Stack] = []
    for k in range(network.count):
        layers = [(inputs, [_part(_at(network.first_weight, k * width), _at(network.first_bias, k * width), width)])]
        for weight, bias in network._layers:
            layers.append((weight.shape[1], [_part(_at(weight, k), _at(bias, k), weight.shape[2], output_first=False)]))
        last = heads if network.count == 1 else heads[k : k + 1]
        stacks.append([*layers, (network.policy_weight.shape[1], last)])
    return stacks


def _at(parameter: Tensor, *place: int) -> tuple[int, int]:
    """Returns the addresses of a place in a parameter and in its gradient, which is 0 without one."""
    with torch.no_grad():
        gradient = 0 if parameter.grad is None else parameter.grad[place].data_ptr()
        return parameter[place].data_ptr(), gradient


def _part(weight: tuple[int, int], bias: tuple[int, int], outputs: int, *, output_first: bool = True) -> Part:
    return outputs, output_first, weight[0], bias[0], weight[1], bias[1], 0, 0

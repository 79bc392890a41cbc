"""Updates of an `MLP` in compiled code, where it is installed.

A small network's update in torch is some fifty operations, whose dispatch takes longer than their arithmetic. The
module `headrace_learner` makes all updates of an epoch in one call, in blocks of samples that stay in the processor's
cache.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.native_modules import LEARNER
from headrace.train.modules.distributions import Categorical, DiagonalGaussian, Distribution
from headrace.train.modules.layers import gradient_of
from headrace.train.modules.mlp import MLP


@functools.cache
def compiled_module() -> ModuleType | None:
    """Returns the compiled module; None where it is not installed, or this processor has no registers for it."""
    try:
        module = LEARNER.load()
    except OptionError:
        return None
    return module if module.widths() else None


class CompiledMLP:
    """A learner over the parameters of an `MLP` and their gradients, which stay torch's.

    Args:
        network: an `MLP`, whose parameters have gradients.
        counters: tensors that are changed whenever the parameters are, if by other operations than on themselves.
        width: floats in a register; 0 for as many as the processor has.

    Attributes:
        size: logits of a `Categorical`, or dimensions of a `DiagonalGaussian`.
    """

    def __init__(self, network: MLP, counters: Sequence[Tensor] = (), width: int = 0):
        module = compiled_module()
        assert module is not None
        self._network = network  # which owns the memory
        self._watched = (*network.parameters(), *counters)
        self._versions: list[int] | None = None
        stacks = [_layers(network, k) for k in range(network.count)]
        if network.count == 1:
            stacks[0][-1][1].append(_part(network.value_weight, network.value_bias))
        inputs = network.first_weight.shape[1]
        self._learner = module.Learner(inputs=inputs, relu=network.relu, stacks=stacks, width=width)
        self.size = len(network.policy_bias)
        self._log_std = (0, 0)
        if (log_std := network.log_std) is not None:
            self._log_std = log_std.data_ptr(), gradient_of(log_std).data_ptr()

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
        self._learner.forward(inputs, outputs)
        return outputs

    def backward(self, inputs: Tensor, gradients: Tensor) -> None:
        """Overwrites ``.grad`` of all parameters but ``log_std``, given the gradient of `forward`'s result."""
        self._refresh()
        self._learner.backward(inputs, gradients)

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
        measured = self._learner.epoch(
            choices=actions.contiguous() if discrete else None,
            actions=None if discrete else actions.reshape(len(actions), -1).contiguous(),
            size=self.size,
            log_std=self._log_std,
            **arguments,
        )
        return torch.tensor(measured)  # its caller changes the counters; the learner has the new parameters


def _layers(network: MLP, k: int) -> list[tuple[int, list[Any]]]:
    """Returns the layers of one perceptron of a network: inputs, and outputs by the addresses of their parameters."""
    total, inputs = network.first_weight.shape
    width = total // network.count
    layers = [(inputs, [_part(network.first_weight, network.first_bias, k * width, width)])]
    for weight, bias in network._layers:
        layers.append((weight.shape[1], [_part(weight, bias, k, weight.shape[2], output_first=False)]))
    head = (network.policy_weight, network.policy_bias) if k == 0 else (network.value_weight, network.value_bias)
    return [*layers, (head[0].shape[1], [_part(*head)])]


def _part(
    weight: Tensor, bias: Tensor, begin: int = 0, outputs: int | None = None, *, output_first: bool = True
) -> tuple[int, bool, int, int, int, int]:
    """Returns a layer's outputs, from row ``begin`` of the first axis on, as the compiled module describes them."""
    where = [each[begin].data_ptr() for each in (weight, bias, gradient_of(weight), gradient_of(bias))]
    return len(bias) if outputs is None else outputs, output_first, where[0], where[1], where[2], where[3]

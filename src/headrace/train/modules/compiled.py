"""Perceptrons and CNNs for compiled updates, where the code is installed.

A small network's update in torch is some fifty operations, whose dispatch takes longer than their arithmetic; two
thirds of a CNN's are spent on copies and activations. The module `headrace_learner` makes all updates of an epoch, or
an update of critics and actor, in one call, in blocks of samples that stay in the processor's cache.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headrace.errors import OptionError
from headrace.native_modules import LEARNER
from headrace.train.modules.cnn import ImageActorCritic, NatureTrunk, SmallTrunk, StridedTrunk
from headrace.train.modules.distributions import Categorical, DiagonalGaussian, Distribution
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
    module, trunk = compiled_module(), _trunk_in(network)
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


class CompiledForward:
    """The forward pass of a network of which there is compiled code, over its parameters, which stay torch's.

    Args:
        network: `has_form` of it is true.
        counters: tensors that are changed whenever the parameters are, if by other operations than on themselves.
        width: floats in a register; 0 for as many as the processor has.
        how: further arguments of the compiled module's ``Learner``.
    """

    def __init__(self, network: nn.Module, counters: Sequence[Tensor] = (), width: int = 0, **how: Any):
        module = compiled_module()
        assert module is not None
        self._network = network  # which owns the memory
        self._watched = (*network.parameters(), *counters)
        self._versions: list[int] | None = None
        stacks, trunk = stacks_of(network), _trunk_in(network)
        self._shape: Any = None if trunk is None else trunk.shape  # of images
        self._learner = call(
            module.Learner,
            inputs=input_columns(network),
            relu=getattr(network, "relu", True),
            stacks=stacks,
            trunk=trunk_of(network),
            width=width,
            **how,
        )
        self._outputs = sum(part.outputs for stack in stacks for part in stack[-1])

    def __reduce__(self) -> Any:
        """A copy of a network has memory of its own, and so none of these."""
        return type(None), ()

    def forward(self, inputs: Tensor, keeps: bool = False) -> Tensor:
        """Returns the outputs of the last layers, float32[B, outputs].

        Args:
            inputs: float32[B, D], or images uint8[B, C, H, W].
            keeps: whether the learner's ``backward`` of the same inputs may follow at once.

        Raises:
            ValueError: images have another shape or dtype than those that the network was made for.
        """
        if self._shape is not None and (inputs.shape[1:] != self._shape or inputs.dtype != torch.uint8):
            wanted = ", ".join(map(str, self._shape))
            raise ValueError(f"images must be uint8[B, {wanted}], not {inputs.dtype}{list(inputs.shape)}")
        outputs = torch.empty(len(inputs), self._outputs)
        if not len(inputs):
            return outputs
        self._refresh()
        self._learner.forward(memory(_in_rows(inputs)), memory(outputs), keeps=keeps, threads=torch.get_num_threads())
        return outputs

    def changed(self) -> None:
        """Notes that the parameters were changed by compiled code, which no counter shows."""
        self._versions = None

    def _refresh(self) -> None:
        """Gives the learner the parameters, if they have changed."""
        versions = [each._version for each in self._watched]
        if versions != self._versions:
            self._learner.refresh(torch.get_num_threads())
            self._versions = versions


class CompiledValues(CompiledForward):
    """The forward pass of action values: a `PerceptronQ` or an `ImageQ`, or one with normalised layers."""

    def __init__(self, q: Any, counters: Sequence[Tensor]):
        super().__init__(q, counters, bfloat16=makes_bfloat16(q))
        self._dueling = getattr(getattr(q, "head", None), "dueling", False)

    def values(self, inputs: Tensor) -> Tensor:
        """Returns action values, float32[B, A], of inputs as for `forward`."""
        outputs = self.forward(inputs)
        if not self._dueling:
            return outputs
        advantage = outputs[:, :-1]
        return advantage + (outputs[:, -1:] - advantage.mean(1, keepdim=True))


class CompiledNetwork(CompiledForward):
    """A learner over the parameters of an actor-critic and their gradients, which stay torch's.

    Args:
        network: an `MLP` or an `ImageActorCritic`, whose parameters have gradients.
        counters, width: as for `CompiledForward`.

    Attributes:
        size: logits of a `Categorical`, or dimensions of a `DiagonalGaussian`.
    """

    def __init__(self, network: MLP | ImageActorCritic, counters: Sequence[Tensor] = (), width: int = 0):
        deviations = network.log_std, None if network.log_std is None else network.log_std.grad
        how: dict[str, Any] = dict(zip(("log_std", "log_std_gradient"), deviations, strict=True))
        bfloat16 = isinstance(network, ImageActorCritic) and makes_bfloat16(network)
        super().__init__(network, counters, width, **how, bfloat16=bfloat16)
        self.size = self._outputs - 1

    @staticmethod
    def why_not(network: nn.Module, distribution: Distribution) -> str | None:
        """Returns in a word why there is no compiled code for a network and its actions' distribution; else None."""
        cnn = type(network) is ImageActorCritic
        if not (cnn or type(network) is MLP) or not has_form(network):
            return "network"
        if not isinstance(distribution, Categorical | DiagonalGaussian):
            return "actions"
        if not cnn and torch.get_float32_matmul_precision() != "highest":
            return "matmul_precision"
        device = next(network.parameters()).device.type
        return why_torch_here() if device == "cpu" else device

    def backward(self, inputs: Tensor, gradients: Tensor) -> None:
        """Overwrites ``.grad`` of all parameters but ``log_std``, given the gradient of `forward`'s result."""
        self._refresh()
        self._learner.backward(memory(inputs), memory(gradients), threads=torch.get_num_threads())

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
            **arguments,
        )
        return torch.tensor(measured)  # its caller changes the counters; the learner has the new parameters


class CompiledTrunk(CompiledForward):
    """The convolutions and the dense layer of a trunk, within a network that torch evaluates and differentiates."""

    def __init__(self, trunk: Any):
        twin = copy.deepcopy(trunk)  # with the same memory, and gradients of its own, which autograd adds to the others
        with torch.no_grad():
            for mine, parameter in zip(twin.parameters(), trunk.parameters(), strict=True):
                mine.data = parameter.data
                mine.grad = torch.zeros_like(parameter.data) if parameter.requires_grad else None
        super().__init__(twin, bfloat16=makes_bfloat16(twin))
        self._parameters = [each for each in trunk.parameters() if each.requires_grad]
        self._gradients = [each.grad for each in twin.parameters() if each.grad is not None]
        self._calls = 0

    def __call__(self, images: Tensor) -> Tensor:
        """Returns the sums of the dense layer, float32[B, outputs], of images uint8[B, C, H, W]; differentiable."""
        if torch.is_grad_enabled():
            return _Differentiable.apply(images, self, *self._parameters)
        return self.forward(images)

    def forward(self, inputs: Tensor, keeps: bool = False) -> Tensor:
        self._calls += 1
        return super().forward(inputs, keeps)

    def backward(self, images: Tensor, gradients: Tensor, call: int) -> list[Tensor]:
        """Returns the gradients of the parameters that learn, given those of the result for some images.

        Args:
            call: number of the call of `forward` for them.
        """
        if not len(images):
            return [torch.zeros_like(each) for each in self._gradients]
        kept = call == self._calls
        self._calls += 1
        given = memory(_in_rows(images)), memory(gradients.contiguous())
        self._learner.backward(*given, kept=kept, threads=torch.get_num_threads())
        return [each.clone() for each in self._gradients]

    def _refresh(self) -> None:
        self._learner.refresh(
            torch.get_num_threads()
        )  # packing takes less than following all who may change the parameters


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, trunk: CompiledTrunk, *parameters: Tensor) -> Tensor:
        found = trunk.forward(images, keeps=True)
        ctx.images, ctx.trunk, ctx.call = images, trunk, trunk._calls
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # type: ignore[override]
        return None, None, *ctx.trunk.backward(ctx.images, *gradients, ctx.call)


def compile_trunks(network: nn.Module) -> int:
    """Lets compiled code evaluate and differentiate the trunks within a network on a CPU; returns their number."""
    found: list[Any] = [part for part in network.modules() if type(part) in TRUNKS]
    for trunk in found:
        trunk.compiled = CompiledTrunk(trunk)
    return len(found)


def has_form(network: nn.Module) -> bool:
    """Returns whether there is compiled code for a network: perceptrons, trunks of `TRUNKS`, and heads after these."""
    if type(network) in (ImageQ, ImageActorCritic):
        return type(network.trunk) in TRUNKS
    normed = NormedPerceptron, NormedConvolutions
    return type(network) in (MLP, Perceptron, Critic, TwinCritic, PerceptronQ, *normed, *TRUNKS)


def input_columns(network: Any) -> int:
    """Returns the columns of a network's inputs, or the pixels of its pictures."""
    trunk: Any = _trunk_in(network)
    if trunk is not None:
        return math.prod(trunk.shape)
    if type(network) is NormedPerceptron:
        network = network[0]
        return network.in_features
    return (network.first_weight if type(network) is MLP else network.weights[0]).shape[1]


def _in_rows(inputs: Tensor) -> Tensor:
    """Returns inputs of which each, at least, lies in memory without gaps."""
    return inputs if inputs[0].is_contiguous() else inputs.contiguous()


def _trunk_in(network: nn.Module) -> nn.Module | None:
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
    trunk: Any = _trunk_in(network)
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
    trunk: Any = _trunk_in(network)
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
        layers = [[_part(network.first_weight, network.first_bias, rows, rows)]]
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

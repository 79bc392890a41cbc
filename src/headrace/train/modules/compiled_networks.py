"""Networks that compiled code evaluates and differentiates, over the memory of torch's parameters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headrace.train.modules.cnn import ImageActorCritic
from headrace.train.modules.compiled import (
    TRUNKS,
    call,
    compiled_module,
    has_form,
    input_columns,
    makes_bfloat16,
    memory,
    stacks_of,
    trunk_in,
    trunk_of,
    why_torch_here,
)
from headrace.train.modules.distributions import Categorical, DiagonalGaussian, Distribution
from headrace.train.modules.mlp import MLP


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
        stacks, trunk = stacks_of(network), trunk_in(network)
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
        super().__init__(network, counters, width, **how, bfloat16=makes_bfloat16(network))
        self.size = self._outputs - 1

    @staticmethod
    def why_not(network: nn.Module, distribution: Distribution) -> str | None:
        """Returns in a word why there is no compiled code for a network and its actions' distribution; else None."""
        if type(network) not in (ImageActorCritic, MLP) or not has_form(network):
            return "network"
        if not isinstance(distribution, Categorical | DiagonalGaussian):
            return "actions"
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


def _in_rows(inputs: Tensor) -> Tensor:
    """Returns inputs of which each, at least, lies in memory without gaps."""
    return inputs if inputs[0].is_contiguous() else inputs.contiguous()

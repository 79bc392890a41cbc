"""A policy's network as a list of layers, walked from the agent's modules.

A module that is not known here cannot be written as C, and the error says so. `layers_of` has one function for each
kind of module; what of it is the same for every observation, such as the statistics of observations and the factor of
pixels, becomes a layer or part of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.actor_critic import ActorCritic, OwnActor
from headrace.train.modules.cnn import ImageActorCritic, JoinedTrunk, NatureTrunk, SmallTrunk, StridedTrunk
from headrace.train.modules.gru import GRU
from headrace.train.modules.mlp import MLP
from headrace.train.modules.network import OwnNetwork
from headrace.train.modules.normed import NormedConvolutions, NormedTrunk
from headrace.train.modules.observation_encoder import InputEncoder
from headrace.train.modules.perceptron import Layers
from headrace.train.modules.q_network import Head, ImageQ, OwnQ, PerceptronQ, QNetwork
from headrace.train.play.export.choices import Choice, choice_of
from headrace.train.play.export.layers import (
    Activation,
    Convolution,
    Dense,
    GatedUnit,
    Layer,
    Normalise,
    OneHot,
    Standardise,
)

LIMIT = 10.0
"""the greatest size of a standardised number, as `headrace.train.modules.normalisation.ObservationNormaliser` has it"""
INSTEAD = "export it to a file that ends in .onnx"


@dataclass(frozen=True, eq=False)
class Network:
    """A policy's network for C.

    Attributes:
        source: the type in C of an observation's elements; ``int32_t`` for a category.
        inputs: how many elements an observation has.
        layers: the layers in their order, of which each reads what the one before wrote.
        choice: how an action is chosen from what the last one wrote.
    """

    source: str
    inputs: int
    layers: tuple[Layer, ...]
    choice: Choice

    @property
    def memory(self) -> int:
        """How many numbers a recurrent network remembers; 0 for other networks."""
        return sum(layer.outputs for layer in self.layers if layer.remembers)

    @property
    def multiply_adds(self) -> int:
        """Products of weights and numbers that are added in one step."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def weights(self) -> int:
        """Bytes of constants."""
        return sum(table.nbytes for each in (*self.layers, self.choice) for table in each.tables.values())


def network_of(policy: Policy) -> Network:
    """Returns the network of a policy, from observations to what its actions are chosen by.

    Raises:
        OptionError: a part of it has no form in C; the message says which.
    """
    module = policy.module
    choice = choice_of(module.distribution, bool(module.heads))
    seen = int(np.prod(policy.agent_group.acting.shape or (1,)))
    source, first = _input_layers(module.encoder, seen)
    layers = _cut([*first, *layers_of(module.network)], choice.outputs)
    if not first:
        layers[0] = replace(layers[0], source=source)
    assert layers[0].inputs == seen, (layers[0], seen)
    for below, above in pairwise(layers):
        assert below.outputs == above.inputs, (below, above)
    for layer in layers:
        for name, table in layer.tables.items():
            if not np.isfinite(table).all():
                raise OptionError(
                    f"the {name} of a layer ({type(layer).__name__}) is not finite: nothing can be exported"
                )
    return Network(source, seen, tuple(layers), choice)


def _input_layers(encoder: InputEncoder, seen: int) -> tuple[str, list[Layer]]:
    """Returns the type in C of an observation's elements, and the layers that make inputs of an observation."""
    if encoder.categories:
        return "int32_t", [OneHot(1, encoder.categories, encoder.first, source="int32_t")]
    if encoder.image:
        return "uint8_t", []
    if (known := encoder.normaliser) is None:
        return "float", []
    if known.size < seen:
        raise OptionError(f"C has no form of a network of pictures beside numbers: {INSTEAD}")
    source = "double" if encoder.raw_dtype == torch.float64 else "float"
    mean, scale = known.mean[:seen].numpy(), _numbers(known.scale[:seen])
    return source, [Standardise(seen, seen, mean, scale, LIMIT, source=source)]


def _cut(layers: list[Layer], outputs: int) -> list[Layer]:
    """Returns the layers without last outputs that the most likely action does not need: deviations."""
    last = layers[-1]
    if last.outputs == outputs:
        return layers
    assert isinstance(last, Dense), last
    return [*layers[:-1], Dense(last.inputs, outputs, last.weight[:outputs], last.bias[:outputs])]


def _numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().contiguous().cpu().numpy()


def _dense(weight: Tensor, bias: Tensor) -> Dense:
    outputs, inputs = weight.shape
    return Dense(inputs, outputs, _numbers(weight), _numbers(bias))


def _convolutions(
    shape: tuple[int, ...], modules: Iterable[Any], factor: float, norms: Iterable[Any] = ()
) -> list[Layer]:
    """Returns convolutions, each with its activation; the first one's weights are multiplied by ``factor``.

    Args:
        shape: channels, height and width of the image.
        norms: the normalisations after the convolutions, if there are any.
    """
    found: list[Layer] = []
    channels, height, width = shape
    waiting = iter(norms)
    for number, module in enumerate(modules):
        size, stride = module.kernel_size[0], module.stride[0]
        rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
        outputs = module.out_channels * rows * columns
        weight = _numbers(module.weight * factor if number == 0 else module.weight)
        shown = channels, height, width
        found.append(Convolution(channels * height * width, outputs, shown, weight, _numbers(module.bias), stride))
        if (norm := next(waiting, None)) is not None:
            found.append(_normalise(norm, outputs, rows * columns))
        found.append(Activation(outputs, outputs, True))
        channels, height, width = module.out_channels, rows, columns
    return found


def _normalise(norm: Any, size: int, each: int = 1) -> Normalise:
    return Normalise(size, size, _numbers(norm.weight), _numbers(norm.bias), norm.eps, each)


# -- modules -------------------------------------------------------------------------------------


@singledispatch
def layers_of(module: nn.Module) -> list[Layer]:
    """Returns the layers of a module, from its inputs to an actor's outputs.

    Raises:
        OptionError: the module has no form in C.
    """
    raise OptionError(f"C has no form of {type(module).__name__}, a part of the network: {INSTEAD}")


@layers_of.register(OwnNetwork)
@layers_of.register(OwnActor)
@layers_of.register(OwnQ)
def _own(module: nn.Module) -> list[Layer]:
    raise OptionError(f"C has no form of a network of one's own, as it is Python code: {INSTEAD}")


@layers_of.register
def _joined(module: JoinedTrunk) -> list[Layer]:
    raise OptionError(f"C has no form of a network of pictures beside numbers: {INSTEAD}")


@layers_of.register
def _sequential(module: nn.Sequential) -> list[Layer]:
    found: list[Layer] = []
    for child in module:
        if isinstance(child, nn.ReLU | nn.Tanh):
            found.append(Activation(found[-1].outputs, found[-1].outputs, isinstance(child, nn.ReLU)))
        elif not isinstance(child, nn.Flatten | nn.Identity):
            found += layers_of(child)
    return found


@layers_of.register
def _linear(module: nn.Linear) -> list[Layer]:
    return [_dense(module.weight, module.bias)]


@layers_of.register
def _layer_norm(module: nn.LayerNorm) -> list[Layer]:
    return [_normalise(module, module.normalized_shape[0])]


@layers_of.register
def _mlp(module: MLP) -> list[Layer]:
    """The first of the perceptrons, which is the actor; see `MLP` for the shapes of its parameters."""
    width = module.first_weight.shape[0] // (1 if hasattr(module, "critic_weight") else module.count)
    found: list[Layer] = [_dense(module.first_weight[:width], module.first_bias[:width])]
    hidden = [_dense(w[0].t(), b[0, 0]) for w, b in zip(module.weights, module.biases, strict=True)]
    for layer in hidden:
        found += [Activation(layer.inputs, layer.inputs, module.relu), layer]
    last = found[-1].outputs
    return [*found, Activation(last, last, module.relu), _dense(module.policy_weight, module.policy_bias)]


@layers_of.register
def _layers(module: Layers) -> list[Layer]:
    found: list[Layer] = []
    for weight, bias, relu in zip(module.weights, module.biases, module._relus, strict=True):
        found.append(_dense(weight, bias))
        if relu is not None:
            found.append(Activation(len(weight), len(weight), relu))
    return found


@layers_of.register
def _perceptron_q(module: PerceptronQ) -> list[Layer]:
    return [*_layers(module), *layers_of(module.head)]


@layers_of.register
def _head(module: Head) -> list[Layer]:
    """Action values are linear in the features, also those of two streams: ``Q = V + A - mean(A)``."""
    weight, bias = module.advantage.weight, module.advantage.bias
    if module.dueling:
        state = module.value.weight.expand(len(weight), -1)
        weight = torch.cat((weight - weight.mean(0), state), 1)
        bias = bias - bias.mean() + module.value.bias
    return [_dense(weight, bias)]


@layers_of.register
def _gru(module: GRU) -> list[Layer]:
    cell = module.cell
    tables = (_numbers(each) for each in (cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh))
    unit = GatedUnit(cell.input_size, cell.hidden_size, *tables)
    return [*layers_of(module.encoder), unit, *layers_of(module.policy)]


@layers_of.register(NatureTrunk)
@layers_of.register(SmallTrunk)
def _plain_trunk(module: Any) -> list[Layer]:
    convolutions = _convolutions(module.shape, module.convolutions, module.factor)
    dense = _dense(module.dense.weight, module.dense.bias)
    return [*convolutions, dense, Activation(dense.outputs, dense.outputs, True)]


@layers_of.register
def _strided_trunk(module: StridedTrunk) -> list[Layer]:
    mean, scale = (_numbers(each).ravel() for each in (module.mean, module.scale))
    return [Standardise(mean.size, mean.size, mean, scale), *_plain_trunk(module)]


@layers_of.register
def _normed_trunk(module: NormedTrunk) -> list[Layer]:
    *norms, last = module.norms
    convolutions = _convolutions(module.shape, module.convolutions, module.factor, norms)
    dense = _dense(module.dense.weight, module.dense.bias)
    return [*convolutions, dense, _normalise(last, dense.outputs), Activation(dense.outputs, dense.outputs, True)]


@layers_of.register
def _normed_convolutions(module: NormedConvolutions) -> list[Layer]:
    return [*_normed_trunk(module), *layers_of(module.head)]


@layers_of.register
def _image_actor(module: ImageActorCritic) -> list[Layer]:
    return [*layers_of(module.trunk), *layers_of(module.policy)]


@layers_of.register
def _image_values(module: ImageQ) -> list[Layer]:
    return [*layers_of(module.trunk), *layers_of(module.head)]


@layers_of.register
def _values(module: QNetwork) -> list[Layer]:
    return layers_of(module.q)


@layers_of.register
def _actor(module: ActorCritic) -> list[Layer]:
    return [*([] if module.trunk is None else layers_of(module.trunk)), *layers_of(module.actor)]

"""Chooses and makes a policy's network, which maps observations to action parameters and a value."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.pool.family import imported
from headrace.pool.sources import module_of, split
from headrace.train.modules.cnn import is_image, pictures_in, trunk_for
from headrace.train.modules.distributions import DiagonalGaussian, Distribution
from headrace.train.modules.layers import with_log_std
from headrace.train.settings import user_objects
from headrace.train.settings.kinds import FOR_NUMBERS, FOR_PICTURES, NETWORKS, OWN


def make_network(
    space: gym.Space,
    distribution: Distribution,
    *,
    network: str = "auto",
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    shared: bool = False,
    log_std_init: float = 0.0,
    trunk: str = "nature",
    bf16: bool = False,
    critic: int = 0,
) -> nn.Module:
    """Returns the actor-critic for an observation space, on the CPU, initialised from torch's global generator.

    The arguments after the distribution mean the same as the settings of these names; but ``critic`` is the number of
    last columns that only the critic sees, of two perceptrons.

    Raises:
        OptionError: no network fits the space, or the user's own network does not have the right interface.
    """
    gaussian = isinstance(distribution, DiagonalGaussian)
    outputs = distribution.outputs
    log_std = nn.Parameter(torch.full((outputs,), log_std_init)) if gaussian else None
    if ":" in network:
        return OwnNetwork(network, space, outputs, log_std)
    check_cnn(network, space)
    kind = NETWORKS[network_kind(network, space)]
    inputs = trunk_for(space, trunk, bf16) if kind.pictures else input_size(space)
    layers: dict[str, Any] = {"hidden": hidden, "activation": activation, "shared": shared}
    layers = {name: value for name, value in layers.items() if name in kind.settings}
    if critic:
        inputs, layers["critic"] = input_size(space) - critic, critic
    return imported(kind.made_by)(inputs, outputs, log_std=log_std, **layers)


class OwnNetwork(nn.Module):
    """A user's network, given as ``file.py:name`` or ``package.module:name`` of a function or class that makes it.

    The function is called with the observation space and the number of outputs. The module that it returns maps inputs
    (images uint8[B, C, H, W], all other observations flattened to float32[B, D]) to action parameters
    float32[B, outputs] (logits, or means in units of half the action range) and values float32[B]. A module with an
    attribute ``memory_size`` and the methods ``step`` and ``unroll`` of `GRU` is a recurrent network.
    """

    def __init__(self, name: str, space: gym.Space, outputs: int, log_std: nn.Parameter | None):
        super().__init__()
        self.module = made_by(name, space, outputs)
        self.log_std = log_std
        self.memory_size: int = getattr(self.module, "memory_size", 0)
        self._try(name, space, outputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [B, size] (with the log standard deviations of a Gaussian) and values [B]."""
        params, values = self.module(x)
        return with_log_std(params, self.log_std), values

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `GRU.step`."""
        params, values, memory = self.module.step(x, memory)  # type: ignore[operator]
        return with_log_std(params, self.log_std), values, memory

    def unroll(self, x: Tensor, memory: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """As `GRU.unroll`."""
        params, values = self.module.unroll(x, memory, starts)  # type: ignore[operator]
        return with_log_std(params, self.log_std), values

    def _try(self, name: str, space: gym.Space, outputs: int) -> None:
        x = example(space)
        with torch.no_grad(), tried(name, tuple(x.shape)):
            answer = self.step(x, x.new_zeros(2, self.memory_size))[:2] if self.memory_size else self.module(x)
        wanted = (2, outputs), (2,)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise OptionError(f"{name}: the network must answer (action parameters, values)")
        given = tuple(tuple(part.shape) for part in answer)
        if not self.memory_size and given != wanted:
            raise OptionError(f"{name}: for 2 inputs the network must answer shapes {wanted}, not {given}")


def example(space: gym.Space) -> Tensor:
    """Returns two inputs of a user's network, which are 0: uint8[2, C, H, W] for images, float32[2, D] for others."""
    if is_image(space):
        return torch.zeros(2, *(space.shape or ()), dtype=torch.uint8)
    return torch.zeros(2, input_size(space))


@contextmanager
def tried(name: str, *shapes: tuple[int, ...]) -> Iterator[None]:
    """A context in which a user's network sees inputs of these shapes; what it raises becomes an `OptionError`."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise OptionError(f"{name} fails on inputs of shape {' and '.join(map(str, shapes))}: {error}") from error


def made_by(name: str, *arguments: Any) -> nn.Module:
    """Returns the module that a user's function or class makes from some arguments, or a copy of a user's module.

    Args:
        name: ``file.py:name`` or ``package.module:name``; or the name of an object that was given.

    Raises:
        OptionError: there is no such function, or it makes something else.
    """
    if user_objects.is_given(name):
        own = user_objects.find("network", name)
        return copy.deepcopy(own) if isinstance(own, nn.Module) else _module(name, own, arguments)
    source, function = split(name)
    make = getattr(module_of(source), function, None) if source else None
    if make is None:
        raise OptionError(f"{source} has no {function!r} to make a network with")
    return _module(name, make, arguments)


def _module(name: str, make: Any, arguments: tuple[Any, ...]) -> nn.Module:
    if not callable(make):
        raise OptionError(f"network must be a torch.nn.Module, or a function or class that makes one, not {make!r}")
    module = make(*arguments)
    if not isinstance(module, nn.Module):
        raise OptionError(f"{name} must make a torch.nn.Module, not {type(module).__name__}")
    return module


def uses_images(network: str, space: gym.Space) -> bool:
    """Returns whether a network sees images, or pictures among other numbers."""
    return (is_image(space) or bool(pictures_in(space))) and (network not in NETWORKS or NETWORKS[network].pictures)


def uses_cnn(network: str, space: gym.Space) -> bool:
    return uses_images(network, space) and ":" not in network


def check_cnn(network: str, space: gym.Space) -> None:
    """Raises `OptionError` where a network of pictures is asked for by name, and observations have none."""
    if network in NETWORKS and NETWORKS[network].pictures and not uses_images(network, space):
        raise OptionError(f"network={network!r} needs uint8 images [C, H, W] of at least 8 x 8, not {space}")


def network_kind(network: str, space: gym.Space) -> str:
    """Returns the kind of the network for this space, of `headrace.train.settings.kinds.NETWORK_KINDS`."""
    if ":" in network:
        return OWN
    images = uses_images(network, space)
    if network in NETWORKS and NETWORKS[network].pictures == images:
        return network
    return FOR_PICTURES if images else FOR_NUMBERS


def input_size(space: gym.Space) -> int:
    """Returns the columns of an `MLP`'s input: those of a flattened `Box`, or of a one-hot `Discrete`.

    Raises:
        OptionError: the space is of another kind.
    """
    if isinstance(space, gym.spaces.Box):
        return int(np.prod(space.shape))
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n)
    raise OptionError(f"no network can learn from the observation space {space}, which is neither a Box nor Discrete")

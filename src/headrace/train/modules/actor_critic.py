"""Actors and critics of off-policy algorithms with continuous actions.

Both see the features of one CNN where observations have pictures. The critics' loss alone teaches it, as the actor's
moves the features away from what values need (Yarats et al. 2021, arXiv:1910.01741). As it has no target, the critics'
targets see its newest features of the observations that follow (Yarats et al. 2022, arXiv:2107.09645).
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.modules.cnn import trunk_for
from headrace.train.modules.network import check_cnn, example, input_size, made_by, tried, uses_cnn
from headrace.train.modules.perceptron import Critic, Perceptron
from headrace.train.modules.twin_critic import TwinCritic


class ActorCritic(nn.Module):
    """An actor that maps features [B, D] to action parameters [B, …], and critics of features and actions together.

    The critics map features [B, D] and actions [B, A] to values [K, B].

    Args:
        trunk: maps inputs to features; None where inputs are features.
    """

    actor: Any
    critic: Any

    def __init__(self, actor: nn.Module, critic: nn.Module, trunk: nn.Module | None = None):
        super().__init__()
        self.actor, self.critic, self.trunk = actor, critic, trunk

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [B, …] for inputs [B, …], and zeros [B] as values, as collection needs none."""
        x = x if self.trunk is None else self.trunk(x)
        return self.actor(x), x.new_zeros(x.shape[0])


class OwnActor(nn.Module):
    """A user's actor; with ``squash``, a tanh bounds its outputs to [-1, 1]."""

    def __init__(self, own: nn.Module, squash: bool):
        super().__init__()
        self.own, self.squash = own, squash

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to action parameters [B, outputs]."""
        params = self.own(x)
        return torch.tanh(params) if self.squash else params


class OwnCritic(nn.Module):
    """A user's critics: one that returns values [B], or several that return [K, B]."""

    def __init__(self, own: nn.Module):
        super().__init__()
        self.own = own

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [K, B]."""
        values = self.own(inputs, actions)
        return values.unsqueeze(0) if values.dim() == 1 else values


def make_trunk(space: gym.Space, network: str, trunk: str, bf16: bool) -> tuple[nn.Module | None, int]:
    """Returns what maps inputs to features, a CNN for pictures and None for others, and the number of features.

    Features of a CNN are normalised and bounded, as those of DrQ.

    Args:
        network, trunk, bf16: as the settings of these names.

    Raises:
        OptionError: a CNN is asked for, and there are no pictures, or too small ones.
    """
    check_cnn(network, space)
    if not uses_cnn(network, space):
        return None, input_size(space)
    cnn = trunk_for(space, trunk, bf16)
    return nn.Sequential(cnn, nn.LayerNorm(cnn.features), nn.Tanh()), cnn.features


def make_actor_critic(
    space: gym.Space,
    outputs: int,
    actions: int,
    network: str,
    hidden: tuple[int, ...],
    activation: str,
    trunk: str,
    bf16: bool,
    *,
    squash: bool = False,
    twin: bool = True,
) -> tuple[nn.Module, nn.Module, nn.Module | None]:
    """Returns an actor, critics and a trunk for an observation space, or a user's own actor and critics.

    Args:
        network, hidden, activation, trunk, bf16: as the settings of these names.
        squash: whether a tanh bounds the actor's outputs to [-1, 1].
        twin: whether there are two critics, or any number of a user's; otherwise there is one.

    Raises:
        OptionError: there is no network for the space, or the user's own does not have the interface that
            `own_actor_critic` describes.
    """
    if ":" in network:
        return *own_actor_critic(network, space, outputs, actions, squash, None if twin else 1), None
    cnn, inputs = make_trunk(space, network, trunk, bf16)
    actor = Perceptron(inputs, outputs, hidden, activation, squash=squash)
    shape = hidden, activation
    return actor, TwinCritic(inputs + actions, *shape) if twin else Critic(inputs, actions, *shape), cnn


def own_actor_critic(
    name: str, space: gym.Space, outputs: int, actions: int, squash: bool, critics: int | None = None
) -> tuple[OwnActor, OwnCritic]:
    """Returns a user's actor and critics, made by a function or class, ``file.py:name`` or ``package.module:name``.

    The function is called with the observation space, the actor's number of outputs, and the columns A of an action.
    Its module has two children: ``actor`` maps inputs, as of `OwnNetwork`, to float32[B, outputs], and ``critic`` maps
    inputs and actions float32[B, A] to values float32[B], or those of several critics, float32[K, B]. The two share no
    parameters.

    Args:
        squash: whether a tanh bounds the actor's outputs.
        critics: the required number of critics, K; None for any number.

    Raises:
        OptionError: the module does not have this interface.
    """
    own = made_by(name, space, outputs, actions)
    for part in ("actor", "critic"):
        if not isinstance(getattr(own, part, None), nn.Module):
            raise OptionError(f"{name}: the network must have the modules 'actor' and 'critic'; it has no {part!r}")
    actor, critic = OwnActor(own.actor, squash), OwnCritic(own.critic)  # type: ignore[arg-type]
    if {*map(id, actor.parameters())} & {*map(id, critic.parameters())}:
        raise OptionError(f"{name}: actor and critic must not share parameters, as each is learnt by its own loss")
    rows, inputs = 2, example(space)
    with torch.no_grad(), tried(name, tuple(inputs.shape), (rows, actions)):
        params = actor(inputs)
        values = critic(inputs, torch.zeros(rows, actions))
    if params.shape != (rows, outputs):
        raise OptionError(
            f"{name}: for {rows} inputs the actor must answer shape {(rows, outputs)}, not {tuple(params.shape)}"
        )
    if values.dim() != 2 or values.shape[1] != rows or critics not in (None, len(values)):
        wanted = f"{(rows,)}" if critics == 1 else f"{(rows,)}, or (K, {rows}) of K critics"
        raise OptionError(
            f"{name}: for {rows} inputs and actions the critic must answer shape {wanted}, not {tuple(values.shape)}"
        )
    return actor, critic

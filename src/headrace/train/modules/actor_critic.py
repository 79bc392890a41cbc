"""Actors and critics of off-policy algorithms with continuous actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.modules.network import input_size, made_by, tried
from headrace.train.modules.perceptron import Critic, Perceptron
from headrace.train.modules.twin_critic import TwinCritic


class ActorCritic(nn.Module):
    """An actor that maps inputs [B, D] to action parameters [B, …], and critics of inputs and actions together.

    The critics map inputs [B, D] and actions [B, A] to values [K, B].
    """

    actor: Any
    critic: Any

    def __init__(self, actor: nn.Module, critic: nn.Module):
        super().__init__()
        self.actor, self.critic = actor, critic

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [B, …] for inputs [B, D], and zeros [B] as values, as collection needs none."""
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


def make_actor_critic(
    space: gym.Space,
    outputs: int,
    actions: int,
    network: str,
    hidden: tuple[int, ...],
    activation: str,
    *,
    squash: bool = False,
    twin: bool = True,
) -> tuple[nn.Module, nn.Module]:
    """Returns an actor and critics for an observation space: perceptrons, or those of a user's own network.

    Args:
        network, hidden, activation: as the settings of these names.
        squash: whether a tanh bounds the actor's outputs to [-1, 1].
        twin: whether there are two critics, or any number of a user's; otherwise there is one.

    Raises:
        OptionError: there is no network for the space, or the user's own does not have the interface that
            `own_actor_critic` describes.
    """
    if ":" in network:
        return own_actor_critic(network, space, outputs, actions, squash, None if twin else 1)
    inputs, shape = input_size(space), (hidden, activation)
    actor = Perceptron(inputs, outputs, *shape, squash=squash)
    return actor, TwinCritic(inputs + actions, *shape) if twin else Critic(inputs, actions, *shape)


def own_actor_critic(
    name: str, space: gym.Space, outputs: int, actions: int, squash: bool, critics: int | None = None
) -> tuple[OwnActor, OwnCritic]:
    """Returns a user's actor and critics, made by a function or class, ``file.py:name`` or ``package.module:name``.

    The function is called with the observation space, the actor's number of outputs, and the columns A of an action.
    Its module has two children: ``actor`` maps inputs float32[B, D] to float32[B, outputs], and ``critic`` maps inputs
    and actions float32[B, A] to values float32[B], or those of several critics, float32[K, B]. The two share no
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
    rows, size = 2, input_size(space)
    with torch.no_grad(), tried(name, (rows, size), (rows, actions)):
        params = actor(torch.zeros(rows, size))
        values = critic(torch.zeros(rows, size), torch.zeros(rows, actions))
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

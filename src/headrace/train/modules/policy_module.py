"""What acts, plays and is exported: a policy's network between observations and actions, as a `torch.nn.Module`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from headrace.train.modules.action_masks import forbidden, masked, masked_to_draw
from headrace.train.modules.exploration import EpsilonGreedy
from headrace.train.modules.observation_encoder import InputEncoder


class Acted(NamedTuple):
    """The result of one acting step for B rows.

    Attributes:
        inputs: the network's inputs, [B, …].
        params: parameters of the action distributions, [B, size]; float64 where some actions are forbidden.
        values: the network's values, float32[B].
        actions: actions as they are stored, [B, *action_shape]; ``distribution.to_env`` converts them for environments.
        memory: a recurrent network's memory after the step, float32[B, H]; None for other networks.
    """

    inputs: Tensor
    params: Tensor
    values: Tensor
    actions: Tensor
    memory: Tensor | None


class PolicyModule(nn.Module):
    """A policy's network, with the encoding of its inputs and the distribution of its actions.

    Args:
        forward: calls the network; other than the network where that is compiled.
        worth: `headrace.train.algorithms.policy.Policy.worth`.

    Attributes:
        encoder: turns observations into the network's inputs.
        distribution: the action distribution: ``mode(params)`` and ``sample(params, noise)`` choose actions, and
            ``to_env(actions)`` converts them for environments.
        memory_size: columns of a recurrent network's memory, which is zero at the start of an episode; 0 for other
            networks.
        heads: the number of actions of each masked head; empty for no action masks.
    """

    def __init__(
        self,
        encoder: InputEncoder,
        network: nn.Module,
        forward: nn.Module,
        distribution: Any,
        heads: tuple[int, ...],
        worth: Callable[[Tensor, Tensor, Tensor], Tensor],
    ):
        super().__init__()
        self.encoder, self.distribution, self.heads, self._worth = encoder, distribution, heads, worth
        self.network: Any = network
        self._call = forward.__call__  # a module would be a second child with the same parameters
        self.memory_size: int = getattr(network, "memory_size", 0)

    def forward(
        self, observations: Tensor, memory: Tensor | None = None, action_mask: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Returns action parameters [B, size], values float32[B], and a recurrent network's new memory [B, H].

        Args:
            observations: observations of B agents, [B, *shape], as environments return them.
            memory: a recurrent network's memory before the step, float32[B, H]; zeros by default.
            action_mask: ``info["action_mask"]``, [B, K]; 0 for forbidden actions, whose probability becomes 0; their
                values, of DQN and PQN, are lowered by 1e9.

        Returns:
            Parameters are logits (or, for DQN and PQN, values) of discrete actions, or means of continuous ones,
            followed by their log standard deviations if the policy has some. Values are expected returns, in units of
            the environments' rewards: the value of an actor-critic, the value of the best action for DQN and PQN, the
            smallest of the critics' values for SAC and the other algorithms with critics of actions.
        """
        inputs = self.encoder(observations)
        if self.memory_size and memory is None:
            memory = inputs.new_zeros(inputs.shape[0], self.memory_size)
        params, values, memory = self.outputs(inputs, memory)
        if action_mask is not None and self.heads:
            params = masked(params, forbidden(action_mask, self.heads))
        return params, self._worth(inputs, params, values), *(() if memory is None else (memory,))

    def act(
        self,
        observations: Tensor,
        inputs: Tensor | None = None,
        noise: Tensor | None = None,
        memory: Tensor | None = None,
        forbidden: Tensor | None = None,
    ) -> Acted:
        """Returns the actions that the policy chooses for observations.

        Args:
            observations: observations of its agents, [B, …].
            inputs: receives the encoded observations, [B, *encoder.shape]; None for new memory, or none where
                observations are inputs already.
            noise: noise to sample actions with, float32[B, noise_size]; None for the most likely actions.
            memory: a recurrent network's memory before the step, float32[B, H]; None for other networks.
            forbidden: actions that must not be taken, bool[B, logits]; None if all are allowed.
        """
        seen = self.encoder(observations, inputs)
        params, values, memory = self.outputs(seen, memory, forbidden)
        distribution = self.distribution
        actions = distribution.mode(params) if noise is None else distribution.sample(params, noise)
        return Acted(seen, params, values, actions, memory)

    def outputs(
        self, inputs: Tensor, memory: Tensor | None = None, forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the network's parameters and values for inputs [B, …], and its memory after the step, as in `Acted`.

        Where actions are forbidden, a state's value by values of actions is that of the best action that is not.
        """
        if memory is None:
            params, values = self._call(inputs)
        else:
            params, values, memory = self.network.step(inputs, memory)
        if forbidden is not None:
            params = masked_to_draw(params, forbidden)
            if isinstance(self.distribution, EpsilonGreedy):
                values = params.amax(1).to(values.dtype)
        return params, values, memory

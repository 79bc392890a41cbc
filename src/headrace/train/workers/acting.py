"""What acts, and how it travels between processes: a policy's weights, and what it knows of observations."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.pool.spec import TaskSpec
from headrace.train import checkpoint as checkpoints
from headrace.train.agent import Agent
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.experience import InputEncoder
from headrace.train.policy import Policy
from headrace.train.workers.sampler import acting_policy
from headrace.train.workers.weights import WeightBuffer


class Acting:
    """One process's copy of what acts.

    Args:
        policy: whose weights.
        encoder: whose statistics of observations, if it keeps any.

    Attributes:
        vector: the weights, float32[P], which the policy acts with.
    """

    def __init__(self, policy: Policy, encoder: InputEncoder):
        self.policy, self._normaliser = policy, encoder.normaliser
        self.vector = policy.acting

    def buffer(self, extras: int = 0) -> WeightBuffer:
        """A way for it to travel, with so many numbers more."""
        return WeightBuffer(self.vector.numel(), extras + len(self.known()))

    def known(self) -> Tensor:
        """What is known of observations, float64[E] on the CPU; E is 0 where nothing is kept."""
        return torch.zeros(0, dtype=torch.float64) if self._normaliser is None else self._normaliser.pack().cpu()

    def take(self, vector: Tensor, known: Tensor) -> None:
        """Act with these from now on."""
        self.vector.copy_(vector)
        if self._normaliser is not None:
            self._normaliser.unpack(known)

    def publish(self, weights: WeightBuffer, extras: Tensor | None = None) -> int:
        """Make it the newest that others can read, with ``extras`` float64[…]; returns its version."""
        return weights.publish(self.vector, self.known() if extras is None else torch.cat((extras, self.known())))

    def read(self, weights: WeightBuffer) -> int | None:
        """Act with the newest from now on; returns its version, None if there is no newer one."""
        if self._normaliser is None:
            return weights.read(self.vector)
        known = self.known()
        version = weights.read(self.vector, known)
        if version is not None:
            self._normaliser.unpack(known)
        return version

    def model(self) -> dict[str, Tensor]:
        """All that is needed to play, as a checkpoint has it."""
        model = self.policy.model()
        if self._normaliser is not None:
            model |= checkpoints.prefixed(self.policy.prefix("normaliser"), self._normaliser.state())
        return model

    def load_model(self, model: dict[str, Tensor]) -> None:
        """Restore what `model` returned."""
        self.policy.load_model(model)
        if self._normaliser is not None:
            self._normaliser.load(checkpoints.group(self.policy.prefix("normaliser"), model))


def unlearnt_agent(config: Config, spec: TaskSpec) -> tuple[Agent, Acting]:
    """An agent that plays by the newest weights as soon as it has read some."""
    policy, seat = acting_policy(config)
    model = Acting(policy, InputEncoder(config, seat.observation, torch.device("cpu"))).model()
    agent = Agent(config, spec, Checkpoint(model, {}, {}, {}))
    return agent, Acting(agent.policies[0], agent.encoders[0])

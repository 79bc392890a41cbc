"""What acts, and how it travels between processes: a policy's weights, and what it knows of observations."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from headrace.pool.registry import build_task
from headrace.pool.spec import TaskSpec
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.setup import agent_groups, make_policy
from headrace.train.config.settings import Config
from headrace.train.play.agent import Agent
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runs.checkpoint import Checkpoint


class PolicyCopy:
    """One process's copy of what acts.

    Args:
        policy: whose weights, and whose statistics of observations, if it keeps any.

    Attributes:
        vector: the weights, float32[P], which the policy acts with.
    """

    def __init__(self, policy: Policy):
        self.policy, self._normaliser = policy, policy.encoder.normaliser
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


def acting_policy(config: Config) -> Policy:
    """A policy that only acts, on the CPU."""
    spec = build_task(config.task, **config.env_options).spec
    (agent_group,) = agent_groups(config, spec).values()
    return make_policy("", dataclasses.replace(config, frozen=True, compile=False), agent_group, torch.device("cpu"))


def unlearnt_agent(config: Config, spec: TaskSpec) -> tuple[Agent, PolicyCopy]:
    """An agent that plays by the newest weights as soon as it has read some."""
    agent = Agent(config, spec, Checkpoint(acting_policy(config).model(), {}, {}, {}))
    return agent, PolicyCopy(agent.policies[0])

"""Updates in two processes, each on its own device: one learns the critics, the other the actor.

Neither waits for the other. The critics use an actor that is a few updates old, and the actor uses critics that are a
few updates old; both change little in a few updates. Only the number of the actor's updates is limited to that of the
critics' updates, so that the actor does not learn from unchanged critics.

Sources: Li et al. 2023 (arXiv:2307.12983), Spreeze (arXiv:2312.06126).
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.updater import Updater
from headrace.train.collect.fitting import agent_groups
from headrace.train.collect.policies import find_device, make_policy, prepare
from headrace.train.processes.counters import Counters
from headrace.train.processes.start import seed_of
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers.policy_copy import PolicyCopy
from headrace.train.workers.rate_limiter import REST

CRITIC = "critic"
KEEP = 0.1  # seconds between two publications of the actor's optimiser state for checkpoints


class Exchange:
    """The weight buffers through which the two processes exchange their parts, and publish the actor to samplers.

    Args:
        policy: a policy of the run, which determines the sizes.
        apart: whether actor and critics are learnt in two processes.

    Attributes:
        weights: the buffer of the actor, with its other parts (a temperature) as extras; the actor's process writes it.
        moments: the buffer of the state of the actor's optimisers, with the actor's statistics as extras.

    Raises:
        OptionError: ``apart``, but the policy does not separate actor and critics.
    """

    def __init__(self, policy: OffPolicy, apart: bool):
        if apart and CRITIC not in policy.parts:
            raise OptionError(f"{policy.config.algo} has no actor that could learn on an actor_device of its own")
        self._apart = apart
        self._others = [name for name in policy.parts if name not in (CRITIC, policy.actor_part)]
        self._sizes = [policy.parts[name].numel() for name in self._others]
        self._acting = torch.zeros_like(policy.actor_parameters, device="cpu")
        self._extras = torch.zeros(sum(self._sizes), dtype=torch.float64)
        self.weights = PolicyCopy(policy).buffer(sum(self._sizes))
        if apart:
            self.critics = WeightBuffer(policy.parts[CRITIC].numel())
            self._moments = torch.cat([state.reshape(-1) for state in _adam_states(policy)]).float().cpu()
            self.moments = WeightBuffer(len(self._moments), len(policy.actor_statistics))

    def publish_actor(self, policy: OffPolicy) -> None:
        extras = [policy.parts[name].double() for name in self._others]
        self.weights.publish(policy.actor_parameters, torch.cat(extras) if extras else None)

    @torch.no_grad()
    def take_actor(self, policy: OffPolicy) -> None:
        """Copies the newest actor into a policy, without the trunk, if it has not been read before."""
        actor = policy.parts[policy.actor_part]
        if self.weights.read(self._acting, self._extras) is not None:
            actor.copy_(self._acting[: len(actor)])
            for name, values in zip(self._others, self._extras.split(self._sizes), strict=True):
                policy.parts[name].copy_(values)

    def publish_moments(self, policy: OffPolicy, measured: Tensor) -> None:
        """Publishes the state of the actor's optimisers, and its statistics of the last update, float64[S]."""
        moments = torch.cat([state.reshape(-1).float() for state in _adam_states(policy)])
        self.moments.publish(moments, measured.double())

    @torch.no_grad()
    def take_moments(self, policy: OffPolicy, measured: Tensor) -> None:
        """Copies the last published state into a policy's optimisers, and the statistics into ``measured``, [S]."""
        if self.moments.read(self._moments, measured) is not None:
            states = _adam_states(policy)
            for state, values in zip(states, self._moments.split([each.numel() for each in states]), strict=True):
                state.copy_(values.view(state.shape))

    def close(self) -> None:
        """Frees the shared memory, except the weights'."""
        if self._apart:
            self.critics.close()
            self.moments.close()


def _adam_states(policy: OffPolicy) -> list[Tensor]:
    """Returns the state of the optimisers of all parts but the critics."""
    parts = (name for name in policy.parts if name != CRITIC)
    return [tensor for name in parts for tensor in policy.adam[name].state().values()]


def work(config: Any, replay: StepReplay, exchange: Exchange, counters: Counters, restarts: int) -> None:
    """Learns the actor; the main function of its process."""
    device = find_device(config.actor_device)
    spec = config.build().spec
    (agent_group,) = agent_groups(config, spec).values()
    prepare(config, [agent_group])
    policy = make_policy("", config.replace(device=config.actor_device), agent_group, device)
    assert isinstance(policy, OffPolicy)
    measured = torch.zeros(len(policy.actor_statistics), dtype=torch.float64)
    exchange.take_actor(policy)
    exchange.take_moments(policy, measured)
    seed = seed_of(config, 2**30, restarts, int(counters.begun[0]))
    generator = torch.Generator().manual_seed(seed)
    policy.generator.manual_seed(seed)
    updater = Updater(policy, replay, generator, "actor")
    kept, last = time.monotonic(), measured
    with torch.inference_mode():
        while not counters.stopped:
            made = int(counters.actor_updates[0])
            if made >= counters.updates[0] // policy.actor_every:
                counters.rests[-1] += 1
                time.sleep(REST)
                continue
            exchange.critics.read(policy.parts[CRITIC])
            updater.set_rates(counters.total_steps())
            last = updater.update()
            counters.actor_updates[0] = made + 1
            if made % config.publish_every == 0:
                exchange.publish_actor(policy)
            if time.monotonic() - kept > KEEP:
                exchange.publish_moments(policy, last)
                kept = time.monotonic()
        exchange.publish_actor(policy)
        exchange.publish_moments(policy, last)

"""Updates of actors and critics in compiled code, where it is installed and the networks are perceptrons on a CPU.

An update in torch is one to three hundred operations, whose dispatch takes as long as their arithmetic. Compiled code
makes an update in one call, from the memory of the policy's networks, targets and optimisers. The losses are those of
the algorithms' files, which torch differentiates everywhere else. Products are of bfloat16 where the setting
``matmul_precision`` is ``"medium"`` and the processor multiplies them (AMX, AVX-512 BF16), and otherwise of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.compiled import call, compiled_module, memory, stacks_of
from headrace.train.storage.transitions import Transitions

Noise = Callable[[int], Tensor]
"""returns noise for the actions of so many rows, float32[B, A]"""


class CompiledForm:
    """The compiled update of a policy's networks.

    Args:
        policy: the `headrace.train.algorithms.off_policy.OffPolicy` that it updates.
    """

    def __init__(self, policy: Any):
        self.policy = policy
        self._learners: dict[bool, Any] = {}

    def learner(self, rates: UpdateRates) -> Any:
        """Returns the compiled learner for the present precision of products; None where torch makes the updates."""
        module = compiled_module()
        if module is None or self.policy.process_group is not None or isinstance(rates.learning_rate, Tensor):
            return None
        bfloat16 = torch.get_float32_matmul_precision() == "medium" and module.has_bfloat16()
        if bfloat16 not in self._learners:
            self._learners[bfloat16] = self.make(module, bfloat16)
        return self._learners[bfloat16]

    def approach(self, target: Tensor, source: Tensor, rate: float) -> bool:
        """Moves a target network's parameters, float32[P], towards others; returns False where torch does.

        Torch would wake its other threads, which then wait for more work on the cores that the next update needs.
        """
        module = compiled_module()
        if module is None or target.device.type != "cpu":
            return False
        module.approach(memory(target), memory(source), rate)
        return True

    def make(self, module: Any, bfloat16: bool) -> Any:
        """Returns a learner of the compiled module, with products of bfloat16 or float32; None for other networks."""
        raise NotImplementedError


class CompiledActorCritic(CompiledForm):
    """The update of an `ActorCritic` of perceptrons; an actor without a target is a stochastic one."""

    def make(self, module: Any, bfloat16: bool) -> Any:
        network, targets, adam = self.policy.network, self.policy.targets, self.policy.adam
        actor, critics = stacks_of(network.actor), stacks_of(network.critic)
        if not (actor and critics and network.trunk is None and on_cpu(network)):
            return None
        inputs, joined = actor[0][0][0], critics[0][0][0]
        return call(
            module.ActorCriticLearner,
            inputs=inputs,
            actions=joined - inputs,
            relu=network.actor.relu,
            actor=actor,
            critics=critics,
            target_actor=stacks_of(targets.actor) if "actor" in targets else [],
            target_critics=stacks_of(targets.critic),
            adams=[adam[name].arrays() for name in ("actor", "critic", "temperature") if name in adam],
            betas=(*adam["actor"].betas, adam["actor"].epsilon),
            bfloat16=bfloat16,
        )

    def update(
        self,
        batch: Transitions,
        rates: UpdateRates,
        critics: bool,
        actor: bool,
        *,
        next_noise: Noise | None = None,
        noise: Noise | None = None,
        critic_weight: float = 0.5,
        target_entropy: float = 0.0,
    ) -> Tensor | None:
        """Makes a gradient step of the critics and one of the actor, as `OffPolicy.update_at_once`.

        Args:
            next_noise: of the actions that follow: standard normal for a stochastic actor, or what is added to them.
            noise: of a stochastic actor's actions, standard normal.
            critic_weight: of each critic's mean squared error in the loss.
            target_entropy: of a stochastic actor.
        """
        learner, policy, rows = self.learner(rates), self.policy, len(batch.rewards)
        if learner is None:
            return None
        norm = rates.max_grad_norm if policy.clips_gradients else math.inf
        found = call(
            learner.update,
            **_columns(batch),
            actions=batch.actions,
            next_noise=next_noise(rows) if critics and next_noise else None,
            noise=noise(rows) if actor and noise else None,
            rates=(rates.critic_learning_rate, rates.learning_rate, norm, critic_weight, target_entropy),
            critics=critics,
            actor=actor,
            threads=torch.get_num_threads() > 1,
        )
        names = ["critic_loss", "q_mean", "critic_gradient_norm"] if critics else []
        names += ["actor_loss", "actor_gradient_norm", "entropy", "temperature"] if actor else []
        statistics = (*policy.critic_statistics * critics, *policy.actor_statistics * actor)
        return torch.tensor([found[names.index(name)] for name in statistics])


class CompiledQ(CompiledForm):
    """The update of the action values of a perceptron."""

    def make(self, module: Any, bfloat16: bool) -> Any:
        q, target, adam = self.policy.network.q, self.policy.targets.q, self.policy.adam["q"]
        stacks = stacks_of(q)
        if not stacks or not on_cpu(q):
            return None
        return call(
            module.QLearner,
            inputs=stacks[0][0][0],
            actions=self.policy.distribution.size,
            relu=q.relu,
            dueling=q.head.dueling,
            q=stacks,
            target=stacks_of(target),
            adam=adam.arrays(),
            betas=(*adam.betas, adam.epsilon),
            bfloat16=bfloat16,
        )

    def update(self, batch: Transitions, rates: UpdateRates, errors: Tensor) -> Tensor | None:
        """Makes a gradient step, as `OffPolicy.update_at_once`; writes the absolute errors of values, float32[B]."""
        learner, config = self.learner(rates), self.policy.config
        if learner is None or batch.masks is not None:
            return None
        found = call(
            learner.update,
            **_columns(batch),
            actions=batch.actions.view(-1).to(torch.int64),
            rates=(rates.learning_rate, rates.max_grad_norm),
            chooses=config.double,
            huber=config.loss == "huber",
            errors=errors,
        )
        return torch.tensor(found)


def _columns(batch: Transitions) -> dict[str, Any]:
    return {
        "inputs": batch.inputs,
        "columns": [batch.rewards, batch.discounts],
        "next_inputs": batch.next_observations,
        "weights": batch.weights,
    }


def on_cpu(network: nn.Module) -> bool:
    return all(parameter.device.type == "cpu" for parameter in network.parameters())

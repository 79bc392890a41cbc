"""Updates in compiled code, where it is installed and the networks are perceptrons or CNNs on a CPU.

An update in torch is one to three hundred operations, whose dispatch takes as long as their arithmetic. Compiled code
makes an update in one call, from the memory of the policy's networks, targets and optimisers. The losses are those of
the algorithms' files, which torch differentiates everywhere else. Products are of bfloat16 where the setting
``matmul_precision`` is ``"medium"``, or of a CNN the setting ``bf16`` is set, and the processor multiplies them (AMX,
AVX-512 BF16), and otherwise of float32. As many threads as torch has share the work, which changes no result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.optimiser import FlatAdam, FlatRAdam
from headrace.train.algorithms.rates import Rates, UpdateRates
from headrace.train.modules.compiled import (
    adam_of,
    call,
    compiled_module,
    described,
    has_form,
    input_columns,
    makes_bfloat16,
    stacks_of,
    trunk_of,
    why_torch_here,
)
from headrace.train.modules.compiled_networks import CompiledNetwork, compile_trunks
from headrace.train.storage.samples import Samples
from headrace.train.storage.transitions import Transitions

COLUMNS = "advantages", "returns", "values"
Noise = Callable[[int], Tensor]
"""returns noise for the actions of so many rows, float32[B, A]"""


def why_torch(policy: Any, device: torch.device | None = None) -> str | None:
    """Returns in a word why torch makes the updates of a policy that learns; None where its `CompiledForm` does.

    It is the one place that decides, for all algorithms; asked when a policy is made, and when it joins others.

    Args:
        device: where it learns; by default on its own device.
    """
    if policy.form is None:
        return "algorithm"
    if (kind := (device or policy.device).type) != "cpu":
        return kind
    if policy.process_group is not None:
        return "data-parallel"
    return why_torch_here() or policy.form.why_not(policy)


def updated_by(policy: Any, device: torch.device | None = None) -> str:
    """Returns in words what makes a policy's updates: ``"compiled (AVX-512)"``, or ``"torch (target_kl)"``."""
    reason = why_torch(policy, device)
    return f"torch ({reason})" if reason else policy.form.words(policy)


def compiled_parts(policy: Any) -> int:
    """Lets compiled code evaluate what it can of networks that torch differentiates, and returns how many parts."""
    acts = policy.config.frozen and getattr(policy.network, "compiled", None) is not None
    if acts or policy.config.compile or policy.device.type != "cpu" or why_torch_here() is not None:
        return 0
    return sum(map(compile_trunks, (policy.network, getattr(policy, "targets", None) or nn.Module())))


class CompiledForm:
    """The compiled update of a policy's networks.

    Args:
        policy: the `headrace.train.algorithms.policy.Policy` that it updates, of which `why_torch` says nothing.
    """

    def __init__(self, policy: Any):
        self.policy = policy

    @staticmethod
    def words(policy: Any) -> str:
        """Returns a description of a policy's form, with its instructions."""
        return described(_rounds(policy))

    @staticmethod
    def why_not(policy: Any) -> str | None:
        """Returns in a word what of a policy on a CPU has no compiled form; None if all has."""
        raise NotImplementedError


class CompiledRollouts(CompiledForm):
    """PPO's updates of an `MLP` over a rollout; A2C's are these at ratios of 1."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.adam = adam_of(policy.optimiser)

    @staticmethod
    def why_not(policy: Any) -> str | None:
        if unfit := CompiledNetwork.why_not(policy.network, policy.distribution):
            return unfit
        if policy.stops_early:
            return "target_kl"
        return None if type(policy.optimiser) is FlatAdam else "optimiser"

    def epoch(
        self, samples: Samples, rates: Rates, order: Tensor | None, value_clip: float | None = None
    ) -> Tensor | None:
        """Makes an epoch of updates, as `OnPolicy.update_at_once`.

        Args:
            samples, rates, order: samples without log-probabilities have ratios of 1.
            value_clip: how far values may move from those of the rollout; None for any distance.

        Returns:
            PPO's statistics, float32[6].
        """
        policy = self.policy
        if (log_probs := samples.log_probs) is None:
            with torch.inference_mode():
                log_probs = policy.evaluate(samples)[0]
        if order is None:
            order = (torch.arange(len(samples.returns)) if samples.rows is None else samples.rows).unsqueeze(0)
        columns = {"log_probs": log_probs} | {name: getattr(samples, name) for name in COLUMNS}
        return policy.network.compiled.epoch(
            samples.actions,
            inputs=samples.inputs.contiguous(),
            **{name: column.contiguous() for name, column in columns.items()},
            order=order.contiguous(),
            **rates._asdict(),
            value_clip_range=value_clip,
            normalise_advantages=policy.normalises_advantages,
            adam=self.adam,
            threads=torch.get_num_threads(),
            measured=0 if policy.mirroring is None else order.shape[1] // 2,
            forbidden=None if samples.forbidden is None else samples.forbidden.contiguous(),
        )


class CompiledRolloutQ(CompiledForm):
    """PQN's updates of action values over a rollout."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        q, module = policy.network.q, compiled_module()
        assert module is not None
        self.learner = call(
            module.ValueLearner,
            inputs=input_columns(q),
            relu=getattr(q, "relu", True),
            stacks=stacks_of(q),
            radam=adam_of(policy.optimiser),
            trunk=trunk_of(q),
            bfloat16=_rounds(policy),
        )

    @staticmethod
    def why_not(policy: Any) -> str | None:
        if not has_form(policy.network.q):
            return "network"
        return None if type(policy.optimiser) is FlatRAdam else "optimiser"

    def epoch(self, samples: Samples, rates: Rates, order: Tensor) -> Tensor:
        """Makes an epoch of updates, as `OnPolicy.update_at_once`; returns PQN's statistics, float32[3]."""
        with torch.inference_mode():
            found = call(
                self.learner.epoch,
                inputs=samples.inputs.contiguous(),
                choices=samples.actions.view(-1).to(torch.int64).contiguous(),
                returns=samples.returns.contiguous(),
                order=order.contiguous(),
                learning_rate=rates.learning_rate,
                max_grad_norm=rates.max_grad_norm,
                threads=torch.get_num_threads(),
            )
        self.policy.network.compiled.changed()
        return torch.tensor(found)


class CompiledReplay(CompiledForm):
    """An update from a batch of transitions, whose learner has the memory of networks, targets and optimisers."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.learner = self.make(compiled_module(), _rounds(policy))

    def make(self, module: Any, bfloat16: bool) -> Any:
        """Returns a learner of the compiled module, with products of bfloat16 or float32."""
        raise NotImplementedError


class CompiledActorCritic(CompiledReplay):
    """The update of an `ActorCritic` of perceptrons; an actor without a target is a stochastic one."""

    @staticmethod
    def why_not(policy: Any) -> str | None:
        network = policy.network
        known = network.trunk is None and has_form(network.actor) and has_form(network.critic)
        return None if known else "network"

    def make(self, module: Any, bfloat16: bool) -> Any:
        network, targets, adam = self.policy.network, self.policy.targets, self.policy.adam
        actor, critics = stacks_of(network.actor), stacks_of(network.critic)
        inputs, actions = network.actor.weights[0].shape[1], self.policy.distribution.noise_size
        return call(
            module.ActorCriticLearner,
            inputs=inputs,
            actions=actions,
            relu=network.actor.relu,
            actor=actor,
            critics=critics,
            target_actor=stacks_of(targets.actor) if "actor" in targets else [],
            target_critics=stacks_of(targets.critic),
            actor_adam=adam_of(adam["actor"]),
            critic_adam=adam_of(adam["critic"]),
            temperature_adam=adam_of(adam["temperature"]) if "temperature" in adam else None,
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
    ) -> Tensor:
        """Makes a gradient step of the critics and one of the actor, as `OffPolicy.update_at_once`.

        Args:
            next_noise: of the actions that follow: standard normal for a stochastic actor, or what is added to them.
            noise: of a stochastic actor's actions, standard normal.
            critic_weight: of each critic's mean squared error in the loss.
            target_entropy: of a stochastic actor.
        """
        policy, rows = self.policy, len(batch.rewards)
        norm = rates.max_grad_norm if policy.clips_gradients else math.inf
        found = call(
            self.learner.update,
            **_columns(batch),
            actions=batch.actions,
            next_noise=next_noise(rows) if critics and next_noise else None,
            noise=noise(rows) if actor and noise else None,
            critic_learning_rate=rates.critic_learning_rate,
            actor_learning_rate=rates.learning_rate,
            max_grad_norm=norm,
            critic_weight=critic_weight,
            target_entropy=target_entropy,
            critics=critics,
            actor=actor,
            threads=torch.get_num_threads(),
        )
        names = ["critic_loss", "q_mean", "critic_gradient_norm"] if critics else []
        names += ["actor_loss", "actor_gradient_norm", "entropy", "temperature"] if actor else []
        statistics = (*policy.critic_statistics * critics, *policy.actor_statistics * actor)
        return torch.tensor([found[names.index(name)] for name in statistics])


class CompiledQ(CompiledReplay):
    """The update of the action values of a perceptron, or of a CNN."""

    @staticmethod
    def why_not(policy: Any) -> str | None:
        if policy.heads:
            return "action_masks"
        return None if has_form(policy.network.q) else "network"

    def make(self, module: Any, bfloat16: bool) -> Any:
        q, target, adam = self.policy.network.q, self.policy.targets.q, self.policy.adam["q"]
        return call(
            module.QLearner,
            inputs=input_columns(q),
            actions=self.policy.distribution.size,
            relu=getattr(q, "relu", True),
            dueling=q.head.dueling,
            q=stacks_of(q),
            target=stacks_of(target),
            adam=adam_of(adam),
            trunk=trunk_of(q),
            target_trunk=trunk_of(target),
            bfloat16=bfloat16,
        )

    def update(self, batch: Transitions, rates: UpdateRates, errors: Tensor) -> Tensor:
        """Makes a gradient step, as `OffPolicy.update_at_once`; writes the absolute errors of values, float32[B]."""
        config = self.policy.config
        found = call(
            self.learner.update,
            **_columns(batch),
            actions=batch.actions.view(-1).to(torch.int64),
            learning_rate=rates.learning_rate,
            max_grad_norm=rates.max_grad_norm,
            chooses=config.double,
            huber=config.loss == "huber",
            errors=errors,
            threads=torch.get_num_threads(),
        )
        if self.policy.network.compiled is not None:
            self.policy.network.compiled.changed()
        return torch.tensor(found)


def _rounds(policy: Any) -> bool:
    """Returns whether the products of a policy's compiled form are of bfloat16."""
    return makes_bfloat16(getattr(policy.network, "q", policy.network))


def _columns(batch: Transitions) -> dict[str, Any]:
    return {
        "inputs": batch.inputs,
        "rewards": batch.rewards,
        "discounts": batch.discounts,
        "next_inputs": batch.next_observations,
        "weights": batch.weights,
    }

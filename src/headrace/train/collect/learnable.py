"""What is learnt from a rollout: samples with advantages, or transitions for a replay; and the statistics of both."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.gae import gae, gae_of_decisions
from headrace.train.collect.outcome import Outcome
from headrace.train.collect.rollout_buffer import EVERYWHERE, Experience
from headrace.train.modules.action_masks import forbidden
from headrace.train.settings.rollouts import decides_only
from headrace.train.storage.samples import Samples
from headrace.train.storage.transitions import Recorded, Transitions


def learnable(experience: Experience, outcome: Outcome) -> Samples | Recorded | None:
    """Returns the policy's training data: samples, or transitions for a replay; None for a frozen policy."""
    if experience.config.frozen:
        return None
    if not experience.policy.settings.replays:
        return samples(experience, outcome)
    present = None if outcome.present is None else outcome.present.flatten()
    return Recorded(transitions(experience, outcome), present)


def samples(experience: Experience, outcome: Outcome) -> Samples:
    """Returns the rollout's samples after all steps, and updates statistics of observations, rewards and values."""
    config = experience.config
    inputs, kept = experience.last_inputs(), experience.memory
    memory = None if kept is None else kept.before(config.num_steps, EVERYWHERE)
    masks = None if experience.masks is None else experience.masks.at(config.num_steps, EVERYWHERE)
    experience.values[-1] = _value(experience, inputs, memory, masks)
    values = _in_rewards(experience, experience.values)
    over = outcome.terminated | outcome.truncated
    rewards = outcome.rewards
    if experience.reward_scaler is not None:
        rewards = experience.reward_scaler(rewards, over, outcome.present)
    if (curiosity := getattr(experience.policy, "curiosity", None)) is not None:
        rewards = rewards + curiosity.bonus(experience.inputs, over, outcome.present)
    ends = outcome.terminated, outcome.truncated, _final_values(experience, outcome, values)
    given, present = (rewards, values, *ends, config.gamma, experience.policy.trace_decay), outcome.present
    if experience.masks is None or not decides_only(config):
        advantages = gae(*given).flatten()
    else:
        advantages, decided = gae_of_decisions(*given, *experience.masks.waits(outcome.final_observations))
        advantages, present = advantages.flatten(), decided if present is None else decided & present
    actions, log_probs = experience.actions.flatten(0, 1), None
    if experience.params is not None:
        log_probs = experience.distribution.evaluate(experience.params.flatten(0, 1), actions)[0]
    returns = advantages + values[:-1].flatten()
    rows, weights = _counted(experience, present)
    _update_normaliser(experience, rows, weights)
    if (normaliser := experience.policy.value_normaliser) is not None:
        normaliser.update(returns if rows is None else returns[rows], weights)
        returns, values = normaliser.normalised(returns), normaliser.normalised(values)
    return Samples(
        inputs=experience.inputs[:-1].flatten(0, 1),
        actions=actions,
        log_probs=log_probs,
        advantages=advantages,
        returns=returns,
        values=values[:-1].flatten(),
        rows=rows,
        weights=weights,
        memory=None if kept is None else kept.before(0, EVERYWHERE),
        starts=None if kept is None else kept.starts[:-1].flatten(),
        forbidden=None if experience.masks is None else experience.masks.forbidden.flatten(0, 1),
    )


def transitions(experience: Experience, outcome: Outcome) -> Transitions:
    """Returns all steps as transitions for a replay, [T · columns], and updates statistics as `samples` does.

    Observations and rewards are not normalised: the policy does that with the statistics known at each update.
    ``discounts`` are 1, or 0 after a termination; the policy multiplies them by γ.
    """
    if experience.encoder.normaliser is None:
        experience.last_inputs()
        seen = experience.inputs
    else:
        seen = _raw(experience, experience.config.num_steps + 1)
    next_observations, finals = seen.roll(-1, 0), outcome.final_observations
    if finals is not None:
        last = torch.empty(len(finals.t), *experience.encoder.shape, dtype=seen.dtype, device=experience.device)
        next_observations[finals.t, finals.columns] = experience.encoder.plain(finals.observations, last)
    update_statistics(experience, outcome)
    return Transitions(
        seen[:-1].flatten(0, 1),
        experience.actions.reshape(len(experience.actions) * experience.columns, -1),
        outcome.rewards.flatten(),
        (~outcome.terminated).flatten().float(),
        next_observations[:-1].flatten(0, 1),
        masks=None if experience.masks is None else experience.masks.after(finals),
    )


def update_statistics(experience: Experience, outcome: Outcome) -> None:
    """Updates the statistics of observations and rewards with a rollout that is written into a replay."""
    if experience.reward_scaler is not None:
        experience.reward_scaler.update(outcome.rewards, outcome.terminated | outcome.truncated, outcome.present)
    _update_normaliser(experience, *_counted(experience, outcome.present))


def _counted(experience: Experience, present: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Returns which rows count: indices, int64[K], or weights, float32[M], for fixed shapes or a recurrent network.

    Both are None if all rows count.
    """
    if present is None or (not experience.static and bool(present.all())):
        return None, None
    if experience.static or experience.memory is not None:
        return None, present.flatten().float()
    return present.flatten().nonzero().squeeze(1), None


def _update_normaliser(experience: Experience, rows: Tensor | None, weights: Tensor | None) -> None:
    if experience.encoder.normaliser is None or experience.config.frozen:
        return
    raw = _raw(experience, experience.config.num_steps).flatten(0, 1)
    raw = raw if rows is None else raw[rows]
    if (mirroring := experience.policy.mirroring) is not None:  # so that what it shows is normalised alike
        raw = torch.cat((raw, mirroring.inputs(raw)))
        weights = None if weights is None else torch.cat((weights, weights))
    experience.encoder.normaliser.update(raw, weights)


def _raw(experience: Experience, steps: int) -> Tensor:
    """Returns the first `steps` steps' observations before they are normalised, [steps, columns, D]."""
    raw = torch.stack([experience.seen(t, EVERYWHERE) for t in range(steps)])
    return raw.to(experience.device, experience.encoder.raw_dtype).view(
        steps, experience.columns, *experience.encoder.shape
    )


def _value(experience: Experience, inputs: Tensor, memory: Tensor | None, masks: Tensor | None) -> Tensor:
    closed = None if masks is None else forbidden(masks, experience.policy.heads)
    return experience.policy.module.outputs(inputs, memory, closed)[1]


def _in_rewards(experience: Experience, values: Tensor) -> Tensor:
    normaliser = experience.policy.value_normaliser
    return values if normaliser is None else normaliser.restored(values)


def _final_values(experience: Experience, outcome: Outcome, values: Tensor) -> Tensor:
    """Returns the values to bootstrap from after each step, float32[T, columns], in units of rewards.

    They are values of final observations where episodes were truncated, and of the next observations elsewhere.
    Where an agent was truncated but its episode was not, the next observation is its final one.

    Args:
        values: values of the observations before each step and after the last, in units of rewards.
    """
    result = values.roll(-1, 0)
    finals = outcome.final_observations
    if finals is not None:
        memory = None
        if experience.memory is not None:
            kept = experience.memory.values
            memory = kept[(finals.t + 1).clamp(max=len(kept) - 1), finals.columns]
        masks = None if experience.masks is None else finals.masks
        last = _value(experience, experience.encoder(finals.observations.to(experience.device)), memory, masks)
        result[finals.t, finals.columns] = _in_rewards(experience, last)
    return result[:-1]

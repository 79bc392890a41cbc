"""The settings that may change during a run, as arguments of updates."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from headrace.train.settings.config import Config


class Rates(NamedTuple):
    """The rates of updates from rollouts: numbers, or 0-d tensors, whose values a CUDA graph reads at each replay."""

    learning_rate: float | Tensor
    clip_range: float | Tensor
    entropy_coef: float | Tensor
    value_coef: float | Tensor
    max_grad_norm: float | Tensor

    @classmethod
    def of(cls, config: Config, step: int) -> Rates:
        now = config.at(step)
        rates = cls(*(vars(now).get(name, 0.0) for name in cls._fields))  # 0 for settings that the algorithm has not
        if config.anneal_learning_rate and "learning_rate" not in config.schedules:
            rates = rates._replace(learning_rate=now.learning_rate * max(0.0, 1.0 - step / config.total_steps))
        return rates


class UpdateRates(NamedTuple):
    """The rates of updates from a replay: numbers, or 0-d tensors, whose values a CUDA graph reads at each replay."""

    learning_rate: float | Tensor
    critic_learning_rate: float | Tensor
    max_grad_norm: float | Tensor

    @classmethod
    def of(cls, config: Config, step: int) -> UpdateRates:
        """Returns the rates at agent step `step`; the critic's learning rate keeps its ratio to the actor's."""
        rates = Rates.of(config, step)
        critic = vars(config).get("critic_learning_rate", config.learning_rate) / config.learning_rate
        return cls(rates.learning_rate, rates.learning_rate * critic, rates.max_grad_norm)

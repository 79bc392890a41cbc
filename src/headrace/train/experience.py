"""What one policy sees and does in a rollout, and what it can learn from it."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.config import Config
from headrace.train.distributions import Distribution
from headrace.train.networks import input_size, uses_cnn
from headrace.train.normalise import ObservationNormaliser, RewardScaler
from headrace.train.ppo import Samples, advantages
from headrace.train.seats import Seat

EVERYWHERE = slice(None)


class InputEncoder:
    """Turns observations into network inputs: images as they are, all else float32[B, D], normalised if asked."""

    def __init__(self, config: Config, space: gym.Space, device: torch.device):
        if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            raise OptionError(f"PPO has no network for the observation space {space}")
        self.image = uses_cnn(config, space)
        self.categories = int(space.n) if isinstance(space, gym.spaces.Discrete) else 0
        self.first = int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
        self.shape: tuple[int, ...] = tuple(space.shape or ()) if self.image else (input_size(space),)
        self.dtype = torch.uint8 if self.image else torch.float32
        wanted = config.normalise_observations and not self.image and not self.categories
        self.normaliser = ObservationNormaliser(self.shape[0], device) if wanted else None
        plain = not self.image and not self.categories and space.dtype == np.float32 and len(space.shape or ()) == 1
        self.in_place = (self.image or plain) and self.normaliser is None and device.type == "cpu"

    def __call__(self, observations: Tensor, out: Tensor) -> Tensor:
        """Encode observations [B, …] into ``out`` [B, *shape]; when `in_place`, they already are the input."""
        if self.in_place:
            return observations
        if self.categories:
            rows = observations.to(out.device, torch.int64).unsqueeze(1) - self.first
            return out.zero_().scatter_(1, rows, 1.0)
        if self.normaliser is None:
            return out.copy_(observations.view(out.shape), non_blocking=True)
        return self.normaliser(observations.to(out.device, torch.float32).view(out.shape), out)


@dataclass(frozen=True)
class Outcome:
    """How a rollout went for the columns of one seat, on the policy's device.

    Attributes:
        rewards: float32[T, columns].
        terminated: bool[T, columns]: the episode terminated, or the agent left it.
        truncated: bool[T, columns].
        present: bool[T, columns]: who was in the game when it acted; None for everybody.
        finals: (t, columns, observations of the final step) where episodes were truncated.
    """

    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    present: Tensor | None
    finals: list[tuple[int, np.ndarray, Tensor]]


class Experience:
    """One policy's part of the rollout buffer: inputs, actions, values [T, columns].

    Args:
        observations: [T + 1, N, …] (or [T + 1, N, A, …]) as the pool writes them, of the seat's own array.
    """

    def __init__(
        self,
        config: Config,
        seat: Seat,
        network: nn.Module,
        distribution: Distribution,
        observations: Tensor,
        device: torch.device,
    ):
        self.config, self.seat, self.network, self.distribution, self.device = (
            config,
            seat,
            network,
            distribution,
            device,
        )
        steps, self.columns = config.num_steps, config.num_envs * seat.width
        self.encoder = InputEncoder(config, seat.observation, device)
        self.reward_scaler = RewardScaler(self.columns, config.gamma, device) if config.normalise_rewards else None
        self._observations = observations
        self._source = observations if seat.agents is None else observations.flatten(1, 2) if seat.sees.whole else None
        self._in_place = self.encoder.in_place and self._source is not None
        if self._in_place:
            assert self._source is not None
            self.inputs = self._source
        else:
            shape, dtype = self.encoder.shape, self.encoder.dtype
            self.inputs = torch.zeros(steps + 1, self.columns, *shape, dtype=dtype, device=device)
        self.params = torch.zeros(steps, self.columns, distribution.size, device=device)
        self.values = torch.zeros(steps + 1, self.columns, device=device)
        self.actions = torch.zeros(
            steps, self.columns, *distribution.action_shape, dtype=distribution.action_dtype, device=device
        )

    def noise(self, generator: torch.Generator) -> Tensor:
        """What a whole rollout's actions are drawn with, [T, columns, …]."""
        return self.distribution.noise(self.config.num_steps, self.columns, generator=generator)

    def act(self, t: int, envs: slice, noise: Tensor) -> Tensor:
        """Run the policy on some environments at step t and note what it did; returns their columns' actions."""
        columns = self.seat.columns(envs)
        params, values = self.network(self._encode(t, envs))
        actions = self.distribution.sample(params, noise[t, columns])
        self.params[t, columns] = params
        self.values[t, columns] = values
        self.actions[t, columns] = actions
        return self.distribution.to_env(actions)

    def samples(self, outcome: Outcome) -> Samples:
        """What can be learnt, once all steps were taken; updates the statistics of observations and rewards."""
        config = self.config
        self.values[-1] = self.network(self._encode(-1, EVERYWHERE))[1]
        over = outcome.terminated | outcome.truncated
        rewards = outcome.rewards if self.reward_scaler is None else self.reward_scaler(outcome.rewards, over)
        gae = advantages(
            rewards,
            self.values,
            outcome.terminated,
            outcome.truncated,
            self._final_values(outcome),
            config.gamma,
            config.gae_lambda,
        ).flatten()
        params, actions = self.params.flatten(0, 1), self.actions.flatten(0, 1)
        log_probs = self.distribution.evaluate(params, actions)[0]
        values = self.values[:-1].flatten()
        rows = None if outcome.present is None else outcome.present.flatten().nonzero().squeeze(1)
        if self.encoder.normaliser is not None:
            raw = torch.stack([self._seen(t, EVERYWHERE) for t in range(config.num_steps)])
            raw = raw.to(self.device, torch.float32).view(-1, *self.encoder.shape)
            self.encoder.normaliser.update(raw if rows is None else raw[rows])
        return Samples(self.inputs[:-1].flatten(0, 1), actions, log_probs, gae, gae + values, values, rows)

    def _encode(self, t: int, envs: slice) -> Tensor:
        columns = self.seat.columns(envs)
        if self._in_place:
            return self.inputs[t, columns]
        seen, out = self._seen(t, envs), self.inputs[t, columns]
        return out.copy_(seen.view(out.shape)) if self.encoder.in_place else self.encoder(seen, out)

    def _seen(self, t: int, envs: slice) -> Tensor:
        if self._source is not None:
            return self._source[t, self.seat.columns(envs)]
        return self._observations[t, envs][:, self.seat.sees.among].flatten(0, 1)

    def _final_values(self, outcome: Outcome) -> Tensor:
        """Values of the final observations of truncated episodes, float32[T, columns]; zero elsewhere."""
        result = torch.zeros_like(self.values[:-1])
        if outcome.finals:
            observations = torch.cat([seen for _, _, seen in outcome.finals])
            where_t = np.concatenate([np.full(len(columns), t) for t, columns, _ in outcome.finals])
            where = np.concatenate([columns for _, columns, _ in outcome.finals])
            out = torch.empty(len(observations), *self.encoder.shape, dtype=self.encoder.dtype, device=self.device)
            result[where_t, where] = self.network(self.encoder(observations, out))[1]
        return result

"""Collecting experience: the pool writes every step straight into the learner's buffer.

A rollout is T steps of N environments. Its rows are bound to the pool once, so that a step
costs neither a copy nor an allocation. With a pool whose ``batch_size`` is a part of its environments,
groups of that size take turns: while one is stepping, the policy runs on the next; every
environment still contributes exactly T steps, so the result does not depend on timing.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.pool.pool import Pool
from headrace.train.config import Config
from headrace.train.distributions import Distribution
from headrace.train.networks import input_size, uses_cnn
from headrace.train.normalise import ObservationNormaliser, RewardScaler
from headrace.train.ppo import Samples, advantages


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


class Collector:
    """The rollout buffer of one pool, and the loop that fills it.

    Attributes:
        observations: [T + 1, N, …] as the pool wrote them; row T is the next rollout's row 0.
        rewards, terminated, truncated: [T, N], on the CPU.
        scores, ends: rewards and episode ends for reporting, [T, N]: where the task rewards or ends otherwise
            than the game does (clipped rewards, lost lives), these are the game's own.
        seconds: time spent in ``env`` and in ``inference``.
    """

    def __init__(
        self, config: Config, pool: Pool, network: nn.Module, distribution: Distribution, device: torch.device
    ):
        steps, envs = config.num_steps, config.num_envs
        self.config, self.pool, self.network, self.distribution, self.device = (
            config,
            pool,
            network,
            distribution,
            device,
        )
        self.encoder = InputEncoder(config, pool.single_observation_space, device)
        self.reward_scaler = RewardScaler(envs, config.gamma, device) if config.normalise_rewards else None
        space = pool.single_observation_space
        pinned = device.type == "cuda"
        shape, dtype = tuple(space.shape or ()), torch.from_numpy(np.zeros(0, space.dtype)).dtype
        self.observations = torch.zeros(steps + 1, envs, *shape, dtype=dtype, pin_memory=pinned)
        if self.encoder.in_place:
            self.inputs = self.observations
        else:
            self.inputs = torch.zeros(steps + 1, envs, *self.encoder.shape, dtype=self.encoder.dtype, device=device)
        self.rewards = torch.zeros(steps, envs, pin_memory=pinned)
        self.terminated, self.truncated = (
            torch.zeros(steps, envs, dtype=torch.bool, pin_memory=pinned) for _ in range(2)
        )
        self.params = torch.zeros(steps, envs, distribution.size, device=device)
        self.values = torch.zeros(steps + 1, envs, device=device)
        self.actions = torch.zeros(
            steps, envs, *distribution.action_shape, dtype=distribution.action_dtype, device=device
        )
        self.seconds = {"env": 0.0, "inference": 0.0}
        self._finals: list[tuple[int, np.ndarray, np.ndarray]] = []  # step, env_ids, their final observations
        self._bind()

    def _bind(self) -> None:
        """Make the arrays that the pool writes: row t of the buffer for step t."""
        steps, envs = self.config.num_steps, self.config.num_envs
        infos = {f.name: f for f in self.pool.spec.info}
        self._game = {
            name: np.zeros((2, steps, envs), infos[name].dtype) for name in ("reward", "terminated") if name in infos
        }  # [now | final, T, N]
        self._rows: list[dict[str, np.ndarray]] = []
        for t in range(steps):
            row = {
                "obs": self.observations[t + 1].numpy(),
                "reward": self.rewards[t].numpy(),
                "terminated": self.terminated[t].numpy(),
                "truncated": self.truncated[t].numpy(),
            }
            for name, array in self._game.items():
                row[f"info:{name}"], row[f"final:info:{name}"] = array[0, t], array[1, t]
            self._rows.append(row)
        self._batches: list[Any] = []
        if not self.pool.is_async:
            # final observations are copied out when they appear, so all steps share one place for them
            self._final = np.zeros(self.observations.shape[1:], self._rows[0]["obs"].dtype)
            self._batches = [self.pool.make_batch({**row, "final:obs": self._final}) for row in self._rows]

    def start(self) -> None:
        """Begin new episodes everywhere."""
        if not self.pool.is_async:
            self.observations[0] = torch.from_numpy(np.asarray(self.pool.reset()[0]))
            return
        self.pool.async_reset()
        for _ in range(self.pool.num_envs // self.pool.batch_size):
            obs, _, _, _, info = self.pool.recv()
            self.observations[0, torch.from_numpy(info["env_id"].astype(np.int64))] = torch.from_numpy(obs)

    @torch.inference_mode()
    def collect(self, generator: torch.Generator) -> Samples:
        """T steps of every environment, ready to learn from. Row 0 of `observations` must be current."""
        config = self.config
        noise = self.distribution.noise(config.num_steps, config.num_envs, generator=generator)
        self._finals.clear()
        if self.pool.is_async:
            self._run_groups(noise)
        else:
            self._run_together(noise)
        began = time.perf_counter()
        samples = self._finish()
        self.observations[0].copy_(self.observations[-1])
        self.seconds["inference"] += time.perf_counter() - began
        return samples

    def _run_together(self, noise: Tensor) -> None:
        clock, step = time.perf_counter, self.pool.step
        truncated = self.truncated.numpy()
        now = clock()
        for t, batch in enumerate(self._batches):
            actions = self._act(t, slice(None), noise[t])
            acted = clock()
            step(actions, out=batch)
            if truncated[t].any():
                rows = np.flatnonzero(truncated[t])
                self._finals.append((t, rows, self._final[rows]))
            stepped = clock()
            self.seconds["inference"] += acted - now
            self.seconds["env"] += stepped - acted
            now = stepped

    def _run_groups(self, noise: Tensor) -> None:
        size = self.pool.batch_size
        groups = [slice(low, low + size) for low in range(0, self.pool.num_envs, size)]
        clock, in_flight = time.perf_counter, -1
        now = clock()
        for t in range(self.config.num_steps):
            for group in groups:
                actions = self._act(t, group, noise[t, group])
                acted = clock()
                if in_flight >= 0:
                    self._receive(in_flight)
                self.pool.send(actions, self.pool.all_env_ids[group])
                in_flight = t
                stepped = clock()
                self.seconds["inference"] += acted - now
                self.seconds["env"] += stepped - acted
                now = stepped
        self._receive(in_flight)
        self.seconds["env"] += clock() - now

    def _act(self, t: int, group: slice, noise: Tensor) -> np.ndarray:
        """Run the policy on the current observations of a group and note what it did; returns its actions."""
        inputs = self.encoder(self.observations[t, group], self.inputs[t, group])
        params, values = self.network(inputs)
        actions = self.distribution.sample(params, noise)
        self.params[t, group] = params
        self.values[t, group] = values
        self.actions[t, group] = actions
        return self.distribution.to_env(actions).cpu().numpy()

    def _receive(self, t: int) -> None:
        """Store the results of step t of whichever group is in flight."""
        obs, reward, terminated, truncated, info = self.pool.recv()
        ids, row = info["env_id"], self._rows[t]
        row["obs"][ids], row["reward"][ids] = obs, reward
        row["terminated"][ids], row["truncated"][ids] = terminated, truncated
        for name in self._game:
            row[f"info:{name}"][ids] = info[name]
            if "final_info" in info:
                row[f"final:info:{name}"][ids] = info["final_info"][name]
        rows = np.flatnonzero(truncated)
        if rows.size:
            self._finals.append((t, ids[rows], info["final_obs"][rows]))

    def _finish(self) -> Samples:
        config, device = self.config, self.device
        inputs = self.encoder(self.observations[-1], self.inputs[-1])
        self.values[-1] = self.network(inputs)[1]
        terminated, truncated = self.terminated.to(device), self.truncated.to(device)
        rewards = self.rewards.to(device)
        if self.reward_scaler is not None:
            rewards = self.reward_scaler(rewards, terminated | truncated)
        final_values = self._final_values()
        gae = advantages(
            rewards, self.values, terminated, truncated, final_values, config.gamma, config.gae_lambda
        ).flatten()
        params, actions = self.params.flatten(0, 1), self.actions.flatten(0, 1)
        log_probs = self.distribution.evaluate(params, actions)[0]
        values = self.values[:-1].flatten()
        if self.encoder.normaliser is not None:
            raw = self.observations[:-1].to(device, torch.float32)
            self.encoder.normaliser.update(raw.view(-1, *self.encoder.shape))
        return Samples(self.inputs[:-1].flatten(0, 1), actions, log_probs, gae, gae + values, values)

    def _final_values(self) -> Tensor:
        """Values of the final observations of truncated episodes, float32[T, N]; zero elsewhere."""
        result = torch.zeros_like(self.values[:-1])
        if self._finals:
            observations = torch.from_numpy(np.concatenate([obs for _, _, obs in self._finals]))
            where_t = np.concatenate([np.full(len(ids), t) for t, ids, _ in self._finals])
            where_n = np.concatenate([ids for _, ids, _ in self._finals]).astype(np.int64)
            out = torch.empty(len(observations), *self.encoder.shape, dtype=self.encoder.dtype, device=self.device)
            result[where_t, where_n] = self.network(self.encoder(observations, out))[1]
        return result

    @property
    def scores(self) -> np.ndarray:
        """The game's own rewards float32[T, N]."""
        return self._game_field("reward", self.rewards.numpy())

    @property
    def ends(self) -> np.ndarray:
        """Where the game itself ended, or was truncated, bool[T, N]."""
        over = self._game_field("terminated", self.terminated.numpy()).astype(bool)
        return over | self.truncated.numpy()

    def _game_field(self, name: str, otherwise: np.ndarray) -> np.ndarray:
        if name not in self._game:
            return otherwise
        # a finished row carries the new episode's info; the old one's is beside it
        done = self.terminated.numpy() | self.truncated.numpy()
        now, final = self._game[name]
        return np.where(done, final, now)

"""Collecting experience: the pool writes every step straight into the learner's buffer.

A rollout is T steps of N environments. Its rows are bound to the pool once, so that a step
costs neither a copy nor an allocation. With a pool whose ``batch_size`` is a part of its environments,
groups of that size take turns: while one is stepping, the policies run on the next; every
environment still contributes exactly T steps, so the result does not depend on timing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.pool.actions import ACTION, action_fields
from headrace.pool.batch import OBS, observation_fields
from headrace.pool.pool import Pool
from headrace.train.config import Config
from headrace.train.experience import EVERYWHERE, Experience, Outcome
from headrace.train.policy import Policy
from headrace.train.ppo import Samples
from headrace.train.seats import Seat

ALIVE = "alive"


class Collector:
    """The rollout buffer of one pool, and the loop that fills it.

    Attributes:
        observations: array name → [T + 1, N, …] as the pool wrote them; row T is the next rollout's row 0.
        rewards: [T, N], or [T, N, agents]; terminated, truncated: [T, N]; on the CPU.
        experiences: what each policy saw and did.
        seconds: time spent in ``env`` and in ``inference``.
    """

    def __init__(self, config: Config, pool: Pool, policies: Sequence[Policy], device: torch.device):
        self.config, self.pool, self.device = config, pool, device
        steps, envs, spec = config.num_steps, config.num_envs, pool.spec
        pinned = device.type == "cuda"
        self.observations = {
            f.name: torch.zeros(
                steps + 1, envs, *f.shape, dtype=torch.from_numpy(np.zeros(0, f.dtype)).dtype, pin_memory=pinned
            )
            for f in observation_fields(spec.observation)
        }
        self.rewards = torch.zeros(steps, envs, *spec.reward_shape, pin_memory=pinned)
        self.terminated, self.truncated = (
            torch.zeros(steps, envs, dtype=torch.bool, pin_memory=pinned) for _ in range(2)
        )
        self.experiences = [
            Experience(config, p.seat, p.forward, p.distribution, self._of(p.seat), device) for p in policies
        ]
        self.seconds = {"env": 0.0, "inference": 0.0}
        # time step, environments, and their final observations by array name
        self._finals: list[tuple[int, np.ndarray, dict[str, np.ndarray]]] = []
        self._actions = {
            name: np.zeros((envs, *shape), dtype) for name, (dtype, shape) in action_fields(spec.action).items()
        }
        self._present = np.ones((envs, *spec.reward_shape), bool)  # before the next step
        self._bind()

    def _of(self, seat: Seat) -> Tensor:
        return self.observations[OBS if seat.sees.key is None else f"{OBS}:{seat.sees.key}"]

    def _bind(self) -> None:
        """Make the arrays that the pool writes: row t of the buffer for step t."""
        steps, envs = self.config.num_steps, self.config.num_envs
        infos = {f.name: f for f in self.pool.spec.info}
        kept = (ALIVE,) if self.pool.spec.agents else ("reward", "terminated")
        self._info = {
            name: np.zeros((2, steps, envs, *infos[name].shape), infos[name].dtype) for name in kept if name in infos
        }  # [now | final, T, N, …]
        self._rows: list[dict[str, np.ndarray]] = []
        for t in range(steps):
            row = {name: tensor[t + 1].numpy() for name, tensor in self.observations.items()} | {
                "reward": self.rewards[t].numpy(),
                "terminated": self.terminated[t].numpy(),
                "truncated": self.truncated[t].numpy(),
            }
            for name, array in self._info.items():
                row[f"info:{name}"], row[f"final:info:{name}"] = array[0, t], array[1, t]
            self._rows.append(row)
        self._batches: list[Any] = []
        if not self.pool.is_async:
            # final observations are copied out when they appear, so all steps share one place for them
            self._final = {name: np.zeros_like(self._rows[0][name]) for name in self.observations}
            final = {f"final:{name}": array for name, array in self._final.items()}
            self._batches = [self.pool.make_batch({**row, **final}) for row in self._rows]

    def start(self) -> None:
        """Begin new episodes everywhere."""
        if not self.pool.is_async:
            self._note_start(EVERYWHERE, self.pool.reset()[0])
            return
        self.pool.async_reset()
        for _ in range(self.pool.num_envs // self.pool.batch_size):
            obs, _, _, _, info = self.pool.recv()
            self._note_start(info["env_id"], obs)

    def _note_start(self, env_ids: Any, obs: Any) -> None:
        for name, array in _named(obs).items():
            self.observations[name].numpy()[0, env_ids] = array

    @torch.inference_mode()
    def collect(self, generator: torch.Generator) -> list[Samples]:
        """T steps of every environment, ready to learn from, for each policy. Row 0 of `observations` is current."""
        noises = [experience.noise(generator) for experience in self.experiences]
        self._finals.clear()
        if self.pool.is_async:
            self._run_groups(noises)
        else:
            self._run_together(noises)
        began = time.perf_counter()
        samples = self._finish()
        for tensor in self.observations.values():
            tensor[0].copy_(tensor[-1])
        self.seconds["inference"] += time.perf_counter() - began
        return samples

    def _run_together(self, noises: list[Tensor]) -> None:
        clock, step = time.perf_counter, self.pool.step
        truncated = self.truncated.numpy()
        now = clock()
        for t, batch in enumerate(self._batches):
            actions = self._act(t, EVERYWHERE, noises)
            acted = clock()
            step(actions, out=batch)
            if truncated[t].any():
                rows = np.flatnonzero(truncated[t])
                self._finals.append((t, rows, {name: array[rows] for name, array in self._final.items()}))
            stepped = clock()
            self.seconds["inference"] += acted - now
            self.seconds["env"] += stepped - acted
            now = stepped

    def _run_groups(self, noises: list[Tensor]) -> None:
        size = self.pool.batch_size
        groups = [slice(low, low + size) for low in range(0, self.pool.num_envs, size)]
        clock, in_flight = time.perf_counter, -1
        now = clock()
        for t in range(self.config.num_steps):
            for group in groups:
                actions = self._act(t, group, noises)
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

    def _act(self, t: int, envs: slice, noises: list[Tensor]) -> Any:
        """The actions of all policies in some environments, as the pool takes them."""
        if not self.pool.spec.agents:
            return self.experiences[0].act(t, envs, noises[0]).cpu().numpy()
        for experience, noise in zip(self.experiences, noises, strict=True):
            acts = experience.seat.acts
            into = self._actions[ACTION if acts.key is None else acts.key][envs]
            chosen = experience.act(t, envs, noise).cpu().numpy()
            into[:, acts.among] = chosen.reshape(len(into), experience.seat.width, *chosen.shape[1:])
        actions = {name: array[envs] for name, array in self._actions.items()}
        return actions if isinstance(self.pool.action_space, gym.spaces.Dict) else actions[ACTION]

    def _receive(self, t: int) -> None:
        """Store the results of step t of whichever group is in flight."""
        obs, reward, terminated, truncated, info = self.pool.recv()
        ids, row = info["env_id"], self._rows[t]
        for name, array in _named(obs).items():
            row[name][ids] = array
        row["reward"][ids], row["terminated"][ids], row["truncated"][ids] = reward, terminated, truncated
        for name in self._info:
            row[f"info:{name}"][ids] = info[name]
            if "final_info" in info:
                row[f"final:info:{name}"][ids] = info["final_info"][name]
        rows = np.flatnonzero(truncated)
        if rows.size:
            final = {name: array[rows] for name, array in _named(info["final_obs"]).items()}
            self._finals.append((t, ids[rows], final))

    def _finish(self) -> list[Samples]:
        present, left = self._presence() if self.pool.spec.agents else (None, None)
        return [experience.samples(self._outcome(experience.seat, present, left)) for experience in self.experiences]

    def _outcome(self, seat: Seat, present: Tensor | None, left: Tensor | None) -> Outcome:
        terminated, truncated = seat.of_each(self.terminated), seat.of_each(self.truncated)
        if left is not None:
            terminated = terminated | seat.of_all(left)
        finals = []
        for t, envs, observations in self._finals:
            seen = torch.from_numpy(observations[OBS if seat.sees.key is None else f"{OBS}:{seat.sees.key}"])
            columns = envs.astype(np.int64)
            if seat.agents is not None:
                seen = seen[:, seat.sees.among].flatten(0, 1)
                columns = (columns[:, None] * seat.width + np.arange(seat.width)).ravel()
            finals.append((t, columns, seen))
        return Outcome(
            seat.of_all(self.rewards).to(self.device),
            terminated.to(self.device),
            truncated.to(self.device),
            None if present is None else seat.of_all(present).to(self.device),
            finals,
        )

    def _presence(self) -> tuple[Tensor, Tensor]:
        """Who was in the game before each step, and who was not after it, bool[T, N, agents]."""
        alive, final = self._info[ALIVE]
        done = (self.terminated | self.truncated).numpy()[..., None]
        present = np.concatenate([self._present[None], alive[:-1]])
        self._present = alive[-1].copy()
        # a finished row carries who begins the next episode; who ended the last one is beside it
        return torch.from_numpy(present), torch.from_numpy(~np.where(done, final, alive))

    # -- for reporting ---------------------------------------------------------------------------

    def scores(self, seat: Seat) -> np.ndarray:
        """What a seat's agents earned on average, float32[T, N]; for one agent the game's own rewards."""
        if seat.agents is not None:
            return self.rewards.numpy()[:, :, seat.agents].mean(-1)
        return self._game("reward", self.rewards.numpy())

    @property
    def ends(self) -> np.ndarray:
        """Where the game itself ended, or was truncated, bool[T, N]."""
        return self._game("terminated", self.terminated.numpy()).astype(bool) | self.truncated.numpy()

    def _game(self, name: str, otherwise: np.ndarray) -> np.ndarray:
        """The game's own value of it, where the task rewards or ends otherwise (clipped rewards, lost lives)."""
        if name not in self._info:
            return otherwise
        # a finished row carries the new episode's info; the old one's is beside it
        done = self.terminated.numpy() | self.truncated.numpy()
        now, final = self._info[name]
        return np.where(done, final, now)

    @property
    def present(self) -> np.ndarray:
        """Who is in the game before the next step, bool[N, agents]."""
        return self._present


def _named(obs: Any) -> dict[str, np.ndarray]:
    """Observations by the names of a batch's arrays."""
    return {f"{OBS}:{key}": value for key, value in obs.items()} if isinstance(obs, dict) else {OBS: obs}

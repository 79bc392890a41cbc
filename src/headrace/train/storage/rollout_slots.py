"""Rollouts that wait for the learner: each sampler has a few slots in shared memory, and each rollout is read once.

A policy-gradient method must learn from recent rollouts, and from all of them: if some were dropped, fast samplers
would contribute more than slow ones. A sampler without a free slot therefore waits for the learner. Samplers of a
replay (`headrace.train.storage.step_replay`) never wait.

A slot is published by incrementing one number after it is complete. A sampler that is killed before that publishes
nothing, and its successor fills the same slot again, from new episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from headrace.pool.shared import Fence, SharedArrays


@dataclass(frozen=True)
class Slot:
    """Views of one rollout, T steps of N environments.

    Attributes:
        observations: observations of the pool, [T + 1, N, …]; row T follows the last step.
        actions: actions in the form that the policy stores, [T, N, …].
        log_probs: log-probabilities of the actions, by the policy that acted, float32[T, N].
        rewards: float32[T, N].
        terminated, truncated: bool[T, N].
        versions: versions of the weights that acted, int64[T].
        final_observations: last observations of truncated episodes, [T · N, …], of which the first ``ended`` are used.
        places: for each of them, t · N + n of the step t that truncated it in environment n, int64[T · N].
        ended: the number of truncated episodes, int64[].
        fresh: whether all episodes begin with this rollout, bool[].
        forbidden: actions that were forbidden, bool[T, N, K]; K is 0 without masks.
    """

    observations: np.ndarray
    actions: np.ndarray
    log_probs: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    versions: np.ndarray
    final_observations: np.ndarray
    places: np.ndarray
    ended: np.ndarray
    fresh: np.ndarray
    forbidden: np.ndarray

    def begin(self, fresh: bool) -> None:
        self.ended[...] = 0
        self.fresh[...] = fresh

    def add_final_observations(self, t: int, envs: np.ndarray, observations: np.ndarray) -> None:
        """Stores the last observations [k, …] of the episodes that step t truncated in environments int64[k]."""
        first = int(self.ended)
        some = slice(first, first + len(envs))
        self.final_observations[some] = observations
        self.places[some] = t * self.rewards.shape[1] + envs
        self.ended[...] = some.stop


class Rollouts:
    """The slots of all samplers; a process that receives this object as an argument shares them.

    Args:
        observation: the space of one environment: `Box` or `Discrete`.
        action_shape, action_dtype: shape and dtype of one stored action.
        samplers, slots: number of samplers, S, and number of slots of each.
        steps, envs: steps of a rollout, T, and environments of a sampler, N.
        masks: elements of an action mask, K; 0 without masks.

    Attributes:
        arrays: the fields of the slots, [S, slots, …], and for each sampler the numbers of slots ``filled`` and
            ``taken``.
        of_one: the arguments of `Rollouts` for the slots of a single sampler.

    Raises:
        SharedMemoryError: there is not enough shared memory.
    """

    def __init__(
        self,
        observation: gym.Space,
        action_shape: tuple[int, ...],
        action_dtype: np.dtype,
        samplers: int,
        slots: int,
        steps: int,
        envs: int,
        masks: int = 0,
    ):
        seen, seen_dtype = tuple(observation.shape or ()), np.dtype(observation.dtype)
        flag, number, count = np.dtype(np.bool_), np.dtype(np.float32), np.dtype(np.int64)
        one = {
            "observations": ((steps + 1, envs, *seen), seen_dtype),
            "actions": ((steps, envs, *action_shape), action_dtype),
            **dict.fromkeys(("log_probs", "rewards"), ((steps, envs), number)),
            **dict.fromkeys(("terminated", "truncated"), ((steps, envs), flag)),
            "versions": ((steps,), count),
            "final_observations": ((steps * envs, *seen), seen_dtype),
            "places": ((steps * envs,), count),
            "ended": ((), count),
            "fresh": ((), flag),
            "forbidden": ((steps, envs, masks), flag),
        }
        self._names = tuple(one)
        fields = {name: ((samplers, slots, *shape), dtype) for name, (shape, dtype) in one.items()}
        fields |= dict.fromkeys(("filled", "taken"), ((samplers,), count))
        self.arrays, self._fence = SharedArrays(fields), Fence()
        self.samplers, self.slots, self._turn = samplers, slots, 0
        self.of_one = (observation, action_shape, action_dtype, 1, slots, steps, envs, masks)

    def free(self, sampler: int) -> Slot | None:
        """Returns the slot that a sampler fills next; None while all of its slots wait for the learner."""
        filled = int(self.arrays["filled"][sampler])
        if filled - int(self.arrays["taken"][sampler]) >= self.slots:
            return None
        self._fence()
        return self._slot(sampler, filled)

    def publish(self, sampler: int) -> None:
        self._fence()
        self.arrays["filled"][sampler] += 1

    @property
    def waiting(self) -> int:
        """The number of published slots that the learner has not taken yet."""
        return int((self.arrays["filled"] - self.arrays["taken"]).sum())

    def next(self) -> tuple[int, Slot] | None:
        """Returns a sampler's number and its oldest published slot, samplers taking turns; None if there is none."""
        filled, taken = self.arrays["filled"], self.arrays["taken"]
        for turn in range(self._turn, self._turn + self.samplers):
            sampler = turn % self.samplers
            if filled[sampler] > taken[sampler]:
                self._turn = sampler + 1
                self._fence()
                return sampler, self._slot(sampler, int(taken[sampler]))
        return None

    def release(self, sampler: int) -> None:
        """Returns the slot that `next` returned to its sampler, which may then fill it again."""
        self._fence()
        self.arrays["taken"][sampler] += 1

    def close(self) -> None:
        self.arrays.close()

    def _slot(self, sampler: int, number: int) -> Slot:
        where = sampler, number % self.slots
        # 0-d arrays must remain arrays, so that they can be written to
        return Slot(**{name: self.arrays[name][(*where, ...)] for name in self._names})

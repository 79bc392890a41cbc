"""Collecting where the environments live beside the policies: nothing crosses to the host.

Observations, rewards and ends are written by the environments into the rollout buffer, actions
by the policies into the memory that environments read. With ``static`` no shape depends on the
data and nothing waits for the device, so that a whole rollout can be one CUDA graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from headrace.pool.actions import ACTION, action_fields
from headrace.pool.batch import FINAL
from headrace.pool.executors.kernels.device import torch_dtype
from headrace.pool.views.torch import TorchPool
from headrace.train.config import Config
from headrace.train.experience import EVERYWHERE, Finals
from headrace.train.policy import Policy
from headrace.train.rollout import Collector, columns_of, observation_name, seen_by
from headrace.train.seats import Seat


class DeviceCollector(Collector):
    """Steps a `TorchPool`, on a CPU or a GPU.

    Args:
        static: as a CUDA graph needs it; by default on a GPU.
    """

    def __init__(self, config: Config, pool: TorchPool, policies: Sequence[Policy], static: bool | None = None):
        device = pool.device
        self.static = device.type == "cuda" if static is None else static
        super().__init__(config, pool.spec, policies, device, device, self.static)
        self.pool = pool
        spec, envs = pool.spec, config.num_envs
        self._actions = {
            name: torch.zeros((envs, *shape), dtype=torch_dtype(dtype), device=device)
            for name, (dtype, shape) in action_fields(spec.action).items()
        }
        self._plain = not isinstance(spec.action, gym.spaces.Dict)
        self._final = {name: torch.zeros_like(tensor[0]) for name, tensor in self.observations.items()}
        finals = {FINAL + name: tensor for name, tensor in self._final.items()}
        self._batches = [pool.make_batch(self._row(t) | finals) for t in range(self.steps)]
        self._truncations = _slots(config.num_steps, spec.max_episode_steps)
        self._ended = _Slots(self._truncations, self._final, self.steps) if self.static else _List()
        # NumPy is quicker to ask whether there is any, where it can be asked
        self._flags = None if self.static or device.type != "cpu" else self.truncated.numpy()
        self._rollouts = 0
        self._recurrent = any(experience.starts is not None for experience in self.experiences)

    def start(self) -> None:
        self.pool.reset(out=self._batches[-1])

    def _run(self) -> None:
        clock, step, flags = self._next_clock(), self.pool.step, self._flags
        self._ended.clear()
        now = clock()
        for t, batch in enumerate(self._batches):
            actions = self._act(t)
            acted = clock()
            step(actions, out=batch)
            if self._truncations and (flags is None or flags[t].any()):
                self._ended.note(t, self.truncated[t], self._final)
            if self._recurrent:
                over = self.terminated[t] | self.truncated[t]
                for experience in self.experiences:
                    experience.note_ends(t, EVERYWHERE, over)
            stepped = clock()
            self.seconds["inference"] += acted - now
            self.seconds["env"] += stepped - acted
            now = stepped

    def _next_clock(self) -> Callable[[], float]:
        """On a GPU it shows the parts of the second rollout alone, which waits for every one of them.

        The first one makes what is made at first use; all others (and graphs of them) run on without a wait.
        """
        if self.device.type == "cuda":
            self._clock = self._waiting_clock if self._rollouts == 1 else float
            self._rollouts += 1
        return self._clock

    def _waiting_clock(self) -> float:
        torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _act(self, t: int) -> Any:
        """The actions of all policies, as the pool takes them."""
        for experience in self.experiences:
            seat, chosen = experience.seat, experience.act(t, EVERYWHERE)
            into = self._actions[ACTION if seat.acts.key is None else seat.acts.key]
            if seat.agents is None:
                return chosen.to(into.dtype)
            into[:, seat.acts.among] = chosen.view(self.num_envs, seat.width, *chosen.shape[1:]).to(into.dtype)
        return self._actions[ACTION] if self._plain else self._actions

    def _finals(self, seat: Seat) -> Finals | None:
        return self._ended.of(seat, observation_name(seat)) if self._truncations else None


def _slots(steps: int, longest: int) -> int:
    """How often one environment can be truncated within so many steps."""
    return 0 if longest == 0 else 1 + (steps - 1) // longest


class _List:
    """Truncated episodes as they come: the device is asked after every step."""

    def __init__(self) -> None:
        self._found: list[tuple[int, Tensor, dict[str, Tensor]]] = []

    def clear(self) -> None:
        self._found.clear()

    def note(self, t: int, truncated: Tensor, finals: dict[str, Tensor]) -> None:
        if truncated.any():
            envs = truncated.nonzero().squeeze(1)
            self._found.append((t, envs, {name: tensor[envs] for name, tensor in finals.items()}))

    def of(self, seat: Seat, name: str) -> Finals | None:
        if not self._found:
            return None
        columns = [columns_of(seat, envs) for _, envs, _ in self._found]
        times = [torch.full_like(c, t) for c, (t, _, _) in zip(columns, self._found, strict=True)]
        seen = [seen_by(seat, finals[name]) for _, _, finals in self._found]
        return Finals(torch.cat(times), torch.cat(columns), torch.cat(seen))


class _Slots:
    """Places for as many truncated episodes of every environment as a rollout can have, used or not."""

    def __init__(self, slots: int, finals: dict[str, Tensor], steps: int):
        some = next(iter(finals.values()))
        self._kept = {name: torch.stack([torch.zeros_like(f)] * slots) for name, f in finals.items() if slots}
        self._t = torch.full((slots, len(some)), steps, dtype=torch.int64, device=some.device)
        self._used = torch.zeros(len(some), dtype=torch.int64, device=some.device)
        self._never = steps

    def clear(self) -> None:
        self._t.fill_(self._never)
        self._used.zero_()

    def note(self, t: int, truncated: Tensor, finals: dict[str, Tensor]) -> None:
        for slot, times in enumerate(self._t):
            here = truncated & (self._used == slot)
            times.masked_fill_(here, t)
            for name, final in finals.items():
                kept = self._kept[name][slot]
                torch.where(here.view(-1, *(1,) * (final.dim() - 1)), final, kept, out=kept)
        self._used += truncated

    def of(self, seat: Seat, name: str) -> Finals:
        slots, envs = self._t.shape
        columns = columns_of(seat, torch.arange(envs, device=self._t.device)).repeat(slots)
        times = self._t.repeat_interleave(seat.width, 1) if seat.agents is not None else self._t
        return Finals(times.flatten(), columns, seen_by(seat, self._kept[name].flatten(0, 1)))

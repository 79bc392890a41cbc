"""The final observations of truncated episodes, kept until the critic values them at the end of a rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.collect.collector import MASKS, columns_of
from headrace.train.collect.rollout_buffer import FinalObservations
from headrace.train.modules.policy_mapping import AgentGroup


class FinalObservationList:
    """Final observations in a list, whose length depends on the truncated episodes; not for CUDA graphs."""

    def __init__(self) -> None:
        self._found: list[tuple[int, Tensor, dict[str, Tensor]]] = []

    def clear(self) -> None:
        """Removes all final observations, before a rollout."""
        self._found.clear()

    def note(self, t: int, truncated: Tensor, finals: dict[str, Tensor]) -> None:
        """Keeps the final observations of the episodes that step t truncated.

        Args:
            t: the time step.
            truncated: bool[N].
            finals: array name → final observations, or their action masks, [N, …].
        """
        if truncated.any():
            envs = truncated.nonzero().squeeze(1)
            self.add(t, envs, {name: tensor[envs] for name, tensor in finals.items()})

    def add(self, t: int, envs: Tensor, finals: dict[str, Tensor]) -> None:
        """Keeps the final observations, array name → [k, …], of the environments int64[k] that step t truncated."""
        self._found.append((t, envs, finals))

    def of(self, agent_group: AgentGroup, name: str) -> FinalObservations | None:
        """Returns the final observations of an agent group from array ``name``; None if there are none."""
        if not self._found:
            return None
        columns = [columns_of(agent_group, envs) for _, envs, _ in self._found]
        times = [torch.full_like(c, t) for c, (t, _, _) in zip(columns, self._found, strict=True)]
        seen = [agent_group.seen(finals[name]) for _, _, finals in self._found]
        masks = None
        if MASKS in self._found[0][2]:
            masks = torch.cat([agent_group.of_all(finals[MASKS], 0) for _, _, finals in self._found])
        return FinalObservations(torch.cat(times), torch.cat(columns), torch.cat(seen), masks)


class FinalObservationSlots:
    """Final observations in memory of fixed shape, for CUDA graphs.

    Args:
        slots: the number of times that one environment can be truncated within a rollout, see `slots_needed`.
        finals: array name → final observations, or their action masks, [N, …] of a step.
        steps: steps of a rollout, T.
    """

    def __init__(self, slots: int, finals: dict[str, Tensor], steps: int):
        some = next(iter(finals.values()))
        self._kept = {name: torch.stack([torch.zeros_like(f)] * slots) for name, f in finals.items() if slots}
        self._t = torch.full((slots, len(some)), steps, dtype=torch.int64, device=some.device)
        self._used = torch.zeros(len(some), dtype=torch.int64, device=some.device)
        self._never = steps

    def clear(self) -> None:
        """Removes all final observations, before a rollout."""
        self._t.fill_(self._never)
        self._used.zero_()

    def note(self, t: int, truncated: Tensor, finals: dict[str, Tensor]) -> None:
        """Keeps the final observations of the episodes that step t truncated, as `FinalObservationList.note`."""
        for slot, times in enumerate(self._t):
            here = truncated & (self._used == slot)
            times.masked_fill_(here, t)
            for name, final in finals.items():
                kept = self._kept[name][slot]
                torch.where(here.view(-1, *(1,) * (final.dim() - 1)), final, kept, out=kept)
        self._used += truncated

    def of(self, agent_group: AgentGroup, name: str) -> FinalObservations:
        """Returns the final observations of an agent group from array ``name``; unused slots have ``t`` = T."""
        slots, envs = self._t.shape
        columns = columns_of(agent_group, torch.arange(envs, device=self._t.device)).repeat(slots)
        times = self._t.repeat_interleave(agent_group.width, 1) if agent_group.agents is not None else self._t
        kept = {each: tensor.flatten(0, 1) for each, tensor in self._kept.items()}
        masks = agent_group.of_all(kept[MASKS], 0) if MASKS in kept else None
        return FinalObservations(times.flatten(), columns, agent_group.seen(kept[name]), masks)


def slots_needed(steps: int, longest: int) -> int:
    """Returns the number of times that one environment can be truncated within `steps` steps."""
    return 0 if longest == 0 else 1 + (steps - 1) // longest

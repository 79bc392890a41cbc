"""The final observations of truncated episodes, kept until the critic values them at the end of a rollout."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable

import torch
import warp as wp
from torch import Tensor

from headrace.pool.executors.kernels.launch import load, quiet, record_over, view_of
from headrace.train.collect.collector import MASKS, columns_of
from headrace.train.collect.outcome import FinalObservations
from headrace.train.modules.policy_mapping import AgentGroup

BLOCK = 256
LANES = wp.constant(32)  # threads of a row


@wp.kernel(enable_backward=False, module="unique")
def copy_rows(
    picked: wp.array[wp.bool], slot: wp.array[wp.int32], rows: wp.array2d[wp.uint8], kept: wp.array3d[wp.uint8]
):
    """Copies the rows of bytes that are picked to ``kept[slot, row]``; the others are neither read nor written."""
    row = wp.tid() / LANES
    if picked[row]:
        for column in range(wp.tid() % LANES, rows.shape[1], LANES):
            kept[slot[row], row, column] = rows[row, column]


class FinalObservationList:
    """Final observations in a list, whose length depends on the truncated episodes; not for CUDA graphs."""

    def __init__(self) -> None:
        self._found: list[tuple[int, Tensor, dict[str, Tensor]]] = []

    def clear(self) -> None:
        self._found.clear()

    def note(self, t: int, truncated: Tensor, finals: dict[str, Tensor]) -> None:
        """Keeps the final observations of the episodes that step t truncated.

        Args:
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
        finals: array name → final observations, or their action masks, [N, …] of a step, always in this memory.
    """

    def __init__(self, slots: int, finals: dict[str, Tensor], steps: int):
        some = next(iter(finals.values()))
        self._kept = {name: torch.stack([torch.zeros_like(f)] * slots) for name, f in finals.items() if slots}
        self._t = torch.full((slots, len(some)), steps, dtype=torch.int64, device=some.device)
        self._used = torch.zeros(len(some), dtype=torch.int32, device=some.device)
        self._never = steps
        self._copies = [self._copy_of(final, self._kept[name]) for name, final in finals.items() if slots]

    def _copy_of(self, final: Tensor, kept: Tensor) -> Callable[[int], None]:
        """Returns a function of the address of bool[N] that copies the rows that are true to their slots."""
        device, block = str(final.device), 1 if final.device.type == "cpu" else BLOCK
        load(copy_rows, device, block, "the copy of final observations")
        with quiet():
            picked = view_of(torch.zeros(len(final), dtype=torch.bool, device=final.device), wp.bool)
            rows = view_of(final.view(len(final), -1).view(torch.uint8), wp.uint8)
            slots = view_of(kept.view(*kept.shape[:2], -1).view(torch.uint8), wp.uint8)
            arguments = [picked, view_of(self._used, wp.int32), rows, slots]
        return record_over(copy_rows, len(final) * int(LANES), arguments, device, block)

    def clear(self) -> None:
        self._t.fill_(self._never)
        self._used.zero_()

    def note(self, t: int, truncated: Tensor, finals: dict[str, Tensor]) -> None:
        """Keeps the final observations of the episodes that step t truncated, as `FinalObservationList.note`."""
        for slot, times in enumerate(self._t):
            times.masked_fill_(truncated & (self._used == slot), t)
        for copy in self._copies:
            copy(truncated.data_ptr())
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

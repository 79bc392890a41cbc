"""The statistics of the rewards that samplers write to a replay of steps, as only the learner scales them."""

from __future__ import annotations

import copy

import numpy as np
import torch

from headrace.train.modules.normalisation import RewardScaler
from headrace.train.storage.layout import FIRST, LAST, TERMINATED, TRUNCATED
from headrace.train.storage.step_replay import MARGIN, StepReplay


class SampledRewards:
    """Updates the statistics of a scaler with the steps of a replay.

    In a resumed run, whose statistics are known, it begins with the steps after the resumption.
    """

    def __init__(self, replay: StepReplay, scaler: RewardScaler):
        self.replay, self.scaler = replay, scaler
        self._scalers: list[RewardScaler] = []  # of each sampler, with common statistics
        self._followed: list[int] = []  # rows of each sampler that the statistics hold

    @torch.inference_mode()
    def follow(self) -> None:
        """Updates the statistics with the steps since the last call."""
        if not self._scalers:
            self._scalers = [copy.copy(self.scaler) for _ in range(self.replay.layout.segments)]
            for each in self._scalers:
                each.running = torch.zeros_like(self.scaler.running)
            resumed = bool(self.scaler.statistics.count)
            self._followed = [int(rows) if resumed else 0 for rows in self.replay.arrays["written"]]
        for segment, scaler in enumerate(self._scalers):
            self._follow(segment, scaler)

    def _follow(self, segment: int, scaler: RewardScaler) -> None:
        """Updates the statistics with the rows of a segment that were not overwritten meanwhile."""
        layout, arrays, high = self.replay.layout, self.replay.arrays, int(self.replay.arrays["written"][segment])
        whole = self.replay.whole_rows(layout.steps // MARGIN)[segment]
        low, self._followed[segment] = min(max(self._followed[segment], whole), high), high
        if low == high:
            return
        places = np.arange(low, high) % layout.steps
        flags = torch.from_numpy(arrays["flags"][places, segment])
        rewards = torch.from_numpy(arrays["record"][places, segment, :, layout.inputs + layout.actions])
        ends, taken, begins = flags & (TERMINATED | TRUNCATED) > 0, flags & LAST == 0, flags & FIRST > 0
        ends[:-1] |= begins[1:]
        device = scaler.running.device
        scaler.running.masked_fill_(begins[0].to(device), 0.0)
        scaler.update(*(part.to(device) for part in (rewards * taken, ends, taken)))

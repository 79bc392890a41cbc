"""Returns, lengths and other numbers of finished episodes, computed on the device of the rollouts.

A whole rollout is processed at once, by sums over its columns. On a GPU only the means are copied to the host, when
they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.pool.torch.tensors import running_sum


class _Summary(NamedTuple):
    """Number of episodes since the beginning, and of those in the window that are not forgotten, and their means."""

    episodes: int
    counted: int
    full: bool
    means: list[float]


class EpisodeTracker:
    """The last ``window`` finished episodes of ``num_envs`` environments.

    Args:
        window: number of episodes over which means are computed.
        types: names of agent types, for each of which means are also computed separately.
        metrics: names of numbers that environments may report at the end of an episode.

    Attributes:
        everywhere: the sum of `totals` over several processes, from which means are computed; None for one process.
    """

    def __init__(
        self,
        num_envs: int,
        window: int,
        device: torch.device | str = "cpu",
        types: Sequence[str] = (),
        metrics: Sequence[str] = (),
    ):
        self.window, self.types, self.metrics = window, tuple(types), tuple(metrics)
        # return and length, of all agents and then of each type; of each metric its value, and 1 if it was reported;
        # an additional column receives values that are not kept
        rows = 2 * (1 + len(types))
        self._measured = torch.zeros(rows + 2 * len(metrics), window + 1, dtype=torch.float64, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._forgotten = torch.zeros_like(self._count)
        self._running = torch.zeros(rows, num_envs, dtype=torch.float64, device=device)  # of the unfinished episodes
        self._summary: _Summary | None = None
        self.everywhere: Tensor | None = None

    def update(
        self,
        rewards: Tensor,
        ends: Tensor,
        by_type: Sequence[tuple[Tensor, Tensor]] = (),
        taken: Tensor | None = None,
        reported: Tensor | None = None,
    ) -> None:
        """Adds a rollout, on any device.

        Args:
            rewards: rewards of the steps, [T, N].
            ends: whether an episode ended with each step, bool[T, N].
            by_type: for each type, its rewards and the step's contribution to its episodes' lengths, [T, N] each.
            taken: whether each step was taken, and counts for the lengths, bool[T, N]; None if all steps were.
            reported: the metrics' values and whether they were reported, [2 metrics, T, N], which are read where
                episodes ended; None if none was.
        """
        self.forget_summary()
        lengths = torch.ones_like(rewards) if taken is None else taken.to(rewards)
        pairs = ((rewards, lengths), *by_type)
        values = torch.stack([each for pair in pairs for each in pair]).to(self._running)
        ends = ends.to(self._count.device)
        steps = torch.arange(len(ends), device=ends.device).unsqueeze(1)
        total = running_sum(values, 1) + self._running.unsqueeze(1)  # since the episodes running at the start began
        last = torch.where(ends, steps, -1).cummax(0).values  # the last end up to each step
        before = torch.cat([torch.full_like(last[:1], -1), last[:-1]])

        def until(end: Tensor) -> Tensor:
            """Returns ``total`` at the end of an episode; 0 if there was none."""
            return torch.where(end >= 0, total.gather(1, end.clamp(min=0).expand(len(total), -1, -1)), 0)

        number = ends.flatten().cumsum(0)  # of the episodes in this rollout
        kept = ends.flatten() & (number > number[-1] - self.window)
        place = torch.where(kept, (self._count + number - 1) % self.window, self.window)
        self._measured[: len(total), place] = (total - until(before)).flatten(1)
        if self.metrics:
            self._measured[len(total) :, place] = 0.0 if reported is None else reported.flatten(1).to(self._measured)
        self._count += number[-1]
        self._running.copy_(total[:, -1] - until(last[-1:])[:, 0])

    def forget_episodes(self) -> None:
        """Leaves the episodes until now out of the means, as those of an easier stage, once another one has ended."""
        self.forget_summary()
        self._forgotten.copy_(self._count)

    def forget_summary(self) -> None:
        """Has the means computed anew when they are next read, as after a replayed graph with an `update` in it."""
        self._summary = self.everywhere = None

    def add(self, returns: Tensor, lengths: Tensor, reported: Tensor | None = None) -> None:
        """Adds episodes that ended in another process, in the order of their ends.

        Args:
            returns, lengths: [K].
            reported: the metrics' values and whether they were reported, [2 metrics, K]; None if none was.
        """
        self.forget_summary()
        measured = torch.zeros(len(self._measured), len(returns), dtype=torch.float64)
        measured[:2] = torch.stack((returns.double(), lengths.double()))
        if reported is not None:
            measured[2:] = reported
        measured = measured[:, -self.window :].to(self._count.device)
        skipped = len(returns) - measured.shape[1]
        places = (self._count + skipped + torch.arange(measured.shape[1], device=self._count.device)) % self.window
        self._measured[:, places] = measured
        self._count += len(returns)

    @property
    def episodes(self) -> int:
        """Episodes finished since the beginning."""
        return self._read().episodes

    @property
    def counted(self) -> int:
        """Episodes in the window that are not forgotten."""
        return self._read().counted

    @property
    def full(self) -> bool:
        return self._read().full

    def mean_return(self) -> float | None:
        """Returns the mean return over the window, None before the first episode ends."""
        return self._read().means[0] if self.episodes else None

    def mean_length(self) -> float | None:
        """Returns the mean number of agent steps over the window, None before the first episode ends."""
        return self._read().means[1] if self.episodes else None

    def by_type(self) -> dict[str, tuple[float | None, float | None]]:
        means = self._read().means[2 : 2 + 2 * len(self.types)]
        pairs = zip(means[::2], means[1::2], strict=True)
        return {name: pair if self.episodes else (None, None) for name, pair in zip(self.types, pairs, strict=True)}

    def metric_means(self) -> dict[str, float]:
        """Returns the mean of each metric over the episodes of the window that have reported it, if any has."""
        means = self._read().means[2 + 2 * len(self.types) :]
        pairs = zip(self.metrics, means[::2], means[1::2], strict=True)
        return {name: value / share for name, value, share in pairs if share}

    def last(self) -> tuple[list[float], list[float]]:
        count = self.episodes
        first = count % self.window if count > self.window else 0
        order = [(first + i) % self.window for i in range(min(count, self.window))]
        returns, lengths = self._measured[:2].tolist()
        return [returns[i] for i in order], [lengths[i] for i in order]

    def totals(self) -> Tensor:
        """Returns float64[2 + 2 (1 + 2 (1 + types + metrics))].

        They are the number of episodes and the window's size; then the number of episodes in the window that are not
        forgotten, and the sums of their values; and the same of all in the window.
        """
        ages = (self._count - 1 - torch.arange(self.window, device=self._count.device)) % self.window
        found = [torch.stack([self._count, self._count.new_full((), self.window)]).double()]
        for known in (ages < self._count - self._forgotten, ages < self._count):
            found += [known.sum().double().view(1), (self._measured[:, :-1] * known).sum(1)]
        return torch.cat(found)

    def share(self, everywhere: Tensor) -> None:
        """Computes means from these totals until the next `update`."""
        self.everywhere, self._summary = everywhere, None

    def _read(self) -> _Summary:
        """Returns the summary, which is copied to the host once per update."""
        if self._summary is None:
            totals = self.totals() if self.everywhere is None else self.everywhere
            episodes, size, *rest = totals.tolist()
            half = len(rest) // 2
            counted = rest[0]
            known, *sums = rest[:half] if counted else rest[half:]
            means = [each / max(known, 1) for each in sums]
            self._summary = _Summary(int(episodes), int(counted), counted == size, means)
        return self._summary

    def begin_anew(self) -> None:
        self._running.zero_()

    def state(self) -> dict[str, Tensor]:
        return {
            "measured": self._measured,
            "count": self._count,
            "running": self._running,
            "forgotten": self._forgotten,
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.forget_summary()
        for name, tensor in self.state().items():
            saved = state.get(name, tensor)  # earlier checkpoints forgot none
            if tensor.shape[:1] > saved.shape[:1]:  # of a run that had fewer metrics
                tensor[len(saved) :] = 0
                tensor = tensor[: len(saved)]
            tensor.copy_(saved)


def pooled(states: Sequence[Mapping[str, Tensor]], window: int) -> dict[str, Tensor]:
    """Returns the state of one tracker with the newest episodes of several; unfinished episodes are dropped.

    Args:
        states: the states of the trackers, from `EpisodeTracker.state`.
        window: number of episodes of the one tracker. Where they have fewer, some count several times.
    """
    newest = []
    for state in states:
        held = state["measured"].shape[1] - 1
        some = min(int(state["count"] - state.get("forgotten", 0)), held)
        newest.append(state["measured"][:, (state["count"] - 1 - torch.arange(some)) % held])
    depth = max(each.shape[1] for each in newest)
    columns = [each[:, i : i + 1] for i in range(depth) for each in newest]  # the newest of each first
    found = torch.cat(columns or newest, 1)
    count = torch.stack([state["count"] for state in states]).sum(0)
    forgotten = torch.stack([state.get("forgotten", torch.zeros_like(count)) for state in states]).sum(0)
    known = torch.arange(min(int(count - forgotten), window))
    measured = found.new_zeros(len(found), window + 1)
    measured[:, (count - 1 - known) % window] = found[:, known % max(1, found.shape[1])]
    running = torch.zeros_like(states[0]["running"])
    return {"measured": measured, "count": count, "running": running, "forgotten": forgotten}

"""What processes that train together do together.

Every process runs the same `Trainer`, with a device and environments of its own. Before each
optimiser step the gradients are averaged: one all-reduce of the one flat vector that `FlatAdam`
keeps them in. It is what `torch.nn.parallel.DistributedDataParallel` does, in a single bucket; its
buckets exist to overlap that with a long backward, which policies of a few layers do not have, and
its hooks hang on autograd, which our MLP's backward goes without. Statistics of observations,
rewards and episodes are merged after every rollout. So all processes hold the same network at any
time, and take every decision alike; the first one alone writes the run folder and shows the progress.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from headrace.train.config.settings import Config
from headrace.train.processes.interrupt import Interrupt
from headrace.train.runners.parts import joined, parts
from headrace.train.runs.checkpoint import Checkpoint

if TYPE_CHECKING:
    from headrace.train.algorithms.policy import Policy
    from headrace.train.collect.rollout_buffer import Experience


class ProcessGroup:
    """The processes that train together, as one of them sees it; by default one that trains alone.

    Args:
        rank: the number of this process; 0 is the one that writes and shows.
        size: how many there are.
        stop: says whether this process was asked to end the run; None where Ctrl-C asks it.
        device: gives this process's, of that of the settings; None for the same.
        watched: whether the process that started these notes what becomes of the run, where they fail.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        stop: Callable[[], bool] | None = None,
        device: Callable[[str], str] | None = None,
        watched: bool = False,
    ):
        self.rank, self.size, self._stop, self.device, self.watched = rank, size, stop, device, watched
        self._host: Any = dist.new_group(backend="gloo") if size > 1 else None

    @property
    def leads(self) -> bool:
        """Whether this process writes the run folder."""
        return self.rank == 0

    def share_of(self, config: Config) -> Config:
        """The settings of this process: its device, seeds that no other has, and its part of the episodes shown."""
        if self.device is not None:
            config = dataclasses.replace(config, device=self.device(config.device))
        if self.size == 1:
            return config
        if config.device.startswith("cuda"):
            torch.cuda.set_device(config.device)  # what NCCL communicates from
        return dataclasses.replace(
            config,
            seed=config.seed + self.rank * config.num_envs,
            stop_episodes=-(-config.stop_episodes // self.size),
        )

    def join(self, experiences: Iterable[Experience]) -> None:
        """Let policies learn together from now on, beginning with the first process's parameters."""
        if self.size == 1:
            return
        for experience in experiences:
            experience.static = True  # else the number of minibatches would depend on who is alive where
            policy = experience.policy
            policy.learn_with_others(self)
            model = policy.model()
            for tensor in model.values():
                self.share(tensor)
            policy.load_model(model)

    def may_capture(self, experiences: Iterable[Experience]) -> bool:
        """Whether rollouts can be CUDA graphs: not where they gather statistics from other processes."""
        return self.size == 1 or not any(_gathers(experience.policy) for experience in experiences)

    @torch.inference_mode()
    def average(self, values: Tensor, rows: float | Tensor) -> None:
        """Replace a flat vector by its mean over all processes, weighted by the samples that each is the mean of."""
        count = rows.to(values).view(1) if isinstance(rows, Tensor) else values.new_full((1,), float(rows))
        total = torch.cat([values * count, count])
        dist.all_reduce(total)
        torch.div(total[:-1], total[-1].clamp(min=1), out=values)

    def add(self, values: Tensor) -> None:
        """Replace values by their sum over all processes, the same in each, bit for bit."""
        dist.all_reduce(values)

    @torch.inference_mode()
    def share(self, values: Tensor) -> None:
        """Replace values by the first process's."""
        whole = values.contiguous()
        dist.broadcast(whole, 0)
        values.copy_(whole)

    def gather(self, values: Tensor) -> Tensor:
        """A vector [n] of each process, as [processes, n]."""
        every = [torch.empty_like(values) for _ in range(self.size)]
        dist.all_gather(every, values)
        return torch.stack(every)

    def merge(self, policies: Iterable[Policy]) -> None:
        """After each rollout: episodes are counted everywhere, losses averaged, so that all decide alike.

        Buffers of a user's own network, such as the statistics of a batch normalisation, become the first process's.
        """
        if self.size == 1:
            return
        for policy in policies:
            totals = policy.tracker.totals()
            dist.all_reduce(totals)
            policy.tracker.share(totals)
            if policy.losses is not None:
                losses = policy.losses / self.size
                dist.all_reduce(losses)
                policy.losses = losses
            if not policy.config.frozen:
                for buffer in policy.network.buffers():  # what a network counts beside its parameters, if it does
                    self.share(buffer)

    def interrupt(self) -> Any:
        """A context whose value is true once the run is asked to end."""
        return Interrupt() if self._stop is None else nullcontext(_Asked(self._stop))

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Whether the run is to end, as soon as any process wishes that; and to save, as the first one wishes."""
        if self.size == 1:
            return stop, save
        asked = torch.tensor([stop, save and self.leads], dtype=torch.uint8)
        dist.all_reduce(asked, dist.ReduceOp.MAX, group=self._host)
        stop, save = map(bool, asked.tolist())
        return stop, save

    def told(self, words: Any) -> Any:
        """What the first process tells all, any object that can be pickled; ``words`` of the others are ignored."""
        if self.size == 1:
            return words
        said = [words if self.leads else None]
        dist.broadcast_object_list(said, 0, group=self._host)
        return said[0]

    def heard(self, words: Any) -> list[Any]:
        """What each process tells the first one, by rank, any object that can be pickled; the others hear nothing."""
        if self.size == 1:
            return [words]
        said: list[Any] | None = [None] * self.size if self.leads else None
        dist.gather_object(words, said, 0, group=self._host)
        return said or []

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            dist.barrier(group=self._host)

    def collect(self, point: Checkpoint) -> Checkpoint | None:
        """In the first process a checkpoint with the states of all; None in the others."""
        if self.size == 1:
            return point
        states = self.heard({} if self.leads else _parcel(point.state))
        if not self.leads:
            return None
        return dataclasses.replace(point, state=joined([point.state, *states[1:]]))

    def deal(self, point: Checkpoint | None, config: Config) -> Checkpoint | None:
        """A checkpoint that the first process has read, for each with its own state; None where that has none.

        Of another number of processes, each gets its part of what can be parted; see `headrace.train.runners.parts`.
        """
        states = None if point is None else parts(point, self.size, config)
        if self.size == 1:
            return None if point is None or states is None else dataclasses.replace(point, state=states[0])
        shared = None if point is None else dataclasses.replace(point, state={})
        shared = self.told(shared)
        if shared is None:
            return None
        own: list[Any] = [None]
        dist.scatter_object_list(own, None if states is None else [_parcel(s) for s in states], 0, group=self._host)
        return dataclasses.replace(shared, state=own[0])


def _gathers(policy: Policy) -> bool:
    """Whether a policy has running statistics of what it sees or earns."""
    return bool(policy.normalisers or policy.reward_scaler or getattr(policy, "curiosity", None))


def _parcel(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors to be sent: copies, since a view of a larger one would take all of that along."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}


class _Asked:
    """A question as a truth value."""

    def __init__(self, question: Callable[[], bool]):
        self._question = question

    def __bool__(self) -> bool:
        return self._question()

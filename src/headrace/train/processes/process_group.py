"""The collective operations of processes that train one policy together.

Every process runs the same `Trainer`, with a device and environments of its own. Gradients are averaged before each
optimiser step, by one all-reduce of the flat vector in which `FlatAdam` keeps them. That is what
`torch.nn.parallel.DistributedDataParallel` does in a single bucket. Its buckets overlap communication with a long
backward pass, which policies of a few layers do not have. Statistics of observations, rewards and episodes are merged
after every rollout. All processes therefore hold the same network at any time, and make the same decisions. Only the
first one shows the progress and writes the run folder, except for replays of steps, of which each process writes its
own (`headrace.train.runners.turn_learners`).

A checkpoint holds the first process's state as that of a run with one process, and those of the others under prefixed
names. The same number of processes continues exactly. Of any other number, each begins with the networks, and with the
replay of one of those that wrote the checkpoint, in new episodes; the last episodes of all count for the first.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from headrace.train.logging import episode_tracker
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.place import Place
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.settings.config import Config

BEHIND = timedelta(minutes=10)  # maximum wait of a collective operation for the slowest process
State = dict[str, Tensor]
OTHER = re.compile(r"process(\d+)\.")  # names of the state of another process than the first


class ProcessGroup:
    """The processes that train together; by default this one alone. All call the same methods in the same order.

    Args:
        rank: the number of this process; 0 is the first.
        stop: returns whether this process was asked to end the run; None to react to Ctrl-C.
        device: returns this process's device, given that of the settings; None for the same device.
        watched: whether the process that started these logs failures of the run.
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
        return self.rank == 0

    def share_of(self, config: Config) -> Config:
        """Returns the settings of this process: its device, its own seeds, and its part of ``stop_episodes``."""
        if self.device is not None:
            config = config.replace(device=self.device(config.device))
        if self.size == 1:
            return config
        if config.device.startswith("cuda"):
            torch.cuda.set_device(config.device)  # what NCCL communicates from
        return config.replace(
            seed=config.seed + self.rank * config.num_envs, stop_episodes=-(-config.stop_episodes // self.size)
        )

    def join(self, experiences: Iterable[Any]) -> None:
        """Copies the first process's parameters to all, and averages gradients from now on."""
        if self.size == 1:
            return
        for experience in experiences:
            experience.static = True  # else the number of minibatches would differ between processes
            policy = experience.policy
            policy.join_group(self)
            model = policy.model()
            for tensor in model.values():
                self.broadcast(tensor)
            policy.load_model(model)

    def may_capture(self, experiences: Iterable[Any]) -> bool:
        """Returns whether rollouts can be CUDA graphs, which is so unless they gather statistics of other processes."""
        policies = [experience.policy for experience in experiences]
        gathering = (each.normalisers or each.reward_scaler or getattr(each, "curiosity", None) for each in policies)
        return self.size == 1 or not any(gathering)

    @torch.inference_mode()
    def average(self, values: Tensor, rows: float | Tensor) -> None:
        """Replaces a vector, float32[P], by its mean over all processes, each of which counts ``rows`` times."""
        count = rows.to(values).view(1) if isinstance(rows, Tensor) else values.new_full((1,), float(rows))
        total = torch.cat([values * count, count])
        dist.all_reduce(total)
        torch.div(total[:-1], total[-1].clamp(min=1), out=values)

    def total(self, number: int) -> int:
        if self.size == 1:
            return number
        numbers = torch.tensor([number])
        dist.all_reduce(numbers, group=self._host)
        return int(numbers)

    def all_reduce(self, values: Tensor) -> None:
        """Replaces values, of any shape, by their sum over all processes, bitwise the same in all of them."""
        dist.all_reduce(values)

    @torch.inference_mode()
    def broadcast(self, values: Tensor) -> None:
        """Replaces values, of any shape, by those of the first process."""
        whole = values.contiguous()
        dist.broadcast(whole, 0)
        values.copy_(whole)

    def all_gather(self, values: Tensor) -> Tensor:
        """Returns the vectors [n] of all processes, by rank, as [processes, n]."""
        every = [torch.empty_like(values) for _ in range(self.size)]
        dist.all_gather(every, values)
        return torch.stack(every)

    def merge(self, policies: Iterable[Any], trackers: Iterable[episode_tracker.EpisodeTracker]) -> None:
        """Sums up episodes and averages losses after a rollout, so that all processes make the same decisions.

        Buffers of networks, such as the statistics of a batch normalisation, become those of the first process.
        """
        if self.size == 1:
            return
        for tracker in trackers:
            totals = tracker.totals()
            dist.all_reduce(totals)
            tracker.share(totals)
        for policy in policies:
            if policy.losses is not None:
                losses = policy.losses / self.size
                dist.all_reduce(losses)
                policy.losses = losses
            if not policy.config.frozen:
                for buffer in policy.network.buffers():  # such as statistics of a batch normalisation
                    self.broadcast(buffer)

    def interrupt(self) -> Interrupt:
        """Returns a context whose value is true once the run is asked to end."""
        return Interrupt(stop=self._stop)

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Returns whether to stop, which any process can decide, and whether to save, which the first one decides."""
        if self.size == 1:
            return stop, save
        asked = torch.tensor([stop, save and self.leads], dtype=torch.uint8)
        dist.all_reduce(asked, dist.ReduceOp.MAX, group=self._host)
        stop, save = map(bool, asked.tolist())
        return stop, save

    def broadcast_object(self, words: Any) -> Any:
        """Returns the first process's object in all processes; those of the others are ignored. It is pickled."""
        if self.size == 1:
            return words
        said = [words if self.leads else None]
        dist.broadcast_object_list(said, 0, group=self._host)
        return said[0]

    def gather_objects(self, words: Any) -> list[Any]:
        """Returns the pickled objects of all processes by rank, in the first process; an empty list in the others."""
        if self.size == 1:
            return [words]
        said: list[Any] | None = [None] * self.size if self.leads else None
        dist.gather_object(words, said, 0, group=self._host)
        return said or []

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier(group=self._host)

    def gather_checkpoint(self, point: Checkpoint) -> Checkpoint | None:
        """Returns a checkpoint with the states of all processes, in the first process; None in the others."""
        if self.size == 1:
            return point
        states = self.gather_objects({} if self.leads else _parcel(point.state))
        for rank, state in enumerate(states[1:], 1):
            point.state.update(checkpoints.prefixed(f"process{rank}", state))
        return point if self.leads else None

    def scatter(self, point: Checkpoint | None, config: Config) -> Checkpoint | None:
        """Returns in each process the checkpoint that the first one has read, with this process's own state."""
        states = None if point is None else states_for(point, self.size, config)
        if self.size == 1:
            return None if point is None or states is None else dataclasses.replace(point, state=states[0])
        shared = None if point is None else dataclasses.replace(point, state={})
        shared = self.broadcast_object(shared)
        if shared is None:
            return None
        own: list[Any] = [None]
        dist.scatter_object_list(own, None if states is None else [_parcel(s) for s in states], 0, group=self._host)
        return dataclasses.replace(shared, state=own[0])


def connect(
    place: Place,
    store: Any,
    stop: Callable[[], bool],
    device: Callable[[str], str] | None = None,
    watched: bool = False,
) -> ProcessGroup:
    """Connects this process to all others through a store of their own; returns their group, see `ProcessGroup`."""
    if place.size > 1:
        place.name_interface()
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=BEHIND)
    return ProcessGroup(place.rank, place.size, stop, device or place.device, watched)


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _parcel(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns copies of tensors for pickling, as a view is pickled with all of its storage."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}


def states_for(point: Checkpoint, size: int, config: Config) -> list[State]:
    """Returns the states with which ``size`` processes go on from a checkpoint of any number of processes."""
    states = split_states(point.state)
    if len(states) == size:
        return states
    shares = [
        {name: tensor for name, tensor in states[rank % len(states)].items() if not name.startswith("environment")}
        for rank in range(size)
    ]
    for last in [name for name in states[0] if name.startswith("episodes") and name.endswith(".measured")]:
        prefix = last.removesuffix(".measured")
        old = [checkpoints.group(prefix, state) for state in states]
        whole = episode_tracker.pooled(old, math.ceil(config.stop_episodes / size))
        for rank, state in enumerate(shares):
            own = whole if rank == 0 else {name: torch.zeros_like(tensor) for name, tensor in whole.items()}
            state.update(checkpoints.prefixed(prefix, own))
    for rank, state in enumerate(shares):
        for number, name in enumerate(name for name in states[0] if name.rpartition(".")[2] == "generator"):
            entropy = (config.seed + rank * config.num_envs, point.counters["step"], number)
            seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
            kind = "cpu" if config.host_random else config.device.partition(":")[0]
            state[name] = torch.Generator(kind).manual_seed(seed).get_state()
    return shares


def split_states(state: Mapping[str, Tensor]) -> list[State]:
    """Returns the states of all processes, by rank, of which a checkpoint holds one."""
    found = {name: OTHER.match(name) for name in state}
    first = {name: state[name] for name, match in found.items() if match is None}
    ranks = sorted({int(match[1]) for match in found.values() if match is not None})
    return [first, *(checkpoints.group(f"process{rank}", state) for rank in ranks)]

"""The state of a run in the parts of its processes, also where others go on than those that wrote it.

A checkpoint holds the first process's state as that of a run with one process, and beside it those of the others under
names of their own. As many processes as before go on exactly. Any other number shares what can be shared: the replay
and the last episodes are dealt out anew, all else that all hold alike is kept. Environments begin new episodes, and
chance begins anew, since both belong to a process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.train.config.settings import Config
from headrace.train.logging import episode_tracker
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.storage import device_replay

State = dict[str, Tensor]


def joined(states: Sequence[Mapping[str, Tensor]]) -> State:
    """Returns the states of all processes, in the order of their ranks, as one; the inverse of `parted`."""
    state = dict(states[0])
    for rank, other in enumerate(states[1:], 1):
        state |= checkpoints.prefixed(_process(rank), other)
    return state


def parted(state: Mapping[str, Tensor]) -> list[State]:
    """Returns the states of the processes that wrote a checkpoint."""
    ranks = {int(name.partition(".")[0].removeprefix(_process(""))) for name in state if _is_of_another(name)}
    first = {name: tensor for name, tensor in state.items() if not _is_of_another(name)}
    return [first, *(checkpoints.group(_process(rank), state) for rank in sorted(ranks))]


def parts(point: Checkpoint, size: int, config: Config) -> list[State]:
    """Returns the state with which each of ``size`` processes goes on from a checkpoint.

    Args:
        point: the checkpoint, of any number of processes.
        size: how many go on.
        config: the settings of the run.
    """
    states = parted(point.state)
    return states if len(states) == size else _dealt(states, size, config, point.counters["step"])


def _dealt(states: list[State], size: int, config: Config, step: int) -> list[State]:
    """The states of another number of processes."""
    shared = {name: tensor for name, tensor in states[0].items() if not name.startswith("environment")}
    dealt = [dict(shared) for _ in range(size)]
    window = math.ceil(config.stop_episodes / size)
    for prefix in _groups(shared, "episodes", "measured"):
        old = [checkpoints.group(prefix, state) for state in states]
        for state, new in zip(dealt, episode_tracker.dealt(old, size, window), strict=True):
            state |= checkpoints.prefixed(prefix, new)
    for prefix in _groups(shared, "replay", "written"):
        old = [checkpoints.group(prefix, state) for state in states]
        every = sum(int(each["collected"]) for each in old)
        most = config.of_policy(prefix.partition(".")[2]).replay_size  # type: ignore[attr-defined]
        for state, new in zip(dealt, device_replay.dealt(old, size, most), strict=True):
            state |= checkpoints.prefixed(prefix, new | {"collected": torch.tensor(every // size)})
    for rank, state in enumerate(dealt):
        for number, name in enumerate(name for name in shared if name.rpartition(".")[2] == "generator"):
            state[name] = _fresh_generator(config, (config.seed + rank * config.num_envs, step, number))
    return dealt


def _fresh_generator(config: Config, entropy: tuple[int, ...]) -> Tensor:
    """The state of a generator that has drawn nothing yet."""
    kind = "cpu" if config.host_random else config.device.partition(":")[0]
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    return torch.Generator(kind).manual_seed(seed).get_state()


def _groups(state: Mapping[str, Tensor], what: str, last: str) -> list[str]:
    """The groups of tensors, one for each policy, that hold this, and of which one has this name."""
    names = [name for name in state if name.partition(".")[0] == what]
    return [name.rpartition(".")[0] for name in names if name.rpartition(".")[2] == last]


def _process(rank: int | str) -> str:
    """What a process's state is called in a checkpoint; the first one's has no such prefix."""
    return f"process{rank}"


def _is_of_another(name: str) -> bool:
    """Whether a tensor is of another process than the first."""
    head, dot, _ = name.partition(".")
    return bool(dot) and head.removeprefix(_process("")).isdigit()

"""The states of several processes in one checkpoint, and their distribution to another number of processes.

A checkpoint holds the first process's state as that of a run with one process, and those of the others under prefixed
names. The same number of processes continues exactly. For any other number, replays in the checkpoint and last episodes
are distributed anew, and what all processes hold alike is kept. A replay of steps, which lies beside the checkpoint, is
kept whole, copied or dropped instead (`headrace.train.runners.turn_learners`). Environments begin new episodes, and
random generators are seeded anew, as both belong to a process.
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


def join_states(states: Sequence[Mapping[str, Tensor]]) -> State:
    """Returns the states of all processes, in the order of their ranks, as one; the inverse of `split_states`."""
    state = dict(states[0])
    for rank, other in enumerate(states[1:], 1):
        state |= checkpoints.prefixed(_process(rank), other)
    return state


def split_states(state: Mapping[str, Tensor]) -> list[State]:
    ranks = {int(name.partition(".")[0].removeprefix(_process(""))) for name in state if _is_of_another(name)}
    first = {name: tensor for name, tensor in state.items() if not _is_of_another(name)}
    return [first, *(checkpoints.group(_process(rank), state) for rank in sorted(ranks))]


def states_for(point: Checkpoint, size: int, config: Config) -> list[State]:
    """Returns the states with which ``size`` processes go on from a checkpoint.

    Args:
        point: the checkpoint, written by any number of processes.
        size: the number of processes that go on.
    """
    states = split_states(point.state)
    return states if len(states) == size else _dealt(states, size, config, point.counters["step"])


def _dealt(states: list[State], size: int, config: Config, step: int) -> list[State]:
    shared = {name: tensor for name, tensor in states[0].items() if not name.startswith("environment")}
    shares = [dict(shared) for _ in range(size)]
    window = math.ceil(config.stop_episodes / size)
    for prefix in _groups(shared, "episodes", "measured"):
        old = [checkpoints.group(prefix, state) for state in states]
        for state, new in zip(shares, episode_tracker.redistribute(old, size, window), strict=True):
            state |= checkpoints.prefixed(prefix, new)
    for prefix in _groups(shared, "replay", "written"):
        old = [checkpoints.group(prefix, state) for state in states]
        # further processes explore no longer than those of the checkpoint would have
        collected = sum(int(each["collected"]) for each in old) // min(size, len(states))
        most = config.of_policy(prefix.partition(".")[2]).replay_size  # type: ignore[attr-defined]
        for state, new in zip(shares, device_replay.redistribute(old, size, most), strict=True):
            state |= checkpoints.prefixed(prefix, new | {"collected": torch.tensor(collected)})
    for rank, state in enumerate(shares):
        for number, name in enumerate(name for name in shared if name.rpartition(".")[2] == "generator"):
            state[name] = _fresh_generator(config, (config.seed + rank * config.num_envs, step, number))
    return shares


def _fresh_generator(config: Config, entropy: tuple[int, ...]) -> Tensor:
    kind = "cpu" if config.host_random else config.device.partition(":")[0]
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    return torch.Generator(kind).manual_seed(seed).get_state()


def _groups(state: Mapping[str, Tensor], what: str, last: str) -> list[str]:
    """Returns the prefixes, one for each policy, of the groups of ``what`` that hold a tensor named ``last``."""
    names = [name for name in state if name.partition(".")[0] == what]
    return [name.rpartition(".")[0] for name in names if name.rpartition(".")[2] == last]


def _process(rank: int | str) -> str:
    """Returns the prefix of a process's state in a checkpoint; that of the first process has none."""
    return f"process{rank}"


def _is_of_another(name: str) -> bool:
    """Returns whether a tensor belongs to another process than the first."""
    head, dot, _ = name.partition(".")
    return bool(dot) and head.removeprefix(_process("")).isdigit()

"""``headrace bench``: measures a task's steps per second on this machine."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.vector.utils import batch_space
from rich.console import Console
from rich.table import Table

import headrace
from headrace.cli.options import TaskOptions, optional, parse_args, parse_options
from headrace.errors import OptionError
from headrace.pool.structure import mapped

ACTION_SETS = 16
IMAGE_DIMENSIONS = 3


@dataclass(frozen=True)
class BenchArgs:
    """Measure the steps per second of a task's environments, with random actions.

    examples:
      headrace bench CartPole-v1
      headrace bench Pong-v5 --num-envs 16 --num-threads 2 --compare
      headrace bench Pong-v5 --num-envs 32 --async
      headrace bench Pong-v5 --option frame_skip=2 --option gray_scale=False
      headrace bench HalfCheetah-v5 --num-envs 64 --option physics=lanes
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """name of the task; headrace envs lists them"""
    num_envs: Annotated[tuple[int, ...], optional("INT …")] = ()
    """numbers of environments to measure; by default 1 8 64 1024, or 1 8 64 for tasks with images"""
    seconds: float = 2.0
    """duration of one measurement"""
    repeats: int = 5
    """measurements of each size; prints their median and their spread, (largest - smallest) / median"""
    asynchronous: Annotated[bool, tyro.conf.arg(name="async")] = False
    """call send and recv with half of the environments at a time, instead of step"""
    compare: bool = False
    """also measure EnvPool, alternately, if it is installed and has the task"""
    num_threads: int = 0
    """threads that run environments; 0 for one per core"""
    device: str = "cpu"
    """device of kernel environments: cpu or cuda"""
    option: TaskOptions = ()


Turn = Callable[[float], float]  # seconds → steps per second


def run(argv: list[str]) -> int:
    """Measures, and prints one row for each pool size; returns the exit status."""
    args = parse_args(BenchArgs, "bench", argv)
    if not 0 < args.seconds < math.inf or min((args.repeats, *args.num_envs)) <= 0:
        raise OptionError("--seconds, --repeats and --num-envs must be above 0, and --seconds finite")
    options = parse_options(args.option)
    spec = headrace.make_spec(args.task, **options)
    images = len(spec.observation.shape or ()) >= IMAGE_DIMENSIONS
    sizes = args.num_envs or ((1, 8, 64) if images else (1, 8, 64, 1024))
    if args.asynchronous and args.device != "cpu":
        raise OptionError("--async is for pools on the CPU: on a GPU all environments step together")
    if args.asynchronous:
        sizes = tuple(n for n in sizes if n > 1)
        if not sizes:
            raise OptionError("--async needs --num-envs of 2 or more")
    peer = _envpool_for(args.task) if args.compare else None
    console = Console(highlight=False)
    if args.compare and peer is None:
        console.print(f"EnvPool is not installed or has no {args.task}: nothing to compare with")
    table = _new_table(peer is not None)
    for n in sizes:
        with console.status(f"{args.task}, {n} environments"):
            table.add_row(*_measure(n, args, options, spec.frame_skip, peer))
    how = "async, half the environments at a time" if args.asynchronous else "sync"
    console.print(f"{spec.task}, random actions, {how}")
    console.print(table)
    return 0


def _new_table(compared: bool) -> Table:
    table = Table()
    columns = ["environments", "steps/s", "frames/s", "spread"]
    for column in columns + (["EnvPool steps/s", "ratio"] if compared else []):
        table.add_column(column, justify="right")
    return table


def _measure(n: int, args: BenchArgs, options: dict[str, Any], frame_skip: int, peer: Any) -> list[str]:
    """Returns the table row of pools of ``n`` environments; Headrace and EnvPool are measured alternately."""
    batch = n // 2 if args.asynchronous else n
    threads = {"num_threads": args.num_threads}
    if args.device == "cpu":
        made: Any = headrace.make(args.task, num_envs=n, batch_size=batch, **threads, **options)
    else:
        made = headrace.make_torch(args.task, n, args.device, **options)
    with made as pool:
        turns = [_turn(pool, batch, args.asynchronous)]
        if peer is not None:
            other = peer.make_gymnasium(args.task, num_envs=n, batch_size=batch, **threads, **options)
            turns.append(_turn(other, batch, args.asynchronous))
        for turn in turns:
            turn(0.1)
        rates = [[turn(args.seconds) for turn in turns] for _ in range(args.repeats)]
    ours = [r[0] for r in rates]
    median = statistics.median(ours)
    cells = [f"{n:,}", f"{median:,.0f}", f"{median * frame_skip:,.0f}", f"{(max(ours) - min(ours)) / median:.0%}"]
    if peer is not None:
        cells.append(f"{statistics.median(r[1] for r in rates):,.0f}")
        cells.append(f"{statistics.median(r[0] / r[1] for r in rates):.2f} x")
    return cells


def _turn(pool: Any, batch: int, asynchronous: bool) -> Turn:
    """Returns a function that runs the pool for some seconds and returns its steps per second."""
    space = batch_space(pool.action_space, batch)
    space.seed(0)
    actions = [mapped(partial(_as_taken, pool), space.sample(), pool.action_space) for _ in range(ACTION_SETS)]
    if asynchronous:
        pool.async_reset()
    else:
        pool.reset()

    waits = hasattr(pool, "check_errors")  # kernels on a GPU are asynchronous; `check_errors` waits for them

    def turn(seconds: float) -> float:
        calls = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            if asynchronous:
                for action in actions:
                    pool.send(action, pool.recv()[4]["env_id"])
            else:
                for action in actions:
                    pool.step(action)
            calls += ACTION_SETS
            if waits:
                pool.check_errors()
        return calls * batch / elapsed

    return turn


def _as_taken(pool: Any, action: Any, space: gym.Space) -> Any:
    """Returns a leaf of sampled actions as the pool takes it: an array, or a tensor on a GPU."""
    array = np.asarray(action, space.dtype)
    device = str(getattr(pool, "device", "cpu"))
    if device == "cpu":
        return array
    import torch

    return torch.from_numpy(array).to(device)


def _envpool_for(task: str) -> Any:
    """Returns the envpool module, or None if it is not installed or does not have the task."""
    try:
        import envpool  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    gym.logger.min_level = gym.logger.ERROR  # Gymnasium warns about the precision of EnvPool's spaces
    return envpool if task in envpool.list_all_envs() else None

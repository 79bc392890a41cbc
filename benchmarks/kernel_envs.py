"""Every light environment at 1,024, beside EnvPool's; and CartPole at 16,384 beside a loop written in C.

Random actions, precomputed, that change with every step, in each contender's own
type; next-step autoreset everywhere; observations read by nobody. Environments that
EnvPool does not have stand alone. The loop, `cartpole_loop.c`, is compiled here and now,
runs on as many threads, and has no pool around it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envpool
import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import Args, Case, Report, alternate, random_actions, stepping
from headrace.envs import classic_control, toy_text

TASKS = (*classic_control.TASKS, *toy_text.TASKS)
N, LEAST = 1024, 15.0
CARTPOLES, LOOP_LEAST, FAST_ENOUGH = 16_384, 0.7, 30e6
ACTION_SETS = 128
LOOP = Path(__file__).with_name("cartpole_loop.c")
FLAGS = {"C loop, -O3": ("-O3",), "C loop, -O3 -march=native": ("-O3", "-march=native")}


@dataclass
class KernelEnvsArgs(Args):
    """Light environments beside EnvPool and a C loop."""

    num_threads: int = 2
    """threads of a pool, ours and EnvPool's, and of the C loop"""
    tasks: tuple[str, ...] = TASKS
    """environments to compare at 1,024"""
    num_cartpoles: int = CARTPOLES
    """CartPoles beside the C loop, 0 for none"""


def contenders(task: str, threads: int) -> dict[str, Callable[[float], float]]:
    """One ready pool each, ours first."""
    pools: dict[str, Any] = {"headrace": headrace.make(task, num_envs=N, num_threads=threads, seed=0)}
    space = pools["headrace"].action_space
    types = {"headrace": space.dtype, "envpool": np.int32 if isinstance(space, gym.spaces.Discrete) else np.float32}
    if task in envpool.list_all_envs():
        pools["envpool"] = envpool.make_gymnasium(task, num_envs=N, num_threads=threads, seed=0)
    for pool in pools.values():
        pool.reset()
    return {
        name: stepping(pool.step, random_actions(space, N, ACTION_SETS, types[name]), N) for name, pool in pools.items()
    }


def compiled_loop(flags: tuple[str, ...], folder: Path) -> ctypes.CDLL:
    """The C loop, compiled with these flags by the machine's compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("kernel_envs: a C compiler is needed for cartpole_loop.c (or say --num-cartpoles 0)")
    path = folder / f"loop{'_'.join(flags).replace('=', '_')}.so"
    subprocess.run([compiler, *flags, "-shared", "-fPIC", "-pthread", str(LOOP), "-o", str(path), "-lm"], check=True)
    library = ctypes.CDLL(str(path))
    library.run.restype = ctypes.c_double
    library.run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_double]
    return library


def cartpoles(n: int, threads: int, folder: Path) -> dict[str, Callable[[float], float]]:
    """Our pool of n CartPoles, and the C loop with each set of flags."""
    pool: Any = headrace.make("CartPole-v1", num_envs=n, num_threads=threads, seed=0)
    pool.reset()
    actions = random_actions(pool.action_space, n, ACTION_SETS)
    table = np.stack(actions)

    def loop(library: ctypes.CDLL) -> Callable[[float], float]:
        return lambda seconds: library.run(table.ctypes.data, ACTION_SETS, n, threads, seconds)

    loops = {name: loop(compiled_loop(flags, folder)) for name, flags in FLAGS.items()}
    return {"headrace": stepping(pool.step, actions, n), **loops}


def main() -> None:
    args = tyro.cli(KernelEnvsArgs)
    settings = {"num_threads": args.num_threads, "repeats": args.repeats, "seconds": args.seconds}
    report = Report("kernel_envs", "Light environments, random actions", settings)
    for task in args.tasks:
        rates = alternate(contenders(task, args.num_threads), args)
        least = {"envpool": LEAST} if "envpool" in rates else {}
        report.cases.append(Case(f"{task} N={N}", rates, least))
    if args.num_cartpoles:
        with tempfile.TemporaryDirectory() as folder:
            rates = alternate(cartpoles(args.num_cartpoles, args.num_threads, Path(folder)), args)
        fast = statistics.median(rates["headrace"]) >= FAST_ENOUGH  # what we want is either
        least = {} if fast else {"C loop, -O3": LOOP_LEAST}
        report.cases.append(Case(f"CartPole-v1 N={args.num_cartpoles}", rates, least))
    report.write(args.out)


if __name__ == "__main__":
    main()

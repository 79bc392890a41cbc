"""Every light environment at 1,024, beside EnvPool's; CartPole from 1 to 16,384, there beside a loop written in C.

Random actions, precomputed, that change with every step, in each contender's own
type; next-step autoreset everywhere; observations read by nobody. Environments that
EnvPool does not have stand alone. At 1,024 Gymnasium's NumPy CartPole takes part as well.
The loop, `cartpole_loop.c`, is compiled here and now, runs on as many threads, and has no pool around it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envpool
import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, random_actions, random_steps, stepping
from headrace.envs import classic_control, toy_text

CARTPOLE = "CartPole-v1"
TASKS = (CARTPOLE, *(task for task in (*classic_control.TASKS, *toy_text.TASKS) if task != CARTPOLE))
N, LEAST = 1024, 15.0
SIZES = {1: 8.0, 8: 8.0, 64: 15.0, N: 20.0}
"""CartPoles → the least ratio to EnvPool"""
NUMPY, NUMPY_LEAST = "gymnasium (NumPy)", 1.5
CARTPOLES, MARK = 16_384, "30,000,000 steps/s"
ACTION_SETS = 128
LOOP = Path(__file__).with_name("cartpole_loop.c")
FLAGS = {"C loop, -O3": ("-O3",), "C loop, -O3 -march=native": ("-O3", "-march=native")}


@dataclass
class KernelEnvsArgs(Args):
    """Light environments beside EnvPool and a C loop."""

    num_threads: int = 2
    """threads of a pool, ours and EnvPool's, and of the C loop"""
    tasks: tuple[str, ...] = TASKS
    """environments to compare at 1,024; CartPole at other sizes, too"""
    num_cartpoles: int = CARTPOLES
    """CartPoles beside the C loop, 0 for none"""


def beside_envpool(task: str, n: int, threads: int) -> Comparison:
    """Pools of one environment; alone where EnvPool does not have it."""
    ours: Any = headrace.make(task, num_envs=n, num_threads=threads, seed=0)
    dtype = np.int32 if isinstance(ours.action_space, gym.spaces.Discrete) else np.float32
    peers = {}
    if task in envpool.list_all_envs():
        peer = envpool.make_gymnasium(task, num_envs=n, num_threads=min(threads, n), seed=0)
        peers["envpool"] = random_steps(peer, n, dtype=dtype)
    if task == CARTPOLE and n == N:
        plain = gym.make_vec(task, num_envs=n, vectorization_mode="vector_entry_point")
        peers[NUMPY] = random_steps(plain, n, dtype=np.int64)
    wanted = {"envpool": SIZES[n] if task == CARTPOLE else LEAST, NUMPY: NUMPY_LEAST}
    return Comparison(f"{task} N={n}", random_steps(ours, n), peers, wanted=wanted)


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


def beside_a_loop(n: int, threads: int, folder: Path) -> Comparison:
    """A pool of n CartPoles, and the C loop with each set of flags."""
    pool: Any = headrace.make(CARTPOLE, num_envs=n, num_threads=threads, seed=0)
    pool.reset()
    actions = random_actions(pool.action_space, n, ACTION_SETS)
    table = np.stack(actions)

    def loop(library: ctypes.CDLL) -> Contender:
        return lambda seconds: library.run(table.ctypes.data, ACTION_SETS, n, threads, seconds)

    loops = {name: loop(compiled_loop(flags, folder)) for name, flags in FLAGS.items()}
    marks = {MARK: lambda seconds: float(MARK.split()[0].replace(",", ""))}
    return Comparison(f"{CARTPOLE} N={n}", stepping(pool.step, actions, n), marks, loops, {MARK: 1.0})


def comparisons(args: KernelEnvsArgs) -> Iterator[Comparison]:
    """Every environment beside EnvPool's, then the loop in C."""
    for task in args.tasks:
        for n in SIZES if task == CARTPOLE else (N,):
            yield beside_envpool(task, n, args.num_threads)
    if args.num_cartpoles:
        with tempfile.TemporaryDirectory() as folder:
            yield beside_a_loop(args.num_cartpoles, args.num_threads, Path(folder))


if __name__ == "__main__":
    chosen = tyro.cli(KernelEnvsArgs)
    measure("kernel_envs", "Light environments", comparisons(chosen), chosen)

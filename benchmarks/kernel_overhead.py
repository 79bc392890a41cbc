"""Where the time of a CartPole step goes: public call, executor, compiled kernel; beside EnvPool and Gymnasium.

Run: python benchmarks/kernel_overhead.py [--seconds 0.5] [--sizes 1 8 64 1024 16384]
Peers that are not installed are left out. All take turns in one process; medians of the rounds are printed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

import headrace

Step = Callable[[np.ndarray], object]


def ours(n: int, threads: int) -> Iterator[tuple[str, Step]]:
    pool = headrace.make("CartPole-v1", num_envs=n, num_threads=threads, seed=0)
    pool.reset()
    executor = pool._executor  # pyright: ignore[reportPrivateUsage]
    batch = pool.make_batch()
    kernel = batch.binding.everyone
    yield f"headrace, {threads} threads", pool.step
    if threads == 1:
        yield "its executor", lambda actions: executor.step(actions, None, batch)
        yield "its kernel", lambda actions: kernel()


def peers(n: int) -> Iterator[tuple[str, Step]]:
    try:
        import envpool
    except ImportError:
        pass
    else:
        pool = envpool.make_gymnasium("CartPole-v1", num_envs=n)
        pool.reset()
        yield "envpool", pool.step
    import gymnasium

    vector = gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")
    vector.reset()
    yield "gymnasium's NumPy env", vector.step


def measure(step: Step, actions: list[np.ndarray], seconds: float) -> float:
    """Seconds a call, over a time of about ``seconds``."""
    calls, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for action in actions:
            step(action)
        calls += len(actions)
    return spent / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 64, 1024, 16384])
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'envs':>6}  {'what':24} {'µs a call':>10} {'M steps/s':>10}")
    for n in args.sizes:
        rows = list(itertools.chain(ours(n, 1), ours(n, 2), peers(n)))
        actions = [rng.integers(0, 2, n) for _ in range(20)]
        times: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for name, step in rows:
                times.setdefault(name, []).append(measure(step, actions, args.seconds))
        for name, seconds in times.items():
            median = statistics.median(seconds)
            print(f"{n:6}  {name:24} {median * 1e6:10.2f} {n / median / 1e6:10.3f}")


if __name__ == "__main__":
    main()

"""What it costs to keep what `step` returns, as every rollout written by hand does, beside EnvPool kept as well.

Random actions, precomputed. Results are thrown away; or 128 steps of them are kept and then dropped, as a rollout's
are; or all are kept, up to so many bytes. A result is all that a step returns. The last lines say how much longer a
step takes whose result is kept; the ratio to EnvPool is kept beside kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import envpool
import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, random_actions

ROLLOUT = 128
LEAST = {"kernels": 1 / 3, "native": 1 / 1.3}
"""kind of pool → least speed with kept results, relative to results that are thrown away"""


@dataclass(frozen=True)
class Case:
    """A task, its kind of pool, and EnvPool's name of it, if it has it."""

    task: str
    num_envs: int
    kind: str
    peer: str = ""


CASES = (
    Case("CartPole-v1", 8, "kernels", "CartPole-v1"),
    Case("CartPole-v1", 1024, "kernels", "CartPole-v1"),
    Case("MiniGrid-DoorKey-8x8-v0", 1024, "kernels", "MiniGrid-DoorKey-8x8-v0"),
    Case("InvertedPendulum-v5", 64, "native", "InvertedPendulum-v4"),
    Case("InvertedPendulum-v5", 1024, "native", "InvertedPendulum-v4"),
    Case("HalfCheetah-v5", 64, "native", "HalfCheetah-v4"),
    Case("Pong-v5", 16, "native", "Pong-v5"),
)


@dataclass
class KeptArgs(Args):
    """Keeping results."""

    seconds: float = 0.5
    """length of one turn"""
    num_threads: int = 2
    """threads of the pools"""
    most_bytes: int = 1 << 29
    """bytes of results that a turn keeps at most before it drops them"""


def keeping(pool: Any, actions: list[np.ndarray], steps: int) -> Contender:
    """A contender that keeps the results of so many steps and then drops them; 0 for none.

    Its rate is agent steps a second, without the time to drop them.
    """
    rows, step = len(actions[0]), pool.step

    def run(seconds: float) -> float:
        kept: list[Any] = []
        taken, done, append = 0.0, 0, kept.append
        while taken < seconds:
            start = time.perf_counter()
            if steps:
                for action in actions:
                    append(step(action))
            else:
                for action in actions:
                    step(action)
            taken += time.perf_counter() - start
            done += rows * len(actions)
            if len(kept) >= steps:
                kept.clear()
        return done / taken

    return run


def bytes_of(result: Any) -> int:
    """Bytes of all arrays of a result."""
    if isinstance(result, np.ndarray):
        return result.nbytes
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, tuple) else ()
    return sum(map(bytes_of, parts))


def comparisons(args: KeptArgs, slower: dict[str, dict[str, float]]) -> Iterator[Comparison]:
    """Two for each case: a rollout's results kept, and all of them."""
    for case in CASES:
        n = case.num_envs
        with ExitStack() as stack:
            mine = stack.enter_context(headrace.make(case.task, num_envs=n, num_threads=args.num_threads, seed=0))
            mine.reset()
            theirs = peer_of(case, args.num_threads)
            actions = random_actions(mine.action_space, n, ROLLOUT)
            most = args.most_bytes // max(bytes_of(mine.step(actions[0])), 1)
            for what, steps in (("128 steps kept", ROLLOUT), ("all kept", most)):
                peers = {"headrace, thrown away": keeping(mine, actions, 0)}
                if theirs is not None:
                    dtype = theirs.action_space.dtype
                    peers["envpool"] = keeping(theirs, [a.astype(dtype) for a in actions], steps)
                name = f"{case.task} N={n}, {what}"
                wanted = {"envpool": 1.0} if theirs is not None else {}
                yield (found := Comparison(name, keeping(mine, actions, steps), peers, wanted=wanted))
                slower[name] = {
                    "times": round(1 / found.ratio("headrace, thrown away"), 2),
                    "most": 1 / LEAST[case.kind],
                }


def peer_of(case: Case, num_threads: int) -> Any:
    """EnvPool's pool of the same task, newly reset; None where it has none."""
    if case.peer not in envpool.list_all_envs():
        return None
    pool = envpool.make_gymnasium(case.peer, num_envs=case.num_envs, num_threads=num_threads, seed=0)
    pool.reset()
    return pool


if __name__ == "__main__":
    args = tyro.cli(KeptArgs)
    slower: dict[str, dict[str, float]] = {}
    extra: dict[str, Any] = {"slower": slower}
    measure("kept_results", "Results that are kept, random actions", comparisons(args, slower), args, extra)
    for name, found in slower.items():
        print(f"{name}: {found['times']:.2f} times as long as thrown away, at most {found['most']:.1f} wanted")

"""How the benchmarks on a CUDA device measure: random actions drawn there, the clock, and bytes.

Actions are drawn anew on the device before every step, episodes end and begin again, and results stay on
the device. A pool is stepped twice: step by step from Python, and as a CUDA graph of many steps, which
shows what the device itself can do. What a step must move through memory at the least is counted from
the arrays, and set against what a plain copy on the same device moves.

It needs torch, warp-lang, numpy and gymnasium. ``--device cpu`` runs it anywhere, without graphs.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import warp as wp

from hardware import versions
from headrace.machine import cpu_model
from headrace.pool.batch import FINAL
from headrace.pool.executors.kernels.launch import Run, load, quiet, record, view_of
from headrace.pool.executors.kernels.random import threefry
from headrace.pool.torch.pool import TorchPool

RESULTS = Path(__file__).parent / "results"
BLOCK = 256
SEED = wp.constant(wp.uint64(2108))


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The settings that the benchmarks on a device share."""
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    made.add_argument("--device", default="cuda:0", help="where to run")
    made.add_argument("--seconds", type=float, default=2.0, help="length of one turn")
    made.add_argument("--repeats", type=int, default=7, help="turns of each")
    made.add_argument("--steps", type=int, default=64, help="steps of one graph, or between two looks at the clock")
    made.add_argument("--quick", action="store_true", help="short turns, to see that it runs")
    made.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON file")
    return made


def parsed(made: argparse.ArgumentParser) -> argparse.Namespace:
    given = made.parse_args()
    if given.quick:
        given.seconds, given.repeats, given.steps = 0.1, 2, 8
    return given


def chosen(args: argparse.Namespace) -> torch.device:
    """The device, now torch's current one."""
    device = torch.device(args.device)
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
    return device


# -- actions ------------------------------------------------------------------------------------


@wp.kernel(enable_backward=False, module="unique")
def draw(actions: wp.array[wp.int64], limits: wp.array[wp.int64], drawn: wp.array[wp.int64], step: wp.int64):
    """Each element in [0, limit), a pure function of its place and of how many steps were drawn before it."""
    element = wp.tid()
    count = wp.uint64(drawn[0] + step)
    bits = threefry(SEED, (count << wp.uint64(32)) | wp.uint64(element))
    limit = wp.uint64(limits[element % limits.shape[0]])
    actions[element] = wp.int64(((bits >> wp.uint64(32)) * limit) >> wp.uint64(32))


class RandomActions:
    """Uniform random actions for all agents of a pool, drawn by its device.

    Attributes:
        tensor: int64 [N, *action_space.shape], what the latest draw wrote.
        draws: launches on torch's current stream, one for each step of a pass; `end_pass` follows the last.
    """

    def __init__(self, pool: TorchPool, steps: int):
        space, device = pool.action_space, str(pool.device)
        assert isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete)
        row = np.ravel(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec).astype(np.int64)
        self.tensor = torch.zeros((pool.num_envs, *(space.shape or ())), dtype=torch.int64, device=pool.device)
        self._limits = torch.from_numpy(row).to(pool.device)
        self._drawn = torch.zeros(1, dtype=torch.int64, device=pool.device)
        with quiet():
            arrays = [view_of(t, wp.int64) for t in (self.tensor.view(-1), self._limits, self._drawn)]
        block = BLOCK if pool.device.type == "cuda" else 1
        load(draw, device, block, "the benchmark's actions")
        self.draws: list[Run] = [
            record(draw, self.tensor.numel(), [*arrays, step], device, block) for step in range(steps)
        ]

    def end_pass(self) -> None:
        """Let the next pass draw other actions."""
        self._drawn.add_(len(self.draws))


def stepper(pool: TorchPool, actions: RandomActions) -> Run:
    """One pass: as many steps as there are draws."""

    def steps() -> None:
        for drawing in actions.draws:
            drawing()
            pool.step(actions.tensor)
        actions.end_pass()

    return steps


def ended(pool: TorchPool, actions: RandomActions, passes: int) -> float:
    """The share of environments whose episode ends in a step."""
    total = torch.zeros((), dtype=torch.int64, device=pool.device)
    for _ in range(passes):
        for drawing in actions.draws:
            drawing()
            _, _, terminated, truncated, _ = pool.step(actions.tensor)
            total += (terminated | truncated).sum()
        actions.end_pass()
    return float(total) / (passes * len(actions.draws) * pool.num_envs)


# -- bytes --------------------------------------------------------------------------------------


def bytes_moved(pool: TorchPool, resets: float) -> float:
    """The least that one environment's step reads and writes, in bytes, with so many resets a step.

    State and episode are read and written; a request (number and command) is read; an action is drawn (1 write),
    checked (1 read, 1 write) and read; results are written. A reset within a step writes the state once more, and
    the results of the last step beside those of the first.
    """
    here = pool._executor
    state = sum(memory.shape[1] for table in (here.state, here.episodes) for memory in table.rows.values())
    request = sum(here.everyone.rows[name].shape[1] for name in ("env_id", "command"))
    action = sum(tensor[0].nbytes for tensor in here.actions.values())
    tensors = pool._batch(pool.num_envs, None).tensors
    results, final = (
        sum(tensor[0].nbytes for name, tensor in tensors.items() if name.startswith(FINAL) == last)
        for last in (False, True)
    )
    least = 2 * state + request + 4 * action + results
    return least + resets * (state + final) if pool.autoreset == "same_step" else least


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second that a copy of 1 GiB (a CPU: 64 MiB) reads and writes."""
    size = 2**30 if device.type == "cuda" else 2**26
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(10):
        wait(device)
        start = time.perf_counter()
        for _ in range(5):
            target.copy_(source)
        wait(device)
        best = max(best, 10 * size / (time.perf_counter() - start))
    return best


# -- time ---------------------------------------------------------------------------------------


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def graph_of(steps: Run) -> Run:
    """The same steps as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        steps()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()
    return graph.replay


def rate(steps: Run, pool: TorchPool, count: int, seconds: float) -> float:
    """Environment steps a second, of passes of ``count`` steps."""
    # passes that the device may run behind: some 10 ms of them, as the first, which is alone, tells
    passes, ahead, start = 0, 1, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        ahead = max(1, min(100, int(0.01 * passes / spent))) if passes else 1
        for _ in range(ahead):
            steps()
        wait(pool.device)
        passes += ahead
    return passes * count * pool.num_envs / (time.perf_counter() - start)


def measure(pool: TorchPool, bandwidth: float, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One record for each way to step a pool; closes it.

    ``median`` is environment steps a second, ``resets_a_step`` the share of environments that a step resets, and
    ``of_copy_bandwidth`` the share of ``bandwidth`` (bytes a second) that the steps must have moved.
    """
    with pool:
        pool.reset()
        actions = RandomActions(pool, args.steps)
        steps = stepper(pool, actions)
        ways: dict[str, Callable[[], Any]] = {"step by step": steps}
        if pool.device.type == "cuda":
            ways["one CUDA graph"] = graph_of(steps)
        for way in ways.values():
            rate(way, pool, args.steps, args.seconds / 4)
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.repeats):
            for name, way in ways.items():
                rates[name].append(round(rate(way, pool, args.steps, args.seconds)))
        resets = ended(pool, actions, max(1, 256 // args.steps))
        moved = bytes_moved(pool, resets)
        medians = {name: statistics.median(measured) for name, measured in rates.items()}
        return [
            {
                "environments": pool.num_envs,
                "agents": pool.spec.num_agents,
                "way": name,
                "rates": measured,
                "median": medians[name],
                "agent_steps": medians[name] * pool.spec.num_agents,
                "resets_a_step": round(resets, 5),
                "bytes_a_step": round(moved, 1),
                "of_copy_bandwidth": round(medians[name] * moved / bandwidth, 4),
            }
            for name, measured in rates.items()
        ]


# -- the record ---------------------------------------------------------------------------------

COLUMNS = "{:>12}{:>8}  {:<15}{:>17}{:>19}{:>12}{:>11}"
HEADING = COLUMNS.format(
    "environments", "agents", "", "env steps/s", "agent steps/s", "bytes/step", "of a copy"
)  # fmt: skip


def shown(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print a line for each case, and return them."""
    kept = list(cases)
    for case in kept:
        speeds = (f"{case[name]:,.0f}" for name in ("median", "agent_steps", "bytes_a_step"))
        share = f"{case['of_copy_bandwidth']:.0%}"
        print(COLUMNS.format(f"{case['environments']:,}", case["agents"], case["way"], *speeds, share), flush=True)
    return kept


def machine(device: torch.device) -> dict[str, Any]:
    """The device and versions."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model(),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "packages": versions(("torch", "warp-lang", "numpy", "gymnasium")),
    }


def write(name: str, args: argparse.Namespace, here: dict[str, Any], bandwidth: float | None, **more: Any) -> Path:
    """The record as ``<out>/<name>_<device>.json``."""
    settings = {"seconds": args.seconds, "repeats": args.repeats, "steps": args.steps}
    record = {"name": name, "machine": here, "settings": settings, **more}
    if bandwidth is not None:
        record["copy_bytes_a_second"] = round(bandwidth)
    args.out.mkdir(parents=True, exist_ok=True)
    slug = "_".join("".join(c if c.isalnum() else " " for c in here["device"].lower()).split())
    path = args.out / f"{name}_{slug}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path

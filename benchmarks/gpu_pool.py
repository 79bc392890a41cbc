"""CartPole-v1 on a GPU, from a thousand environments to a million: steps a second, and of the memory's speed.

New random actions are drawn on the device before every step, episodes end and begin again, and
results stay on the device. Each size is stepped twice: step by step from Python, and as a CUDA graph of
many steps, which shows what the device itself can do. What a step must move through memory at the
least is counted from the arrays, and set against what a plain copy on the same device moves.

It needs torch, warp-lang, numpy and gymnasium. ``--device cpu`` runs it anywhere, without graphs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import headrace
from headrace.pool.views.torch import TorchPool

TASK = "CartPole-v1"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
STEPS = 64  # of one graph, or between two looks at the clock
RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda:0", help="where to run")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of environments")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one turn")
    parser.add_argument("--repeats", type=int, default=7, help="turns of each")
    parser.add_argument("--quick", action="store_true", help="short turns, to see that it runs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON file")
    given = parser.parse_args()
    if given.quick:
        given.seconds, given.repeats = 0.1, 2
    return given


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bytes_moved(pool: TorchPool) -> int:
    """The least that one environment's step reads and writes, in bytes.

    State and episode are read and written; a request (number and command) is read; an action is drawn (1 write),
    checked (1 read, 1 write) and read; results are written. Resets are rare, and left out.
    """
    here = pool._environments
    rows = sum(memory.shape[1] for table in (here.state, here.episodes) for memory in table.rows.values())
    request = sum(here.everyone.rows[name].shape[1] for name in ("env_id", "command"))
    action = sum(tensor[0].nbytes for tensor in here.actions.values())
    results = sum(tensor[0].nbytes for tensor in pool._batch(pool.num_envs, None).tensors.values())
    return 2 * rows + request + 4 * action + results


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


def stepper(pool: TorchPool) -> Callable[[], None]:
    """``STEPS`` steps, each with actions drawn anew."""
    action = torch.zeros(pool.num_envs, dtype=torch.int64, device=pool.device)

    def steps() -> None:
        for _ in range(STEPS):
            pool.step(action.random_(0, 2))

    return steps


def graph_of(steps: Callable[[], None]) -> Callable[[], None]:
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


def rate(steps: Callable[[], None], pool: TorchPool, seconds: float) -> float:
    """Environment steps a second."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(max(1, 100_000 // pool.num_envs)):  # the device may run behind, but not for ever
            steps()
            calls += 1
        wait(pool.device)
    return calls * STEPS * pool.num_envs / (time.perf_counter() - start)


def measure(size: int, bandwidth: float, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One record for each way to step ``size`` environments."""
    pool = headrace.make_torch(TASK, size, args.device, seed=0)
    pool.reset()
    steps = stepper(pool)
    ways = {"step by step": steps}
    if pool.device.type == "cuda":
        ways["one CUDA graph"] = graph_of(steps)
    for way in ways.values():
        rate(way, pool, args.seconds / 4)
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.repeats):
        for name, way in ways.items():
            rates[name].append(round(rate(way, pool, args.seconds)))
    moved = bytes_moved(pool)
    pool.close()
    return [
        {
            "environments": size,
            "way": name,
            "rates": measured,
            "median": statistics.median(measured),
            "bytes_a_step": moved,
            "of_copy_bandwidth": round(statistics.median(measured) * moved / bandwidth, 4),
        }
        for name, measured in rates.items()
    ]


def machine(device: torch.device) -> dict[str, Any]:
    """The device and versions; no names, no paths."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = {package: metadata.version(package) for package in ("torch", "warp-lang", "numpy", "gymnasium")}
    return {"device": name, "cuda": torch.version.cuda, "python": platform.python_version(), "packages": versions}


def main() -> None:
    args = arguments()
    device = torch.device(args.device)
    bandwidth = copy_bandwidth(device)
    here = machine(device)
    print(f"{TASK} on {here['device']}; a copy moves {bandwidth / 1e9:,.0f} GB/s")
    print(f"{'environments':>12}  {'way':<16}{'M steps/s':>10}{'of a copy':>11}")
    cases = []
    for size in args.sizes:
        for case in measure(size, bandwidth, args):
            cases.append(case)
            share = f"{case['of_copy_bandwidth']:.0%}"
            print(f"{size:>12,}  {case['way']:<16}{case['median'] / 1e6:>10,.1f}{share:>11}", flush=True)
    settings = {"task": TASK, "seconds": args.seconds, "repeats": args.repeats, "steps": STEPS}
    record = {"name": "gpu_pool", "machine": here, "copy_bytes_a_second": round(bandwidth), "settings": settings}
    args.out.mkdir(parents=True, exist_ok=True)
    slug = here["device"].lower().replace(" ", "_")
    (args.out / f"gpu_pool_{slug}.json").write_text(json.dumps(record | {"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()

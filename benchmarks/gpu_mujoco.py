"""MuJoCo's tasks on a GPU, over MuJoCo Warp: steps a second, call by call and as a CUDA graph.

Actions are drawn on the device before every step, episodes end and begin again within the step, and results
stay there. Physics is MuJoCo Warp's, in float32.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

import headrace
from gpu_common import chosen, copy_bandwidth, graph_of, machine, parsed, parser, rate, write
from headrace.pool.torch.pool import TorchPool

TASKS = ("HalfCheetah-v5", "Ant-v5", "WalkerWalk-v1")
SIZES = (64, 1_024, 4_096, 16_384)


def stepper(pool: TorchPool, steps: int) -> Callable[[], None]:
    """So many steps with uniform random actions."""
    space: Any = pool.action_space
    low, high = (torch.from_numpy(bound).to(pool.device) for bound in (space.low, space.high))
    action = torch.zeros((pool.num_envs, *space.shape), dtype=torch.float64, device=pool.device)

    def run() -> None:
        for _ in range(steps):
            action.uniform_().mul_(high - low).add_(low)
            pool.step(action)

    return run


def measure(task: str, size: int, args: Any) -> list[dict[str, Any]]:
    """One record for each way to step a pool of a task."""
    cases = []
    with headrace.make_torch(task, size, args.device, seed=0, autoreset="same_step") as pool:
        pool.reset()
        steps = stepper(pool, args.steps)
        ways: dict[str, Callable[[], Any]] = {"step by step": steps}
        if pool.device.type == "cuda":
            ways["one CUDA graph"] = graph_of(steps)
        for name, way in ways.items():
            rate(way, pool, args.steps, args.seconds / 4)
            found = [round(rate(way, pool, args.steps, args.seconds), 1) for _ in range(args.repeats)]
            median = statistics.median(found)
            cases.append({"task": task, "environments": size, "way": name, "rates": found, "median": median})
            print(f"{task:16} {size:8,} {name:15} {median:14,.0f} steps/s", flush=True)
    return cases


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--tasks", nargs="+", default=TASKS, help="names of tasks")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of environments")
    args = parsed(options)
    device = chosen(args)
    here, bandwidth = machine(device), copy_bandwidth(device)
    cases = [case for task in args.tasks for size in args.sizes for case in measure(task, size, args)]
    print(write("gpu_mujoco", args, here, bandwidth, cases=cases))


if __name__ == "__main__":
    main()

"""Training on one device, in three columns: stepping alone, with inference, and with training.

CartPole (PPO) and Tag on the grid (A2C, WarpDrive's settings: five agents, one policy [32, 32]; then its crowd of
1,000 agents), for 10 … 100,000 environments. All are environment steps a second: stepping is the pool with actions
drawn once, inference adds the policy, the sampling of actions and the advantages, training adds the updates. On
CUDA all run as graphs, and a profiler says for which share of an iteration the device was idle.

It needs torch, safetensors, warp-lang, numpy, gymnasium and rich. ``--device cpu`` runs it anywhere.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from gpu_common import chosen, graph_of, machine, parsed, parser, wait, write
from headrace.pool.torch.pool import TorchPool
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder

PUBLISHED = {"by": "WarpDrive's authors (arXiv 2108.13976), one A100", "task": "Tag, 2,000 x 5", "env_steps": 1.4e6}
LINE = "{:<22}{:>13}{:>16}{:>16}{:>16}{:>9}"
TAG: dict[str, Any] = {
    "task": "TagGridWorld-v0",
    "algo": "a2c",
    "hidden": (32, 32),
    "shared": True,
    "activation": "relu",
    "gamma": 0.98,
    "learning_rate": 1e-3,
    "entropy_coef": 0.05,
    "value_coef": 1.0,
    "max_grad_norm": 3.0,
    "normalise_observations": False,
    "policies": {"all": {"agents": ["tagger", "runner"]}},
}
TAG_OPTIONS = {"grid_length": 100, "tag_penalty": 5.0, "random_start": True, "trail": 0}


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="*", default=(10, 100, 1_000, 2_000, 10_000, 100_000))
    options.add_argument("--crowd", type=int, nargs=2, default=(2_000, 1_000), metavar=("ENVIRONMENTS", "AGENTS"))
    options.add_argument("--horizon", type=int, default=20, help="steps of every environment in one rollout")
    given = parsed(options)
    given.seconds = min(given.seconds, 1.0)
    return given


def trainer_of(settings: dict[str, Any], num_envs: int, args: argparse.Namespace) -> Any:
    rows = num_envs * args.horizon
    shape: dict[str, Any] = {"num_envs": num_envs, "num_steps": args.horizon}
    if settings.get("algo", "ppo") == "ppo":
        shape |= {"minibatch_size": max(1, rows // 4), "epochs": 2}
    never = {"total_steps": 10**15, "log_steps": 10**15, "tensorboard": False, "stop_at_return": None}
    config = make_config(**{**settings, **shape, **never, "device": args.device, "anneal_learning_rate": False})
    return make_trainer(config, RunFolder.create(tempfile.mkdtemp(), config))


def columns(trainer: Any, args: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """What one column does for one rollout's steps."""
    pool, collector = trainer.source.pool, trainer.source.collector
    assert isinstance(pool, TorchPool)
    actions = collector._actions["action"]  # type: ignore[union-attr]

    def stepping() -> None:
        for _ in range(args.horizon):
            pool.step(actions)

    def inference() -> None:
        collector.draw(trainer.source.generator)
        trainer.source.rollout()

    return {
        "stepping": graph_of(stepping) if pool.device.type == "cuda" else stepping,
        "inference": inference,
        "training": trainer.iterate,
    }


def rate(run: Callable[[], Any], steps: int, device: torch.device, seconds: float) -> float:
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        run()
        wait(device)
        calls += 1
    return calls * steps / (time.perf_counter() - start)


def idle(trainer: Any, iterations: int = 10) -> float | None:
    """The share of an iteration in which the GPU ran nothing."""
    if trainer.device.type != "cuda":
        return None
    from torch.profiler import ProfilerActivity, profile

    wait(trainer.device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        start = time.perf_counter()
        for _ in range(iterations):
            trainer.iterate()
        wait(trainer.device)
        elapsed = time.perf_counter() - start
    busy = sum(event.self_device_time_total for event in profiler.key_averages()) * 1e-6
    return max(0.0, 1.0 - busy / elapsed)


def measure(name: str, settings: dict[str, Any], num_envs: int, args: argparse.Namespace) -> dict[str, Any]:
    """One line: the three columns for so many environments."""
    trainer = trainer_of(settings, num_envs, args)
    try:
        for _ in range(4):  # until all is captured
            trainer.iterate()
        ways, steps = columns(trainer, args), num_envs * args.horizon
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(args.repeats):
            for way, run in ways.items():
                rates[way].append(round(rate(run, steps, trainer.device, args.seconds)))
        case = {
            "name": name,
            "environments": num_envs,
            "agents": trainer.source.pool.spec.num_agents,
            "rates": rates,
            "median": {way: statistics.median(measured) for way, measured in rates.items()},
            "idle": idle(trainer),
        }
    finally:
        trainer.close()
    speeds = (f"{case['median'][way]:,.0f}" for way in ways)
    share = "-" if case["idle"] is None else f"{case['idle']:.1%}"
    print(LINE.format(name, f"{num_envs:,}", *speeds, share), flush=True)
    return case


def main() -> None:
    args = arguments()
    device = chosen(args)
    here = machine(device)
    print(f"Training on {here['device']}; environment steps a second")
    print(LINE.format("", "environments", "stepping", "with inference", "with training", "idle"))
    cases = [measure("CartPole, PPO", {"task": "CartPole-v1"}, n, args) for n in args.sizes]
    few = TAG | {"env_options": TAG_OPTIONS | {"num_taggers": 4}}
    cases += [measure("Tag x 5, A2C", few, n, args) for n in args.sizes]
    envs, agents = args.crowd
    many = TAG | {"env_options": TAG_OPTIONS | {"num_taggers": agents - 1}}
    cases.append(measure(f"Tag x {agents:,}, A2C", many, envs, args))
    print(f"published: {PUBLISHED['task']} end to end, {PUBLISHED['env_steps']:,.0f} ({PUBLISHED['by']})")
    write("gpu_training", args, here, None, published=PUBLISHED, horizon=args.horizon, cases=cases)


if __name__ == "__main__":
    main()

"""A Crazyflie that the plain command has trained: seconds, and where 128 flights of each agent in l2f end.

Each seed is `headrace train Crazyflie-v0` in a process of its own. Its last weights then fly in the simulator l2f, with
its own parameters and initial states, for 5 seconds without exploration: the distance from the target at the end, the
mean of the flights and the largest. Seconds are those of training, and of the whole process with its start.

    pip install l2f==2.0.18    # compiles for some minutes
    python benchmarks/crazyflie.py [--seeds 201 202 203] [--curve]

Without l2f, or with `--simulator headrace`, they fly in the task itself, whose steps are l2f's to 1e-5. Flights are
harder there: they begin tilted by up to 90 degrees, l2f's by up to 57, and one that leaves the task's bounds ends.
With `--curve` they learn to follow the figure of eight, `CrazyflieCurve-v0`, which l2f does not have, and the distance
is the mean of the last 3 seconds of those flights that do not end before.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

import headrace
from common import RESULTS, heading, tell
from headrace.train.runs.metrics import read_metrics

NAME, TASK, CURVE = "crazyflie", "Crazyflie-v0", "CrazyflieCurve-v0"
FLIGHTS, STEPS = 128, 500  # l2f has so many craft at once, or other powers of two
SETTLED = 200  # steps until a craft flies along the curve
ALLOWED = 0.1  # m
BODY, ACTIONS = 18, 4  # numbers of an observation before the last actions, and of each of these
Policy = Callable[[np.ndarray], np.ndarray]
Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class CrazyflieArgs:
    """Training of a craft that hovers, and flights of it."""

    seeds: tuple[int, ...] = tuple(range(201, 211))
    """a run of each"""
    simulator: Literal["l2f", "headrace"] = "l2f" if find_spec("l2f") else "headrace"
    """where agents fly that hover; by default l2f, where it is installed"""
    curve: bool = False
    """follow the figure of eight instead"""
    steps: int | None = None
    """of each run; by default the recipe's"""
    folder: Path | None = None
    """where run folders stay; None keeps none"""
    out: Path = RESULTS
    """folder for the JSON file"""


def in_process(command: Sequence[str | Path], **settings: Any) -> tuple[dict[str, float], str]:
    """Runs a command; returns its seconds by the clock and of its processors, and what it has printed."""
    before, begun = os.times(), time.perf_counter()
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **settings).stdout
    took, after = time.perf_counter() - begun, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"with start": round(took, 1), "processor seconds": round(used, 1)}, printed


def train(seed: int, run: Path, steps: int | None = None, task: str = TASK) -> dict[str, float]:
    """What the plain command takes: steps, seconds of training, of the process, and of its processors."""
    command = [sys.executable, "-m", "headrace", "train", task, f"--seed={seed}", f"--run-dir={run}", "--quiet"]
    took, _ = in_process(command + ([] if steps is None else [f"--total-steps={steps}"]))
    last = read_metrics(run / "metrics.jsonl")[-1]
    return {"steps": last["step"], "seconds": round(last["time"]["seconds"], 1), **took}


def policy_of(run: Path) -> Policy:
    """A run's agent as a function from l2f's observations [N, 82], which have more actions than most agents see."""
    agent = headrace.load(run, which="newest")
    with headrace.make(TASK, num_envs=1, **agent.config.env_options) as pool:
        numbers = BODY + ACTIONS * pool.spec.options["action_history"]
    return lambda obs: agent.act(np.ascontiguousarray(obs[:, :numbers]))


def fly(policy: Policy, seed: int = 0, change: Change | None = None, steps: int = STEPS) -> np.ndarray:
    """Returns the distances from the target, m [flights], after so many steps in l2f.

    ``change`` is given l2f's parameters of a craft, which it may change.
    """
    import l2f

    many = l2f.vector_selector[FLIGHTS]
    device, rng, env = l2f.Device(), many.VectorRng(), many.VectorEnvironment()
    parameters, now, then = many.VectorParameters(), many.VectorState(), many.VectorState()
    many.initialize_rng(device, rng, seed)
    many.initialize_environment(device, env)
    many.initial_parameters(device, env, parameters)
    if change:
        craft = parameters.parameters
        for world, one in zip(env.environments, craft, strict=True):
            known = json.loads(l2f.parameters_to_json(device, world, one))
            change(known)
            l2f.parameters_from_json(device, world, json.dumps(known), one)
        parameters.parameters = craft
    many.sample_initial_state(device, env, parameters, now, rng)
    obs = np.zeros((FLIGHTS, env.OBSERVATION_DIM), np.float32)
    for _ in range(steps):
        many.observe(device, env, parameters, now, obs, rng)
        many.step(device, env, parameters, now, policy(obs), then, rng)
        now.assign(then)
    return np.linalg.norm([state.position for state in now.states], axis=1)


def fly_here(run: Path, seed: int = 0) -> np.ndarray:
    """Returns the distances from the target, m [flights], after 5 s in the task, or where a flight has ended before."""
    agent, apart = headrace.load(run, which="newest"), np.full(FLIGHTS, np.nan)
    with headrace.make(TASK, num_envs=FLIGHTS, seed=seed, **agent.config.env_options) as pool:
        obs, _ = pool.reset()
        for _ in range(STEPS):  # of which the last is the limit of an episode
            obs, _, terminated, truncated, info = pool.step(agent.act(obs))
            ended = (terminated | truncated) & np.isnan(apart)
            apart[ended] = info["distance"][ended]
    return apart


def follow(run: Path, seed: int = 0) -> np.ndarray:
    """Returns the mean distances from the point that moves, m [flights], once settled; NaN where a flight has ended."""
    agent, apart = headrace.load(run, which="newest"), np.zeros((STEPS, FLIGHTS))
    with headrace.make(CURVE, num_envs=FLIGHTS, seed=seed, **agent.config.env_options) as pool:
        obs, _ = pool.reset()
        lost = np.zeros(FLIGHTS, bool)
        for step in range(STEPS):
            obs, _, terminated, _, info = pool.step(agent.act(obs))
            apart[step], lost = info["distance"], lost | terminated
    return np.where(lost, np.nan, apart[SETTLED:].mean(0))


def judged(apart: np.ndarray) -> dict[str, float | None]:
    """What a row says of distances, m [flights], which are NaN where a flight has ended."""
    kept = apart[~np.isnan(apart)]
    mean, most = (round(float(value), 3) for value in (kept.mean(), kept.max())) if len(kept) else (None, None)
    return {"mean, m": mean, "largest, m": most, f"within {ALLOWED} m": int((kept < ALLOWED).sum())}


def main() -> None:
    args = tyro.cli(CrazyflieArgs, description=__doc__)
    task = CURVE if args.curve else TASK
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        for seed in args.seeds:
            run = (args.folder or Path(made)) / f"{task}-{seed}"
            took = train(seed, run, args.steps, task)
            apart = follow(run) if args.curve else fly(policy_of(run)) if args.simulator == "l2f" else fly_here(run)
            lost = {"lost": int(np.isnan(apart).sum())} if args.curve else {}
            rows.append({"seed": seed, **took, **judged(apart), **lost})
            print(rows[-1], flush=True)
    simulator = "headrace" if args.curve else args.simulator
    where = "l2f" if simulator == "l2f" else "the task itself"
    what = "stay in the last 3 of 5 s" if args.curve else "end after 5 s"
    title = f"{task} by the plain command: where {FLIGHTS} flights of each agent in {where} {what}"
    settings = {"flights": FLIGHTS, "seconds": 5, "simulator": simulator}
    tell(args.out, heading(NAME + "_curve" * args.curve, title) | {"settings": settings, "rows": rows})


if __name__ == "__main__":
    main()

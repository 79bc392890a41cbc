"""MuJoCo's physics in lanes beside `mj_step`: how fast on one thread, and how equal.

For each of Gymnasium's robots (version 5) and each of dm_control's tasks that lanes can step. A random policy takes
environments to the middle of their episodes; the states that they go through and the controls are recorded, and then
replayed in C++ on one thread: `mj_step`, or a step in lanes, and what the task needs after it. So the physics is
measured, with the copies of states in and out, and without resets, rewards, observations, pool and Python; what a
pool makes of it is in `mujoco_pool.py`. Contenders take turns; a ratio is the median of those turn by turn, with both
quartiles. With N=1 the same states are stepped one by one, in registers of one number. A replay has one model,
so there are no speeds of tasks whose bodies are elsewhere in each environment (`mujoco_pool.py --tasks` has them).

The difference is the largest over the recorded states of |lanes - MuJoCo| after one agent step from equal states, of
positions and of velocities: with the model's own options, and with MuJoCo's Newton solver let run to its end
(``tolerance="0"``). It is none of episodes: contacts amplify rounding, between any two programs. States from which
both have equal bits are left out of it: with robots of many parts these are the ones that lanes leave to MuJoCo, and a
task that has many is no faster. A model whose solver is PGS is marked: PGS stops before the optimum, and the first
difference is what it lacks.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import numpy as np
import tyro

import headrace
from common import Args, Contender, alternate, cell, heading, random_actions, write
from headrace.envs.dm_control import TASKS
from headrace.errors import OptionError
from headrace.pool.executors.mujoco.fields import library, native_module
from headrace.pool.executors.mujoco.lanes import LANES, LANES32, MUJOCO

ROBOTS = (
    "Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5", "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5", "Pusher-v5", "Reacher-v5", "Swimmer-v5", "Walker2d-v5",
)  # fmt: skip
ENVS, WARM, STEPS = 64, 50, 4
"""environments, agent steps of each before those that are recorded, and recorded ones"""
NARROW = 4  # lanes of AVX2
MJ = library()
FIELDS = ("qpos", "qvel")
SOLVERS: dict[str, dict[str, Any]] = {
    "": {},
    ", tolerance 0": {"tolerance": 0, "solver": MJ.mjtSolver.mjSOL_NEWTON},
}
"""which MuJoCo lanes are compared with → the options that it has instead of the model's; the model's own first"""


@dataclass
class LanesArgs(Args):
    """Lanes beside mj_step."""

    seconds: float = 0.2
    """length of one turn"""
    tasks: tuple[str, ...] = (*ROBOTS, *TASKS)
    """names of tasks"""


def measured(task: str, args: LanesArgs) -> dict[str, Any]:
    """Rates, ratios and differences of a task; raises OptionError where lanes cannot step it."""
    with headrace.make(task, num_envs=ENVS, num_threads=1, seed=0, physics=LANES) as pool:
        executor: Any = pool._executor
        actions = random_actions(pool.action_space, ENVS, WARM + STEPS)
        pool.reset()
        for action in actions[:WARM]:
            pool.step(action)
        states, controls, equal = [], [], list[bool]()
        largest = {f"{field}{name}": 0.0 for name in SOLVERS for field in FIELDS}
        for action in actions[WARM:]:
            states.append(executor.record())
            stepped = pool.step(action)[4]["elapsed_step"] > 0
            after = executor.state_arrays()
            controls.append(after["ctrl"].copy())  # a task makes them of actions
            left = np.ones(ENVS, bool)
            for name, options in SOLVERS.items():
                theirs = mj_stepped(executor, states[-1], controls[-1], pool.spec.frame_skip, options)
                apart = {field: np.abs(theirs[field] - after[field]).max(axis=1) for field in FIELDS}
                if not options:
                    left = (apart["qpos"] == 0) & (apart["qvel"] == 0)
                    equal += left[stepped].tolist()
                for field, each in apart.items():
                    found = each.max(where=stepped & ~left, initial=largest[field + name])
                    largest[field + name] = float(found)
        largest |= differences_of_floats(task, pool, actions[WARM:])
        runs = {} if "body_pos" in executor._memory.varying else bare(executor, np.stack(states), np.stack(controls))
        rates = alternate(runs, args, warm_up=args.seconds)
        pgs = executor.model.opt.solver == MJ.mjtSolver.mjSOL_PGS
    ratio = {name: quartiles(of, rates[MUJOCO]) for name, of in rates.items() if name != MUJOCO}
    return {"pgs": pgs, "rates": rates, "ratio": ratio, "equal": float(np.mean(equal)), "difference": largest}


def differences_of_floats(task: str, pool: Any, actions: Sequence[np.ndarray]) -> dict[str, float]:
    """The largest difference from `mj_step`'s positions and velocities of floats, from the states of a pool."""
    largest = dict.fromkeys((f"{field}, floats" for field in FIELDS), 0.0)
    with headrace.make(task, num_envs=ENVS, num_threads=1, seed=0, physics=LANES32) as floats:
        executor: Any = floats._executor
        floats.reset()
        for action in actions:
            floats.load_state(None, pool.save_state())
            before = executor.record()
            stepped = floats.step(action)[4]["elapsed_step"] > 0
            after = executor.state_arrays()
            theirs = mj_stepped(executor, before, after["ctrl"], floats.spec.frame_skip, {})
            for field in FIELDS:
                apart = np.abs(theirs[field] - after[field]).max(axis=1)
                found = apart.max(where=stepped, initial=largest[f"{field}, floats"])
                largest[f"{field}, floats"] = float(found)
            pool.step(action)
    return largest


def mj_stepped(
    executor: Any, states: np.ndarray, controls: np.ndarray, skip: int, options: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Positions and velocities [N, …] after MuJoCo's step from these states, with other options of the model."""
    model, rows = copy.copy(executor.model), []
    data = MJ.MjData(model)
    for name, value in options.items():
        setattr(model.opt, name, value)
    for env, (state, control) in enumerate(zip(states, controls, strict=True)):
        for name, values in executor._memory.varying.items():
            getattr(model, name).flat = values[env].ravel()
        MJ.mj_setState(model, data, state, executor._signature)
        data.ctrl[:] = control
        MJ.mj_step(model, data, skip)
        rows.append([getattr(data, field).copy() for field in FIELDS])
    return {field: np.stack(each) for field, each in zip(FIELDS, zip(*rows, strict=True), strict=True)}


def bare(executor: Any, states: np.ndarray, controls: np.ndarray) -> dict[str, Contender]:
    """What steps recorded states on one thread, by name."""

    def replaying(physics: str, width: int = 0, together: int = ENVS) -> Contender:
        shared = [array.reshape(-1, together, array.shape[-1]) for array in (states, controls)]

        def run(seconds: float) -> float:
            taken, rounds = 0.0, 0
            while taken < seconds:
                taken += executor.bare_seconds(*shared, 1, physics, width)
                rounds += 1
            return rounds * ENVS * STEPS / taken

        return run

    widths = native_module().lane_widths()
    chosen = dict.fromkeys((widths[0], *(width for width in widths if width == NARROW)))
    lanes = {f"{width} lanes": replaying(LANES, width) for width in chosen}
    floats = native_module().lane_widths(LANES32)[0]
    lanes[f"{floats} floats"] = replaying(LANES32, floats)
    return {MUJOCO: replaying(MUJOCO), **lanes, "N=1": replaying(LANES, together=1)}


def quartiles(ours: Sequence[float], other: Sequence[float]) -> list[float]:
    """The lower one, the median and the upper one of ratios turn by turn."""
    ratios = [a / b for a, b in zip(ours, other, strict=True)]
    return [round(value, 3) for value in quantiles(ratios, n=4, method="inclusive")]


def row(task: str, found: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    ratios = {f"× {n}": f"{mid:.2f} ({low:.2f} … {high:.2f})" for n, (low, mid, high) in found["ratio"].items()}
    differences = {name: f"{value:.0e}" for name, value in found["difference"].items()}
    case = task + " (PGS)" * found["pgs"]
    rate = round(median(found["rates"][MUJOCO])) if found["rates"] else None
    return {"case": case, "mj_step, steps/s": rate, **ratios, "equal bits": f"{found['equal']:.0%}", **differences}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table."""
    lines = [list(rows[0]), ["---", *["---:"] * (len(rows[0]) - 1)]]
    lines += [list(map(cell, each.values())) for each in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    args = tyro.cli(LanesArgs)
    record: dict[str, Any] = heading("lanes", "MuJoCo's physics in lanes, one thread, beside mj_step")
    record |= {"settings": {"repeats": args.repeats, "seconds": args.seconds}, "rows": [], "tasks": {}, "left_out": {}}
    for task in args.tasks:
        try:
            record["tasks"][task] = found = measured(task, args)
        except OptionError as why:
            record["left_out"][task] = str(why)
            continue
        record["rows"].append(row(task, found))
        write(args.out, record)
        print(f"{task}: {found['ratio']}", flush=True)
    columns = max(record["rows"], key=len)
    record["rows"] = [{column: each.get(column) for column in columns} for each in record["rows"]]  # some lack speeds
    print(markdown(record["rows"]), *(f"{task}: {why}" for task, why in record["left_out"].items()), sep="\n")
    write(args.out, record)


if __name__ == "__main__":
    main()

"""Pictures as observations: a pool beside a loop over MuJoCo's own Python renderer.

Both step and draw on this machine's OpenGL (`MUJOCO_GL`, else EGL). The loop is what one writes without a
pool: `mj_step`, `Renderer.update_scene` and `Renderer.render` for one simulation after the other, all with one
renderer. Models ask for shadow maps that suit a screen; the pool's are as fine as its pictures, which is most of
the difference on a CPU. EnvPool 1.2.5 has pictures too, but on the machine of our figures, which has Mesa's EGL
and no display, its first picture ends the process with an OpenGL error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")  # which MuJoCo's package reads when it is imported

import numpy as np
import tyro

import headrace
from common import Args, Comparison, measure, random_actions, stepping
from headrace.envs.dm_control.common import suite_model
from headrace.pool.executors.mujoco.fields import library

RENDERER = "MuJoCo's Renderer"
TASKS = {"CheetahRun-v1": "cheetah", "WalkerWalk-v1": "walker"}


@dataclass
class PixelArgs(Args):
    """Pictures as observations."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """names of tasks"""
    side: int = 84
    """pixels"""
    num_envs: int = 8
    """environments of a pool"""
    num_threads: int = 2
    """threads of the pool"""


def loop(task: str, frame_skip: int, args: PixelArgs) -> Callable[[Any], Any]:
    """A function that steps and draws simulations, one after the other."""
    mujoco = library()
    model: Any = suite_model(TASKS[task])
    simulations = [mujoco.MjData(model) for _ in range(args.num_envs)]
    renderer = mujoco.Renderer(model, args.side, args.side)
    seen = np.empty((args.num_envs, 3, args.side, args.side), np.uint8)

    def step(actions: np.ndarray) -> None:
        for data, action, picture in zip(simulations, actions, seen, strict=True):
            data.ctrl[:] = action
            mujoco.mj_step(model, data, nstep=frame_skip)
            renderer.update_scene(data)
            picture[:] = renderer.render().transpose(2, 0, 1)

    return step


def comparisons(args: PixelArgs) -> Iterator[Comparison]:
    """One for each task."""
    options: dict[str, Any] = {"from_pixels": True, "render_width": args.side, "render_height": args.side}
    for task in args.tasks:
        with headrace.make(task, num_envs=args.num_envs, num_threads=args.num_threads, seed=0, **options) as pool:
            pool.reset()
            actions = random_actions(pool.action_space, args.num_envs, 2)
            steps = pool.step, loop(task, pool.spec.frame_skip, args)
            ours, theirs = (stepping(step, actions, args.num_envs) for step in steps)
            name = f"{task} N={args.num_envs}, {args.side} x {args.side}"
            yield Comparison(name, ours, {RENDERER: theirs}, unit="pictures/s")


if __name__ == "__main__":
    chosen = tyro.cli(PixelArgs)
    measure("mujoco_pixels", "Pictures of robots as observations", comparisons(chosen), chosen)

"""Draws ``learning.gif``: an agent that learns, beside its curve, from the checkpoints of a real run.

    headrace train HalfCheetah-v5 --algo sac --total-steps 70000 --checkpoint-seconds 8 --keep-checkpoints 500 \\
        --run-dir runs/movie
    python docs/images/learning.py runs/movie
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import playing_pool
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics

OUT = Path(__file__).with_name("learning.gif")
SCENES, SECONDS, FPS = 7, 1.6, 10
SKIPPED = 60  # agent steps of each scene that are not shown: the first moments of an episode look alike
SIDE = 230  # pixels
COLOURS = 48


def scenes(folder: Path) -> list[Path]:
    """Checkpoints at even distances in steps, the first and the last one included."""
    found = sorted(path for path in folder.iterdir() if path.name.startswith("step"))
    return [found[round(i * (len(found) - 1) / (SCENES - 1))] for i in range(SCENES)]


def pictures(agent: Agent, pool: Any, task_fps: float) -> list[np.ndarray]:
    """What the agent does in the middle of an episode, uint8[height, width, 3] each."""
    every, shown = max(1, round(task_fps / FPS)), []
    obs, _ = pool.reset()
    for step in range(SKIPPED + round(SECONDS * task_fps)):
        if step >= SKIPPED and (step - SKIPPED) % every == 0:
            shown.append(pool.render([0])[0])
        obs, *_ = pool.step(agent.act(obs))
    return shown


def evaluations(lines: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """(step, return) of each evaluation of a run; of its episodes where nothing was evaluated."""
    found = {line["evaluation"]["step"]: line["evaluation"]["return"] for line in lines if line.get("evaluation")}
    return sorted(found.items()) or [(line["step"], line["return"]) for line in lines if line.get("return") is not None]


def curve(points: list[tuple[float, float]], until: float, seconds: float) -> np.ndarray:
    """The return curve up to a step, which was reached after so many seconds, uint8[SIDE, width, 3]."""
    figure = Figure(figsize=(3.3, SIDE / 100), dpi=100, layout="constrained")
    axes = figure.subplots()
    steps, returns = (np.array(column) for column in zip(*points, strict=True))
    now = float(np.interp(until, steps, returns))
    past = steps < until
    axes.plot(steps / 1000, returns, color="0.87", linewidth=1.5)
    axes.plot([*steps[past] / 1000, until / 1000], [*returns[past], now], color="#0072b2", linewidth=2)
    axes.plot(until / 1000, now, "o", color="#0072b2", markersize=6)
    axes.set_xlim(-0.02 * steps.max() / 1000, 1.02 * steps.max() / 1000)
    axes.set_title("return", fontsize=9, loc="left")
    axes.set_title(f"after {seconds // 60:.0f} min {seconds % 60:02.0f} s", fontsize=9, loc="right")
    axes.set_xlabel("thousand agent steps", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return np.asarray(Image.open(buffer).convert("RGB"))


def main() -> None:
    """Play, draw and write."""
    run, config = RunFolder.open(sys.argv[1])
    lines = read_metrics(run.metrics_file)
    known, frames = evaluations(lines), []
    steps, clock = [line["step"] for line in lines], [line["time"]["seconds"] for line in lines]
    with playing_pool(config, num_envs=1, seed=3, render_width=SIDE, render_height=SIDE) as pool:
        for path in scenes(run.checkpoints):
            point = checkpoints.load(path)
            step = point.counters["step"]
            right = curve(known, step, float(np.interp(step, steps, clock)))
            for picture in pictures(Agent(config, pool.spec, point), pool, pool.spec.render_fps):
                left = np.asarray(Image.fromarray(picture).resize((SIDE, SIDE)))
                frames.append(Image.fromarray(np.hstack((left, right[:SIDE]))))
    palette = frames[-1].quantize(COLOURS)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    small[0].save(OUT, save_all=True, append_images=small[1:], duration=1000 // FPS, loop=0, optimize=True)
    print(f"{OUT.name}: {len(frames)} frames, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

"""Draws the curve of each algorithm in ``docs/algorithms.md`` from real runs, with the presets that everybody gets.

    python docs/images/curves.py runs/curves            # trains what is not in that folder yet, then draws
    python docs/images/curves.py runs/curves ppo sac    # some of them

Three seeds each; on two cores all take about a quarter of an hour.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from headrace.train.runs.metrics import read_metrics

HERE = Path(__file__).parent
RUNS: dict[str, tuple[str, int]] = {  # algorithm → task, steps
    "ppo": ("CartPole-v1", 150_000),
    "a2c": ("CartPole-v1", 300_000),
    "dqn": ("CartPole-v1", 80_000),
    "sac": ("Pendulum-v1", 20_000),
    "td3": ("Pendulum-v1", 20_000),
    "ddpg": ("Pendulum-v1", 20_000),
}
SEEDS = 3
INK, LINE = "#7b808a", "#4a90d9"  # read on white and on black


def train(algo: str, folder: Path) -> None:
    """Train with three seeds, one after the other, to the end."""
    task, steps = RUNS[algo]
    words = [task, "--algo", algo, "--seeds", str(SEEDS), "--jobs", "1", "--total-steps", str(steps)]
    words += ["--stop-at-return", "None", "--no-video", "--run-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "headrace.cli.main", "train", *words], check=True)


def draw(algo: str, folder: Path) -> Path:
    """Draw the return of every seed, and their mean, over agent steps."""
    task, steps = RUNS[algo]
    curves = [_curve(path) for path in sorted(folder.rglob("metrics.jsonl"))]
    assert len(curves) == SEEDS, folder
    grid = np.linspace(max(x[0] for x, _ in curves), steps, 200)
    figure = Figure(figsize=(5.6, 2.6), layout="constrained")
    axes = figure.subplots()
    for x, y in curves:
        axes.plot(x / 1000, y, color=LINE, linewidth=0.9, alpha=0.65)
    axes.plot(grid / 1000, np.mean([np.interp(grid, x, y) for x, y in curves], 0), color=LINE, linewidth=2.2)
    axes.set_xlim(0, steps / 1000)
    axes.set_title(f"{algo.upper()} on {task}: mean return of the last episodes, {SEEDS} seeds", fontsize=9, loc="left")
    axes.set_xlabel("thousand agent steps", fontsize=9)
    for part in (axes.title, axes.xaxis.label, axes._left_title):  # type: ignore[attr-defined]
        part.set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    out = HERE / f"curve-{algo}.svg"
    figure.savefig(out, transparent=True, metadata={"Date": None})
    return out


def _curve(path: Path) -> tuple[np.ndarray, np.ndarray]:
    lines = [line for line in read_metrics(path) if line.get("return") is not None]
    return np.array([line["step"] for line in lines], float), np.array([line["return"] for line in lines], float)


def main() -> None:
    """Train what is missing, and draw."""
    matplotlib.rcParams |= {"svg.hashsalt": "headrace", "svg.fonttype": "none"}  # the same file each time, with text
    home = Path(sys.argv[1])
    for algo in sys.argv[2:] or RUNS:
        folder = home / algo
        if not folder.exists():
            train(algo, folder)
        out = draw(algo, folder)
        print(f"{out.name}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

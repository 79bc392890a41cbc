"""Draws how the Atari machine composes a line, and how fast it is: python docs/images/machine.py

``machine-line.png``: a real frame of a game, one of its lines and that line's pixels by colour, which are the chip's
masks once who hides whom is settled. ``machine-speed.png``: the figures of ``benchmarks/atari_emulator.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import headrace

HERE = Path(__file__).parent
FIGURES = HERE.parents[1] / "benchmarks" / "results" / "atari_emulator.json"
TASK, STEPS, LINE = "Pitfall-v5", 60, 110
ORIGINAL = "ale-py's machine"


def frame() -> np.ndarray:
    """Red, green and blue of a game's frame, uint8[210, 160, 3]."""
    with headrace.make(TASK, num_envs=1, seed=0) as pool:
        pool.reset()
        for _ in range(STEPS):
            pool.step(np.zeros(1, np.int64))
        return pool.render()[0]


def line_picture(picture: np.ndarray) -> None:
    """The frame with one of its lines, and that line apart, colour by colour, the background last."""
    line = picture[LINE]
    colours, which = np.unique(line, axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(np.bincount(which))
    figure = plt.figure(figsize=(9, 4.2), constrained_layout=True)
    left, right = figure.add_gridspec(1, 2, width_ratios=(1, 2))
    whole = figure.add_subplot(left)
    whole.imshow(picture, aspect=0.6)
    whole.axhline(LINE, color="white", linewidth=1)
    whole.set_axis_off()
    whole.set_title(f"{TASK}, line {LINE}", fontsize=9)
    rows = right.subgridspec(len(order) + 1, 1)
    for row, colour in enumerate([*order, None]):
        axes = figure.add_subplot(rows[row])
        strip = np.full((1, 160, 3), 235, np.uint8)
        if colour is None:
            strip[0] = line
        else:
            strip[0, which == colour] = colours[colour]
        axes.imshow(strip, aspect="auto", interpolation="nearest")
        axes.set_yticks([])
        axes.set_xlim(-0.5, 159.5)
        axes.set_xticks([] if colour is not None else range(0, 160, 32))
        pixels = int((which == colour).sum()) if colour is not None else 160
        axes.set_title(
            "the line: all of them" if colour is None else f"a mask of {pixels} of 160 pixels, and its colour",
            fontsize=8, loc="left",
        )  # fmt: skip
    figure.savefig(HERE / "machine-line.png", dpi=120)


def speed_picture() -> None:
    """A bar for every game, the fastest at the top."""
    cases = json.loads(FIGURES.read_text())["cases"]
    ratios = sorted((case["ratio"][ORIGINAL], case["name"]) for case in cases)
    figure, axes = plt.subplots(figsize=(7, 9), constrained_layout=True)
    axes.barh([name for _, name in ratios], [ratio for ratio, _ in ratios], color="#3b7dd8")
    axes.axvline(1, color="#666", linewidth=1)
    axes.margins(y=0.005)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("frames in the same processor time, the emulator's own machine = 1")
    figure.savefig(HERE / "machine-speed.png", dpi=100)


if __name__ == "__main__":
    line_picture(frame())
    speed_picture()

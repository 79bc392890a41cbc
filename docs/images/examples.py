"""Draws what the one-file learners of examples/ print while they learn, into examples.svg.

    python docs/images/examples.py

It runs each of them as it is, one after the other, which takes some minutes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
LINE = re.compile(r"^ *(\d+) (?:steps|moves),.*?(-?[\d.]+)(?:%| |,|$)", re.M)
PANELS = {
    "ppo.py": ("CartPole-v1", "mean return"),
    "pqn.py": ("CartPole-v1", "mean return"),
    "sac.py": ("Pendulum-v1", "mean return"),
    "self_play.py": ("ConnectFour-v0", "% won against random"),
}
"""file → its task, and what it prints"""


def main() -> None:
    mpl.rcParams.update({"svg.hashsalt": "headrace", "svg.fonttype": "none"})
    figure = Figure(figsize=(11, 2.6), layout="constrained")
    for place, (name, (task, what)) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        told = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True).stdout
        steps, values = zip(*((int(step) / 1000, float(value)) for step, value in LINE.findall(told)), strict=True)
        place.plot(steps, values)
        place.set(title=f"{name}, {task}", xlabel="thousand steps", ylabel=what)
        place.title.set_fontsize(9)
        place.grid(alpha=0.3)
    figure.savefig(HERE / "examples.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

"""Draws what PPO learns of robots beside published figures: python docs/images/mujoco_learning.py

``mujoco_learning.png``: mean returns in training over agent steps, a line a seed, of ``benchmarks/learning.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib.figure import Figure

HERE = Path(__file__).parent
FIGURES = HERE.parents[1] / "benchmarks" / "results" / "learning.json"


def main() -> None:
    record = json.loads(FIGURES.read_text())
    runs, compared = record["runs"], record["published"]
    figure = Figure(figsize=(12, 4), layout="constrained")
    for axes, (name, published) in zip(figure.subplots(1, len(compared)), compared.items(), strict=True):
        mine = [run for run in runs if run["name"] == name]
        for run in mine:
            steps, _, returns = zip(*run["curve"], strict=True)
            axes.plot(steps, returns, label=f"headrace, seed {run['seed']}: {run['seconds']:.0f} s")
        for (who, value), style in zip(published.items(), ("--", ":", "-."), strict=False):
            axes.axhline(value, color="black", alpha=0.5, linewidth=1, linestyle=style, label=who)
        axes.set(title=mine[0]["settings"]["task"], xlabel="agent steps", ylabel="mean return in training")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(HERE / "mujoco_learning.png", dpi=100)


if __name__ == "__main__":
    main()

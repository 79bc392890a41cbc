"""The return curve of a run as a picture."""

from __future__ import annotations

from pathlib import Path

from headrace.train.metrics import read_metrics
from headrace.train.run import RunFolder


def plot_returns(run_dir: str | Path) -> Path:
    """Draw mean return over agent steps, and over seconds, into ``curve.png``; returns the path.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    run, config = RunFolder.open(run_dir)
    lines = [line for line in read_metrics(run.metrics_file) if line["return"] is not None]
    returns = [line["return"] for line in lines]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    axes[0].plot([line["step"] for line in lines], returns)
    axes[0].set(xlabel="agent steps", ylabel=f"mean return, last {config.stop_episodes} episodes", title=config.task)
    axes[1].plot([line["time"]["seconds"] for line in lines], returns)
    axes[1].set(xlabel="seconds of training")
    for ax in axes:
        ax.grid(alpha=0.3)
        if config.stop_at_return is not None:
            ax.axhline(config.stop_at_return, color="grey", linestyle=":")
    figure.savefig(run.plot_file, dpi=120)
    return run.plot_file

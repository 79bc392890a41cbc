"""The README's table: how many times as fast as others, least … most over a benchmark's cases, a line for each peer.

Nothing is measured here: ratios are those of the JSON files, and a line is left out while nobody has measured it.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Line(NamedTuple):
    """A line of the table.

    Attributes:
        what: is measured, as a reader would say it.
        benchmark: whose file has the ratios.
        peer: as that file names it; of `sac_learning`, which of our runs is compared.
        called: as the table does.
    """

    what: str
    benchmark: str
    peer: str
    called: str


LINES = (
    Line("Atari, 16 or 32 environments", "atari_pool", "envpool", "EnvPool"),
    Line("", "atari_pool", "ale-py vector", "ale-py's vector environment"),
    Line("MuJoCo, six robots, 8 to 1,024 environments", "mujoco_pool", "envpool", "EnvPool"),
    Line("CartPole, 1 to 1,024 environments", "cartpole_pool", "envpool", "EnvPool"),
    Line("Classic control and toy text, 1,024 environments", "kernel_envs", "envpool", "EnvPool"),
    Line("MinAtar, 1,024 environments", "minatar_pool", "minatar, 2 processes", "its Python package, 2 processes"),
    Line("Tag, 5 to 1,000 agents", "tag_pool", "WarpDrive's class", "WarpDrive's CPU classes"),
    Line("Python environments, 64 in processes", "process_pool", "gymnasium sync", "Gymnasium's `SyncVectorEnv`"),
    Line("", "process_pool", "gymnasium async", "Gymnasium's `AsyncVectorEnv`"),
    Line("ViZDoom, two tasks, 8 environments", "vizdoom_pool", "envpool", "EnvPool"),
    Line("PPO, the whole loop, on CartPole and Pong", "ppo_speed", "stable-baselines3", "stable-baselines3"),
    Line("PPO, until one of four tasks is solved", "ppo_learning", "stable-baselines3", "stable-baselines3"),
    Line("A2C on Tag, the whole loop", "tag_training", "NumPy + PyTorch", "NumPy and plain PyTorch"),
    Line(
        "SAC on Pendulum and HalfCheetah, until a return, as `headrace train` does it",
        "sac_learning",
        "headrace train",
        "stable-baselines3",
    ),
    Line("SAC, the same, with equal settings", "sac_learning", "equal", "stable-baselines3"),
    Line("SAC, one update", "sac_update", "stable-baselines3", "stable-baselines3"),
    Line("DQN, one update over images", "dqn_update", "stable-baselines3", "stable-baselines3"),
    Line("Minibatches from a replay", "replay", "stable-baselines3", "stable-baselines3"),
)


def glance(here: dict[str, dict[str, Any]], plain: dict[str, dict[str, Any]]) -> str:
    """Markdown of records by benchmark, from two machines."""
    rows = ["| | beside | with matrix units | without |", "|---|---|---:|---:|"]
    for line in LINES:
        with_units, without = (times(ratios(found.get(line.benchmark), line)) for found in (here, plain))
        if with_units or without:
            rows.append(f"| {line.what} | {line.called} | {with_units} | {without} |")
    return "\n".join(rows)


def ratios(record: dict[str, Any] | None, line: Line) -> list[float]:
    """Ours beside the peer's, of all cases."""
    if record is None:
        return []
    if record["name"] == "sac_learning":
        wanted = f"{line.peer} beside stable-baselines3"
        return [ratio for name, ratio in record["times_faster"].items() if name.endswith(f": {wanted}")]
    if record["name"] == "ppo_learning":
        both = [(runs[line.peer], runs["headrace"]) for runs in record["median_seconds"].values()]
        return [theirs / mine for theirs, mine in both if theirs and mine]
    return [case["ratio"][line.peer] for case in record["cases"] if line.peer in case["ratio"]]


def times(found: list[float]) -> str:
    """Least and most, or one where they are as good as equal."""
    if not found:
        return ""
    least, most = rounded(min(found)), rounded(max(found))
    return f"{least} ×" if least == most else f"{least} … {most} ×"


def rounded(ratio: float) -> str:
    """In as many digits as tell something."""
    digits = next((digits for limit, digits in ((2, 2), (10, 1)) if ratio < limit), 0)
    return f"{ratio:.{digits}f}"

"""What a reader follows from a step of the environments to a gradient: distinct lines, functions and files that run.

One iteration of training in one process, after three that warm up, runs under Python's tracing; lines are those of
`headrace.train` that were executed at least once, so neither docstrings nor branches that another setting takes count.
`by hand` is the update with hand-written gradients, which runs by default; `losses` is the same algorithm with its
losses in autograd. The same is counted for rsl_rl's PPO where that is installed (``pip install --no-deps
rsl-rl-lib``), and other single files can be named to count all their lines of code.

    python benchmarks/reading.py [FILE.py …]
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace.train.config.settings import make_config
from headrace.train.runners.synchronous import Trainer
from headrace.train.runs.folder import RunFolder

RESULTS = Path(__file__).parent / "results" / "reading.json"
COLUMNS = ("lines", "functions", "files")
WARM = 3  # iterations before the one that is counted


class Trace:
    """The code below a folder that a call executes.

    Attributes:
        lines: file and line number of each line.
        functions: file and qualified name of each function.
    """

    def __init__(self, below: str):
        self._below = below
        self.lines: set[tuple[str, int]] = set()
        self.functions: set[tuple[str, str]] = set()

    def __call__(self, work: Callable[[], object]) -> Trace:
        """Runs ``work``, and notes what is executed."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            work()
        finally:
            sys.settrace(before)
        return self

    def row(self) -> tuple[int, int, int]:
        """Distinct lines, functions and files."""
        return len(self.lines), len(self.functions), len({file for file, _ in self.lines})

    def _called(self, frame: FrameType, event: str, value: Any) -> Any:
        file = frame.f_code.co_filename
        if self._below not in file:
            return None
        self.functions.add((file, frame.f_code.co_qualname))
        return self._line

    def _line(self, frame: FrameType, event: str, value: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def ours(task: str, algo: str, fused: bool) -> tuple[int, int, int]:
    """An iteration of our own training."""
    settings: dict[str, Any] = {"algo": algo, "samplers": 0, "tensorboard": False, "log_steps": 10**9, "seed": 1}
    if algo == "sac":
        settings |= {"learning_starts": 64, "num_envs": 4, "num_steps": 8}
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(task, **settings)
        trainer = Trainer(config, RunFolder.create(f"{folder}/run", config))
        for policy in trainer.policies:
            policy._fused = policy._fused if fused else None  # type: ignore[attr-defined]
        for _ in range(WARM):
            trainer.iterate()
        row = Trace("/headrace/train/")(trainer.iterate).row()
        trainer.close()
    return row


def theirs() -> tuple[int, int, int]:
    """An iteration of rsl_rl's PPO over a vector environment of zeros; raises `ImportError` where it is missing."""
    import torch
    from rsl_rl.env import VecEnv  # pyright: ignore[reportMissingImports]
    from rsl_rl.runners import OnPolicyRunner  # pyright: ignore[reportMissingImports]
    from tensordict import TensorDict

    class Zeros(VecEnv):
        num_envs, num_actions, max_episode_length, device = 4, 2, 100, "cpu"
        episode_length_buf, cfg = torch.zeros(4, dtype=torch.long), {}

        def get_observations(self) -> TensorDict:
            return TensorDict({"policy": torch.zeros(4, 3)}, batch_size=[4])

        def step(self, actions: torch.Tensor) -> Any:
            return self.get_observations(), torch.zeros(4), torch.zeros(4, dtype=torch.bool), {}

    model = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0}
    settings: dict[str, Any] = {
        "num_steps_per_env": 8,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "algorithm": {"class_name": "PPO"},
        "actor": {**model, "distribution_cfg": gaussian},
        "critic": model,
    }
    runner = OnPolicyRunner(Zeros(), settings, None, "cpu")
    runner.learn(WARM)
    return Trace("/rsl_rl/")(lambda: runner.learn(1)).row()


def file_lines(path: Path) -> int:
    """Lines of a file on which a statement or expression begins."""
    return len({node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.stmt)})


def main() -> None:
    """Print the table, and write ``results/reading.json``."""
    rows: dict[str, tuple[int, int | None, int]] = {}
    for task, algo in (("CartPole-v1", "ppo"), ("Pendulum-v1", "sac")):
        for fused in (True, False):
            rows[f"headrace {algo}, {'by hand' if fused else 'losses'}"] = ours(task, algo, fused)
    try:
        rows["rsl_rl ppo"] = theirs()
    except ImportError:
        print("rsl_rl is not installed")
    for name in sys.argv[1:]:
        rows[Path(name).name] = file_lines(Path(name)), None, 1
    table = Table("", *COLUMNS, title="From a step to a gradient")
    for name, row in rows.items():
        table.add_row(name, *("" if each is None else str(each) for each in row))
    Console().print(table)
    figures = {name: dict(zip(COLUMNS, row, strict=True)) for name, row in rows.items()}
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Size and shape of `headrace.train`, and what a reader follows from a step of the environments to a gradient.

    python benchmarks/structure.py --files examples/ppo.py examples/sac.py

The result holds the sentence on what is read that docs/architecture.md quotes. Rows of other checkouts, and of
libraries that are not installed, are those of the run before.

Lines are those of all Python files, blank ones and comments included; lines of code leave these and docstrings out. The
import chain is the longest path through modules of `headrace.train` that import each other (imports inside functions,
under ``TYPE_CHECKING`` and by a name in ``import_module("…")`` count); a circle is a group of modules that reach each
other.

For what is read, one iteration of training in one process, after three that warm up, runs under Python's tracing; lines
are those of `headrace.train` that were executed at least once, so neither docstrings nor branches that another setting
takes count. ``compiled`` is the update in compiled code, which runs by default; ``losses`` is the same algorithm
with its losses in autograd. The same is counted for rsl_rl's PPO where that is installed (``pip install
--no-deps rsl-rl-lib``); of other single files all lines of code count.

Stops are the functions of `headrace` that have begun and not ended when an optimiser takes its first step: of PPO from
``train("CartPole-v1")``, of SAC with a sampler from the training loop.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import tyro

from common import RESULTS, earlier, heading, tell
from headrace.train import Callback, Training, train
from headrace.train.algorithms.compiled_updates import CompiledActorCritic
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.modules.compiled_networks import CompiledNetwork
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder

COLUMNS = ("lines", "functions", "files")
WARM = 3  # iterations before the one that is counted
Row = tuple[int, int | None, int]
Graph = dict[str, set[str]]


@dataclass
class StructureArgs:
    """Lines of checkouts, and those that run from a step to a gradient."""

    checkouts: tuple[Path, ...] = (Path(__file__).parents[1],)
    """the last one is this one; ``--checkouts ../before .``"""
    files: tuple[Path, ...] = ()
    """single files to count beside it"""
    out: Path = RESULTS
    """folder for the JSON file"""


def modules(package: Path) -> dict[str, Path]:
    """Module name → file, of everything below ``src/headrace``."""
    root = package.parent
    named = {".".join(path.relative_to(root).with_suffix("").parts): path for path in package.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports(files: dict[str, Path], within: str) -> Graph:
    """Module → the modules that it imports, both inside ``within``."""
    inside = {name for name in files if name == within or name.startswith(f"{within}.")}
    return {name: _imported(files[name]) & inside - {name} for name in inside}


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            found |= {
                each.value for each in node.args[:1] if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return found


def circles(graph: Graph) -> list[set[str]]:
    """Returns the groups of two or more modules that reach each other."""
    reach = {name: _reachable(graph, name) for name in graph}
    groups = {frozenset({other for other in reach[name] if name in reach[other]}) for name in graph}
    return [set(group) for group in groups if len(group) > 1]


def _reachable(graph: Graph, name: str) -> set[str]:
    seen, waiting = {name}, [name]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def longest_chain(graph: Graph) -> int:
    """Returns the number of modules on the longest path of imports; those of a circle count once."""
    groups = circles(graph)
    home = {name: next((i for i, group in enumerate(groups) if name in group), name) for name in graph}

    @cache
    def floors(group: int | str) -> int:
        below = {home[other] for name in graph if home[name] == group for other in graph[name]} - {group}
        return 1 + max(map(floors, below), default=0)

    return max(map(floors, set(home.values())))


def lines_of_code(text: str) -> int:
    """Lines of a file that are neither blank nor a comment nor part of a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in told for number, line in lines)


def measure(checkout: Path) -> dict[str, int]:
    """The figures of one checkout."""
    files = modules(checkout / "src" / "headrace")
    train = {name: path for name, path in files.items() if f"{name}.".startswith("headrace.train.")}
    graph = imports(files, "headrace.train")
    lengths = [len(path.read_text().splitlines()) for path in train.values()]
    return {
        "lines of train/": sum(lengths),
        "lines of code": sum(lines_of_code(path.read_text()) for path in train.values()),
        "files": len(lengths),
        "folders": len({path.parent for path in train.values()}),
        "longest file, lines": max(lengths),
        "longest import chain, modules": longest_chain(graph),
        "circles of imports": len(circles(imports(files, "headrace"))),
    }


def largest_classes(folder: Path, number: int = 3) -> dict[str, int]:
    """Returns the classes below a folder that define the most functions, inherited ones not included."""
    nodes = itertools.chain.from_iterable(ast.walk(ast.parse(path.read_text())) for path in folder.rglob("*.py"))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    methods = {node.name: sum(isinstance(each, ast.FunctionDef) for each in node.body) for node in classes}
    return dict(sorted(methods.items(), key=lambda each: -each[1])[:number])


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

    def row(self) -> Row:
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


def ours(task: str, algo: str, compiled: bool) -> Row:
    """An iteration of our own training."""
    settings: dict[str, Any] = {"algo": algo, "samplers": 0, "tensorboard": False, "log_steps": 10**9, "seed": 1}
    if algo == "sac":
        settings |= {"learning_starts": 64, "num_envs": 4, "num_steps": 8}
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(task, **settings)
        trainer: Any = make_trainer(config, RunFolder.create(f"{folder}/run", config))
        for policy in trainer.policies:
            if not compiled:
                policy.compiled = None
        for _ in range(WARM):
            trainer.iterate()
        row = Trace("/headrace/train/")(trainer.iterate).row()
        trainer.close()
    return row


class FirstStep(Callback):
    """Ends a run once an optimiser has taken a step.

    Attributes:
        functions: qualified names of the functions of `headrace` that had begun then, outermost first.
    """

    def __init__(self) -> None:
        self.functions: list[str] = []

    def on_update(self, training: Training) -> None:
        if self.functions:
            training.stop()

    def note(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method of the optimiser that notes the functions first."""

        def noted(*args: Any, **named: Any) -> Any:
            frames = [frame for frame, _ in traceback.walk_stack(None) if "/src/headrace/" in frame.f_code.co_filename]
            self.functions = self.functions or [frame.f_code.co_qualname for frame in reversed(frames)]
            return step(*args, **named)

        return noted


def stops(task: str, algo: str, begin: str, **settings: Any) -> int:
    """The functions from the one named ``begin`` to the first step of an optimiser."""
    first, compiled = FirstStep(), ((CompiledNetwork, "epoch"), (CompiledActorCritic, "update"))
    steps = ((FlatAdam, "step"), (FlatAdam, "step_unclipped"), *compiled)
    kept = [(owner, name, getattr(owner, name)) for owner, name in steps]
    try:
        for owner, name, method in kept:
            setattr(owner, name, first.note(method))
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"tensorboard": False, "video": False, "viewer": False, **settings}
            train(task, algo, callback=first, run_dir=f"{folder}/run", quiet=True, **options)
    finally:
        for owner, name, method in kept:
            setattr(owner, name, method)
    return len(first.functions) - first.functions.index(begin)


def theirs() -> Row:
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


def reading(files: tuple[Path, ...]) -> dict[str, Row]:
    """From a step to a gradient: ours, rsl_rl's where it is installed, and whole files."""
    rows: dict[str, Row] = {}
    for (task, algo), compiled in itertools.product((("CartPole-v1", "ppo"), ("Pendulum-v1", "sac")), (True, False)):
        rows[f"headrace {algo}, {'compiled' if compiled else 'losses'}"] = ours(task, algo, compiled)
    if importlib.util.find_spec("rsl_rl"):
        rows["rsl_rl ppo"] = theirs()
    return rows | {path.as_posix(): (file_lines(path), None, 1) for path in files}


def sentence(read: dict[str, Any]) -> str:
    """What a reader follows, in words."""
    ppo, ppo_losses, sac, sac_losses = (
        read[f"headrace {algo}, {way}"] for algo in ("ppo", "sac") for way in ("compiled", "losses")
    )
    words = (
        f"From a step of the environments to a gradient, PPO runs {ppo_losses['lines']} distinct lines of "
        f"{ppo_losses['functions']} functions, and SAC {sac_losses['lines']} of {sac_losses['functions']}, with losses "
        f"in autograd ({ppo['lines']} and {sac['lines']} lines in compiled code)."
    )
    if "rsl_rl ppo" in read:
        peer = read["rsl_rl ppo"]
        words += f" PPO in rsl_rl runs {peer['lines']} lines of {peer['functions']} functions, including its logger."
    files = [f"`{name}` {row['lines']}" for name, row in read.items() if row["functions"] is None]
    return words + (f" Single files have, in lines of code: {', '.join(files)}." if files else "")


def main() -> None:
    args = tyro.cli(StructureArgs)
    columns = {"now" if path == args.checkouts[-1] else path.resolve().name: measure(path) for path in args.checkouts}
    columns = {**(earlier(args.out, "structure", "checkouts") or {}), **columns}
    read = earlier(args.out, "structure", "reading") or {}
    read |= {name: dict(zip(COLUMNS, row, strict=True)) for name, row in reading(args.files).items()}
    record = heading("structure", "Lines of `train/`; no speed") | {
        "checkouts": columns,
        "reading": read,
        "methods": {
            name: largest_classes(args.checkouts[-1] / "src" / "headrace" / "train" / name) for name in (".", "runners")
        },
        "stops": {
            "ppo, from train()": stops("CartPole-v1", "ppo", "train"),
            "sac, from the loop": stops("Pendulum-v1", "sac", "Trainer.train", samplers=1, learning_starts=64),
        },
        "rows": [{"checkout": name} | column for name, column in columns.items()],
        "note": sentence(read),
    }
    tell(args.out, record)


if __name__ == "__main__":
    main()

"""``headrace recipes``: shows what ``headrace train TASK`` would use, and what it has reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headrace.cli.options import optional, parse_args
from headrace.pool.family import FROM_PIXELS
from headrace.pool.registry import families, family
from headrace.train.recipes.recipes import keys, preset_of, reached, recipe_at, recipe_of
from headrace.train.recipes.table import KINDS
from headrace.train.settings.algorithm import find_settings
from headrace.train.settings.command import train_command

SPEED = ("num_threads", "torch_threads")
"""settings that depend on the number of cores, and on which only speed and rounding depend"""


@dataclass(frozen=True)
class RecipesArgs:
    """Show the algorithm and the settings that headrace train TASK uses, and the return that they have reached.

    A task without a recipe of its own has that of its family, and others that of their kind.

    examples:
      headrace recipes
      headrace recipes Pong-v5
      headrace recipes my_env.py
    """

    task: Annotated[str, tyro.conf.Positional, optional("[TASK]")] = ""
    """name of a task; by default all recipes are listed"""


def run(argv: list[str]) -> int:
    """Prints the table, or a task's settings; returns the exit status."""
    args = parse_args(RecipesArgs, "recipes", argv)
    console = Console(highlight=False)
    if args.task:
        _show(console, args.task)
        return 0
    table = Table("for", "algorithm", "preset", "reached")
    for key in keys():
        algo, preset, _ = recipe_at(key)
        name = key.removesuffix(FROM_PIXELS)
        what = f"{name} (family)" if name in families() else f"{name} (kind)" if name in KINDS else name
        what += key.removeprefix(name)
        table.add_row(what, algo, preset, reached(key) or "")
    console.print(table)
    return 0


def _show(console: Console, task: str) -> None:
    family(task)  # raises for a task that nobody knows, without making it
    recipe = recipe_of(task, {})
    record = find_settings(recipe.algo)
    console.print(recipe.describe(task), soft_wrap=True)
    preset = preset_of(record.presets, task, "auto", recipe.preset)
    for name, value in sorted(preset.items()):
        console.print(f"  {name:<24} {value}", soft_wrap=True, markup=False)
    free = [name for name in (*SPEED, *["samplers"] * record.replays) if name not in preset]
    console.print(f"the cores decide {' and '.join(free)}, and nothing that changes what is learnt", soft_wrap=True)
    same = train_command(task, {"algo": recipe.algo, "preset": recipe.preset})
    console.print(f"the same command in full:  {same}", soft_wrap=True)

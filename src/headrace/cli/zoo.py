"""``headrace zoo``: lists the trained agents of the package ``headrace-zoo``."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headrace.cli.options import optional, parse_args
from headrace.train.runs import zoo
from headrace.train.runs.words import return_text

WIDTH = 80
AGAINST = " points a game against a player that moves at random"


@dataclass(frozen=True)
class ZooArgs:
    """List the trained agents that come with Headrace, or tell all that is known of one.

    Each is named zoo:NAME wherever a run is named: headrace play, export and watch, train --load, headrace.load.

    examples:
      headrace zoo
      headrace zoo Ant-v5
      headrace play zoo:Ant-v5
      headrace train Ant-v5 --load zoo:Ant-v5
      headrace export zoo:Ant-v5 ant.onnx
    """

    name: Annotated[str, tyro.conf.Positional, optional("[NAME]")] = ""
    """name of an agent; by default all are listed"""


def run(argv: list[str]) -> int:
    """Prints the table, or the card of an agent; returns the exit status."""
    args = parse_args(ZooArgs, "zoo", argv)
    console = Console(highlight=False)
    if args.name:
        _show(console, args.name.removeprefix(zoo.PREFIX))
        return 0
    cards = [zoo.read_card(folder) for folder in zoo.installed().values()]
    table = Table()
    table.add_column("agent", no_wrap=True)
    table.add_column("by")
    for column in ("return", "±", "steps", "processor seconds"):
        table.add_column(column, justify="right")
    for card in cards:
        earned = return_text(card.mean), return_text(card.deviation)
        spent = "-" if card.processor_seconds is None else f"{card.processor_seconds:,.0f}"
        table.add_row(zoo.PREFIX + card.task, card.algo, *earned, f"{card.steps:,}", spent)
    console.print(table)
    print(
        "returns: mean and standard deviation of 100 games on fresh seeds; of board games, points against random moves"
    )
    print(f"headrace play {zoo.PREFIX}{cards[0].task} plays one, headrace zoo NAME tells all of it")
    return 0


def _show(console: Console, name: str) -> None:
    folder = zoo.agent_folder(name)
    card = zoo.read_card(folder)
    size = sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
    spent = "unknown" if card.processor_seconds is None else f"{card.processor_seconds:,.1f}, {card.processor}"
    rows = {
        "trained by": card.command,
        "steps": f"{card.steps:,}",
        "processor seconds": spent,
        "versions": ", ".join(f"{package} {version}" for package, version in card.versions.items()),
        "games": f"{len(card.returns)}, in environments of seed {card.games_seed}",
        "mean return": f"{return_text(card.mean)} ± {return_text(card.deviation)}" + AGAINST * card.against_random,
        "returns": " ".join(map(return_text, sorted(card.returns))),
        "weights": f"{card.bits} bits each, {size:,} bytes, SHA-256 {card.weights}",
        "licence": card.licence,
        "folder": str(folder),
    }
    console.print(f"{zoo.PREFIX}{name}", markup=False)
    for what, words in rows.items():
        first, *rest = textwrap.wrap(words, WIDTH) or [""]
        for label, line in ((what, first), *(("", each) for each in rest)):
            console.print(f"  {label:<18} {line}", soft_wrap=True, markup=False)

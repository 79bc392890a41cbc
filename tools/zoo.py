"""Makes agents of the zoo from finished runs, and checks that those there earn what their cards say.

    python tools/zoo.py runs/ant runs/pong       adds the agents of these runs, in place of those of the same tasks
    python tools/zoo.py --check [NAME …]         plays 100 games with each agent on fresh seeds, beside its card

A run's best checkpoint is taken. Its networks are halved to 16 bits if 100 games with these earn as much as with the
whole ones on the same seed, up to what chance explains. The card's returns are those of the weights that are written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import secrets
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from headrace.errors import OptionError
from headrace.studies.leaderboard.report import machine
from headrace.studies.leaderboard.scores import core_seconds
from headrace.train.launch.checks import check_request
from headrace.train.play.agent import load_checkpoint
from headrace.train.play.evaluate import Evaluation, evaluate
from headrace.train.play.ladder import evaluate_against_random
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs import zoo
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import BEGINNINGS, ENDS
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.runs.words import return_text
from headrace.train.settings.command import train_command
from headrace.train.settings.config import Config

HOME = Path(__file__).parents[1] / "zoo" / zoo.PACKAGE
GAMES = 100
LINES = 50  # of a run's metrics that are kept
KEPT = ("step", "iteration", "episodes", "return", "length", "elo", "policies")
"""the metrics that are kept, beside the time"""
SHOWING = {"video", "viewer", "tensorboard", "log", "checkpoint_seconds", "keep_checkpoints", "log_steps", "metrics"}
"""settings that do not change what is learnt"""
PACKAGES = {"headrace", "torch", "numpy", "warp-lang", "mujoco", "ale-py"}
"""packages whose versions a card has"""
LARGEST, LARGEST_FILE = 8 << 20, 1 << 20  # bytes of the zoo, and of a file in it
CLOSE = 0.05  # largest difference of means, relative to the card's, that is close without a look at chance
ERRORS = 2.0  # standard errors of a difference that chance explains


def main() -> int:
    """Builds or checks; returns the exit status."""
    parser = argparse.ArgumentParser(description="Make agents of the zoo, or check them.")
    parser.add_argument("names", nargs="*", help="run folders; with --check, names of agents, by default all")
    parser.add_argument("--check", action="store_true", help="play with the agents, beside their cards")
    parser.add_argument("--games", type=int, default=GAMES, help="number of games of a check")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        return check(args.names or list(zoo.agents()), args.games)
    for name in args.names:
        print(build(Path(name)), flush=True)
    total = sum(file.stat().st_size for file in HOME.rglob("*") if file.suffix in (".safetensors", ".json", ".jsonl"))
    print(f"{len(zoo.agents())} agents, {total / 1e6:.2f} MB")
    return int(total > LARGEST)


# -- building --------------------------------------------------------------------------------------


def build(run_dir: Path) -> str:
    """Makes the agent of a run; returns in words what was made.

    Raises:
        OptionError: a file of it would be larger than a file may be.
    """
    run, config = RunFolder.open(run_dir)
    point = load_checkpoint(run)
    seed = fresh()
    whole = judge(run_dir, GAMES, seed)
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        made = RunFolder(folder)
        write_history(run, made, config)
        bits, model = 16, halved(point.model)
        write_networks(made, point, model)
        played = judge(made.path, GAMES, seed)
        if not alike(played, whole):
            bits, played = 32, whole
            write_networks(made, point, point.model)
        (weights,) = made.path.glob("checkpoints/*/model.safetensors")
        if weights.stat().st_size > LARGEST_FILE:
            raise OptionError(f"{run_dir}: its networks have {weights.stat().st_size:,} bytes, more than the zoo takes")
        where = machine()
        card = zoo.Card(
            format=zoo.FORMAT,
            task=config.task,
            algo=config.algo,
            command=command(config),
            seed=config.seed,
            steps=read_metrics(run.metrics_file)[-1]["step"],
            processor_seconds=core_seconds(read_metrics(run.metrics_file), math.inf),
            processor=where["processor"],
            games_seed=seed,
            returns=[float(f"{each:.6g}") for each in played.returns],
            bits=bits,
            weights=hashlib.sha256(weights.read_bytes()).hexdigest(),
            versions={name: version for name, version in where["versions"].items() if name in PACKAGES},
            licence="MIT",
            against_random=evaluate_against_random(run_dir, 1, seed=seed) is not None,
        )
        write_card(made.path / zoo.CARD, card)
        target = HOME / config.task
        shutil.rmtree(target, ignore_errors=True)  # with its picture, which docs/gallery.py draws anew
        shutil.copytree(made.path, target)
    kept = f"{bits} bits, {return_text(whole.mean_return)} before, {return_text(played.mean_return)} after"
    return f"{config.task}: {kept}, {readable_steps(card)}"


def judge(run_dir: Path, games: int, seed: int) -> Evaluation:
    """Plays games; of games by turns, against a player that moves at random."""
    return evaluate_against_random(run_dir, games, seed=seed) or evaluate(run_dir, games, seed=seed)


def write_card(file: Path, card: zoo.Card) -> None:
    """Writes a card with all returns in one line."""
    text = json.dumps(asdict(card) | {"returns": None}, indent=1)
    file.write_text(text.replace('"returns": null', f'"returns": {json.dumps(card.returns)}') + "\n")


def write_networks(made: RunFolder, point: Checkpoint, model: dict[str, torch.Tensor]) -> None:
    """Writes a model as the only checkpoint of a new agent."""
    shutil.rmtree(made.checkpoints, ignore_errors=True)
    step = point.counters["step"]
    folder = checkpoints.save(made.checkpoints, checkpoints.step_name(step), Checkpoint(model, counters={"step": step}))
    (folder / checkpoints.SEAL).unlink(missing_ok=True)  # which is of this user
    for file in folder.iterdir():
        file.chmod(0o644)


def write_history(run: RunFolder, made: RunFolder, config: Config) -> None:
    """Writes the run's settings, lines of its metrics, and how it began and ended."""
    made.config_file.write_text(json.dumps(json.loads(run.config_file.read_text()), indent=1) + "\n")
    lines = read_metrics(run.metrics_file)
    every = -(-len(lines) // LINES)
    with made.metrics_file.open("w") as file:
        for line in lines[::-1][::every][::-1]:
            known = {name: line[name] for name in KEPT if name in line}
            time = {name: line["time"][name] for name in ("seconds", "cores") if name in line["time"]}
            file.write(json.dumps(rounded(known | {"time": time})) + "\n")
    events = (json.loads(line) for line in run.events.file.read_text().splitlines())
    told = [json.dumps(event) for event in events if event["kind"] in (*BEGINNINGS, *ENDS)]
    made.events.file.write_text("\n".join(told) + "\n")


def rounded(value: Any) -> Any:
    """Returns a JSON value with numbers of six digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def halved(model: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns a model with networks of 16 bits; statistics stay as they are."""
    small = {name: tensor.half() for name, tensor in model.items() if name.startswith("network")}
    return model | {name: tensor for name, tensor in small.items() if model[name].dtype == torch.float32}


def command(config: Config) -> str:
    """Returns the command that trains what a run has trained."""
    plain = vars(check_request(config.task, {}).config)
    own = {name: value for name, value in vars(config).items() if name not in SHOWING and plain.get(name) != value}
    return train_command(config.task, own | {"seed": config.seed})


def fresh() -> int:
    """Returns a seed that nobody chose."""
    return secrets.randbelow(2**31)


def readable_steps(card: zoo.Card) -> str:
    return f"{card.steps:,} steps in {card.processor_seconds} processor seconds by {card.command}"


# -- checking --------------------------------------------------------------------------------------


def check(names: list[str], games: int) -> int:
    """Prints the mean of games on fresh seeds beside that of each card; returns 1 if one differs by more than chance.

    Means count as equal within 5 %, or within two standard errors of their difference.
    """
    table = Table()
    table.add_column("agent", no_wrap=True)
    table.add_column("seed")
    for column in ("card", "now", "difference", "standard errors"):
        table.add_column(column, justify="right")
    wrong = []
    for name in names:
        card, seed = zoo.read_card(zoo.agent_folder(name)), fresh()
        played = judge(zoo.agent_folder(name), games, seed)
        before = Evaluation(card.returns, [])
        apart = played.mean_return - card.mean
        apart = 0.0 if math.isclose(played.mean_return, card.mean, rel_tol=1e-5) else apart  # a card's six digits
        share = apart / abs(card.mean) if card.mean else math.inf * apart if apart else 0.0
        errors = apart / error if (error := standard_error(played, before)) else math.inf * apart if apart else 0.0
        if abs(share) > CLOSE and not alike(played, before):
            wrong.append(name)
        means = return_text(card.mean), return_text(played.mean_return)
        table.add_row(name, str(seed), *means, f"{share:+.1%}", f"{errors:+.1f}")
    Console(highlight=False).print(table)
    print(f"other than their cards: {', '.join(wrong)}" if wrong else f"{len(names)} agents earn what their cards say")
    return int(bool(wrong))


def alike(one: Evaluation, other: Evaluation) -> bool:
    """Returns whether chance explains the difference of two means."""
    return abs(one.mean_return - other.mean_return) <= ERRORS * standard_error(one, other)


def standard_error(one: Evaluation, other: Evaluation) -> float:
    """Returns the standard error of the difference of two means."""
    variances = (torch.tensor(each.returns, dtype=torch.float64).var() / len(each.returns) for each in (one, other))
    return float(sum(variances)) ** 0.5


if __name__ == "__main__":
    sys.exit(main())

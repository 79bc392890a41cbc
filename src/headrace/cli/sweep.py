"""``headrace sweep``: searches for hyperparameters with many runs, and stops poor ones early."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import fields

from headrace.cli.options import parse_args
from headrace.cli.sweep_args import SweepArgs
from headrace.errors import OptionError
from headrace.train.processes.place import refuse
from headrace.train.settings.command import setting_of


def run(argv: list[str]) -> int:
    """Searches, and prints the best trials; returns the exit status."""
    refuse("headrace sweep")
    own, rest = _split(argv)
    args = parse_args(SweepArgs, "sweep", own)
    if args.trials < 1 or args.jobs < 0 or args.sampler_seed < 0:
        raise OptionError("--trials must be at least 1, --jobs and --sampler-seed at least 0")
    # it imports Optuna, which --help does not need
    return importlib.import_module("headrace.cli.searching").search(args, own, rest)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    names = {field.name for field in fields(SweepArgs)} | {"help", "no_trust", "no_quiet"}
    own: list[str] = []
    rest: list[str] = []
    to = own
    for word in argv:
        if word.startswith("--"):
            to = own if setting_of(word) in names else rest
        elif word == "-h":
            to = own
        to.append(word)
    return own, rest

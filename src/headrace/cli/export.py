"""``headrace export``: writes a trained policy as ONNX, C or TorchScript."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from headrace.cli.options import check_file, optional, parse_args
from headrace.cli.play import chosen_run
from headrace.cli.trust import agreed
from headrace.train import load
from headrace.train.runs.folder import RunFolder


@dataclass(frozen=True)
class ExportArgs:
    """Write the policy of a run to a file that can be used without Headrace: a model from observations to actions.

    A file named .onnx is an ONNX model, one named .c C99 for any computer, with a header beside it, and one named .pt
    TorchScript. It is checked against the agent, an ONNX model where onnxruntime is installed, C where there is a
    compiler. Beside it, a contract, policy.json beside policy.c, says what its numbers are.

    examples:
      headrace export runs/mine policy.onnx
      headrace export runs/mine policy.c
      headrace export runs/mine policy.pt --checkpoint newest
      headrace export runs/tag runner.onnx --policy runner
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """the run folder, whose path headrace train prints, or a folder of runs, of which it chooses as play does"""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """the file to write, whose name ends in .onnx, .c or .pt"""
    policy: Annotated[str | None, optional("NAME")] = None
    """name of the policy, for a run of several policies"""
    checkpoint: Literal["best", "newest"] = "best"
    """which of the run's checkpoints to load"""
    trust: bool = False
    """do what the run asks for, such as running code, even if it was not trained on this machine"""


def run(argv: list[str]) -> int:
    """Exports the policy and prints its inputs and outputs; returns the exit status."""
    args = parse_args(ExportArgs, "export", argv, takes="a run and a file")
    check_file("FILE", args.file)
    console = Console(highlight=False)
    run = chosen_run(args.run, console)
    from headrace.train.play.evaluate import describe_checkpoint  # imports torch
    from headrace.train.play.export import check_kind, export_policy

    check_kind(args.file)
    trust = agreed(run, args.trust)
    console.print(describe_checkpoint(RunFolder(run), args.checkpoint), soft_wrap=True)
    done = export_policy(load(run, which=args.checkpoint, trust=trust), args.file, args.policy)
    table = Table("", "array", "rows", "what")
    for kind, arrays in (("in", done.inputs), ("out", done.outputs)):
        for array in arrays:
            shape = ", ".join((*(() if done.program else ("batch",)), *map(str, array.shape)))
            table.add_row(kind, array.name, rf"{array.dtype} \[{shape}]" if shape else array.dtype, array.meaning)
    console.print(table)
    if (program := done.program) is not None:
        sizes = f"{program.weights:,} bytes of weights, {program.scratch:,} bytes of scratch memory"
        print(f"{sizes}, {program.multiply_adds:,} multiply-adds a step")
    if done.difference is None:
        print(f"not checked: {done.checked}")
    else:
        print(f"checked in {done.checked}: differs from the agent by {done.difference:.1g} at most")
    print(f"contract {done.contract}")
    print(f"policy {done.path}")
    return 0

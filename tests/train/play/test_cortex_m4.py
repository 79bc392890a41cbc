"""A policy in C runs on a Cortex-M4, which QEMU plays, and answers there as the agent does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.train.play.export import export_policy
from headrace.train.play.export.c import literal
from headrace.train.play.export.network import network_of
from untrained_agents import CASES, observed, untrained

CC, QEMU = "arm-none-eabi-gcc", "qemu-system-arm"
BOARD = Path(__file__).parent / "cortex_m4"
FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Werror", "-O2"),
    *("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
)
TICK = 40  # instructions: the board's clock has 25 MHz, and with icount shift=0 an instruction takes a nanosecond
ROWS = 20
GIVEN = {"ant": ("Ant-v5", {}), "go1": ("Go1Flat-v0", {})}


def numbers(rows: np.ndarray, kind: str) -> str:
    """An array of C with observations."""
    end = "" if kind == "double" else "f"
    text = (str(int(x)) if rows.dtype.kind in "iu" else literal(float(x), end) for x in rows.ravel())
    return (
        f"static const {kind} rows[{len(rows)}][{rows[0].size}] = {{{{\n"
        + "}, {".join(", ".join(next(text) for _ in range(rows[0].size)) for _ in rows)
        + "}};\n"
    )


def played(folder: Path, source: str, rows: np.ndarray, outputs: int) -> tuple[np.ndarray, int]:
    """The outputs float32[rows, outputs] of the policy in a folder on the board, and the instructions of a step."""
    (folder / "given.h").write_text(
        f'#include "policy.h"\n#define ROWS {len(rows)}\n{numbers(rows, source)}'
        "#define POLICY_STEP(state, row) policy_outputs(state, rows[row])\n"
    )
    parts, image = [], folder / "policy.elf"
    for file, more in ((folder / "policy.c", ("-pedantic",)), (BOARD / "board.c", ("-ffreestanding",))):
        parts.append(folder / f"{file.stem}.o")
        subprocess.run([CC, *FLAGS, *more, "-I", folder, "-c", file, "-o", parts[-1]], check=True)
    link = [CC, *FLAGS, "-nostartfiles", "-T", BOARD / "board.ld", *parts, "-lm", "--specs=nosys.specs", "-o", image]
    subprocess.run(link, check=True, stderr=subprocess.DEVNULL)
    run = [QEMU, "-M", "mps2-an386", "-nographic", "-semihosting", "-icount", "shift=0", "-kernel", image]
    done = subprocess.run(run, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200)
    *found, ticks = (int(line, 16) for line in done.stderr.split())  # which is where the board's host prints
    return np.array(found, np.uint32).view(np.float32).reshape(len(rows), outputs), TICK * ticks // len(rows)


@pytest.mark.nightly
@pytest.mark.parametrize("case", ["mlp", "continuous", "sac", "gru", "small images", "normed images", "ant", "go1"])
def test_a_policy_answers_on_a_cortex_m4(tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]):
    for tool, package in ((CC, "gcc-arm-none-eabi libnewlib-arm-none-eabi"), (QEMU, "qemu-system-arm")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install {package}")
    task, settings = (CASES | GIVEN)[case]
    agent = untrained(task, **settings)
    program = export_policy(agent, tmp_path / "policy.c").program
    network = network_of(agent.policies[0])
    obs = observed(agent, ROWS)["observation"]
    found, instructions = played(tmp_path, network.source, obs, network.choice.outputs)
    memory = None
    for row, mine in zip(obs, found, strict=True):
        with torch.no_grad():
            params, _, *after = agent.policy(torch.from_numpy(row[None]), memory)
        memory = after[0] if after else None
        ours = params[0, : network.choice.outputs].numpy()
        assert np.abs(ours - mine).max() <= 1e-5 * max(1.0, np.abs(ours).max())
    assert program is not None and instructions > program.multiply_adds
    with capsys.disabled():
        each = instructions / program.multiply_adds
        print(f"\n{case}: {program.weights:,} bytes of weights, {program.scratch:,} of scratch, ", end="")
        print(f"{program.multiply_adds:,} multiply-adds, {instructions:,} instructions ({each:.1f} each)")

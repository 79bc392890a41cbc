"""No speed: is Headrace's Atari machine the emulator's own, bit by bit?

Runs `native/tests/test_atari_machine` over every game in every mode and difficulty, and
`native/tests/test_atari_fuzz`, which it builds, and writes what was compared. It takes hours on two cores; the file is
written anew after every game, so that a run that is interrupted says what it did, and `--games` goes on with others. A
difference names the game, the frame, the line, and the register write that leads to it.

    python benchmarks/atari_equality.py              every mode and difficulty
    python benchmarks/atari_equality.py --no-modes   every game as it begins
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from atari_programs import CARTRIDGES, program
from common import RESULTS, heading, write

TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}
EQUAL = re.compile(r"equal (\w+) mode (-?\d+) difficulty (-?\d+): (\d+) frames")
FUZZED = re.compile(r"(\d+) instructions, (\d+) programs, (\d+) frames compared, (\d+) different")
STATE_EVERY, SWAP_EVERY = 40, 1000  # frames, as in test_atari_machine.cpp


@dataclass
class EqualityArgs:
    """Headrace's Atari machine beside the emulator's own, frame by frame."""

    frames: int = 20_000
    """frames of each run"""
    games: tuple[str, ...] = ()
    """the emulator's names of games; all if none"""
    modes: bool = True
    """every mode and difficulty, not the default alone"""
    rounds: int = 100
    """of the fuzzer, for each kind of cartridge"""
    out: Path = RESULTS
    """folder for the JSON file"""


@dataclass
class Found:
    """What was compared."""

    runs: dict[str, int] = field(default_factory=dict)
    """game → modes and difficulties of it that were equal"""
    frames: int = 0
    states: int = 0
    swaps: int = 0
    different: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        if line.startswith("DIFFERENT"):
            self.different.append(line.strip())
        elif match := EQUAL.match(line):
            frames = int(match[4])
            self.runs[match[1]] = self.runs.get(match[1], 0) + 1
            self.frames += frames
            self.states += frames // STATE_EVERY
            self.swaps += frames // SWAP_EVERY


def shown(command: list[str]) -> list[str]:
    """Runs a test, shows and returns its lines; a difference is a line, not an error."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            lines.append(line)
    if process.returncode not in (0, 1):
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return lines


def main() -> None:
    args = tyro.cli(EqualityArgs)
    machine_test, fuzzer_test = program("test_atari_machine"), program("test_atari_fuzz")
    fuzzed = FUZZED.match(shown([fuzzer_test, str(CARTRIDGES), str(args.rounds)])[-1])
    assert fuzzed is not None
    names = ("instructions", "programs", "frames", "different")
    fuzzer: dict[str, int] = dict(zip(names, map(int, fuzzed.groups()), strict=True))
    found = Found()
    for game in args.games or sorted({path.stem for path in CARTRIDGES.glob("*.bin")} - TWO_PLAYERS):
        kind = ["modes"] if args.modes else []
        for line in shown([machine_test, str(CARTRIDGES), *kind, str(args.frames), game]):
            found.read(line)
        write(args.out, record(args, found, fuzzer))
    print(f"{len(found.runs)} games, {sum(found.runs.values())} runs, {found.frames:,} frames equal")
    sys.exit(bool(found.different or fuzzer["different"]))


def record(args: EqualityArgs, found: Found, fuzzer: dict[str, int]) -> dict[str, Any]:
    """What was compared so far."""
    title = "Atari's machine is the emulator's, frame by frame"
    return heading("atari_equality_modes" if args.modes else "atari_equality", title) | {
        "settings": {"frames": args.frames, "modes": args.modes, "rounds": args.rounds},
        "games": len(found.runs),
        "runs": sum(found.runs.values()),
        "frames": found.frames,
        "states": found.states,
        "states exchanged": found.swaps,
        "fuzzer": fuzzer,
        "different": found.different,
        "runs of each game": found.runs,
        "rows": [row(found, fuzzer)],
    }


def row(found: Found, fuzzer: dict[str, int]) -> dict[str, Any]:
    """Games and fuzzer in a line."""
    return {
        "games": len(found.runs),
        "frames equal": found.frames,
        "states equal": found.states,
        "the fuzzer's instructions": fuzzer["instructions"],
        "its frames": fuzzer["frames"],
        "different": len(found.different) + fuzzer["different"],
    }


if __name__ == "__main__":
    main()

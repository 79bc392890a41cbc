"""Instructions of Headrace's Atari machine beside the emulator's own, which other work does not change; memory, build.

`valgrind --tool=callgrind` counts the instructions of `native/tests/test_atari_machine ROMS ours|original` for a few
and for more frames of random play, frame skip 4: the difference, divided, is one frame's. Valgrind has no AVX-512, so
both run with AVX2 at the most. The instructions of a step of a pool of the first game are counted in the same way: what
is more than those of four frames is the pool's own. Memory is that of one more environment in a pool of Pong, from
pools of two sizes in processes of their own. `--build` compiles the module anew, one file after the other, and tells
processor seconds, and what of them Headrace's machine adds.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nanobind
import tyro

from atari_programs import CARTRIDGES, compile_in, configure, program
from common import RESULTS, earlier, heading, in_child, tell

GAMES = (
    "pong", "breakout", "seaquest", "ms_pacman", "space_invaders", "qbert", "beam_rider", "enduro", "pitfall",
    "asteroids",
)  # fmt: skip
NAME, ORIGINAL, TIMES = "atari_instructions", "ale-py's machine", "times as many"
SIDES = ("ours", "original")
SMALL, LARGE = 16, 144
"""environments of the two pools"""
COUNTED = re.compile(r"Collected : (\d+)")
VALGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
FRAME_SKIP, POOLED, STEPS = 4, 2, (20, 220)
"""of the pool whose steps are counted: also its environments, and the steps of the two runs whose difference counts"""


@dataclass
class InstructionsArgs:
    """Instructions a frame of Headrace's Atari machine and of the emulator's own."""

    games: tuple[str, ...] = GAMES
    """games, by the emulator's names"""
    frames: tuple[int, int] = (200, 1000)
    """frames of the two runs whose difference counts"""
    build: bool = False
    """compile the module, too, which takes minutes; otherwise the file keeps what it says of that"""
    out: Path = RESULTS
    """folder for the JSON file"""


def instructions(machine: str, side: str, game: str, frames: int) -> int:
    """Of a whole run of so many frames."""
    return counted([machine, str(CARTRIDGES), side, str(frames), game])


def a_frame(machine: str, side: str, game: str, frames: tuple[int, int]) -> int:
    """Instructions of one frame."""
    few, many = (instructions(machine, side, game, n) for n in frames)
    return round((many - few) / (frames[1] - frames[0]))


def counted(command: list[str]) -> int:
    """Instructions of a whole program."""
    done = subprocess.run([*VALGRIND, *command], capture_output=True, text=True, check=True)
    found = COUNTED.search(done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def play(game: str, steps: int) -> None:
    """So many steps of a pool of two environments on one thread; run in a process of its own."""
    import numpy as np

    import headrace

    options = {"reward_clip": True, "stack_num": 4, "frame_skip": FRAME_SKIP, "repeat_action_probability": 0.0}
    task = "".join(map(str.capitalize, game.split("_"))) + "-v5"
    with headrace.make(task, num_envs=POOLED, num_threads=1, seed=0, **options) as pool:
        pool.reset()
        actions = np.random.default_rng(0).integers(0, pool.action_space.n, (steps, POOLED))
        for action in actions:
            pool.step(action)


def a_step(game: str) -> int:
    """Instructions of a pool for one step of one environment."""
    few, many = (counted([sys.executable, __file__, "--pool", game, str(steps)]) for steps in STEPS)
    return round((many - few) / (STEPS[1] - STEPS[0]) / POOLED)


def resident(side: str, num_envs: int) -> int:
    """Bytes of this process with a pool of Pong that has played; run in a process of its own."""
    import numpy as np

    import headrace

    with headrace.make("Pong-v5", num_envs=num_envs, num_threads=1, seed=0, original=side == "original") as pool:
        pool.reset()
        for _ in range(20):
            pool.step(np.zeros(num_envs, np.int64))
        status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


def memory() -> dict[str, float]:
    """KiB of one more environment, its observations included."""
    found = {}
    for side in SIDES:
        small, large = (in_child(__file__, "--child", side, str(n)) for n in (SMALL, LARGE))
        found[side] = round((large - small) / (LARGE - SMALL) / 1024, 1)
    return found


def build() -> dict[str, float]:
    """Processor seconds of compiling the module, one file at a time, and what of them Headrace's machine takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configure(folder, f"-Dnanobind_DIR={nanobind.cmake_dir()}")
        before = children()
        compile_in(folder, "_atari", jobs=1)
        total = children() - before
        log = [line.split("\t") for line in (folder / ".ninja_log").read_text().splitlines()[1:]]
        taken = {output: int(end) - int(begin) for begin, end, _, output, _ in log}
        machine = sum(ms for output, ms in taken.items() if "/machine/" in output) / sum(taken.values())
    return {"module": round(total, 1), "of which the machine": round(total * machine, 1)}


def children() -> float:
    """Processor seconds of all that this process has run and that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(resident(sys.argv[2], int(sys.argv[3]))))
        return
    if sys.argv[1:2] == ["--pool"]:
        play(sys.argv[2], int(sys.argv[3]))
        return
    args = tyro.cli(InstructionsArgs)
    if shutil.which("valgrind") is None:
        sys.exit("this counts instructions with valgrind, which is not installed: apt-get install valgrind")
    machine, games = program("test_atari_machine"), {}
    for game in args.games:
        games[game] = {side: a_frame(machine, side, game, args.frames) for side in SIDES}
        print(f"{game:20} {games[game]['ours']:>10,} {games[game]['original']:>12,} instructions a frame")
    game = args.games[0]
    step, emulator = a_step(game), FRAME_SKIP * games[game]["ours"]
    kib, took = memory(), build() if args.build else earlier(args.out, NAME, "build seconds")
    title = "Atari: instructions of a frame"
    record = heading(NAME, title) | {
        "settings": {"frames": args.frames, "frame_skip": FRAME_SKIP},
        "rows": rows(games),
        "a step of a pool": {"game": game, "instructions": step, "of which the emulator's": emulator},
        "KiB of an environment": kib,
        "build seconds": took,
        "note": f"A step of a pool of {game} is {step:,} instructions, {emulator:,} of them the emulator's "
        f"({emulator / step:.2f}). {note(kib, took)}",
    }
    tell(args.out, record)
    print(record["note"])


def rows(games: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    """One a game, then the mean of the ratios."""
    found: list[dict[str, Any]] = [
        {
            "game": game,
            "Headrace": counts["ours"],
            ORIGINAL: counts["original"],
            TIMES: counts["original"] / counts["ours"],
        }
        for game, counts in games.items()
    ]
    mean = statistics.geometric_mean(row[TIMES] for row in found)
    found.append({"game": "geometric mean", "Headrace": "", ORIGINAL: "", TIMES: mean})
    return [row | {TIMES: round(row[TIMES], 2)} for row in found]


def note(kib: dict[str, float], took: dict[str, float]) -> str:
    """Memory and compiling, in words."""
    text = f"One more environment of Pong takes {kib['ours']:,.0f} KiB, with `original=True` {kib['original']:,.0f}."
    if took:
        whole, machine = took["module"], took["of which the machine"]
        text += f" Compiling the module takes {whole:.0f} processor seconds, the machine {machine:.0f} of them."
    return text


if __name__ == "__main__":
    main()

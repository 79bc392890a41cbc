"""Trains rows of the leaderboard with other libraries, on all cores, with the same goals and limits.

    python benchmarks/peers [ROWS…] [--seeds 3] [--out runs/leaderboard] [--board FILE] [--peers FILE]

Results are kept in ``OUT/ROW/LIBRARY``, where `headrace leaderboard` finds them for its table and its page. The
settings of ``peers.toml`` are those that RL Baselines3 Zoo has tuned for a task, or a script's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from libraries import LIBRARIES

from headrace.errors import OptionError
from headrace.machine import usable_cores
from headrace.studies.jobs.seeds import chosen_seeds
from headrace.studies.leaderboard import report, scores
from headrace.studies.leaderboard.board import DEFAULT, Row, chosen_rows, read_board
from headrace.studies.leaderboard.scores import Measured
from headrace.studies.leaderboard.training import entries, is_known, keep, result_file
from headrace.train.processes.interrupt import Interrupt
from headrace.train.runs import files

HERE = Path(__file__).parent
PAUSE = 0.1  # seconds between two checks of a process
GRACE = 60.0  # seconds after twice its minutes when a process is killed


@dataclass(frozen=True)
class Peer:
    """Another library's training of a row.

    Attributes:
        row: the name of the row.
        who: the library, one of `LIBRARIES`.
        source: where the settings are from.
    """

    row: str
    who: str
    algo: str
    source: str
    num_envs: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def kept(self, row: Row) -> dict[str, Any]:
        """Returns the values on which the results of a seed depend, as JSON represents them."""
        ends = {name: row.kept()[name] for name in ("task", "goals", "minutes", "total_steps", "stop_episodes")}
        return ends | {"algo": self.algo, "num_envs": self.num_envs, "settings": self.settings}


@dataclass(frozen=True)
class PeersArgs:
    """Rows of the leaderboard, trained with other libraries."""

    rows: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """names of the rows; all by default"""
    seeds: str = "1"
    """number of seeds, or a list of seeds, such as 1,2,7"""
    out: Path = Path("runs/leaderboard")
    """the leaderboard's folder"""
    board: Path = DEFAULT
    """the TOML file of the rows"""
    peers: Path = HERE / "peers.toml"
    """the TOML file with the settings of the libraries"""


def train(row: Row, peer: Peer, folder: Path, seeds: Sequence[int]) -> bool:
    """Trains the seeds of a row that have no scores yet, one after the other; returns False after Ctrl-C.

    Raises:
        OptionError: the folder holds runs with other settings.
    """
    library = LIBRARIES[peer.who]
    if not library.is_installed():
        print(f"{row.name}: without {peer.who}, which is not there: {library.missing}")
        return True
    keep(folder, peer.kept(row))
    for seed in seeds:
        if is_known(folder, seed):
            continue
        print(f"{row.name}, seed {seed}: {peer.who} {peer.algo}, at most {row.minutes:g} minutes", flush=True)
        result = train_seed(row, peer, folder / f"seed-{seed}", seed)
        if result is None:
            return False
        if result.error:
            print(f"{row.name}, seed {seed}: {peer.who} failed: {result.error}")
        result.write(result_file(folder, seed))
    return True


def train_seed(row: Row, peer: Peer, folder: Path, seed: int) -> Measured | None:
    """Trains one seed in a process, and returns its scores; None after Ctrl-C."""
    folder.mkdir(parents=True, exist_ok=True)
    request: dict[str, Any] = {
        "who": peer.who, "task": row.task, "algo": peer.algo, "num_envs": peer.num_envs,
        "settings": dict(peer.settings), "seed": seed, "total_steps": row.total_steps, "minutes": row.minutes,
        "goal": max(row.goals), "episodes": row.games, "folder": str(folder.resolve()), "threads": usable_cores(),
    }  # fmt: skip
    log = folder.with_name(f"{folder.name}.log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, HERE / "seed.py"],
            stdin=subprocess.PIPE, stdout=output, stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C in the terminal is for the process that started it
        )  # fmt: skip
        assert process.stdin is not None
        with process.stdin, Interrupt() as interrupt:  # the process ends when its input does
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                until = time.monotonic() + 60 * row.minutes * 2 + GRACE
                while process.poll() is None and not interrupt and time.monotonic() < until:
                    time.sleep(PAUSE)
            finally:
                in_time = process.poll() is not None
                process.kill()
                process.wait()
        if interrupt:
            return None
        if not in_time:
            return scores.failed(seed, row.goals, f"it took more than twice its {row.minutes:g} minutes")
    if process.returncode:
        return scores.failed(seed, row.goals, f"its process ended with status {process.returncode}; see {log}")
    lines = [json.loads(line) for line in files.read(folder / "metrics.jsonl", files.MOST_METRICS).splitlines()]
    points = [(line["step"], line["time"]["seconds"], line["return"]) for line in lines if line["return"] is not None]
    greedy = json.loads(files.read(folder / "greedy.json"))
    steps, seconds = (lines[-1]["step"], lines[-1]["time"]["seconds"]) if lines else (0, 0.0)
    return Measured(seed, scores.times_to(points, row.goals), steps, seconds, greedy, row.games)


def main() -> int:
    args = tyro.cli(PeersArgs, prog="python benchmarks/peers")
    board = read_board(args.board)
    rows = {row.name: row for row in chosen_rows(board, args.rows)}
    peers = [Peer(**values) for values in tomllib.loads(args.peers.read_text())["peer"]]
    if other := next((peer.who for peer in peers if peer.who not in LIBRARIES), None):
        raise OptionError(f"{args.peers} names {other!r}; there are {', '.join(LIBRARIES)}")
    each = [(rows[peer.row], peer) for peer in peers if peer.row in rows]
    seeds = chosen_seeds(args.seeds)
    done = all(train(row, peer, args.out / row.name / peer.who, seeds) for row, peer in each)
    report.write(args.out, entries(args.out, board))
    print(f"page  {args.out / report.PAGE}")
    return 0 if done else 130


if __name__ == "__main__":
    sys.exit(main())

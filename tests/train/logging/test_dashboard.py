"""What a person sees: speed, cores, memory, and every policy's numbers, in a terminal, in lines and in the metrics."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.machine import readable
from headrace.train.logging.dashboard import Dashboard
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from whole_runs import SMALL

TAG: dict[str, Any] = {"env_options": {"num_taggers": 4, "max_episode_steps": 9}, "total_steps": 2000}


def shown(tmp_path: Path, terminal: bool) -> tuple[str, list[dict[str, Any]]]:
    """What a run of Tag prints, and its metrics."""
    config = make_config("TagGridWorld-v0", **(SMALL | TAG))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path / "run", config))
    dashboard = Dashboard(io.StringIO())
    screen = io.StringIO()
    dashboard.console = Console(file=screen, force_terminal=terminal, width=100)
    trainer.train(dashboard)
    lines = read_metrics(trainer.run.metrics_file)
    trainer.close()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()), lines


def test_every_line_of_metrics_has_three_speeds_and_memory(tmp_path: Path) -> None:
    _, lines = shown(tmp_path, terminal=False)
    for line in lines:
        spent, speeds = line["time"], line["time"]["steps_per_second"]
        # each counts the time of the one before, and more
        assert speeds["stepping"] > speeds["inference"] > speeds["training"] > 0
        assert spent["memory"]["resident"] > 2**20
        for policy in line["policies"].values():
            assert policy["length"] == line["length"] and "entropy" in policy["loss"]


@pytest.mark.parametrize("terminal", [True, False], ids=["picture", "lines"])
def test_the_dashboard_shows_speed_memory_and_policies(tmp_path: Path, terminal: bool) -> None:
    text, _ = shown(tmp_path, terminal)
    for words in ("steps/s", "iB ", "tagger", "runner"):
        assert words in text
    assert all((words in text) == terminal for words in ("of the environments alone", "with choosing actions"))
    if terminal:
        last = text[text.rindex("╭") :]
        (row,) = [line for line in last.splitlines() if line.startswith("│ runner")]
        assert len(row.split()) == 2 + 3 + 6, "name, return, length and six statistics between two borders"


def test_bytes_are_readable() -> None:
    assert [readable(size) for size in (0, 1023, 1536, 20 * 2**20, 3 * 2**30, 5000 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "20 MiB",
        "3.0 GiB",
        "5000 GiB",
    ]

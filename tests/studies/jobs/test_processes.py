"""Runs in processes of their own end as they are told to, at whatever moment."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.studies.jobs.processes import Processes


def test_a_run_that_is_stopped_while_its_process_starts_was_interrupted(tmp_path: Path) -> None:
    with Processes(1) as processes:
        job = processes.start("early", "CartPole-v1", tmp_path / "early", {"video": False})
        time.sleep(0.1)
        job.stop()
        job.process.wait(60)
        processes.ended()
    assert job.ending and job.ending["reason"] == "interrupted", job.log.read_text()

"""Several trainings at once, each in a separate process, whose metrics are read until they end or are stopped."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Self

from headrace.limits import cause_of_death, need_files
from headrace.machine import usable_cores
from headrace.pool.registry import build_task
from headrace.train.launch.checks import check_request
from headrace.train.processes.interrupt import Interrupt
from headrace.train.runs import files
from headrace.train.runs.files import writing
from headrace.train.runs.metrics import Tail, measurement, seconds_of
from headrace.train.settings.config import Config

PATIENCE = 60.0  # maximum wait for a run's last checkpoint after it was told to stop, in seconds
PAUSE = 0.1  # seconds between two checks of the runs
FILES = 4  # open files for each running process
DONE = ("solved", "finished")
"""reasons after which a run is complete"""


class MetricsTail:
    """The lines of a ``metrics.jsonl`` so far.

    A run that continues from an earlier checkpoint truncates its file, which is then read from the beginning.
    """

    def __init__(self, file: Path):
        self._tail = Tail(file)
        self.lines: list[dict[str, Any]] = []

    def refresh(self) -> list[dict[str, Any]]:
        """Reads what was written since the last call; returns all lines."""
        with contextlib.suppress(OSError):
            anew, lines = self._tail.read()
            if anew:
                self.lines.clear()
            self.lines += [values for line in lines if (values := measurement(line)) is not None]
        return self.lines


@dataclass
class Job:
    """A run in a process.

    Attributes:
        log: the file with the output of the process.
        place: the index of its share of the cores, from 0.
        began: the time at which it was started, by ``time.monotonic``.
        ending: reason, steps, seconds and return at its end, or the error; None before.
    """

    name: str
    run_dir: Path
    log: Path
    metrics: MetricsTail
    process: Popen[bytes]
    place: int
    began: float = field(default_factory=time.monotonic)
    ending: dict[str, Any] | None = None
    stopping: bool = False

    @property
    def step(self) -> int:
        return self.metrics.lines[-1]["step"] if self.metrics.lines else 0

    @property
    def seconds(self) -> float:
        return (seconds_of(self.metrics.lines[-1]) or 0.0) if self.metrics.lines else 0.0

    @property
    def mean_return(self) -> float | None:
        """The last mean return in its metrics; None before one is reported."""
        return next((line["return"] for line in reversed(self.metrics.lines) if line.get("return") is not None), None)

    def stop(self) -> None:
        """Tells the run to write a checkpoint and end, as Ctrl-C does."""
        if not self.stopping and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.stopping = True


class Processes:
    """Up to ``jobs`` trainings at once; a context manager that stops unfinished ones at its end.

    Args:
        jobs: the largest number at once; each may use an equal share of the cores.
    """

    def __init__(self, jobs: int):
        self.jobs = jobs
        self.running: list[Job] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def full(self) -> bool:
        """Whether ``jobs`` runs are in progress."""
        return len(self.running) >= self.jobs

    def start(self, name: str, task: str, run_dir: Path, settings: dict[str, Any], trust: bool = False) -> Job:
        """Begins a run, or continues the one that the folder holds.

        Args:
            run_dir: the run folder; the output of the process is written to a file next to it.
            settings: keyword arguments of `headrace.train.train` that JSON can represent.
            trust: as for `headrace.train.resume`, for a run that the folder holds.

        Raises:
            StorageError: the folder cannot be written.
        """
        need_files(FILES, f"starting {name}")
        taken = {job.place for job in self.running}
        place = next(place for place in range(self.jobs) if place not in taken)
        share = [place, self.jobs] if 1 < self.jobs <= usable_cores() else None
        log = run_dir.with_name(f"{run_dir.name}.log")
        with writing(log):
            run_dir.parent.mkdir(parents=True, exist_ok=True)
            if run_dir.is_symlink():
                raise OSError(errno.ELOOP, "it is a link, which could lead out of the folder of these runs")
            output = os.fdopen(files.opened(log, files.APPEND), "ab")
        with output:
            process = Popen(
                [sys.executable, "-m", "headrace.studies.jobs.child"],
                stdin=PIPE,
                stdout=PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C in the terminal reaches only the process that started it
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        assert process.stdin is not None
        request = {"task": task, "run_dir": str(run_dir), "settings": settings, "share": share, "trust": trust}
        with contextlib.suppress(BrokenPipeError):  # the process has ended; its exit status says why
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        job = Job(name, run_dir, log, MetricsTail(run_dir / "metrics.jsonl"), process, place)
        self.running.append(job)
        return job

    def ended(self) -> list[Job]:
        """Reads the metrics of all runs; returns the runs that have ended since the last call."""
        done = []
        for job in self.running:
            job.metrics.refresh()
            if job.process.poll() is not None:
                job.ending = _ending(job)
                done.append(job)
        self.running = [job for job in self.running if job not in done]
        return done

    def follow(self, interrupt: Interrupt, start: Callable[[], object]) -> Iterator[list[Job]]:
        """Starts runs as others end, until all have ended; stops the running ones once Ctrl-C is pressed.

        Args:
            start: starts the next run with `start`; returns what is not true if there is none.

        Yields:
            Every 0.1 seconds, the runs that have ended since.
        """
        while self.running or (not interrupt and start()):
            if interrupt:
                for job in self.running:
                    job.stop()
            elif not self.full:
                start()
            yield self.ended()
            time.sleep(PAUSE)

    def close(self) -> None:
        """Stops all running jobs, and waits for their checkpoints; kills those that take longer than `PATIENCE`."""
        for job in self.running:
            job.stop()
        until = time.monotonic() + PATIENCE
        try:
            for job in self.running:
                job.process.wait(max(0.0, until - time.monotonic()))
        except (TimeoutExpired, KeyboardInterrupt):
            pass
        finally:
            for job in self.running:
                if job.process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(job.process.pid, signal.SIGKILL)
                    job.process.wait()
                _ending(job)
            self.running = []


def _ending(job: Job) -> dict[str, Any]:
    """Returns the result that a process wrote before it ended, or an error."""
    process = job.process
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    text = process.stdout.read() if not process.stdout.closed else b""
    process.stdout.close()
    with contextlib.suppress(ValueError, IndexError):
        told = json.loads(text.splitlines()[-1])
        if isinstance(told, dict):
            return told
    # stopped while it was ending; or starting, where what is interrupted may exit in its own way
    if job.stopping and (process.returncode == -signal.SIGINT or not job.step):
        return {"reason": "interrupted", "steps": job.step, "seconds": job.seconds, "return": job.mean_return}
    return {"error": f"its process ended: {cause_of_death(process.returncode)}; see {job.log}", "wrong": False}


def side_by_side(task: str, overrides: Mapping[str, Any]) -> tuple[Config, int]:
    """Returns the settings with which a run begins, and how many such runs the cores can train side by side.

    Raises:
        OptionError, UnknownTaskError, LimitError: as `headrace.train.train`.
    """
    request = check_request(task, overrides)
    config, policies = request.config, request.policies.values()
    light = build_task(task, **config.env_options).kernel is not None  # one core is enough for its environments
    alone = config.samplers > 0 or config.devices or any(own.device != "cpu" for own in policies)
    small = light and all(own.fit.network == "mlp" for own in policies) and config.torch_threads <= 1
    return config, usable_cores() if small and not alone else 1

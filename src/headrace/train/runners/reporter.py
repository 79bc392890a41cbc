"""What a run reports: lines of metrics, the dashboard, its log of events, and weights for the web page."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.train.logging.dashboard import Progress
from headrace.train.logging.finite import check_statistics
from headrace.train.logging.first_minute import FirstMinute, own_settings
from headrace.train.logging.hardware import HardwareUse
from headrace.train.logging.loggers import MetricsWriter, make_loggers
from headrace.train.logging.memory_use import in_use
from headrace.train.processes.page import address_of
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.recipes.recipes import another, is_proven
from headrace.train.runners.parts import Figures, Learner, Source, model_of
from headrace.train.runners.result import Reason, RunState
from headrace.train.runs.events import Kind, read_events
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.live import LiveWeights
from headrace.train.runs.words import return_text
from headrace.train.settings.config import Config

REMARKS = 3  # number of remarks on the dashboard, the newest ones
LEAST_LINES = 100  # the fewest lines of metrics of a whole run without workers, so that short runs have a curve as well
LOG_SECONDS = 2.0  # maximum time between two lines of metrics of a run with workers, in seconds


class Reporter:
    """The reports of a run; of processes that train together only the first writes them.

    Args:
        kept: bytes of the metrics file to keep, and the step of the last of their lines; None for a new run.

    Attributes:
        writer: writes the metrics; None in a process that does not write them.
        remarks: warnings and other events, as lines for the dashboard.
        say: shows a line to the user once.
    """

    def __init__(
        self,
        config: Config,
        run: RunFolder,
        device: torch.device,
        group: ProcessGroup,
        parts: tuple[RunState, Source, Learner],
        kept: tuple[int, int] | None,
    ):
        self.config, self.run, self.device, self.group = config, run, device, group
        self.state, self.source, self.learner = parts
        offset, first = (0, 0) if kept is None else (kept[0], kept[1] + 1)
        loggers = make_loggers(config, run, first) if group.leads else []
        self.writer = MetricsWriter(run.metrics_file, offset, loggers) if group.leads else None
        self.remarks: deque[str] = deque(maxlen=REMARKS)
        self.say: Callable[[str], object] = lambda words: None
        alone = self.writer is not None and group.size == 1
        proven = is_proven(config.task, config.algo, config.preset)
        # returns fall as a task grows harder
        harder = config.curriculum or config.option_schedules
        self._first_minute = FirstMinute() if alone and not proven and not harder else None
        self._live = LiveWeights(run.live_file, run.watched_file)
        self._address = address_of(run) if config.viewer else None
        # the processes of torchrun have no parent that trains
        self._hardware = HardwareUse(device, os.getppid() if group.watched else os.getpid())
        self._own_use = HardwareUse(device)
        self._missed = False  # whether it was said that metrics are missing

    # -- events ----------------------------------------------------------------------------------

    def note(self, kind: Kind, text: str) -> None:
        """Logs an event of the run with this text, if this process writes the metrics."""
        if self.writer is not None:
            self.run.events.note(kind, text, self.state.step, self.state.seconds)

    def remark(self, words: str, kind: Kind | None = "warning") -> None:
        """Shows a text on the dashboard, and logs it as an event unless its kind is None."""
        self.remarks.append(words)
        if kind is not None:
            self.note(kind, words)

    def on_remark(self, words: str) -> None:
        """Shows a pool's remark, and logs it as an event, in whichever process of the run."""
        self.remarks.append(words)
        self.run.events.note("warning", words, self.state.step, self.state.seconds)

    def begin(self) -> None:
        config, step = self.config, self.state.step
        if self.state.resumed:
            self.note("resumed", f"from the checkpoint of step {step:,}")
        else:
            self.note("began", f"{config.algo} on {config.task}, {config.total_steps:,} steps")
        for policy in self.source.policies:
            if policy.caveat is not None:
                self.note("warning", policy.caveat)

    def end(self, reason: Reason, by_callback: bool) -> None:
        mean, goal = self.source.trackers[0].mean_return(), self.config.stop_at_return
        texts = {
            "solved": f"mean return {return_text(mean or 0.0)} reached the goal of {goal or 0:g}",
            "finished": "all steps done",
            "interrupted": "stopped by a callback" if by_callback else "stopped by Ctrl-C or TERM",
        }
        events = read_events(self.run.events.file)
        if not events or events[-1].kind != reason:
            self.note(reason, texts[reason])

    # -- metrics ---------------------------------------------------------------------------------

    def is_due(self) -> bool:
        state, config = self.state, self.config
        steps = state.step - state.logged
        if config.samplers <= 0:
            return steps >= min(config.log_steps, config.total_steps / LEAST_LINES)
        return steps >= config.log_steps or (steps > 0 and state.seconds - state.logged_at >= LOG_SECONDS)

    def next_line(self) -> dict[str, Any]:
        """Returns the line of metrics that is due; all processes must call this.

        Raises:
            NotFiniteError: a loss or a mean return is not finite.
        """
        self.check()
        own = self.group.gather_objects(self._own()) if self.group.size > 1 else []
        self.state.logged, self.state.logged_at = self.state.step, self.state.seconds
        self._judge_first_minute()
        line = self.line()
        self._miss_metrics(line.get("metrics", {}))
        if own:
            line["time"]["ranks"] = {str(rank): told for rank, told in enumerate(own)}
        return line

    def line(self) -> dict[str, Any]:
        tracker, figures = self.source.trackers[0], self.figures()
        return {
            "step": self.state.step,
            **figures.counts,
            "episodes": tracker.episodes,
            "return": tracker.mean_return(),
            "length": tracker.mean_length(),
            **({"metrics": reported} if (reported := tracker.metric_means()) else {}),
            "loss": self.source.policies[0].reported(self.state.step),
            **figures.details,
            "time": self._time(figures),
        }

    def _judge_first_minute(self) -> None:
        """Says once of a new run that its returns have not improved at first, and what else to try."""
        if self._first_minute is None or self.state.resumed or self.source.ladder is not None:
            return
        policy = self.source.policies[0]
        if words := self._first_minute.look(self.source.trackers[0], self.state.seconds, policy.updates):
            config, group = self.config, policy.agent_group
            *some, last = own_settings(policy.config, group.observation)
            other = another(config.algo, group.action)
            words += (
                f". Try {', '.join(some)}{' or ' if some else ''}{last}; where none of them helps, try --algo {other}, "
                f"or headrace sweep {config.task}, which searches for settings"
            )
            self.note("warning", words)
            self.say(words)

    def _miss_metrics(self, known: Mapping[str, float]) -> None:
        """Says once which metrics no episode has reported."""
        missing = [name for name in self.config.metrics if name not in known]
        if missing and self.source.trackers[0].full and not self._missed:
            self._missed = True
            self.remark(f"no episode has reported {', '.join(missing)}: metrics are keys of info in its last step")

    def _time(self, figures: Figures) -> dict[str, Any]:
        """Returns the entries of a line of metrics that differ between equal runs: time, speeds, memory, cores."""
        speeds = {name: None if speed is None else round(speed) for name, speed in figures.speeds.items()}
        split = {name: round(seconds, 3) for name, seconds in figures.split.items()}
        clock = {"seconds": round(self.state.seconds, 3), "unix": round(time.time(), 3)}
        use = {"memory": in_use(self.device), **self._hardware.read()}
        return {**clock, **split, self.source.speeds_name: speeds, **use}

    def _own(self) -> dict[str, Any]:
        """Returns this process's entry in a line of metrics: host, device, agent steps a second, use of hardware."""
        collected = self.source.figures().speeds["inference"]
        speed = None if collected is None else round(collected / self.group.size)
        where = {"host": platform.node(), "device": str(self.device)}
        return where | {"steps_per_second": speed, **self._own_use.read()}

    def figures(self) -> Figures:
        mine, theirs = self.source.figures(), self.learner.figures()
        names = dict.fromkeys((*mine.split, *theirs.split))
        split = {name: mine.split.get(name, 0.0) + theirs.split.get(name, 0.0) for name in names}
        counts, speeds = {**mine.counts, **theirs.counts}, {**mine.speeds, **theirs.speeds}
        return Figures(counts, split, speeds, {**mine.details, **theirs.details})

    def check(self, returns: bool = True) -> None:
        """Raises `NotFiniteError` if a loss is not finite, or a mean return if ``returns``.

        The error names the environment if a reward or an observation of the last rollout is not finite.
        """
        for policy, tracker in zip(self.source.policies, self.source.trackers, strict=True):
            mean = tracker.mean_return() if returns else None
            statistics = policy.last_losses() | ({} if mean is None else {"return": mean})
            if not all(map(math.isfinite, statistics.values())):
                self.source.check_finite()
                check_statistics(statistics, policy.name, self.source.when())

    # -- dashboard and page ----------------------------------------------------------------------

    def progress(self) -> Progress:
        return Progress(self.config, self.run, self.line(), self._address, tuple(self.remarks))

    def write_live_weights(self) -> None:
        if self.writer is not None:
            self._live.write_if_watched(self.model, self.state.step)

    def model(self) -> dict[str, Tensor]:
        """Returns the newest networks of all policies, as in a checkpoint."""
        self.learner.settle()
        return model_of(self.source.policies)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self._live.close()

"""The search of a sweep: runs several trials at once, prunes poor ones, and continues an interrupted sweep."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from headrace.studies.jobs.display import Display, shown
from headrace.studies.jobs.processes import DONE, Job, MetricsTail, Processes
from headrace.studies.sweep.pruning import Pruner, Rule
from headrace.studies.sweep.samplers import Sampler
from headrace.studies.sweep.trials import Plan, Trial, append, drop_incomplete_line, ended, read_trials, value_of
from headrace.train.processes.interrupt import Interrupt
from headrace.train.runs.lock import held

LOCK = "sweep.lock"
GIVEN_UP = 3  # number of trials after which a sweep ends if all of them have failed


class Sweep:
    """A sweep in its folder.

    Args:
        folder: the folder with ``sweep.json``; trials are run folders in it.
    """

    def __init__(self, folder: Path, plan: Plan, sampler: Sampler):
        self.folder, self._plan, self._sampler = folder, plan, sampler
        self.trials = read_trials(folder, {*plan.space})
        rule: Rule = plan.pruner  # type: ignore[assignment]
        self._pruner = Pruner(rule, plan.total_steps)
        self._why: dict[int, str] = {}  # number of a trial that is being ended → the reason

    def run(self, jobs: int, quiet: bool = False, trust: bool = False) -> list[Trial]:
        """Runs all trials that are not done; Ctrl-C stops running ones with checkpoints, from which they can continue.

        Args:
            trust: as for `headrace.train.resume`.

        Returns:
            All trials, by number.

        Raises:
            OptionError: another process runs this sweep.
            StorageError: the files of the sweep cannot be written any more.
        """
        plan = self._plan
        with (
            held(self.folder / LOCK),
            Interrupt() as interrupt,
            Processes(jobs) as processes,
            Display(plan.total_steps, quiet) as display,
        ):
            drop_incomplete_line(self.folder)
            waiting = deque(self._unfinished())
            running: dict[str, Trial] = {}

            def start_next() -> bool:
                if self._cannot_win() or not (waiting or len(self.trials) < plan.trials):
                    return False
                trial = waiting.popleft() if waiting else self._new()
                running[trial.name] = trial
                settings = plan.settings | trial.settings
                processes.start(trial.name, plan.task, self.folder / trial.name, settings, trust)
                return True

            for done in processes.follow(interrupt, start_next):
                for job in done:
                    self._note_end(running.pop(job.name), job, display)
                for job in processes.running:
                    self._judge(running[job.name], job)
                display.update(processes.running, self._summary())
        return self.trials

    def _new(self) -> Trial:
        number = len(self.trials)
        trial = Trial(number, self._sampler.ask(number, self.trials))
        append(self.folder, trial)  # before the run, so that its settings are on disk even if it is killed
        self.trials.append(trial)
        return trial

    def _unfinished(self) -> list[Trial]:
        """Returns the trials that were interrupted; the metrics of all other trials are passed to the pruner."""
        for trial in self.trials:
            if trial.state != "running":
                tail = MetricsTail(self.folder / trial.name / "metrics.jsonl")
                self._pruner.note(trial.number, tail.new())
        return [trial for trial in self.trials if trial.state == "running"]

    def _judge(self, trial: Trial, job: Job) -> None:
        """Ends a trial if the pruner has a reason to."""
        why = self._pruner.note(trial.number, job.metrics.lines)
        if why and not job.stopping:
            self._why[trial.number] = why
            job.stop()

    def _note_end(self, trial: Trial, job: Job, display: Display) -> None:
        told = job.ending or {}
        value = value_of(self._plan.metric, job.metrics.lines)
        if "error" in told:
            trial = ended(trial, "failed", value, job.step, job.seconds, told["error"])
        elif told["reason"] in DONE:
            trial = ended(trial, "complete", value, told["steps"], told["seconds"])
        elif trial.number in self._why:
            trial = ended(trial, "pruned", value, told["steps"] or job.step, job.seconds, self._why[trial.number])
        else:  # interrupted: it continues with the sweep
            return
        self.trials[trial.number] = trial
        append(self.folder, trial)
        words = f" ({trial.note})" if trial.note else ""
        display.say(f"{trial.name} {trial.state}{words}: {shown(trial.value)}  {settings_words(trial)}")

    def _cannot_win(self) -> bool:
        """Returns whether all trials so far have failed, and there are enough of them to end the sweep."""
        return len(self.trials) >= GIVEN_UP and all(trial.state == "failed" for trial in self.trials)

    def _summary(self) -> str:
        best = best_of(self.trials)
        over = sum(trial.state != "running" for trial in self.trials)
        words = f"{self._plan.task}, {self._plan.algo}: {over} of {self._plan.trials} trials have ended"
        return words + (f", best {shown(best.value)} ({best.name})" if best else "") + f" · {self.folder}"


def best_of(trials: list[Trial]) -> Trial | None:
    """Returns the complete trial with the highest value, the first of equals; None if there is none."""
    known = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    return max(known, key=lambda trial: trial.value or 0.0, default=None)


def settings_words(trial: Trial) -> str:
    return "  ".join(f"{name}={setting_word(value)}" for name, value in trial.settings.items())


def setting_word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

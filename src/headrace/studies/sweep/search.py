"""The search of a sweep: runs several trials at once, prunes poor ones, and continues an interrupted sweep."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from headrace.studies.jobs.display import Display
from headrace.studies.jobs.processes import DONE, Job, Processes
from headrace.studies.sweep.plan import JOURNAL, Plan
from headrace.studies.sweep.space import settings_of, space_of
from headrace.studies.sweep.study import (
    SAMPLERS,
    STATES,
    best_of,
    load_study,
    repair,
    return_at,
    run_name,
    rungs,
    value_of,
)
from headrace.train.processes.interrupt import Interrupt
from headrace.train.runs.files import writing
from headrace.train.runs.lock import held
from headrace.train.runs.words import return_text

LOCK = "sweep.lock"
GIVEN_UP = 3  # number of trials after which a sweep ends if all of them have failed


@dataclass
class RunningTrial:
    """A trial whose run is in progress.

    Attributes:
        waiting: agent steps after which its return is still to be reported, in their order.
        pruned_after: agent steps after which it was told to end; 0 if it was not.
    """

    trial: optuna.Trial
    waiting: deque[int] = field(default_factory=deque)
    pruned_after: int = 0


class Sweep:
    """A sweep in its folder.

    Args:
        folder: the folder with ``sweep.json`` and the study; trials are run folders in it.
    """

    def __init__(self, folder: Path, plan: Plan):
        self.folder, self._plan = folder, plan
        self._space = space_of(plan.space, plan.algo)

    def run(self, jobs: int, quiet: bool = False, trust: bool = False) -> optuna.Study:
        """Runs all trials that are not done; Ctrl-C stops running ones with checkpoints, from which they can continue.

        Args:
            trust: as for `headrace.train.resume`.

        Returns:
            The study with all trials.

        Raises:
            OptionError: another process runs this sweep, or it is one of an earlier version.
            StateError: the study is damaged.
            StorageError: the files of the sweep cannot be written any more.
        """
        plan = self._plan
        with (
            held(self.folder / LOCK),
            Interrupt() as interrupt,
            Processes(jobs) as processes,
            Display(plan.total_steps, quiet) as display,
        ):
            repair(self.folder)
            self.study = load_study(self.folder, plan)
            interrupted = deque(self._interrupted())
            running: dict[str, RunningTrial] = {}

            def start_next() -> bool:
                if self._cannot_win() or not (interrupted or len(self.study.trials) < plan.trials):
                    return False
                each = self._resumed(interrupted.popleft()) if interrupted else self._new()
                name = run_name(each.trial)
                running[name] = each
                settings = plan.settings | settings_of(each.trial.params, plan.algo)
                processes.start(name, plan.task, self.folder / name, settings, trust)
                return True

            for done in processes.follow(interrupt, start_next):
                for job in done:
                    self._note_end(running.pop(job.name), job, display)
                for job in processes.running:
                    self._report(running[job.name], job)
                display.update(processes.running, self._summary())
        return self.study

    def _interrupted(self) -> list[FrozenTrial]:
        """Returns the trials that were interrupted; one that has not all of its settings yet has failed."""
        found = self.study.get_trials(states=(TrialState.RUNNING,))
        for trial in found:
            if trial.params.keys() != self._space.keys():
                self.study.tell(trial.number, state=TrialState.FAIL)
        return [trial for trial in found if trial.params.keys() == self._space.keys()]

    def _new(self) -> RunningTrial:
        # a sampler for each trial, so that its settings depend on its number and the trials before it alone
        seed = np.random.SeedSequence((self._plan.seed, len(self.study.trials))).generate_state(1)[0]
        self.study.sampler = SAMPLERS[self._plan.sampler](int(seed))
        with writing(self.folder / JOURNAL):
            return RunningTrial(self.study.ask(self._space), self._rungs())

    def _resumed(self, trial: FrozenTrial) -> RunningTrial:
        reported = max(trial.intermediate_values, default=0)
        waiting = deque(rung for rung in self._rungs() if rung > reported)
        return RunningTrial(optuna.Trial(self.study, trial._trial_id), waiting)

    def _rungs(self) -> deque[int]:
        return deque(rungs(self._plan.pruner, self._plan.total_steps))

    def _report(self, each: RunningTrial, job: Job) -> None:
        """Reports the returns at the rungs that a run has passed, and ends it if the pruner says so."""
        while each.waiting and not each.pruned_after and job.step >= each.waiting[0]:
            rung = each.waiting.popleft()
            earned = return_at(rung, job.metrics.lines)
            if earned is not None:
                with writing(self.folder / JOURNAL):
                    each.trial.report(earned, rung)
                    poor = each.trial.should_prune()
                if poor and not job.stopping:
                    each.pruned_after = rung
                    job.stop()

    def _note_end(self, each: RunningTrial, job: Job, display: Display) -> None:
        told = job.ending or {}
        value = value_of(self._plan.metric, job.metrics.lines)
        done = told.get("reason") in DONE
        if "error" in told:
            state, note = TrialState.FAIL, told["error"]
        elif done and value is None:
            state, note = TrialState.FAIL, "no episode has ended: sweep with more --total-steps"
        elif done:
            state, note = TrialState.COMPLETE, ""
        elif each.pruned_after:
            state, note = TrialState.PRUNED, f"after {each.pruned_after:,} steps"
        else:  # interrupted: it continues with the sweep
            return
        with writing(self.folder / JOURNAL):
            for name, known in (("steps", told.get("steps") or job.step), ("seconds", job.seconds), ("note", note)):
                each.trial.set_user_attr(name, known)
            self.study.tell(each.trial, value if state == TrialState.COMPLETE else None, state=state)
        trial = self.study.trials[each.trial.number]
        words = f"{job.name} {STATES[state]}{f' ({note})' if note else ''}: {return_text(trial.value)}"
        display.say(f"{words}  {settings_words(trial)}")

    def _cannot_win(self) -> bool:
        """Returns whether all trials so far have failed, and there are enough of them to end the sweep."""
        trials = self.study.trials
        return len(trials) >= GIVEN_UP and all(trial.state == TrialState.FAIL for trial in trials)

    def _summary(self) -> str:
        best = best_of(self.study)
        over = sum(trial.state.is_finished() for trial in self.study.trials)
        words = f"{self._plan.task}, {self._plan.algo}: {over} of {self._plan.trials} trials have ended"
        return words + (f", best {return_text(best.value)} ({run_name(best)})" if best else "") + f" · {self.folder}"


def settings_words(trial: FrozenTrial) -> str:
    return "  ".join(f"{name}={setting_word(value)}" for name, value in trial.params.items())


def setting_word(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

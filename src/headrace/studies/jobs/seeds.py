"""Training with several seeds, each a run of its own in one folder.

``seeds.json`` in that folder holds the task, the settings and the seeds, and ``results.jsonl`` the result of each seed.
Training can be continued from these files and the checkpoints of the runs, however it was ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from headrace.errors import OptionError, StateError
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.studies.jobs.display import Display, ending_words
from headrace.studies.jobs.processes import DONE, Job, Processes, side_by_side
from headrace.train.launch.run import CONTINUABLE
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.place import refuse
from headrace.train.processes.start import guard_main
from headrace.train.runs import files
from headrace.train.runs.files import replace, writing
from headrace.train.runs.folder import folder_path, make_folder
from headrace.train.runs.trust import admit, remember
from headrace.train.settings.algorithm import DEFAULT_PRESET
from headrace.train.settings.config import Config
from headrace.train.settings.typed import Changes, SettingsOfSeeds

FILE = "seeds.json"
RESULTS = "results.jsonl"
MOST_SEEDS = 1000


@dataclass(frozen=True)
class SeedResult:
    """The result of the run of one seed.

    Attributes:
        seed: the seed.
        run_dir: the run folder.
        reason: ``"solved"``, ``"finished"``, ``"interrupted"``, ``"failed"``, or ``"waiting"`` if it has not begun.
        steps: agent steps of the run.
        seconds: seconds of training.
        mean_return: mean return of the last ``stop_episodes`` episodes; None if none has ended.
        error: the message of the error with which a run failed.
    """

    seed: int
    run_dir: Path
    reason: str = "waiting"
    steps: int = 0
    seconds: float = 0.0
    mean_return: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Plan:
    """The task, the settings and the seeds, as ``seeds.json`` holds them.

    Attributes:
        settings: keyword arguments of `headrace.train.train`, without the seed.
    """

    task: str
    settings: dict[str, Any]
    seeds: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Returns the plan in a folder.

        Raises:
            OptionError: there is no plan in the folder.
            StateError: the plan is damaged.
        """
        file = folder / FILE
        if not file.is_file():
            raise OptionError(f"{folder} is not a folder of several seeds: it has no {FILE}")
        try:
            values = json.loads(files.read(file))
            settings = {"preset": DEFAULT_PRESET, **values["settings"]}
            return cls(str(values["task"]), settings, tuple(map(int, values["seeds"])))
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise StateError(f"{file} cannot be read: {error}") from error

    def write(self, folder: Path) -> None:
        """Writes the plan into a folder; raises `StorageError` if the folder cannot be written."""
        values = {"task": self.task, "settings": self.settings, "seeds": self.seeds}
        replace(folder / FILE, json.dumps(values, indent=2) + "\n")

    def with_seeds(self, seeds: Iterable[int]) -> Plan:
        return Plan(self.task, self.settings, tuple(dict.fromkeys((*self.seeds, *seeds))))


@spaces_read_once()
def train_seeds(
    task: str,
    algo: str | None = None,
    *,
    seeds: int | Sequence[int] = 5,
    jobs: int = 0,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    **overrides: Unpack[SettingsOfSeeds],
) -> list[SeedResult]:
    """Trains with several seeds, each a run in a process of its own.

    Args:
        task: name of the task, which other processes must be able to import: from an installed package, or a file.
        algo: learning algorithm, as for `headrace.train.train`.
        seeds: the seeds, or their number n for the seeds 1 to n.
        jobs: number of runs at once; 0 for as many as the cores allow.
        run_dir: folder for the runs, ``seed-1`` and so on; by default a new one under ``runs/``.
        quiet: show no progress.
        overrides: any other setting, as for `headrace.train.train`.

    Returns:
        The result of each seed, in their order. A run that fails does not end the others; Ctrl-C ends all with
        checkpoints.

    Raises:
        OptionError: an option is unknown or its value invalid, or the folder holds runs already.
        UnknownTaskError: no task has this name.
    """
    numbers = chosen_seeds(str(seeds) if isinstance(seeds, int) else ",".join(map(str, (*seeds, ""))))
    refuse("training with several seeds")
    given = {**overrides, **({} if algo is None else {"algo": algo})}
    guard_main()
    config, most = side_by_side(task, given)
    decided = {
        name: value for name, value in vars(config).items() if name in ("algo", "preset", "samplers", "actor_device")
    }
    plan = Plan(task, plain(given | decided), numbers)
    folder = make_folder(run_dir, task)
    remember({**plan.settings, "task": task})
    plan.write(folder)
    return run_seeds(folder, plan, config, jobs or most, quiet)


@spaces_read_once()
def resume_seeds(
    run_dir: str | Path,
    *,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    quiet: bool = False,
    trust: bool = False,
    **changes: Unpack[Changes],
) -> list[SeedResult]:
    """Continues the runs of the seeds in a folder that are not done, as `train_seeds` does.

    Args:
        run_dir: the folder of the runs.
        seeds: further seeds.
        jobs, quiet: as for `train_seeds`.
        trust, changes: as for `headrace.train.resume`.

    Raises:
        OptionError: it is not a folder of several seeds, or a setting cannot change.
        StateError: the plan in the folder is damaged.
        TrustError: the plan names code, or another machine, that this user has not named or agreed to before.
    """
    refuse("training with several seeds")
    guard_main()
    folder = folder_path(run_dir)
    plan = Plan.read(folder)
    admit({**plan.settings, "task": plan.task}, folder, trust, training=True)
    plan = changed_plan(plan, changes, CONTINUABLE).with_seeds(seeds)
    config, most = side_by_side(plan.task, plan.settings)
    plan.write(folder)
    return run_seeds(folder, plan, config, jobs or most, quiet, trust)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings converted to JSON and back, as another process reads them.

    Raises:
        OptionError: JSON cannot represent a value, such as a module.
    """
    for name, value in settings.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise OptionError(
                f"{name}={value!r} cannot be sent to other processes: give its name as text, such as file.py:name"
            ) from None
    return json.loads(json.dumps(dict(settings)))


def is_several(folder: Path) -> bool:
    return (folder / FILE).is_file()


def chosen_seeds(text: str, first: int = 1) -> tuple[int, ...]:
    """Returns the seeds that a text names: ``"5"`` for five seeds from ``first`` on, or a list such as ``"1,2,7"``.

    Raises:
        OptionError: the text is neither, names no seed, or names one twice.
    """
    wrong = f"--seeds {text!r} must be a number of seeds, such as 5, or seeds such as 1,2,7"
    try:
        numbers = [int(word) for word in text.strip(",").split(",")]
    except ValueError:
        raise OptionError(wrong) from None
    seeds = numbers if "," in text else list(range(first, first + min(numbers[0], MOST_SEEDS + 1)))
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**63 or len({*seeds}) < len(seeds):
        raise OptionError(f"{wrong}; each is at least 0 and given once")
    if len(seeds) > MOST_SEEDS:
        raise OptionError(f"--seeds {text!r}: {MOST_SEEDS:,} are the most")
    return tuple(seeds)


def run_seeds(
    folder: Path, plan: Plan, config: Config, jobs: int, quiet: bool = False, trust: bool = False
) -> list[SeedResult]:
    """Trains every seed of a plan that is not done yet; Ctrl-C ends all with checkpoints.

    Args:
        plan: the task, settings and seeds.
        trust: as for `headrace.train.resume`.

    Returns:
        The result of each seed, in the order of the seeds. A run that fails does not end the others.
    """
    known = _results(folder, plan)
    waiting = [seed for seed in plan.seeds if known.get(seed, SeedResult(seed, folder)).reason not in DONE]
    with Interrupt() as interrupt, Processes(jobs) as processes, Display(config.total_steps, quiet) as display:
        seeds, over = {f"seed {seed}": seed for seed in waiting}, len(plan.seeds) - len(waiting)
        starts = (
            processes.start(name, plan.task, _folder(folder, seed), plan.settings | {"seed": seed}, trust)
            for name, seed in seeds.items()
        )
        for done in processes.follow(interrupt, lambda: next(starts, None)):
            for job in done:
                known[seeds[job.name]] = result = _result(seeds[job.name], job)
                _append(folder, result)
                display.say(f"{job.name} {ending_words(job)}")
            over += len(done)
            words = f"{config.task}, {config.algo}: {over} of {len(plan.seeds)} seeds have ended · {folder}"
            display.update(processes.running, words)
    return [known.get(seed, SeedResult(seed, _folder(folder, seed))) for seed in plan.seeds]


def changed_plan(plan: Plan, changes: Mapping[str, Any], allowed: Iterable[str]) -> Plan:
    """Returns a plan with changed settings.

    Args:
        allowed: names of settings that can change in the middle of a run.

    Raises:
        OptionError: a setting cannot change in the middle of a run.
    """
    different = {name: value for name, value in changes.items() if plan.settings.get(name) != value}
    fixed = sorted(set(different) - set(allowed))
    if fixed:
        raise OptionError(f"{fixed[0]} cannot change in the middle of a run; only {', '.join(allowed)} can")
    return Plan(plan.task, plan.settings | different, plan.seeds)


def _folder(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}"


def _result(seed: int, job: Job) -> SeedResult:
    told = job.ending or {}
    if "error" in told:
        return SeedResult(seed, job.run_dir, "failed", job.step, job.seconds, job.mean_return, told["error"])
    return SeedResult(seed, job.run_dir, told["reason"], told["steps"], told["seconds"], told["return"])


def _append(folder: Path, result: SeedResult) -> None:
    values = {"seed": result.seed, "reason": result.reason, "steps": result.steps, "seconds": result.seconds}
    values |= {"return": result.mean_return} | ({"error": result.error} if result.error else {})
    with writing(folder / RESULTS):
        files.append(folder / RESULTS, json.dumps(values).encode() + b"\n")


def _results(folder: Path, plan: Plan) -> dict[int, SeedResult]:
    """Returns seed → its last result; damaged lines, and those of other seeds, are ignored."""
    found: dict[int, SeedResult] = {}
    file = folder / RESULTS
    try:
        lines = files.read(file).splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateError(f"{file} cannot be read: {error.strerror}") from error
    for line in lines:
        try:
            values = json.loads(line)
            seed = int(values["seed"])
            earned = values.get("return")
            found[seed] = SeedResult(
                seed, _folder(folder, seed), str(values["reason"]), int(values["steps"]), float(values["seconds"]),
                None if earned is None else float(earned), str(values.get("error", "")),
            )  # fmt: skip
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
    return {seed: found[seed] for seed in plan.seeds if seed in found}

"""Training: `train` starts a run, `resume` continues one.

A run is a folder (`headrace.train.runs`). A pool fills rollouts or a replay (`headrace.train.collect`,
`headrace.train.storage`), an algorithm learns from them (`headrace.train.algorithms`), and a runner
(`headrace.train.runners`) keeps both going and saves all that decides how the run goes on.
The module itself can be called: ``headrace.train("CartPole-v1")``.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from headrace.errors import OptionError, RenderError, StateError, StorageError
from headrace.limits import limits_named
from headrace.train.config import given
from headrace.train.config.registry import begins_workers, find_algorithm
from headrace.train.config.replay import ActorCriticConfig
from headrace.train.config.settings import Config, make_config
from headrace.train.config.uses import Player, check_learns, check_used, learns_nothing, unused_defaults
from headrace.train.logging.loggers import check_loggers
from headrace.train.logging.metrics import read_metrics
from headrace.train.processes.start import guard_main, worker_context
from headrace.train.runners.callbacks import Callback, CallbackLike, Training, callbacks_of
from headrace.train.runners.here import train_here
from headrace.train.runners.result import Result
from headrace.train.runs import trust as code
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.writing import is_newer

if TYPE_CHECKING:
    import numpy as np

    from headrace.train.jobs.seeds import SeedResult
    from headrace.train.play.agent import Agent


# OpenMP's threads spin between torch's operations unless told otherwise before torch is loaded: on a CPU they
# would take the cores away from the threads that step environments, or from other programs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = [
    "Callback",
    "Config",
    "Result",
    "Training",
    "load",
    "log_episode",
    "make_config",
    "resume",
    "resume_seeds",
    "train",
    "train_seeds",
]

CONTINUABLE = ("total_steps", "stop_at_return", "checkpoint_seconds", "keep_checkpoints", "video", "viewer", "log")


@limits_named("training")
def train(
    task: str,
    algo: str = "ppo",
    *,
    total_steps: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    trust: bool = False,
    callback: CallbackLike | Sequence[CallbackLike] | None = None,
    **overrides: Any,
) -> Result:
    """Train an agent, with the settings tuned for the task unless told otherwise.

    Args:
        task: name of the task.
        algo: learning algorithm: ``"ppo"``, ``"a2c"``, ``"ddpg"``, ``"td3"``, ``"sac"`` or ``"dqn"``; or a class of a
            user's, as ``"file.py:Class"`` or ``"package.module:Class"``.
        total_steps, seed, device: as in `Config`.
        run_dir: folder of the run; by default a new one under ``runs/``.
        resume: go on with the run in ``run_dir`` if it holds one.
        quiet: show no progress.
        trust: as in `resume`; what is named here is trusted anyway.
        callback: a `Callback`, or a function ``(training, line)`` that is called before each line of metrics is
            written; or several.
        overrides: any other setting, of `Config` or of the algorithm. ``network`` may also be a `torch.nn.Module`, of
            which the run learns a copy, or a function or class that makes one; and ``reward`` a function of a
            `headrace.wrappers.Step`.

    Raises:
        OptionError: an option is unknown or its value wrong, or another process trains into the folder.
        StorageError: the folder cannot be written any more, as on a full disk.
        LimitError: the system gives no more open files, processes or memory.
        WorkerError: of several processes (``devices``) one raised or died.
        UnknownTaskError: no task has this name.
    """
    named = {"algo": algo, "total_steps": total_steps, "seed": seed, "device": device}
    overrides |= {name: value for name, value in named.items() if value is not None}
    guard_main()
    settings, objects = given.split_off(overrides)
    with given.holding(objects):
        return _train(task, settings, run_dir, resume, quiet, trust, objects, callbacks_of(callback))


def _train(
    task: str,
    overrides: dict[str, Any],
    run_dir: str | Path | None,
    resume: bool,
    quiet: bool,
    trust: bool,
    objects: Mapping[str, Any],
    callbacks: Sequence[Callback],
) -> Result:
    """As `train`, with objects by their names."""
    code.remember(code.named({"task": task, **overrides}))
    expect_workers(overrides)
    if resume and run_dir is not None and RunFolder(run_dir).config_file.exists():
        _, config = RunFolder.open(run_dir, trust=trust)
        asked = make_config(task, **overrides)
        changes = {k: v for k, v in overrides.items() if getattr(config, k, None) != getattr(asked, k, None)}
        return _resume(run_dir, changes, quiet, trust, objects, callbacks)
    asked, config, players, why = _checked(task, overrides)
    if why and not quiet:
        unused = dict(pair for player in players.values() for pair in unused_defaults(player))
        without = "".join(f"; {name}={value} is not used so" for name, value in unused.items())
        print(f"{config.algo} samples and learns in turn, without workers (samplers=0), since {why}{without}")
    if not quiet:
        for words in filter(None, (*map(learns_nothing, players.values()), _decided_by_cores(asked, config))):
            print(words)
    run = RunFolder.create(run_dir, config)
    try:
        with run.held():
            return _run(config, run, None, quiet, callbacks)
    except BaseException:
        run.leave()
        raise


def _checked(task: str, overrides: Mapping[str, Any]) -> tuple[Config, Config, dict[str, Player], str | None]:
    """What is asked for, the settings with which a run begins, its policies, and why it has no samplers, if it might.

    Raises as `train` for what is wrong with them.
    """
    asked = make_config(task, **overrides)
    config = settled(asked)
    why = why_in_turn(config) if asked.samplers < 0 and find_algorithm(config.algo).capabilities.replay else None
    players = _check_task(config)
    check_used(config, overrides, players, why)
    check_learns(config, overrides, players, why)
    return asked, config, players, why


def train_seeds(
    task: str,
    algo: str = "ppo",
    *,
    seeds: int | Sequence[int] = 5,
    jobs: int = 0,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    **overrides: Any,
) -> list[SeedResult]:
    """Train with several seeds, each a run in a process of its own.

    Args:
        task: name of the task; one that other processes know, too: registered by an installed package, or in a file.
        algo: learning algorithm, as for `train`.
        seeds: that many from 1, or which.
        jobs: how many at once; 0 for as many as the cores allow.
        run_dir: folder for the runs, ``seed-1`` and so on; by default a new one under ``runs/``.
        quiet: show no progress.
        overrides: any other setting, as for `train`.

    Returns:
        How each seed ended, in their order. One that fails does not end the others; Ctrl-C ends all with checkpoints.

    Raises:
        OptionError: an option is unknown or its value wrong, or the folder holds runs already.
        UnknownTaskError: no task has this name.
    """
    from headrace.train.jobs import seeds as several

    numbers = several.chosen_seeds(str(seeds) if isinstance(seeds, int) else ",".join(map(str, (*seeds, ""))))
    overrides = {"algo": algo} | overrides
    guard_main()
    code.remember(code.named({"task": task, **overrides}))
    config, most = side_by_side(task, overrides)
    decided = {name: getattr(config, name) for name in ("samplers", "actor_device") if hasattr(config, name)}
    plan = several.Plan(task, several.plain(overrides | decided), numbers)
    folder = several.new_folder(None if run_dir is None else Path(run_dir), plan)
    return several.run_seeds(folder, plan, config, jobs or most, quiet)


def resume_seeds(
    run_dir: str | Path,
    *,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    quiet: bool = False,
    trust: bool = False,
    **changes: Any,
) -> list[SeedResult]:
    """Go on with the seeds in a folder that are not done, as `train_seeds` does.

    Args:
        run_dir: the folder of the runs.
        seeds: further ones.
        jobs, quiet: as for `train_seeds`.
        trust, changes: as for `resume`.

    Raises:
        OptionError: there are no such runs, or such a setting cannot change.
        StateError: their plan is damaged.
        TrustError: it names code that is neither installed nor known from a run of this user's.
    """
    from headrace.train.jobs import seeds as several

    guard_main()
    folder = Path(run_dir)
    plan = several.Plan.read(folder)
    values = {"task": plan.task, **plan.settings}
    if trust:
        code.remember(code.named(values))
    else:
        code.check(values, folder)
    plan = several.changed_plan(plan, changes, CONTINUABLE).with_seeds(seeds)
    config, most = side_by_side(plan.task, plan.settings)
    plan.write(folder)
    return several.run_seeds(folder, plan, config, jobs or most, quiet)


def side_by_side(task: str, overrides: Mapping[str, Any]) -> tuple[Config, int]:
    """Returns the settings with which a run begins, and how many such runs the cores can train side by side.

    Raises as `train` for what is wrong with them.
    """
    from headrace.pool.registry import build_task
    from headrace.train.jobs.processes import jobs_for

    _, config, players, _ = _checked(task, overrides)
    return config, jobs_for(players, build_task(task, **config.env_options).kernel is not None)


@limits_named("training")
def resume(
    run_dir: str | Path,
    *,
    quiet: bool = False,
    trust: bool = False,
    callback: CallbackLike | Sequence[CallbackLike] | None = None,
    network: Any = None,
    reward: Any = None,
    **changes: Any,
) -> Result:
    """Go on with a run where its newest checkpoint left it: without samplers exactly, with them in new episodes.

    Args:
        run_dir: the run folder.
        quiet: show no progress.
        trust: run the code of files that the run names, also if it did not begin here.
        callback: as in `train`; a run folder holds no callbacks.
        network, reward: the objects that the run began with, where these were some: they are not in the run folder.
        changes: settings that may change in the middle of a run, such as ``total_steps``.

    Raises:
        OptionError: there is no run in this folder, another process trains into it, or such a setting cannot change.
        StateError: the checkpoint, or another file of the run, is damaged.
        StorageError: the folder cannot be written any more, as on a full disk.
        TrustError: the run names code that is neither installed nor known from a run of this user's.
    """
    guard_main()
    objects = {"network": network, "reward": reward}
    with given.holding(objects):
        return _resume(run_dir, changes, quiet, trust, objects, callbacks_of(callback))


def log_episode(
    run_dir: str | Path,
    names: Sequence[str] | None = None,
    env_id: int = 0,
    *,
    seed: int = 1000,
    deterministic: bool = True,
    which: Literal["newest", "best"] = "best",
    trust: bool = False,
) -> dict[str, np.ndarray]:
    """Let the agent of a run play one episode of one replica, and return what happened, step by step.

    Args:
        run_dir: the run folder.
        names: arrays of the environment's state, as in `Pool.state_arrays`; all by default.
        env_id: which replica of a pool of this seed; each has its own chance.
        seed: seed of that pool.
        deterministic: take the likeliest actions, instead of drawing them as in training.
        which: the ``"newest"`` or the ``"best"`` checkpoint.
        trust: as in `resume`.

    Returns:
        Of an episode of T steps: the state arrays [T + 1, …], row 0 as it began and row T as it ended, so that
        what was done at step t led from row t to row t + 1; and ``action`` (``action:TYPE`` for each agent type,
        where their actions differ), ``reward``, ``terminated`` and ``truncated`` [T, …].

    Raises:
        OptionError: there is no run or no such array, or the task is no kernel environment.
        TrustError: as in `resume`.
    """
    from headrace.train.play.agent import load_checkpoint
    from headrace.train.play.episode_log import played_episode

    run, config = RunFolder.open(run_dir, trust=trust)
    return played_episode(config, load_checkpoint(run, which), names, env_id, seed, deterministic)


def load(
    run_dir: str | Path,
    *,
    which: Literal["newest", "best"] = "best",
    trust: bool = False,
    network: Any = None,
) -> Agent:
    """Returns the trained agent of a run, on the CPU.

    Args:
        run_dir: the run folder.
        which: the ``"newest"`` or the ``"best"`` checkpoint.
        trust: as in `resume`.
        network: the object that the run began with, if it was ``train(…, network=object)``: a module of the same
            shape, or what makes one. Its weights are the checkpoint's.

    Raises:
        OptionError: there is no run, or no checkpoint yet, or ``network`` is missing or not the run's.
        StateError: the checkpoint is damaged, or is of a network of another shape.
        TrustError: as in `resume`.

    Example:
        >>> agent = headrace.load("runs/mine")
        >>> env = gymnasium.make("CartPole-v1")
        >>> obs, info = env.reset()
        >>> obs, reward, terminated, truncated, info = env.step(agent.act(obs))
    """
    from headrace.pool.registry import build_task
    from headrace.train.play.agent import Agent, load_checkpoint

    run, config = RunFolder.open(run_dir, trust=trust)
    objects = {"network": network}
    given.check_wanted({"network": config.network}, objects)
    with given.holding(objects):
        return Agent(config, build_task(config.task, **config.env_options).spec, load_checkpoint(run, which))


def _resume(
    run_dir: str | Path,
    changes: dict[str, Any],
    quiet: bool,
    trust: bool,
    objects: Mapping[str, Any],
    callbacks: Sequence[Callback],
) -> Result:
    run, config = RunFolder.open(run_dir, trust=trust)
    given.check_wanted(vars(config), objects)
    fixed = sorted(set(changes) - set(CONTINUABLE))
    if fixed:
        raise OptionError(f"{fixed[0]} cannot change in the middle of a run; only {', '.join(CONTINUABLE)} can")
    if changes:
        check_loggers(changes.get("log", ()))
        config = make_config(**{**dataclasses.asdict(config), **changes}, defaults=False)
    lines = read_metrics(run.metrics_file)  # what is wrong with them is said before anything begins
    with run.held():
        if changes:
            run.write_config(config)
        expect_workers(vars(config))
        from headrace.train.runs import checkpoint as checkpoints

        newest = checkpoints.newest(run.checkpoints)
        if newest is None and lines:
            told = f"{run.metrics_file} tells of {lines[-1]['step']:,} steps"
            raise StateError(f"{run.checkpoints} holds no checkpoint to go on from, but {told}: begin another run")
        return _run(config, run, newest, quiet, callbacks)


def _check_task(config: Config) -> dict[str, Player]:
    """What a task, this machine, or another run does not have ends a run before there is a folder for it.

    Returns:
        Policy name → what it is.
    """
    from headrace.pool.registry import build_task
    from headrace.train.collect.curriculum import check_curriculum
    from headrace.train.collect.setup import find_device, players_of, reward_function
    from headrace.train.play.loading import check_loads

    for name in (config.device, *config.devices, config.learns_on, config.actor_device if _is_apart(config) else ""):
        if name:
            find_device(name)
    check_loggers(config.log)
    check_curriculum(config)
    if config.reward is not None:
        reward_function(config.reward)
    players = players_of(config, build_task(config.task, **config.env_options).spec)
    check_loads(config, players)
    return players


def expect_workers(settings: Mapping[str, Any]) -> None:
    """Let what workers are forked from be imported while this process imports the same, if the run may have some.

    Args:
        settings: those that are known, name → value.
    """
    samplers = settings.get("samplers", -1)
    if not isinstance(samplers, int):  # which is an error that others raise
        return
    in_turn = samplers < 0 and (not begins_workers(settings.get("algo", "ppo")) or settings.get("deterministic"))
    if samplers != 0 and not in_turn:
        worker_context()


def settled(config: Config) -> Config:
    """The configuration with which a run begins: what it leaves open is decided for its task and this machine."""
    from headrace.machine import usable_cores

    settled: dict[str, Any] = {}
    if config.deterministic:
        settled["torch_threads"] = config.torch_threads or 1  # how many cores there are decides nothing then
    if config.samplers < 0:
        replay = find_algorithm(config.algo).capabilities.replay
        settled["samplers"] = int(replay and why_in_turn(config) is None)
    if isinstance(config, ActorCriticConfig) and config.actor_device == "auto":
        halves = _has_halves(dataclasses.replace(config, **settled))
        settled["actor_device"] = "cpu" if halves and usable_cores() > 1 else ""
    return dataclasses.replace(config, **settled)


def _is_apart(config: Config) -> bool:
    """Whether the actor learns in a process of its own."""
    return isinstance(config, ActorCriticConfig) and config.apart


def _has_halves(config: Config) -> bool:
    """Whether the halves of an update are learnt apart, where there are cores for both."""
    # with a fixed replay ratio the samplers leave a core to the second half
    pace = isinstance(config, ActorCriticConfig) and config.samplers > 0 and config.replay_ratio is not None
    return pace and config.learns_on == "cpu"


def _decided_by_cores(asked: Config, config: Config) -> str | None:
    """In words, what the number of cores has decided of what is learnt; None where it has decided nothing.

    An actor that learns apart has critics that are a little old.
    """
    if not _has_halves(config) or asked.actor_device != "auto":
        return None
    if config.apart:
        return "the actor learns in a process of its own (actor_device=cpu), as there are several cores"
    return "actor and critics learn in turn (actor_device=''), as there is one core"


def why_in_turn(config: Config) -> str | None:
    """In words, what an algorithm with a replay has no samplers for, unless it is told to; None if it has some."""
    from headrace.pool.registry import build_task, is_known_here_only

    task = build_task(config.task, **config.env_options)
    if task.spec.agents:
        return f"{config.task} has several agents"
    if is_known_here_only(config.task):
        return f"{config.task} is registered where no other process can import it, in place of a file"
    for name in ("deterministic", "devices", "batch_size"):
        if value := getattr(config, name):
            return f"{name}={value}"
    if config.device != "cpu" and task.kernel is not None:
        return f"{config.task} lives on the policy's device, {config.device}"
    return None


def _run(config: Config, run: RunFolder, saved: Path | None, quiet: bool, callbacks: Sequence[Callback]) -> Result:
    try:
        if config.devices:
            from headrace.train.runners.data_parallel import train_together

            if callbacks:
                raise OptionError("callbacks are for a run with one process that learns: leave devices out")
            result = train_together(config, run.path, saved, quiet)
        else:
            result = train_here(config, run, saved, quiet, callbacks=callbacks)
    except StorageError as error:
        raise StorageError(f"{error}; {_rest(run)}") from error
    if result.reason == "interrupted":
        result = dataclasses.replace(result, plot=_plot(run))
        if not quiet:
            print(f"stopped; go on with:  headrace train --resume {run.path}")
            print(f"   see it play with:  headrace play {run.path}")
            if result.plot is not None:
                print(f"               plot:  {result.plot}")
        return result
    return dataclasses.replace(result, plot=_plot(run), video=_video(config, run))


def _rest(run: RunFolder) -> str:
    """What is left of a run that could not write any more."""
    from headrace.train.runs import checkpoint as checkpoints

    newest = checkpoints.newest_learnt(run.checkpoints)
    if newest is None:
        return "the run was ended before its first checkpoint"
    return f"make room, then go on from {newest.name}:  headrace train --resume {run.path}"


def _video(config: Config, run: RunFolder) -> Path | None:
    """A video of the agent, where PyAV is installed and the task can be rendered; Ctrl-C leaves it out.

    One that is of the best checkpoint already stays as it is.
    """
    if not config.video:
        return None
    try:
        from headrace.train.play.video import best_film, record

        known = best_film(run)
        return known if known is not None else record(run.path, trust=True)
    except (ImportError, RenderError, KeyboardInterrupt):
        return None
    except OSError as error:
        print(f"no video: {error}")
        return None


def _plot(run: RunFolder) -> Path | None:
    """The return curve, where matplotlib is installed; one of the same metrics and settings stays as it is."""
    if is_newer(run.plot_file, run.metrics_file, run.config_file):
        return run.plot_file
    try:
        from headrace.train.plots.figures import plot_returns

        return plot_returns(run.path)
    except ImportError:
        return None
    except OSError as error:
        print(f"no plot: {error}")
        return None


class _CallableModule(ModuleType):
    """Lets ``headrace.train(...)`` mean ``headrace.train.train(...)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return train(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule

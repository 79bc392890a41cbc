"""Training: `train` starts a run, `resume` continues one.

A run is a folder (`headrace.train.run`), a pool writes into the learner's buffer
(`headrace.train.rollout`), an algorithm learns from it (`headrace.train.ppo`,
`headrace.train.off_policy`), and everything that decides how it goes on is in its checkpoints
(`headrace.train.trainer`).
The module itself can be called: ``headrace.train("CartPole-v1")``.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from headrace.errors import OptionError, RenderError
from headrace.train.config import ACTOR_CRITICS, OFF_POLICY, Config, make_config
from headrace.train.processes import worker_context
from headrace.train.run import RunFolder

if TYPE_CHECKING:
    import numpy as np

    from headrace.train.team import Team

# OpenMP's threads spin between torch's operations unless told otherwise before torch is loaded: on a CPU they
# would take the cores away from the threads that step environments, or from other programs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["Config", "Result", "log_episode", "make_config", "resume", "train"]

CONTINUABLE = ("total_steps", "stop_at_return", "checkpoint_seconds", "keep_checkpoints", "video", "viewer")


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        run_dir: the run folder.
        reason: ``"solved"`` (reached ``stop_at_return``), ``"finished"`` (all steps) or ``"interrupted"`` (Ctrl-C).
        steps: agent steps, all environments together.
        seconds: time spent training.
        mean_return: of the last ``stop_episodes`` episodes; None if none has ended.
        video, plot: files made at the end, if any.
    """

    run_dir: Path
    reason: Literal["solved", "finished", "interrupted"]
    steps: int
    seconds: float
    mean_return: float | None
    video: Path | None = None
    plot: Path | None = None


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
    **overrides: Any,
) -> Result:
    """Train an agent, with the settings tuned for the task unless told otherwise.

    Args:
        task: name of the task.
        algo: learning algorithm, as in `Config`: ``"ppo"``, ``"a2c"``, ``"ddpg"``, ``"td3"``, ``"sac"`` or ``"dqn"``.
        total_steps, seed, device: as in `Config`.
        run_dir: folder of the run; by default a new one under ``runs/``.
        resume: go on with the run in ``run_dir`` if it holds one.
        quiet: show no progress.
        overrides: any other field of `Config`.

    Raises:
        OptionError: an option is unknown or its value wrong.
        WorkerError: of several processes (``devices``) one raised or died.
        UnknownTaskError: no task has this name.
    """
    named = {"algo": algo, "total_steps": total_steps, "seed": seed, "device": device}
    overrides |= {name: value for name, value in named.items() if value is not None}
    if resume and run_dir is not None and RunFolder(run_dir).config_file.exists():
        _, config = RunFolder.open(run_dir)
        asked = make_config(**{"task": task, **dataclasses.asdict(config), **overrides}, defaults=False)
        return _resume(run_dir, {k: v for k, v in overrides.items() if getattr(config, k) != getattr(asked, k)}, quiet)
    config = make_config(task, **overrides)
    expect_workers(config)
    config = settled(config)
    _check_task(config)
    return _run(config, RunFolder.create(run_dir, config), None, quiet)


def resume(run_dir: str | Path, *, quiet: bool = False, **changes: Any) -> Result:
    """Go on with a run exactly where its newest checkpoint left it.

    Args:
        run_dir: the run folder.
        quiet: show no progress.
        changes: settings that may change in the middle of a run, such as ``total_steps``.

    Raises:
        OptionError: there is no run in this folder, or such a setting cannot change.
        StateError: the checkpoint is damaged.
    """
    return _resume(run_dir, changes, quiet)


def log_episode(
    run_dir: str | Path,
    names: Sequence[str] | None = None,
    env_id: int = 0,
    *,
    seed: int = 1000,
    deterministic: bool = True,
    which: Literal["newest", "best"] = "newest",
) -> dict[str, np.ndarray]:
    """Let the agent of a run play one episode of one replica, and return what happened, step by step.

    Args:
        run_dir: the run folder.
        names: arrays of the environment's state, as in `Pool.state_arrays`; all by default.
        env_id: which replica of a pool of this seed; each has its own chance.
        seed: seed of that pool.
        deterministic: take the likeliest actions, instead of drawing them as in training.
        which: the ``"newest"`` or the ``"best"`` checkpoint.

    Returns:
        Of an episode of T steps: the state arrays [T + 1, …], row 0 as it began and row T as it ended, so that
        what was done at step t led from row t to row t + 1; and ``action`` (``action:TYPE`` for each agent type,
        where their actions differ), ``reward``, ``terminated`` and ``truncated`` [T, …].

    Raises:
        OptionError: there is no run or no such array, or the task is no kernel environment.
    """
    from headrace.train.agent import load_checkpoint
    from headrace.train.episode_log import played_episode

    run, config = RunFolder.open(run_dir)
    return played_episode(config, load_checkpoint(run, which), names, env_id, seed, deterministic)


def _resume(run_dir: str | Path, changes: dict[str, Any], quiet: bool) -> Result:
    run, config = RunFolder.open(run_dir)
    fixed = sorted(set(changes) - set(CONTINUABLE))
    if fixed:
        raise OptionError(f"{fixed[0]} cannot change in the middle of a run; only {', '.join(CONTINUABLE)} can")
    if changes:
        config = make_config(**{**dataclasses.asdict(config), **changes}, defaults=False)
        run.write_config(config)
    expect_workers(config)
    from headrace.train import checkpoint as checkpoints

    newest = checkpoints.newest(run.checkpoints)
    return _run(config, run, newest, quiet)


def _check_task(config: Config) -> None:
    """What a task does not have ends a run before there is a folder for it."""
    from headrace.pool.registry import build_task
    from headrace.train.setup import dealt_seats

    dealt_seats(config, build_task(config.task, **config.env_options).spec)


def expect_workers(config: Config) -> None:
    """Let what workers are forked from be imported while this process imports the same, if the run may have some."""
    if config.samplers > 0 or (config.samplers < 0 and config.algo in OFF_POLICY):
        worker_context()


def settled(config: Config) -> Config:
    """The configuration with which a run begins: what it leaves open is decided for its task and this machine."""
    from headrace.pool.registry import build_task, usable_cores

    task = build_task(config.task, **config.env_options)
    samplers, actor_device = config.samplers, config.actor_device
    if samplers < 0:
        workers = config.algo in OFF_POLICY and not (task.spec.agents or config.devices or config.batch_size)
        samplers = int(workers and (config.device == "cpu" or task.kernel is None))
    if actor_device == "auto":
        # nobody who keeps a pace needs a whole core beside the two halves
        halves = config.algo in ACTOR_CRITICS and samplers > 0 and config.replay_ratio is not None
        on_cpu = (config.critic_device or config.device) == "cpu"
        actor_device = "cpu" if halves and on_cpu and usable_cores() > 1 else ""
    return dataclasses.replace(config, samplers=samplers, actor_device=actor_device)


def _run(config: Config, run: RunFolder, saved: Path | None, quiet: bool) -> Result:
    if config.devices:
        from headrace.train.parallel import train_together

        result = train_together(config, run.path, saved, quiet)
    else:
        result = train_here(config, run, saved, quiet)
    if result.reason == "interrupted":
        if not quiet:
            print(f"stopped; go on with:  headrace train --resume {run.path}")
        return result
    return dataclasses.replace(result, video=_video(config, run), plot=_plot(run))


def train_here(config: Config, run: RunFolder, saved: Path | None, quiet: bool, team: Team | None = None) -> Result:
    """Train in this process and its workers, from a checkpoint if there is one, as one of a team if there is one."""
    from headrace.train import checkpoint as checkpoints
    from headrace.train.dashboard import Dashboard
    from headrace.train.trainer import Trainer
    from headrace.train.workers.off_policy import OffPolicyTrainer
    from headrace.train.workers.on_policy import OnPolicyTrainer

    point = checkpoints.load(saved) if saved is not None else None
    if config.samplers > 0:
        trainer = (OffPolicyTrainer if config.algo in OFF_POLICY else OnPolicyTrainer)(config, run, point)
    else:
        trainer = Trainer(config, run, point, team)
    try:
        dashboard = Dashboard(quiet=quiet)
        for policy in trainer.policies:
            if policy.caveat is not None and not quiet:
                dashboard.console.print(policy.caveat, highlight=False, soft_wrap=True)
        reason = trainer.train(dashboard)
        return Result(run.path, reason, trainer.step, trainer.seconds, trainer.tracker.mean_return())
    finally:
        trainer.close()


def _video(config: Config, run: RunFolder) -> Path | None:
    """A video of the agent, where PyAV is installed and the task can be rendered."""
    if not config.video:
        return None
    try:
        from headrace.train.video import record

        return record(run.path)
    except (ImportError, RenderError):
        return None


def _plot(run: RunFolder) -> Path | None:
    """The return curve, where matplotlib is installed."""
    try:
        from headrace.train.plots import plot_returns

        return plot_returns(run.path)
    except ImportError:
        return None


class _CallableModule(ModuleType):
    """Lets ``headrace.train(...)`` mean ``headrace.train.train(...)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return train(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule

"""Training: `train` starts a run, `resume` continues one.

A run is a folder (`headrace.train.runs`). A pool fills rollouts or a replay (`headrace.train.collect`,
`headrace.train.storage`), an algorithm learns from them (`headrace.train.algorithms`), and a loop
(`headrace.train.runners`) runs both, and saves everything that resuming the run needs.
The module itself can be called: ``headrace.train("CartPole-v1")``.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from headrace.limits import limits_named
from headrace.machine import cores
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.train.launch.run import RunOptions, begin, launch, resume_or_begin, resume_run
from headrace.train.processes.start import guard_main
from headrace.train.recipes import algorithms as _algorithms  # noqa: F401, which registers them
from headrace.train.recipes.make import make_config
from headrace.train.runners.callbacks import Callback, CallbackLike, Training, callbacks_of
from headrace.train.runners.result import Result
from headrace.train.runs.choice import DEFAULT_FOLDER, chosen_run
from headrace.train.runs.folder import RunFolder
from headrace.train.settings import user_objects
from headrace.train.settings.config import Config
from headrace.train.settings.typed import Changes, Settings

if TYPE_CHECKING:
    import numpy as np
    import torch

    from headrace.train.play.agent import Agent


# By default OpenMP's threads spin between torch's operations for milliseconds, and take cores from the threads that
# step environments, and from other programs. Here GNU's spin for some 20 µs, so that they are awake for the next
# operation of an update. The variables must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
if (_cores := cores()).limit:  # which torch does not know, unless it is the affinity
    os.environ.setdefault("OMP_NUM_THREADS", str(_cores.usable))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(min(32, _cores.usable)))

__all__ = ["Callback", "Config", "Result", "Training", "load", "log_episode", "make_config", "resume", "train"]


@limits_named("training")
@spaces_read_once()
def train(
    task: str,
    algo: str | None = None,
    *,
    total_steps: int | None = None,
    seed: int | None = None,
    device: str | torch.device | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    trust: bool = False,
    callback: CallbackLike | Sequence[CallbackLike] | None = None,
    tuned: Mapping[str, Any] | None = None,
    **overrides: Unpack[Settings],
) -> Result:
    """Trains an agent, by default with the algorithm and the settings that are the best known for the task.

    Args:
        task: name of the task.
        algo: learning algorithm: ``"ppo"``, ``"a2c"``, ``"pqn"``, ``"ddpg"``, ``"td3"``, ``"sac"`` or
            ``"dqn"``; or a user's class, as ``"file.py:Class"`` or ``"package.module:Class"``. None for that of the
            task's recipe, see `headrace.train.recipes.recipes`.
        total_steps, seed, device: the settings of `Config`.
        run_dir: folder of the run; by default a new one under ``runs/``.
        resume: continue the run in ``run_dir`` if it holds one.
        quiet: show no progress.
        trust: as in `resume`; code that this call names is always trusted.
        callback: a `Callback`, or a function ``(training, line)`` that is called before each line of metrics is
            written; or a sequence of them.
        tuned: the tuner's result, from `headrace.studies.tuning.tune.Tuning.record`, for the run's log of events.
        overrides: any other setting, of `Config` or of the algorithm (of an algorithm of your own, type checkers take
            one as ``**{"name": value}``). ``network`` may also be a `torch.nn.Module`, of
            which the run learns a copy, or a function or class that makes one; and ``reward`` a function of a
            `headrace.wrappers.Step`.

    Returns:
        How the run ended: its folder, the reason, agent steps, seconds and mean return.

    Raises:
        OptionError: an option is unknown or its value invalid, or another process trains into the folder.
        StorageError: the folder cannot be written any more, for instance because the disk is full.
        LimitError: the system provides no more open files, processes or memory.
        WorkerError: one of several processes (``devices``) raised an exception or died.
        UnknownTaskError: no task has this name.
    """
    named = {"algo": algo, "total_steps": total_steps, "seed": seed, "device": device}
    given = {**overrides, **{name: value for name, value in named.items() if value is not None}}
    guard_main()
    settings, objects = user_objects.split_off(given)
    with user_objects.holding(objects):
        options = RunOptions(quiet, trust, objects, callbacks_of(callback), tuned)
        start = resume_or_begin if resume else begin
        return launch(lambda chosen: start(task, settings, run_dir, chosen), options, {"task": task, **settings})


@limits_named("training")
@spaces_read_once()
def resume(
    run_dir: str | Path,
    *,
    quiet: bool = False,
    trust: bool = False,
    callback: CallbackLike | Sequence[CallbackLike] | None = None,
    network: Any = None,
    reward: Any = None,
    **changes: Unpack[Changes],
) -> Result:
    """Continues a run from its newest checkpoint: exactly without samplers, in new episodes with samplers.

    Args:
        run_dir: the run folder.
        quiet: show no progress.
        trust: do what the run's settings ask for, such as running code that they name, and load the Python environments
            that its checkpoint holds as pickles, even if this user has not agreed to it before.
        callback: as in `train`; a run folder holds no callbacks.
        network, reward: the objects that the run began with, if any, as the run folder does not hold them.
        changes: settings that may change in the middle of a run, such as ``total_steps``.

    Raises:
        OptionError: there is no run in this folder, another process trains into it, or a setting cannot change.
        StateError: the checkpoint, or another file of the run, is damaged.
        StorageError: the folder cannot be written any more, for instance because the disk is full.
        TrustError: the run names code, or another machine, that this user has not named or agreed to before; or its
            checkpoint holds Python environments, and this user did not write it on this machine.
    """
    guard_main()
    objects = {"network": network, "reward": reward}
    with user_objects.holding(objects):
        options = RunOptions(quiet, trust, objects, callbacks_of(callback))
        return launch(lambda chosen: resume_run(run_dir, dict(changes), chosen), options)


def log_episode(
    run_dir: str | Path,
    names: Sequence[str] | None = None,
    env_id: int = 0,
    *,
    seed: int = 1000,
    deterministic: bool = True,
    which: Literal["newest", "best"] = "best",
    env_options: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> dict[str, np.ndarray]:
    """Plays one episode with the agent of a run, and returns the states, actions and rewards of all steps.

    Args:
        run_dir: the run folder, or a folder of several, as in `load`.
        names: arrays of the environment's state, as in `Pool.state_arrays`; all by default.
        env_id: number of the environment in a pool of this seed; each environment has its own random numbers.
        seed: seed of that pool.
        deterministic: take the most likely actions, instead of sampling them as in training.
        which: the ``"newest"`` or the ``"best"`` checkpoint.
        env_options: options of the task in place of the run's, such as ``{"push": 0.5}``.
        trust: as in `resume`.

    Returns:
        For an episode of T steps: the state arrays [T + 1, …], from the initial state in row 0 to the final one in row
        T, so that step t leads from row t to row t + 1; and ``action`` (``action:TYPE`` for each agent type,
        where their actions differ), ``reward``, ``terminated`` and ``truncated`` [T, …].

    Raises:
        OptionError: there is no run or no such array, or the task is not a kernel environment.
        TrustError: as in `resume`.
    """
    from headrace.train.play.agent import load_checkpoint
    from headrace.train.play.episode_log import played_episode
    from headrace.train.play.evaluate import opened

    run, config = opened(chosen_run(run_dir)[0], env_options, trust)
    return played_episode(config, load_checkpoint(run, which), names, env_id, seed, deterministic)


def load(
    run_dir: str | Path = DEFAULT_FOLDER,
    *,
    which: Literal["newest", "best"] = "best",
    trust: bool = False,
    network: Any = None,
) -> Agent:
    """Returns the trained agent of a run, on the CPU.

    Args:
        run_dir: the run folder; or a folder of several seeds or trials, for the best of them, or of other runs, for the
            newest. ``agent.run_dir`` says which it was.
        which: the ``"newest"`` or the ``"best"`` checkpoint.
        trust: as in `resume`.
        network: the object that the run began with, if it was ``train(…, network=object)``: a module of the same
            shape, or a function or class that makes one. Its weights are replaced by the checkpoint's.

    Raises:
        OptionError: there is no run or no checkpoint yet, or ``network`` is missing, or given for a run without one.
        StateError: the checkpoint is damaged, or holds a network of another shape.
        TrustError: as in `resume`.

    Example:
        >>> agent = headrace.load("runs/mine")
        >>> env = gymnasium.make("CartPole-v1")
        >>> obs, info = env.reset()
        >>> obs, reward, terminated, truncated, info = env.step(agent.act(obs))
    """
    from headrace.train.play.agent import Agent, load_checkpoint

    run, config = RunFolder.open(chosen_run(run_dir)[0], trust=trust)
    objects = {"network": network}
    user_objects.check_wanted({"network": config.network}, objects)
    with user_objects.holding(objects):
        spec = config.build().spec
        return Agent(config, spec, load_checkpoint(run, which), run.path)


class CallableModule(ModuleType):
    """The type of this module, with which ``headrace.train(...)`` calls ``headrace.train.train(...)``."""

    __call__ = staticmethod(train)
    # for type checkers and editors, which see an object of this type in place of the module
    Callback, Config, Result, Training = Callback, Config, Result, Training
    load, log_episode, make_config = staticmethod(load), staticmethod(log_episode), staticmethod(make_config)
    resume, train = staticmethod(resume), staticmethod(train)


def __getattr__(name: str) -> Any:
    where = f"; {name} is in headrace.studies" if name in ("train_seeds", "resume_seeds") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{where}")


# what help(headrace.train) and editors show of the call
__signature__ = inspect.signature(train)
__doc__ = f"{inspect.getdoc(train)}\n\n{__doc__}"
sys.modules[__name__].__class__ = CallableModule

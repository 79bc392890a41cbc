"""EnvPool's tasks by the name ``envpool:NAME``, each pool of which is an EnvPool: ``envpool:BigfishEasy-v0``."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

from headrace.errors import OptionError
from headrace.pool.batch import BatchRing
from headrace.pool.executors.envpool import package
from headrace.pool.executors.envpool.executor import EnvPoolExecutor
from headrace.pool.options import complete
from headrace.pool.registry import or_headraces
from headrace.pool.spec import PoolSettings, TaskSpec
from headrace.pool.task import Task


def build(name: str, **options: Any) -> Task:
    """Returns EnvPool's task of this name.

    Args:
        name: a task's name in EnvPool, without the prefix.
        options: any of EnvPool's own, of the same type; ``max_episode_steps`` is 0 for no limit; and
            ``flat_observation``, whether observations are one array: True, or ``"pictures"``, which stay pictures.

    Raises:
        UnknownTaskError: EnvPool has no task of this name.
        OptionError: an option is unknown or has another type, EnvPool refuses it, the task is for several players, or
            EnvPool or something that it needs is not installed.
    """
    task = package.PREFIX + name
    given = complete(task, package.options_of(name), options)
    settings = {key: value for key, value in given.items() if key != package.LIMIT}
    limit = given.get(package.LIMIT, 0)
    if given["from_pixels"] and (why := package.why_no_pictures(name)):
        raise OptionError(f"EnvPool cannot draw {task} here: {why}")
    theirs = package.spec_of(name, given)
    spec = TaskSpec(
        task=task,
        observation=package.observation_space(theirs, given[package.FLAT]),
        action=package.action_space(theirs),
        info=package.info_fields(theirs),
        max_episode_steps=limit,
        frame_skip=max(1, int(settings.get("frame_skip", 1))),
        options=settings,
    )
    return Task(spec, partial(_executor, name, package.given(given)), remark=partial(_remark, task))


def _executor(name: str, given: dict[str, Any], spec: TaskSpec, settings: PoolSettings, ring: BatchRing) -> Any:
    def make(each: int, seeds: list[int]) -> Any:
        try:
            return package.package().make_gymnasium(
                name,
                num_envs=settings.num_envs,
                batch_size=each,
                num_threads=settings.num_threads,
                thread_affinity_offset=settings.thread_affinity_offset,
                env_seed=seeds,
                **given,
            )
        except Exception as error:
            raise OptionError(f"{spec.task}: {error or type(error).__name__}") from error

    return EnvPoolExecutor(make, name, spec, settings, ring)


def _remark(task: str) -> str:
    return f"runs in EnvPool {version('envpool')}{or_headraces(task)}"

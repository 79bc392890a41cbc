"""An environment whose pools raise when they have fewer than 8 of it, for tests of what the tuner says of that."""

import dataclasses
from typing import Any

import headrace
from headrace.pool.batch import BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.registry import build_task
from headrace.pool.spec import PoolSettings, TaskSpec
from headrace.pool.task import Task


def build(task: str, **options: Any) -> Task:
    pendulum = build_task("Pendulum-v1", **options)

    def make_executor(spec: TaskSpec, settings: PoolSettings, ring: BatchRing) -> HostExecutor:
        if 1 < settings.num_envs < 8:
            raise ValueError(f"{settings.num_envs} are too few")
        return pendulum.make_executor(spec, settings, ring)

    return dataclasses.replace(pendulum, make_executor=make_executor)


headrace.register("Crowded-v0", build)

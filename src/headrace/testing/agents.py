"""The check of multi-agent environments: results do not depend on the order of agents."""

from __future__ import annotations

import time
from dataclasses import replace

from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.pool import Pool
from headrace.pool.views.make import make_spec
from headrace.testing.report import NotApplicable, conformance
from headrace.testing.trial import Frame, Trial, advance, same, start

FEW = 2  # number of environments, since an interpreted step takes some thousand times as long
ENOUGH = 20.0  # seconds of interpreted play after which no further step is begun
CLAIM = (
    "agents that act in another order must give the same results "
    "(does a phase use what an atomic function returned, or add up floats?)"
)


@conformance
def order_of_agents(trial: Trial) -> None:
    """Checks that the order of agents within a phase has no effect, and that agents do not race.

    The task is played in debug mode, in order and in a random order for each phase, for at most `ENOUGH` seconds.
    """
    if not make_spec(trial.task, **trial.options).agents:
        raise NotApplicable("the task has one agent")
    from headrace.pool.executors.kernels.diagnostics.races import shuffled  # here, since other checks need no Warp

    trial = replace(trial, num_envs=FEW)
    with _interpreted(trial) as ordered:
        with shuffled(trial.seed):
            another = _interpreted(trial)
        with another:
            try:
                expected, seen = _side_by_side(trial, ordered, another)
            except EnvironmentFailure as failure:
                if isinstance(failure.__cause__, NotImplementedError):
                    raise NotApplicable(str(failure.__cause__)) from None
                raise
    same(expected, seen, CLAIM)


def _interpreted(trial: Trial) -> Pool:
    try:
        return trial.make(debug=True)
    except OptionError as error:
        raise NotApplicable(str(error)) from None


def _side_by_side(trial: Trial, *pools: Pool) -> list[list[Frame]]:
    began = time.monotonic()
    frames = [[start(pool)] for pool in pools]
    for action in trial.actions():
        if time.monotonic() - began > ENOUGH:
            break
        for played, pool in zip(frames, pools, strict=True):
            played.append(advance(pool, action))
    return frames

"""Starts a run from the network of another run, given by the setting ``load``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError, StateError
from headrace.pool.registry import build_task
from headrace.pool.spec import TaskSpec
from headrace.pool.structure import space_text
from headrace.train.algorithms.policy import Policy
from headrace.train.config.settings import Config
from headrace.train.config.uses import PolicySetup
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.play.agent import load_checkpoint
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs import trust
from headrace.train.runs.folder import RunFolder


def check_loads(config: Config, spec: TaskSpec, setups: Mapping[str, PolicySetup]) -> None:
    """Checks that the networks that ``load`` names exist, and fit this run's observations and actions.

    Args:
        config: the run's settings.
        spec: its task.
        setups: its policies by name; ``""`` for the one of a single agent.

    Raises:
        OptionError: the run that ``load`` names has no checkpoint, observations or actions of other sizes, or not this
            run's ``normalise_observations``, ``normalise_values`` or ``activation``, where the network has one.
    """
    groups = policy_mapping(spec, config.policies)
    for name, setup in setups.items():
        own = setup.config
        if own.load is None:
            continue
        run, theirs = RunFolder.read(own.load)
        if checkpoints.best(run.checkpoints) is None:
            raise OptionError(f"load={own.load!r}: that run has no checkpoint yet")
        _check_sizes(own, name, groups[name], theirs)
        there = theirs.of_policy(name)
        unseen = ["normalise_observations", *(["activation"] if setup.uses("activation") else [])]
        unseen += ["normalise_values"] if hasattr(own, "normalise_values") else []
        for setting in unseen:  # in the shapes of what is loaded
            ours, learnt = getattr(own, setting), getattr(there, setting, False)
            if ours != learnt:
                raise OptionError(
                    f"{setting}={ours!r} cannot go with load={own.load!r}, whose network "
                    f"learnt with {setting}={learnt!r}: give this run the same"
                )


def _check_sizes(own: Config, name: str, group: AgentGroup, theirs: Config) -> None:
    """Raises `OptionError` where the run that ``load`` names learnt observations or actions of other sizes.

    A task that only code named by a run folder defines is not made here; the shapes of the network are compared later.
    """
    if not all(map(trust.is_known, trust.sources([theirs.task]))):
        return
    known = policy_mapping(build_task(theirs.task, **theirs.env_options).spec, theirs.policies).get(name)
    if known is None:
        return
    for what in ("observation", "action"):
        here, there = getattr(group, what), getattr(known, what)
        if _size(here) != _size(there):
            raise OptionError(
                f"load={own.load!r}: that run learnt {theirs.task}, whose {what} is {space_text(there)}; "
                f"that of {own.task} is {space_text(here)}: load a run of a task with the same spaces"
            )


def _size(space: gym.Space) -> tuple[Any, ...]:
    """Returns the part of a space that a network's sizes depend on: a shape, or numbers of choices."""
    return space.shape, getattr(space, "n", None), tuple(np.ravel(getattr(space, "nvec", ())))


def begin_with_network(policy: Policy) -> None:
    """Loads the network that a policy's settings name, and its observation statistics, if they name one.

    Args:
        policy: the policy.

    Raises:
        OptionError: as in `check_loads`; or the network has another shape, or the run has no policy of this name.
    """
    source = policy.config.load
    if source is None:
        return
    model = load_checkpoint(RunFolder.read(source)[0], checkpoints.BEST).model
    try:
        policy.load_model(model)
    except StateError as error:
        raise OptionError(f"load={source!r}: {error}") from error

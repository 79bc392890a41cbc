"""Initialisation of a policy with the network of another run, which the setting ``load`` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError, StateError
from headrace.pool.spec import TaskSpec
from headrace.pool.structure import space_text
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.play.agent import load_checkpoint
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs import trust
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config


def check_loads(config: Config, spec: TaskSpec, policies: Mapping[str, Config]) -> None:
    """Checks that the networks that ``load`` names exist, and fit this run's observations and actions.

    Raises:
        OptionError: the run that ``load`` names has no checkpoint, has observations or actions of other sizes, or
            differs in ``normalise_observations``, ``normalise_values`` or, for a network that has one, ``activation``.
    """
    groups = policy_mapping(spec, config.policies)
    for name, own in policies.items():
        if own.load is None:
            continue
        run, theirs = RunFolder.read(own.load)
        if checkpoints.best(run.checkpoints) is None:
            raise OptionError(f"load={own.load!r}: that run has no checkpoint yet")
        _check_sizes(own, name, groups[name], theirs)
        there = theirs.of_policy(name)
        unseen = ["normalise_observations", *(["activation"] if own.has("activation") else [])]
        unseen += ["normalise_values"] if "normalise_values" in vars(own) else []
        for setting in unseen:  # settings that do not show in the shapes of the loaded tensors
            ours, learnt = vars(own)[setting], vars(there).get(setting, False)
            if ours != learnt:
                raise OptionError(
                    f"{setting}={ours!r} cannot go with load={own.load!r}, whose network "
                    f"learnt with {setting}={learnt!r}: give this run the same"
                )


def _check_sizes(own: Config, name: str, group: AgentGroup, theirs: Config) -> None:
    """Raises `OptionError` if the run that ``load`` names has observations or actions of other sizes.

    A task that is defined by unknown code, which only the run folder names, is not made here; the shapes of the network
    are compared later.
    """
    if trust.unagreed({"task": theirs.task, "env_options": theirs.env_options}):
        return
    known = policy_mapping(theirs.build().spec, theirs.policies).get(name)
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
    """Returns the part of a space on which a network's sizes depend: a shape, or numbers of choices."""
    return space.shape, getattr(space, "n", None), tuple(np.ravel(getattr(space, "nvec", ())))


def begin_with_network(policy: Policy) -> None:
    """Loads the network that a policy's setting ``load`` names, if any; raises `OptionError` if it does not fit."""
    source = policy.config.load
    if source is None:
        return
    model = load_checkpoint(RunFolder.read(source)[0], checkpoints.BEST).model
    try:
        policy.load_model(model)
    except StateError as error:
        raise OptionError(f"load={source!r}: {error}") from error

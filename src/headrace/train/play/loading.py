"""Starts a run from the network of another run, given by the setting ``load``."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import OptionError, StateError
from headrace.train.algorithms.policy import Policy
from headrace.train.config.settings import Config
from headrace.train.config.uses import Player
from headrace.train.play.agent import load_checkpoint
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder


def check_loads(config: Config, players: Mapping[str, Player]) -> None:
    """Check that the networks that ``load`` names exist, and fit this run's observations.

    Args:
        config: the run's settings.
        players: its policies by name; ``""`` for the one of a single agent.

    Raises:
        OptionError: the run that ``load`` names has no checkpoint, or not this run's ``normalise_observations``,
            ``normalise_values`` or ``activation``, where the network has one.
    """
    for name, player in players.items():
        own = player.config
        if own.load is None:
            continue
        run, theirs = RunFolder.read(own.load)
        if checkpoints.best(run.checkpoints) is None:
            raise OptionError(f"load={own.load!r}: that run has no checkpoint yet")
        there = theirs.of_policy(name)
        unseen = ["normalise_observations", *(["activation"] if player.uses("activation") else [])]
        unseen += ["normalise_values"] if hasattr(own, "normalise_values") else []
        for setting in unseen:  # in the shapes of what is loaded
            ours, learnt = getattr(own, setting), getattr(there, setting, False)
            if ours != learnt:
                raise OptionError(
                    f"{setting}={ours!r} cannot go with load={own.load!r}, whose network "
                    f"learnt with {setting}={learnt!r}: give this run the same"
                )


def begin_with_network(policy: Policy) -> None:
    """Load the network that a policy's settings name, and its observation statistics, if they name one.

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
        raise OptionError(f"load={source!r}: the network learnt there is none for this run: {error}") from error

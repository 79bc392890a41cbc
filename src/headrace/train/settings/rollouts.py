"""Records of algorithms that learn from rollouts, and those that algorithms of both families share."""

from __future__ import annotations

from headrace.train.settings.common import COMMON
from headrace.train.settings.config import Config
from headrace.train.settings.fields import record, setting
from headrace.train.settings.networks import Convolutions, Gaussian, Pixels, SharedLayers
from headrace.train.settings.when import IN_TURN, given


@record("learning")
class Clipping:
    """The clipping of gradients."""

    max_grad_norm: float = setting(
        0.5, "Largest global norm of the gradients; larger ones are scaled down to it.", above=0, scheduled=True
    )


@record("exploration")
class Exploration:
    """The share of random actions: it falls linearly in the first part of a run, and is then constant."""

    epsilon_start: float = setting(
        1.0, "Share of random actions at the start; after load it is epsilon_end if not given.", low=0, high=1
    )
    epsilon_end: float = setting(0.05, "Share of random actions at the end.", low=0, high=1)
    epsilon_fraction: float = setting(
        0.1, "Share of total_steps over which epsilon falls from epsilon_start to epsilon_end.", above=0
    )

    def at(self, step: int, total_steps: int) -> float:
        progress = min(1.0, step / (self.epsilon_fraction * total_steps))
        return self.epsilon_start + progress * (self.epsilon_end - self.epsilon_start)


@record("learning")
class Rollouts:
    """Advantages, values and entropies of rollouts."""

    gae_lambda: float = setting(
        0.95, "Decay of generalised advantage estimation: 0 trusts the critic, 1 the returns.", low=0, high=1
    )
    value_coef: float = setting(1.0, "Weight of the value loss, half the mean squared error.", low=0, scheduled=True)
    normalise_values: bool = setting(
        False,
        "Let the critic predict values of mean 0 and standard deviation 1, by running statistics of the returns, so "
        "that its errors do not depend on the scale of the rewards.",
    )
    entropy_coef: float = setting(
        0.0, "Weight of the entropy bonus; below 0, actions are narrowed instead.", low=-1, scheduled=True
    )
    normalise_advantages: bool = setting(
        True, "Give the advantages of every minibatch mean 0 and standard deviation 1."
    )


@record("learning", IN_TURN)
class Turns:
    """Games by turns."""

    decisions_only: bool = setting(
        False,
        "In games by turns: learn from the steps in which an agent has a choice alone, each with all that follows "
        "until its next one, as action masks with a single action say. Values of waiting are then not learnt.",
    )


@record("learning", IN_TURN, given("decisions_only"))
class RandomMoves:
    """The beginnings of games by turns."""

    random_moves: int = setting(
        0,
        "With decisions_only: most decisions that are made at random for each player at the start of a game, so that "
        "games differ; their number is drawn for each game. They are not learnt from.",
        low=0,
    )


@record("exploration", IN_TURN, given("devices", ()))
class Curiosity:
    """An exploration bonus."""

    curiosity: float = setting(
        0.0,
        "Weight of an exploration bonus (random network distillation): the error of a network that learns to predict a "
        "random one, divided by the running standard deviation of the bonus's discounted sums. 0 gives none.",
        low=0,
        speed=True,
    )


def decides_only(config: Config) -> bool:
    """Returns whether a policy learns from the steps alone in which an agent has a choice."""
    turns = config.get(Turns)
    return turns is not None and turns.decisions_only


ROLLOUTS = COMMON.extended(
    Clipping, Convolutions, Pixels, SharedLayers, Gaussian, Rollouts, Turns, RandomMoves, Curiosity
)
"""what an algorithm has that learns from rollouts"""

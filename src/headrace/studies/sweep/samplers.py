"""Choice of a trial's settings: at random, or by one of Optuna's samplers from earlier trials.

Random search requires no other package, and is the usual baseline (Bergstra and Bengio, "Random Search for
Hyper-Parameter Optimization", JMLR 2012). Optuna's samplers receive a study in memory, which is made for each call from
the trials in the sweep's own files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from headrace.errors import OptionError
from headrace.studies.sweep.space import Choice, Range, Space
from headrace.studies.sweep.trials import Trial

Name = Literal["random", "tpe", "gp"]


class Sampler(Protocol):
    """The interface of a sampler, which chooses the settings of trials."""

    def ask(self, number: int, trials: Sequence[Trial]) -> dict[str, Any]:
        """Returns the settings of trial ``number``, name → value, given the earlier trials."""
        ...


class RandomSampler:
    """A sampler that draws the settings of each trial at random, from its number alone."""

    def __init__(self, space: Space, seed: int):
        self._space, self._seed = space, seed

    def ask(self, number: int, trials: Sequence[Trial]) -> dict[str, Any]:
        """Returns the settings of trial ``number``, name → value."""
        rng = np.random.default_rng((self._seed, number))
        return {name: dimension.draw(rng) for name, dimension in self._space.items()}


class OptunaSampler:
    """A sampler that uses one of Optuna's.

    Args:
        make: returns Optuna's sampler for a seed.
        space: the settings that are varied; a choice is passed to Optuna as the indices of its values.
        seed: seed of the sweep, from which the seed of each trial is derived.
    """

    def __init__(self, make: Callable[[int], Any], space: Space, seed: int):
        self._make, self._space, self._seed = make, space, seed

    def ask(self, number: int, trials: Sequence[Trial]) -> dict[str, Any]:
        """Returns the settings of trial ``number``, name → value; the sampler takes running trials into account."""
        study = study_of(self._space, trials, self._make((self._seed + number) % 2**32))
        drawn = study.ask(distributions(self._space)).params
        return {name: _value(dimension, drawn[name]) for name, dimension in self._space.items()}


def find_sampler(name: Name, space: Space, seed: int) -> Sampler:
    """Returns the sampler of this name.

    Raises:
        OptionError: the sampler is one of Optuna's, and Optuna is not installed.
    """
    if name == "random":
        return RandomSampler(space, seed)
    try:
        import optuna
    except ModuleNotFoundError:
        raise OptionError(
            f"--sampler {name} needs Optuna: pip install 'headrace[sweep]', or --sampler random"
        ) from None
    makers: dict[Name, Callable[[int], Any]] = {
        "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True),
        "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
    }
    return OptunaSampler(makers[name], space, seed)


def study_of(space: Space, trials: Sequence[Trial], sampler: Any = None) -> Any:
    """Returns an Optuna study in memory of some trials; the value of a pruned trial is the one that it had reached.

    Trials without a value are running trials in the study.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    states = {
        "complete": optuna.trial.TrialState.COMPLETE,
        "pruned": optuna.trial.TrialState.PRUNED,
        "failed": optuna.trial.TrialState.FAIL,
    }
    for trial in trials:
        state = states.get(trial.state, optuna.trial.TrialState.RUNNING)
        valued = trial.value is not None and state != optuna.trial.TrialState.FAIL
        if trial.state in ("complete", "pruned") and not valued:
            state = optuna.trial.TrialState.FAIL
        params = {name: _index(dimension, trial.settings[name]) for name, dimension in space.items()}
        reports: dict[int, Any] = {trial.steps: trial.value} if valued else {}
        study.add_trial(
            optuna.trial.create_trial(
                state=state,
                value=trial.value if state == optuna.trial.TrialState.COMPLETE else None,
                params=params,
                distributions=distributions(space),
                intermediate_values=reports,
            )
        )
    return study


def distributions(space: Space) -> dict[str, Any]:
    import optuna.distributions as kinds

    found: dict[str, Any] = {}
    for name, dimension in space.items():
        if isinstance(dimension, Choice):
            found[name] = kinds.CategoricalDistribution(range(len(dimension.values)))
        elif dimension.integer:
            found[name] = kinds.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
        else:
            found[name] = kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return found


def _index(dimension: Range | Choice, value: Any) -> Any:
    return dimension.values.index(value) if isinstance(dimension, Choice) else value


def _value(dimension: Range | Choice, drawn: Any) -> Any:
    return dimension.values[drawn] if isinstance(dimension, Choice) else drawn

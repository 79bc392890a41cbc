"""Checks of settings that apply to all runs with workers, whatever the algorithm."""

from __future__ import annotations

from headrace.errors import OptionError
from headrace.pool.registry import build_task, is_known_here_only
from headrace.train.collect.setup import policy_cases
from headrace.train.config.settings import Config
from headrace.train.config.usage import check_asked_for


def check_workers(config: Config) -> None:
    """Checks that a run with workers supports the task and the settings.

    Raises:
        OptionError: it does not; the message names the reason.
    """
    if not config.has_workers:
        raise OptionError(f"algo={config.algo!r} is for samplers=0: it does not learn from what workers collect")
    spec = build_task(config.task, **config.env_options).spec
    if spec.agents:
        raise OptionError(f"{config.task} has several agents: train it with samplers=0")
    if is_known_here_only(config.task):
        raise OptionError(
            f"{config.task} is registered in a notebook or by a script from standard input, which samplers cannot "
            "import: put it into a file, my_env.py:NAME, or train with samplers=0"
        )
    (case,) = policy_cases(config, spec).values()
    check_asked_for(case)

"""Several policies, self-play, and networks of other runs."""

from __future__ import annotations

from typing import Any

from headrace.train.settings.fields import record, setting
from headrace.train.settings.when import IN_TURN, given


@record("policies", IN_TURN)
class Policies:
    """Several policies, of which some may only act."""

    policies: dict[str, dict[str, Any]] = setting(
        {},
        "The policies of a multi-agent task: policy name → settings of its own, and agents, a list of agent types or "
        "numbers. By default every agent type has a policy of the type's name.",
        shared=True,
        speed=True,
    )
    frozen: bool = setting(False, "Act, but do not learn; for one of several policies.", speed=True)
    copies: str | None = setting(
        None,
        "Self-play: act as a past version of the policy of this name, with its settings, and do not learn; for one of "
        "several policies. Each rollout uses one version, drawn at random from those kept.",
    )


@record("policies")
class Loaded:
    """The network of another run."""

    load: str | None = setting(
        None,
        "Run folder whose best checkpoint initialises the network, or zoo:NAME for an agent of the zoo; with several "
        "policies, that of the policy of the same name. Schedules begin anew.",
    )


@record("policies", IN_TURN, given("copies"))
class SelfPlay:
    """Past versions of a policy."""

    copy_every: int = setting(50_000, "Self-play: agent steps between two versions of a policy that are kept.", low=1)
    copies_kept: int = setting(
        10,
        "Self-play: largest number of versions of a policy that are kept; beyond it, the version closest to its "
        "neighbours is removed.",
        low=1,
    )

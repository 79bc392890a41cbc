"""Settings of algorithms that learn from a replay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from headrace.train.config.checks import as_lists
from headrace.train.config.fields import IN_TURN, WORKERS, Use, setting
from headrace.train.config.settings import Config

_WORKERS = Use(ways=(WORKERS,))


@dataclass(frozen=True)
class ReplayConfig(Config):
    """Settings of an algorithm that learns from a replay."""

    minibatch_size: int = setting(256, "Transitions in one update.", low=1, group="learning")
    target_rate: float = setting(
        0.005,
        "How far the target networks go towards the learning ones after each update, 1 all the way.",
        low=0,
        high=1,
        group="learning",
    )
    n_step: int = setting(
        1, "Rewards in a target before the value of what followed.", low=1, group="learning", use=_WORKERS
    )
    replay_size: int = setting(
        1_000_000,
        "Steps of a policy's agents that its replay holds, on the device; of one agent each takes 8 bytes for every "
        "number observed, 4 for every number of an action, and 8.",
        low=1,
        group="replay",
    )
    replay_ratio: float | None = setting(
        1.0,
        "Updates for every step collected of a policy's agents; None lets samplers and learner each go as fast as they "
        "can.",
        above=0,
        group="replay",
    )
    learning_starts: int = setting(
        1000, "Steps to collect of a policy's agents before its first update.", low=0, group="replay"
    )
    hindsight: float = setting(
        0.0,
        "Of tasks with goals, the share of transitions whose goal becomes what was reached later in the episode, with "
        "the reward for that (hindsight experience replay); 0.8 is usual.",
        low=0,
        high=1,
        group="replay",
        use=Use(ways=(IN_TURN,)),
    )
    save_replay: bool = setting(
        True,
        "Keep the replay in checkpoints, so that a resumed run goes on with it; their files may then be as large as it "
        "is. Without it, a resumed run fills an empty replay with learning_starts steps before it goes on learning.",
        group="replay",
    )
    publish_every: int = setting(
        1,
        "Updates between two publications of the weights to samplers and evaluator.",
        low=1,
        group="workers",
        use=_WORKERS,
        shared=True,
    )

    @property
    def first_update(self) -> int:
        """Agent steps before the first update."""
        return self.learning_starts

    @property
    def apart(self) -> bool:
        """Whether the actor learns in a process of its own."""
        return False

    @property
    def priorities(self) -> tuple[float, float] | None:
        """Exponents of priority and of importance, where transitions are drawn by their errors; None where not."""
        return None

    def followed(self, times: float, limited: float) -> dict[str, Any]:
        """Returns what follows a minibatch ``times`` as large by the rule of `headrace.train.config.batch_rule`.

        Learning rates are multiplied by √``limited``, those of a schedule included, ``target_rate`` becomes
        1 - (1 - target_rate)^``limited``, and ``replay_ratio`` is divided by ``times``; a free one, None, stays so.
        """
        further, schedules = math.sqrt(limited), dict(self.schedules)
        if "learning_rate" in schedules:
            schedules["learning_rate"] = as_lists([(step, rate * further) for step, rate in schedules["learning_rate"]])
        return {
            "learning_rate": self.learning_rate * further,
            "target_rate": 1 - (1 - self.target_rate) ** limited,
            "replay_ratio": None if self.replay_ratio is None else self.replay_ratio / times,
            "schedules": schedules,
        }


@dataclass(frozen=True)
class ActorCriticConfig(ReplayConfig):
    """Settings of an algorithm whose update has two halves, an actor's and its critics'."""

    critic_learning_rate: float = setting(
        1e-3,
        "Adam's step size for the critics; learning_rate is the actor's. What lowers that lowers this alike.",
        above=0,
        group="learning",
    )
    actor_device: str = setting(
        "auto",
        "Let the actor learn in a process of its own, on this device: cpu or cuda:i, also the one on which the critics "
        "learn. The halves of an update then run at the same time, each with what the other was publish_every updates "
        'ago. "" keeps them together; auto does so on a GPU, on a single core, and where replay_ratio is None.',
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    critic_device: str = setting(
        "", "Where the critics learn, if not on device.", group="workers", use=_WORKERS, shared=True
    )

    @property
    def learns_on(self) -> str:
        """The device of the process that learns and reports."""
        return self.critic_device or self.device

    @property
    def apart(self) -> bool:
        """Whether the actor learns in a process of its own."""
        return self.actor_device not in ("", "auto")

    def _check_deterministic(self) -> None:
        super()._check_deterministic()
        if self.apart:
            self._refuse_with_deterministic("actor_device")

    def followed(self, times: float, limited: float) -> dict[str, Any]:
        """As `ReplayConfig.followed`; ``critic_learning_rate`` follows as ``learning_rate`` does."""
        rate = self.critic_learning_rate * math.sqrt(limited)
        return super().followed(times, limited) | {"critic_learning_rate": rate}

"""Settings, presets and capabilities of CrossQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.train.config.algorithms.actor_critic import flat_observations
from headrace.train.config.algorithms.sac import SACConfig
from headrace.train.config.fields import setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities

# The settings of the paper's experiments: critics of 2,048 units, an update for every step.
PUBLISHED: dict[str, Any] = {
    "total_steps": 1_000_000,
    "num_envs": 1,
    "num_steps": 1,
    "hidden": (256, 256),
    "critic_hidden": (2048, 2048),
    "activation": "relu",
    "minibatch_size": 256,
    "learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,
    "learning_starts": 5000,
    "replay_ratio": 1.0,
    "actor_device": "",
}
# For few steps: narrower critics and several environments, both of which save time.
DEFAULT: dict[str, Any] = PUBLISHED | {"num_envs": 8, "num_steps": 8, "critic_hidden": (512, 512)}
# For few seconds, most of which are updates: few updates, targets of three steps, and a learning rate that ends at 0.
FAST: dict[str, Any] = PUBLISHED | {
    "total_steps": 300_000,
    "num_envs": 32,
    "num_steps": 8,
    "critic_hidden": (),
    "anneal_learning_rate": True,
    "replay_ratio": 1 / 32,
    "n_step": 3,
    "torch_threads": 1,
}
PRESETS = {DEFAULT_PRESET: DEFAULT, "fast": FAST, "published": PUBLISHED}


@dataclass(frozen=True)
class CrossQConfig(SACConfig):
    """Settings of CrossQ."""

    target_rate: float = setting(0.0, "Not used: there are no target networks.", use=())
    policy_delay: int = setting(3, "Updates of the critics for each update of the actor.", low=1, speed=True)
    critic_hidden: tuple[int, ...] = setting(
        (),
        "Widths of the critics' hidden layers; none for those of hidden.",
        low=1,
        speed=True,
    )
    adam_beta: float = setting(0.5, "Adam's decay of the mean gradient, β₁.", low=0, high=1)
    batch_momentum: float = setting(
        0.99, "Share of its running statistics that batch normalisation keeps at each update.", low=0, high=1
    )
    renorm_after: int = setting(
        100_000,
        "Updates after which batches are corrected towards running statistics (batch renormalisation); "
        "before, they are normalised by their own statistics alone.",
        low=0,
    )


class CrossQDeclaration:
    """The declaration of CrossQ; see `Algorithm`."""

    settings: ClassVar[type[Any]] = CrossQConfig
    known_presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    capabilities = Capabilities(
        replay=True, actions=("continuous",), networks=("mlp",), workers=True, presets=tuple(PRESETS)
    )

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        return cls.known_presets[preset] | flat_observations(task)

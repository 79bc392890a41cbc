"""Settings, presets and capabilities of FlashSAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.train.config.algorithms.crossq import CrossQDeclaration
from headrace.train.config.algorithms.xqc import XQCConfig
from headrace.train.config.fields import setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities
from headrace.train.config.replay import ActorCriticConfig

# The settings of the paper's experiments on GPUs: 1,024 environments, and an update for each step of all of them.
PUBLISHED: dict[str, Any] = {
    "total_steps": 50_000_000,
    "num_envs": 1024,
    "num_steps": 1,
    "hidden": (128, 128),
    "critic_hidden": (256, 256),
    "activation": "relu",
    "minibatch_size": 2048,
    "learning_rate": 3e-4,
    "critic_learning_rate": 3e-4,
    "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,
    "adam_beta": 0.9,
    "policy_delay": 2,
    "target_rate": 0.02,
    "learning_starts": 10_000,
    "replay_ratio": 1 / 1024,
    "actor_device": "",
}
# For CPUs: smaller networks and batches, and a larger learning rate, as updates are few.
DEFAULT: dict[str, Any] = PUBLISHED | {
    "total_steps": 1_000_000,
    "num_envs": 16,
    "num_steps": 16,
    "critic_hidden": (128, 128),
    "minibatch_size": 512,
    "learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "replay_ratio": 1 / 8,
}
PRESETS = {DEFAULT_PRESET: DEFAULT, "published": PUBLISHED}


@dataclass(frozen=True)
class FlashSACConfig(XQCConfig):
    """Settings of FlashSAC."""

    target_rate: float = setting(
        0.02,
        "Step of the target networks towards the critics at each update of the actor; 1 copies them.",
        low=0,
        high=1,
    )
    renorm_after: int = setting(0, "Not used: batches are never renormalised.", use=())
    target_entropy: float | None = setting(
        None,
        "Entropy, in nats, that the temperature is adjusted to; None for that of Gaussians whose standard deviation is "
        "0.15 of half the action range.",
    )
    noise_repeats: int = setting(
        16,
        "Largest number of steps for which an action's noise is kept; n steps with a probability proportional to 1/n².",
        low=1,
    )

    def followed(self, times: float, limited: float) -> dict[str, Any]:
        """Returns the settings of `ActorCriticConfig.followed`, including ``target_rate``."""
        return ActorCriticConfig.followed(self, times, limited)


class FlashSACDeclaration(CrossQDeclaration):
    """The declaration of FlashSAC; see `Algorithm`."""

    settings = FlashSACConfig
    known_presets = PRESETS
    capabilities = Capabilities(
        replay=True, actions=("continuous",), networks=("mlp",), workers=True, presets=tuple(PRESETS)
    )

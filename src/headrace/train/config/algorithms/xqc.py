"""Settings, presets and capabilities of XQC."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.train.config.algorithms.crossq import CrossQConfig, CrossQDeclaration
from headrace.train.config.fields import setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities


@dataclass(frozen=True)
class XQCConfig(CrossQConfig):
    """Settings of XQC."""

    initial_temperature: float = setting(
        0.01,
        "Weight of the entropy at the start, relative to scaled rewards; then it is learnt with learning_rate.",
        above=0,
    )
    atoms: int = setting(101, "Number of values in a critic's distribution.", low=2, speed=True)
    value_bound: float = setting(
        5.0, "Largest of these values; rewards are scaled so that discounted returns are within it.", above=0
    )


class XQCDeclaration(CrossQDeclaration):
    """The declaration of XQC; see `Algorithm`."""

    settings = XQCConfig
    capabilities = Capabilities(
        replay=True, actions=("continuous",), networks=("mlp",), workers=True, presets=(DEFAULT_PRESET, "fast")
    )

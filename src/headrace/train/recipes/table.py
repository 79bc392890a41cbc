"""The algorithm and the preset of a run that names no algorithm, by task, family or kind: the best that are known."""

from __future__ import annotations

from headrace.pool.registry import families
from headrace.train.settings.algorithm import DEFAULT_PRESET

RECIPES = {name: family.recipe for name, family in families().items() if family.recipe} | {"": ("ppo", DEFAULT_PRESET)}
"""key, as in presets → the best algorithm, and the preset of it with the best settings"""
KINDS = (
    "several agents",
    "pictures",
    "observations of a category",
    "slow steps, continuous actions",
    "slow steps, discrete actions",
    "continuous actions",
    "discrete actions",
)
"""kinds of tasks, by their spaces and by the time that a step takes"""
